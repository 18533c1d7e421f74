//! What can be said of a tunnel as a whole: values that are right each by itself and wrong together, and values that are
//! allowed but seldom meant.

use crate::options::{Leg, Setting, Value};
use crate::{NextHop, Severity, Tunnel};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// One thing to say about a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Whether the tunnel can be used.
    pub severity: Severity,
    /// The key it is about, such as `to` or `dial.mss`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub text: String,
}

/// How a tunnel was told, and so how one writes what is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// As keys of a file.
    InFile,
    /// As flags of a command.
    ByFlags,
}

/// Everything there is to say about `tunnel`.
pub fn remarks(tunnel: &Tunnel, told: Told) -> Vec<Remark> {
    let mut found = Vec::new();
    found.extend(
        tunnel
            .to
            .iter()
            .filter(|hop| leads_back(tunnel.listen, hop, &|ip| ip.is_loopback()))
            .map(|hop| loops(tunnel, hop)),
    );
    found.extend(tunnel.source.and_then(|source| strange_source(source, &tunnel.to)));
    found.extend(open_to_all(tunnel, told));
    for (leg, options) in [(Leg::Accept, &tunnel.accept), (Leg::Dial, &tunnel.dial)] {
        found.extend(options.asked().filter_map(|setting| caution(leg, setting)));
        found.extend(options.asked().filter_map(|setting| beside_mptcp(tunnel, leg, setting)));
    }
    found
}

/// Whether two listeners would get in each other's way: the same port, and an address that covers the other.
pub fn covers_same(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| match a {
        // The relay's [::] takes IPv4 too.
        IpAddr::V6(any) if any.is_unspecified() => true,
        IpAddr::V4(any) if any.is_unspecified() => b.to_canonical().is_ipv4(),
        one => one.to_canonical() == b.to_canonical(),
    };
    a.port() == b.port() && (covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

/// Whether dialling `hop` would come back to the listener itself; `is_here` says whether this host has an address.
fn leads_back(listen: SocketAddr, hop: &NextHop, is_here: &dyn Fn(IpAddr) -> bool) -> bool {
    let host = match hop.host.parse::<IpAddr>() {
        Ok(host) => host,
        Err(_) if is_localhost(&hop.host) => IpAddr::from([127, 0, 0, 1]),
        Err(_) => return false,
    };
    let (own, host) = (listen.ip().to_canonical(), host.to_canonical());
    listen.port() == hop.port
        && (own == host || own.is_unspecified() && (own.is_ipv6() || host.is_ipv4()) && is_here(host))
}

/// Returns one warning for each next hop of `tunnels` that leads back to its own tunnel on a host whose addresses `is_here`
/// knows: the index of the tunnel, and the text. What is an error on every host is not among them.
pub fn loops_here(tunnels: &[Tunnel], is_here: &dyn Fn(IpAddr) -> bool) -> Vec<(usize, String)> {
    let of_itself = tunnels.iter().enumerate().flat_map(|(index, tunnel)| {
        let own = tunnel.to.iter().filter(|hop| leads_back(tunnel.listen, hop, is_here));
        own.map(move |hop| {
            let listen = tunnel.listen;
            let text = format!(
                "to = {hop}: this host has that address, so every flow would dial this tunnel's own listener ({listen}) and \
                 fail; write the next hop's address"
            );
            (index, text)
        })
    });
    let through_others = circles(tunnels, is_here).into_iter().enumerate().filter_map(|(index, way)| {
        let names: Vec<&str> = way?.iter().map(|index| tunnels[*index].name.as_str()).collect();
        let text = format!(
            "to leads back here through tunnel {}, by addresses of this host: every flow would fail; write the next hop's \
             address",
            names.join(", ")
        );
        Some((index, text))
    });
    of_itself.chain(through_others).collect()
}

/// RFC 6761 6.3: this host, in letters of either case, with or without the root's dot (RFC 4343, RFC 1034 3.1).
fn is_localhost(host: &str) -> bool {
    host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case("localhost")
}

/// For each of `tunnels`, on a host whose addresses `is_here` knows, the way back to it through tunnels before it, when there is one: a flow would go round until
/// descriptors run out. Each circle is told once, of the tunnel that closes it; one that dials itself is a remark of its
/// own.
pub(super) fn circles(tunnels: &[Tunnel], is_here: &dyn Fn(IpAddr) -> bool) -> Vec<Option<Vec<usize>>> {
    let mut ports: HashMap<u16, Vec<usize>> = HashMap::new();
    for (index, tunnel) in tunnels.iter().enumerate() {
        ports.entry(tunnel.listen.port()).or_default().push(index);
    }
    let onward = |tunnel: &Tunnel| {
        let listening = |hop: &NextHop| ports.get(&hop.port).into_iter().flatten().copied();
        let reached = |hop| listening(hop).filter(move |index| leads_back(tunnels[*index].listen, hop, is_here));
        tunnel.to.iter().flat_map(reached).collect()
    };
    let onward: Vec<Vec<usize>> = tunnels.iter().map(onward).collect();
    (0..tunnels.len()).map(|last| way_back(&onward, last)).collect()
}

/// The tunnels between `last` and itself, all of them before it.
fn way_back(onward: &[Vec<usize>], last: usize) -> Option<Vec<usize>> {
    let mut from: HashMap<usize, usize> = HashMap::new();
    let mut open = vec![last];
    while let Some(here) = open.pop() {
        if here != last && onward[here].contains(&last) {
            let mut way: Vec<usize> = std::iter::successors(Some(here), |index| from.get(index).copied()).collect();
            way.pop(); // `last` itself
            way.reverse();
            return Some(way);
        }
        for &next in onward[here].iter().filter(|next| **next < last) {
            from.entry(next).or_insert_with(|| {
                open.push(next);
                here
            });
        }
    }
    None
}

fn loops(tunnel: &Tunnel, hop: &NextHop) -> Remark {
    let text = format!(
        "{hop} is this tunnel's own listener ({}): every flow would dial itself; write the next hop's address",
        tunnel.listen
    );
    Remark { severity: Severity::Error, key: "to".into(), text }
}

fn strange_source(source: IpAddr, to: &[NextHop]) -> Option<Remark> {
    let other_family = |hop: &&NextHop| hop.host.parse::<IpAddr>().is_ok_and(|host| host.is_ipv4() != source.is_ipv4());
    to.iter().find(other_family).map(|hop| Remark {
        severity: Severity::Error,
        key: "source".into(),
        text: format!(
            "{hop} cannot be dialled from {source}: one is IPv4, the other IPv6; write a source of its family"
        ),
    })
}

fn open_to_all(tunnel: &Tunnel, told: Told) -> Option<Remark> {
    let open = tunnel.allow.is_empty() && !tunnel.listen.ip().to_canonical().is_loopback();
    let better = match told {
        Told::InFile => "allow = [\"10.0.0.0/8\"]",
        Told::ByFlags => "--allow 10.0.0.0/8",
    };
    open.then(|| Remark {
        severity: Severity::Warning,
        key: "allow".into(),
        text: format!("whoever reaches {} may connect; write {better} or what fits", tunnel.listen),
    })
}

/// An option that the kernel refuses when the tunnel starts, because of another. Only a warning: kernels learn.
fn beside_mptcp(tunnel: &Tunnel, leg: Leg, setting: &Setting) -> Option<Remark> {
    let refused = tunnel.mptcp(leg) && setting.row.mptcp_refuses;
    refused.then(|| Remark {
        severity: Severity::Warning,
        key: format!("{leg}.{}", setting.row.key),
        text: format!(
            "beside {leg}.mptcp the kernel refuses it (Linux 6.18), and the tunnel does not start; leave one of them out"
        ),
    })
}

/// The row's own caution, unless the option is asked to be off.
fn caution(leg: Leg, setting: &Setting) -> Option<Remark> {
    let key = format!("{}.{}", leg.name(), setting.row.key);
    let (severity, text) = match (setting.row.key, &setting.value) {
        ("nodelay", Value::Switch(false)) => {
            (Severity::Warning, "small messages will wait for a round trip; leave it out".into())
        }
        ("mss", Value::Number(mss)) if *mss > JUMBO_MSS => {
            let text = format!("no path carries such segments; {JUMBO_MSS}B is the most that jumbo frames hold");
            (Severity::Warning, text)
        }
        (_, Value::Switch(false) | Value::Number(0)) => return None,
        _ if setting.row.caution.is_empty() => return None,
        _ => (Severity::Note, setting.row.caution.into()),
    };
    Some(Remark { severity, key, text })
}

/// An MTU of 9,000 without IPv4 and TCP headers.
const JUMBO_MSS: u64 = 8960;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_to_an_address_of_this_host_leads_back() {
        let tunnel = |name: &str, listen: &str, to: &str, port| {
            let hop = NextHop { host: to.into(), port };
            Tunnel::new(name, listen.parse().expect("an address"), vec![hop])
        };
        let own = |ip: IpAddr| ip == IpAddr::from([10, 10, 10, 20]);
        let found = |tunnels: &[Tunnel]| loops_here(tunnels, &own).into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(found(&[tunnel("a", "[::]:6100", "10.10.10.20", 6100)]), [0]);
        assert_eq!(found(&[tunnel("a", "0.0.0.0:6100", "10.10.10.20", 6100)]), [0]);
        assert!(found(&[tunnel("a", "[::]:6100", "10.10.10.20", 6101)]).is_empty());
        assert!(found(&[tunnel("a", "[::]:6100", "10.10.10.21", 6100)]).is_empty());
        let two = [tunnel("a", "[::]:1", "10.10.10.20", 2), tunnel("b", "[::]:2", "10.10.10.20", 1)];
        assert_eq!(found(&two), [1]);
    }
}
