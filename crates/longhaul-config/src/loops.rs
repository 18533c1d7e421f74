//! Finds tunnels that listen on the same address, and tunnels whose flows would come back to their own listener.

use crate::next_hop::NextHop;
use crate::tunnel::Tunnel;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Returns whether a dial to `hop` would reach the listener itself. `is_here` tells whether this host has an address.
pub(crate) fn leads_back(listen: SocketAddr, hop: &NextHop, is_here: &dyn Fn(IpAddr) -> bool) -> bool {
    let host = match hop.host.parse::<IpAddr>() {
        Ok(host) => host,
        Err(_) if is_localhost(&hop.host) => IpAddr::from([127, 0, 0, 1]),
        Err(_) => return false,
    };
    let (own, host) = (listen.ip().to_canonical(), host.to_canonical());
    listen.port() == hop.port
        && (own == host || own.is_unspecified() && (own.is_ipv6() || host.is_ipv4()) && is_here(host))
}

/// A tunnel whose flows would come back to its own listener.
pub struct Loop {
    /// Index of the tunnel.
    pub tunnel: usize,
    /// Names the address that leads back, and what to write instead.
    pub text: String,
}

/// Returns the loops among `tunnels` that exist only on this host. `is_here` tells whether this host has an address. Loops
/// that exist on every host are errors of the file; they are not returned.
pub fn loops_here(tunnels: &[Tunnel], is_here: &dyn Fn(IpAddr) -> bool) -> Vec<Loop> {
    let of_itself = tunnels.iter().enumerate().flat_map(|(index, tunnel)| {
        let own = tunnel.to.iter().filter(|hop| leads_back(tunnel.listen, hop, is_here));
        own.map(move |hop| {
            let listen = tunnel.listen;
            let text = format!(
                "to = {hop}: this host has that address, so every flow would dial this tunnel's own listener ({listen}) and \
                 fail; write the next hop's address"
            );
            Loop { tunnel: index, text }
        })
    });
    let through_others = longer_loops(tunnels, is_here).into_iter().enumerate().filter_map(|(index, way)| {
        let names: Vec<&str> = way?.iter().map(|index| tunnels[*index].name.as_str()).collect();
        let text = format!(
            "to leads back here through tunnel {}, by addresses of this host, so every flow would fail; write the next hop's \
             address",
            names.join(", ")
        );
        Some(Loop { tunnel: index, text })
    });
    of_itself.chain(through_others).collect()
}

/// Returns whether `host` is `localhost` (RFC 6761 6.3), in either case, with or without the final dot (RFC 4343, RFC 1034
/// 3.1).
fn is_localhost(host: &str) -> bool {
    host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case("localhost")
}

/// Returns, for each of `tunnels`, the path back to it through earlier tunnels, or `None` without one. `is_here` tells whether
/// this host has an address. Each loop is reported once, for the tunnel that closes it. Tunnels that dial themselves directly
/// are not reported.
pub(crate) fn longer_loops(tunnels: &[Tunnel], is_here: &dyn Fn(IpAddr) -> bool) -> Vec<Option<Vec<usize>>> {
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

/// Returns the indices of a path from `last` back to `last` through earlier tunnels, without `last` itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_to_an_address_of_this_host_leads_back() {
        let tunnel = |name: &str, listen: &str, to: &str, port| {
            let hop = NextHop::new(to, port);
            Tunnel::new(name, listen.parse().expect("an address"), vec![hop])
        };
        let own = |ip: IpAddr| ip == IpAddr::from([10, 10, 10, 20]);
        let found =
            |tunnels: &[Tunnel]| loops_here(tunnels, &own).into_iter().map(|found| found.tunnel).collect::<Vec<_>>();
        assert_eq!(found(&[tunnel("a", "[::]:6100", "10.10.10.20", 6100)]), [0]);
        assert_eq!(found(&[tunnel("a", "0.0.0.0:6100", "10.10.10.20", 6100)]), [0]);
        assert!(found(&[tunnel("a", "[::]:6100", "10.10.10.20", 6101)]).is_empty());
        assert!(found(&[tunnel("a", "[::]:6100", "10.10.10.21", 6100)]).is_empty());
        let two = [tunnel("a", "[::]:1", "10.10.10.20", 2), tunnel("b", "[::]:2", "10.10.10.20", 1)];
        assert_eq!(found(&two), [1]);
    }
}
