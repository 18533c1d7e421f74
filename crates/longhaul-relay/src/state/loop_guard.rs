//! Finds dials that would come back: to the tunnel's own listener, or to that of another tunnel of this process whose
//! next hop leads there. Each such flow would be a connection to ourselves, which dials again, until no descriptor is
//! left.
//!
//! `longhaul-config` checks the addresses in a file when it is read. This module checks the addresses that a name has
//! now, and whether an address belongs to this host. It follows other tunnels by their addresses and by the addresses
//! that their names had at the last dial.

use crate::lock::lock;
use crate::state::served_tunnel::ServedTunnel;
use longhaul_config::{NextHop, Tunnel};
use longhaul_sys::Result;
use longhaul_sys::route::{RouteSocket, with_zone};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is known of the addresses of next hops and of this host.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard {
    /// The addresses of each next hop at its last dial. Empty for a name that was not dialled yet.
    hops: Mutex<HashMap<NextHop, Vec<SocketAddr>>>,
    /// Tells whether an address belongs to this host.
    pub(crate) here: Here,
}

impl LoopGuard {
    /// Knows the next hops of `tunnels` from now on, and forgets the others.
    pub(super) fn know<'a>(&self, tunnels: impl Iterator<Item = &'a Arc<ServedTunnel>>) {
        let mut known = lock(&self.hops);
        let before = std::mem::take(&mut *known);
        known.extend(tunnels.flat_map(|tunnel| &tunnel.settings.to).map(|hop| {
            let last = || before.get(hop).cloned().unwrap_or_default();
            (hop.clone(), hop.address().map_or_else(last, |address| vec![address]))
        }));
    }

    /// Records the current addresses of `next_hop`. Call it before [`leads_back`](LoopGuard::leads_back): the flow that closes
    /// a loop then finds all of its names, and no flow goes round twice.
    pub(crate) fn resolved(&self, next_hop: &NextHop, addresses: &[SocketAddr]) {
        // That of an address never changes.
        if next_hop.address().is_some() {
            return;
        }
        if let Some(last) = lock(&self.hops).get_mut(next_hop) {
            last.clear();
            last.extend_from_slice(addresses);
        }
    }

    /// Whether dialling `address` would come back to `tunnel`, perhaps through others of `tunnels`. Call it before connect(2), because afterwards the
    /// listener has the connection already and dials the next one.
    ///
    /// # Errors
    /// The kernel did not say whether an address is this host's. The caller must not dial then, because a loop is
    /// worse.
    pub(super) fn leads_back(
        &self,
        tunnels: &[Arc<ServedTunnel>],
        tunnel: &Tunnel,
        address: SocketAddr,
    ) -> Result<bool> {
        let mut been = vec![tunnel.listen];
        let mut open = vec![in_zone(address, tunnel)];
        while let Some(address) = open.pop() {
            // The kernel is asked only once for each address on the way.
            let mut answer = None;
            let mut here = || match answer {
                Some(is_here) => Ok(is_here),
                None => self.here.has(address).inspect(|is_here| answer = Some(*is_here)),
            };
            if reaches(address, tunnel.listen, &mut here)? {
                return Ok(true);
            }
            for next in tunnels.iter().map(|next| &*next.settings) {
                if !been.contains(&next.listen) && reaches(address, next.listen, &mut here)? {
                    been.push(next.listen);
                    let known = lock(&self.hops);
                    let dialled = next.to.iter().filter_map(|hop| known.get(hop)).flatten();
                    open.extend(dialled.map(|address| in_zone(*address, next)));
                }
            }
        }
        Ok(false)
    }

    /// Whether `client` is one of `tunnel`'s next hops, on another host. Two relays that point at each other are such
    /// clients of each other.
    pub(crate) fn is_next_hop(&self, tunnel: &Tunnel, client: IpAddr) -> bool {
        let client = client.to_canonical();
        if client.is_loopback() {
            return false;
        }
        tunnel.to.iter().any(|hop| self.is_one_of(hop, |address| address.ip().to_canonical() == client))
    }

    /// Whether `is_it` holds for an address of `hop`.
    pub(super) fn is_one_of(&self, hop: &NextHop, is_it: impl Fn(SocketAddr) -> bool) -> bool {
        match hop.address() {
            Some(address) => is_it(address),
            None => lock(&self.hops).get(hop).is_some_and(|last| last.iter().any(|address| is_it(*address))),
        }
    }
}

/// Returns `address`, a next hop of `tunnel`, with the zone in which it is dialled if it is link-local. An address in a
/// configuration has none, but `dial.bind-device`.
fn in_zone(address: SocketAddr, tunnel: &Tunnel) -> SocketAddr {
    with_zone(address, tunnel.dial.bind_device())
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether a dial to `address` reaches the listener at `listen`. `here` tells whether `address` belongs to this host: another host
/// may have the same link-local address on another link.
fn reaches(address: SocketAddr, listen: SocketAddr, here: impl FnOnce() -> Result<bool>) -> Result<bool> {
    match longhaul_core::reload::covers_same(listen, address) {
        true if listen.ip().is_unspecified() || is_link_local(listen.ip()) => here(),
        same => Ok(same),
    }
}

/// Tells the addresses of this host from others. It keeps a netlink socket, opened when first needed, so that a flow needs no
/// descriptor for the question, except where AF_NETLINK is refused.
#[derive(Debug, Default)]
pub(crate) struct Here {
    /// Locked while the kernel is asked.
    socket: Mutex<Option<RouteSocket>>,
    last_ipv4: Mutex<Last>,
    last_ipv6: Mutex<Last>,
}

/// The kernel's last answer of an IP version, with its address and time. Locked only for moments, so that a flood of dials does
/// not wait for a question to the kernel.
type Last = Option<(SocketAddr, bool, Instant)>;

impl Here {
    /// Whether the kernel delivers packets for `address` to this host.
    ///
    /// # Errors
    /// The kernel did not answer.
    pub(crate) fn has(&self, address: SocketAddr) -> Result<bool> {
        let to = match address.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
            // Without a zone connect(2) fails. The kernel would answer for any link.
            ip if is_link_local(ip) && is_without_zone(address) => return Ok(false),
            IpAddr::V6(_) => address, // with its zone
        };
        let last = if to.is_ipv4() { &self.last_ipv4 } else { &self.last_ipv6 };
        let now = Instant::now();
        if let Some((asked, is_here, when)) = *lock(last) {
            if asked == to && now.saturating_duration_since(when) < ANSWER_LIFETIME {
                return Ok(is_here);
            }
        }
        let is_here = self.ask(to)?;
        *lock(last) = Some((to, is_here, now));
        Ok(is_here)
    }

    fn ask(&self, to: SocketAddr) -> Result<bool> {
        let mut kept = lock(&self.socket);
        let socket = match &mut *kept {
            Some(socket) => socket,
            none => none.insert(RouteSocket::new()?),
        };
        socket.is_here(to)
    }
}

fn is_without_zone(address: SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(address) if address.scope_id() == 0)
}

/// Time that an answer stays valid. A question is two system calls, and a flood of dials would ask it for each flow.
/// If an address moves to this host meanwhile, a loop can go round for that long; the next answer ends it.
const ANSWER_LIFETIME: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shared::Relay;
    use std::net::Ipv6Addr;

    /// Returns a relay that serves these tunnels.
    fn serving(tunnels: &[&Tunnel]) -> Arc<Relay> {
        let relay = Relay::new(100);
        relay.tunnels.set(tunnels.iter().map(|tunnel| relay.tunnels.open(Arc::new(Tunnel::clone(tunnel)))).collect());
        relay
    }

    #[test]
    fn only_addresses_of_this_host_are_local() {
        let known = Here::default();
        for (address, here) in [
            ("127.0.0.1:6000", true),
            ("127.9.9.9:6000", true),
            ("[::1]:6000", true),
            ("[::ffff:127.0.0.1]:6000", true),
            // RFC 5737, RFC 3849: for documentation, so they belong to nobody.
            ("192.0.2.77:6000", false),
            ("[2001:db8::77]:6000", false),
        ] {
            assert_eq!(known.has(address.parse().unwrap()), Ok(here), "{address}");
        }
    }

    #[test]
    fn only_the_own_port_is_reached() {
        for (listen, address, own) in [
            ("[::]:6000", "127.0.0.1:6000", true),
            ("[::]:6000", "127.0.0.1:6001", false),
            ("[::]:6000", "192.0.2.77:6000", false),
            ("0.0.0.0:6000", "[::1]:6000", false),
            ("127.0.0.1:6000", "127.0.0.1:6000", true),
            ("127.0.0.1:6000", "127.0.0.2:6000", false),
        ] {
            let (listen, address): (SocketAddr, SocketAddr) = (listen.parse().unwrap(), address.parse().unwrap());
            assert_eq!(reaches(address, listen, || Here::default().has(address)), Ok(own), "{listen} {address}");
        }
    }

    #[test]
    fn the_way_through_other_tunnels_is_followed() {
        let tunnel = |listen: u16, to: u16| {
            let hop = NextHop::new("127.0.0.1", to);
            Tunnel::new("a", SocketAddr::from((Ipv6Addr::UNSPECIFIED, listen)), vec![hop])
        };
        let (one, two, three, out) = (tunnel(1, 2), tunnel(2, 3), tunnel(3, 1), tunnel(4, 5));
        let relay = serving(&[&one, &two, &three, &out]);
        let back = |tunnel: &Tunnel, to: u16| {
            relay.tunnels.leads_back(tunnel, SocketAddr::from(([127, 0, 0, 1], to))).unwrap()
        };
        assert!(back(&one, 2) && back(&one, 3) && !back(&one, 4));
        // These dials lead into a loop that `out` is not part of. The tunnels in the loop find it.
        assert!(!back(&out, 1) && !back(&out, 5) && back(&out, 4));
    }

    #[test]
    fn the_host_is_asked_about_only_when_the_port_fits() {
        let (listen, address) = ("[::]:6000".parse().unwrap(), "127.0.0.1:6001".parse().unwrap());
        assert_eq!(reaches(address, listen, || unreachable!("another port")), Ok(false));
    }

    /// Every flow asks these questions.
    #[test]
    fn a_flow_whose_next_hop_is_an_address_waits_for_no_lock() {
        let hop = NextHop::new("192.0.2.1", 1);
        let tunnel = Tunnel::new("a", "127.0.0.1:1".parse().unwrap(), vec![hop.clone()]);
        let (done, waits) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let guard = LoopGuard::default();
            let held = lock(&guard.hops);
            guard.resolved(&hop, &["192.0.2.1:1".parse().unwrap()]);
            let is_hop = |client: &str| guard.is_next_hop(&tunnel, client.parse().unwrap());
            done.send([is_hop("192.0.2.1"), is_hop("192.0.2.2")]).unwrap();
            drop(held);
        });
        assert_eq!(waits.recv_timeout(Duration::from_secs(60)), Ok([true, false]));
    }

    #[test]
    fn names_are_followed_once_they_were_dialled() {
        let named = |listen: u16, hop: &NextHop| {
            Tunnel::new("a", SocketAddr::from((Ipv6Addr::UNSPECIFIED, listen)), vec![hop.clone()])
        };
        let to_one = NextHop::new("one.example", 1);
        let to_two = NextHop::srv("_two._tcp.example");
        let (one, two) = (named(1, &to_two), named(2, &to_one));
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let relay = serving(&[&one, &two]);
        let guard = &relay.tunnels.loop_guard;
        guard.resolved(&to_two, &[at(2)]);
        assert!(!relay.tunnels.leads_back(&one, at(2)).unwrap(), "the way on from two is not known yet");
        guard.resolved(&to_one, &[at(1)]);
        assert!(relay.tunnels.leads_back(&two, at(1)).unwrap() && relay.tunnels.leads_back(&one, at(2)).unwrap());
        relay.tunnels.set(relay.tunnels.list().to_vec());
        assert!(relay.tunnels.leads_back(&one, at(2)).unwrap(), "a reload forgets it");
        guard.resolved(&to_one, &["192.0.2.1:1".parse().unwrap()]);
        assert!(!relay.tunnels.leads_back(&one, at(2)).unwrap(), "the name is elsewhere now");
        let elsewhere: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert!(guard.is_next_hop(&two, elsewhere) && !guard.is_next_hop(&one, elsewhere));
        assert!(!guard.is_next_hop(&one, at(2).ip()), "whatever comes from this host itself");
        relay.tunnels.set(Vec::new());
        relay.tunnels.set(Vec::new());
        guard.resolved(&to_one, &[at(1)]);
        assert!(lock(&guard.hops).is_empty(), "nobody dials it any more");
    }
}
