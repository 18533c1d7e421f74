//! Dials that would come back: to the tunnel's own listener, or to that of another tunnel of this process whose next hop
//! leads there. Each such flow would be a connection to ourselves, which dials again, until no descriptor is left.
//!
//! A file's addresses are looked at when it is read; here it is what a name has become, and which addresses this host has.
//! Names of tunnels further on are not followed.

use crate::config::{self, Tunnel};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// The tunnels that this process serves.
#[derive(Debug, Default)]
pub(super) struct Served(Mutex<Arc<[Arc<Tunnel>]>>);

impl Served {
    /// From now on it is these.
    pub(super) fn set(&self, tunnels: Arc<[Arc<Tunnel>]>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tunnels;
    }

    /// Whether dialling `address` would come back to `tunnel`. Asked before connect(2): afterwards the listener has the
    /// connection already, and dials the next one.
    pub(super) fn leads_back(&self, tunnel: &Tunnel, address: SocketAddr) -> bool {
        let served = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut been: Vec<&Tunnel> = Vec::new();
        let mut open = vec![address];
        while let Some(address) = open.pop() {
            if reaches(address, tunnel) {
                return true;
            }
            for next in served.iter().filter(|next| reaches(address, next)) {
                if !been.iter().any(|known| std::ptr::eq(*known, &**next)) {
                    been.push(next);
                    open.extend(
                        next.to.iter().filter_map(|hop| Some(SocketAddr::new(hop.host.parse().ok()?, hop.port))),
                    );
                }
            }
        }
        false
    }
}

/// Whether a dial to `address` is a connection to `tunnel`.
fn reaches(address: SocketAddr, tunnel: &Tunnel) -> bool {
    let listen = tunnel.listen;
    config::covers_same(listen, address) && (!listen.ip().is_unspecified() || is_here(address))
}

/// Whether the kernel sends what is for `address` to this host. Nothing is sent: connect(2) of UDP only looks up the route.
fn is_here(address: SocketAddr) -> bool {
    match address.ip().to_canonical() {
        // With net.ipv4.ip_nonlocal_bind any address can be bound to, but only one of this host can be sent from.
        IpAddr::V4(ip) => UdpSocket::bind((ip, 0)).is_ok_and(|socket| socket.connect((ip, address.port())).is_ok()),
        // RFC 6724 5, rule 1: the source for an address of this host is that address.
        IpAddr::V6(ip) => {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
            let source = socket.and_then(|socket| socket.connect(address).and_then(|()| socket.local_addr()));
            source.is_ok_and(|source| source.ip() == ip)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NextHop;

    #[test]
    fn what_this_host_has_is_here_and_the_rest_is_not() {
        for (address, here) in [
            ("127.0.0.1:6000", true),
            ("127.9.9.9:6000", true),
            ("[::1]:6000", true),
            ("[::ffff:127.0.0.1]:6000", true),
            // RFC 5737, RFC 3849: for documentation, so nobody's.
            ("192.0.2.77:6000", false),
            ("[2001:db8::77]:6000", false),
        ] {
            assert_eq!(is_here(address.parse().unwrap()), here, "{address}");
        }
    }

    #[test]
    fn only_the_own_port_is_reached() {
        let tunnel = |listen: &str| Tunnel::new("a", listen.parse().unwrap(), Vec::new());
        for (listen, address, own) in [
            ("[::]:6000", "127.0.0.1:6000", true),
            ("[::]:6000", "127.0.0.1:6001", false),
            ("[::]:6000", "192.0.2.77:6000", false),
            ("0.0.0.0:6000", "[::1]:6000", false),
            ("127.0.0.1:6000", "127.0.0.1:6000", true),
            ("127.0.0.1:6000", "127.0.0.2:6000", false),
        ] {
            assert_eq!(reaches(address.parse().unwrap(), &tunnel(listen)), own, "{listen} {address}");
        }
    }

    #[test]
    fn the_way_through_other_tunnels_is_followed() {
        let tunnel = |listen: u16, to: u16| {
            let hop = NextHop { host: "127.0.0.1".into(), port: to };
            Arc::new(Tunnel::new("a", SocketAddr::from((Ipv6Addr::UNSPECIFIED, listen)), vec![hop]))
        };
        let (one, two, three, out) = (tunnel(1, 2), tunnel(2, 3), tunnel(3, 1), tunnel(4, 5));
        let served = Served::default();
        served.set([one.clone(), two, three, out.clone()].into());
        let back = |tunnel: &Tunnel, to: u16| served.leads_back(tunnel, SocketAddr::from(([127, 0, 0, 1], to)));
        assert!(back(&one, 2) && back(&one, 3) && !back(&one, 4));
        // Into the circle, which is not its own: those in it will say so.
        assert!(!back(&out, 1) && !back(&out, 5) && back(&out, 4));
    }
}
