//! Checks of the addresses of a tunnel: against its options, and against one another.

use crate::keys::remark::{Remark, Syntax};
use crate::options::{Leg, key};
use crate::tunnel::{NextHop, Tunnel};
use ipnet::IpNet;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// Returns an error if `listen` is link-local and the accept leg has no interface.
pub(super) fn link_local_listener(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    link_local(tunnel, Leg::Accept, "listen", tunnel.listen.ip(), syntax).into_iter().collect()
}

/// Returns an error for each next hop with a link-local address, if the dial leg has no interface.
pub(super) fn link_local_hops(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let addresses = tunnel.to.iter().filter_map(|hop| hop.host.parse().ok());
    addresses.filter_map(|address| link_local(tunnel, Leg::Dial, "to", address, syntax)).collect()
}

/// Returns a warning for each next hop that `to` has already. Letters of a name have no case (RFC 4343), and an IPv4-mapped
/// address is dialled by IPv4.
pub(super) fn repeated_hops(tunnel: &Tunnel) -> Vec<Remark> {
    let host = |hop: &NextHop| match hop.host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => hop.host.to_ascii_lowercase(),
    };
    let mut known = HashSet::new();
    let repeated = tunnel.to.iter().filter(|hop| !known.insert((host(hop), hop.port)));
    repeated
        .map(|hop| {
            let text = format!("{hop} is in the list already, and is dialled again after it has failed; write it once");
            Remark::warning("to", text)
        })
        .collect()
}

/// Returns an error if `source` is link-local and the dial leg has no interface.
pub(super) fn link_local_source(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let found = tunnel.source.and_then(|source| link_local(tunnel, Leg::Dial, "source", source, syntax));
    found.into_iter().collect()
}

/// Returns a warning for each entry of `allow` that has the IP version which no client of the listener has.
pub(super) fn unseen_networks(tunnel: &Tunnel) -> Vec<Remark> {
    let Some(only) = only_version(tunnel.listen) else { return Vec::new() };
    let version = |net: &IpNet| if matches!(net, IpNet::V4(_)) { 4 } else { 6 };
    // `0.0.0.0/0` together with `::/0` is how a file says that everybody may connect.
    let says_everybody = |net: &IpNet| net.prefix_len() == 0;
    let everybody = tunnel.allow.iter().any(|net| version(net) == only && says_everybody(net));
    let unseen = tunnel.allow.iter().filter(|net| version(net) != only && !(everybody && says_everybody(net)));
    let text = |net: &IpNet| {
        format!("{net} lets nobody in: only IPv{only} clients reach {}; write their IPv{only} networks", tunnel.listen)
    };
    unseen.map(|net| Remark::warning("allow", text(net))).collect()
}

/// Returns a network of the version that clients of `listen` have, as an example for `allow`.
pub(super) fn sample_network(listen: SocketAddr) -> &'static str {
    if only_version(listen) == Some(6) { "2001:db8::/32" } else { "10.0.0.0/8" }
}

/// Returns the only IP version that clients of `listen` have; `None` if they have both, as on `[::]`.
fn only_version(listen: SocketAddr) -> Option<u8> {
    match listen.ip() {
        IpAddr::V4(_) => Some(4),
        IpAddr::V6(any) if any.is_unspecified() => None,
        IpAddr::V6(_) => Some(6),
    }
}

/// Returns the error about `address`, the value of `key`. bind(2) and connect(2) answer EINVAL for a link-local IPv6 address,
/// unless the socket is bound to an interface (ipv6(7), sin6_scope_id).
fn link_local(tunnel: &Tunnel, leg: Leg, key: &str, address: IpAddr, syntax: Syntax) -> Option<Remark> {
    let IpAddr::V6(address) = address else { return None };
    let works = !address.is_unicast_link_local() || tunnel.options(leg).find(key::BIND_DEVICE).is_some();
    let device = key::BIND_DEVICE;
    let option = match syntax {
        Syntax::File => format!("{leg} = {{ {device} = \"eth0\" }}"),
        Syntax::Flags => format!("--set {leg}.{device}=eth0"),
    };
    (!works).then(|| {
        let text = format!("{address} is link-local: write {option}, with the interface of its link");
        Remark::error(key, text)
    })
}
