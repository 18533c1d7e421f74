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

/// Returns a remark about next hops with link-local addresses, if the dial leg has no interface. It is an error if no other
/// next hop is left, and a warning otherwise.
pub(super) fn link_local_hops(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let remark = |hop: &NextHop| link_local(tunnel, Leg::Dial, "to", hop.host.parse().ok()?, syntax);
    let wrong: Vec<_> = tunnel.to.iter().filter_map(|hop| Some((hop, remark(hop)?))).collect();
    let count = wrong.len();
    let remark = wrong.into_iter().next().map(|(first, remark)| match count < tunnel.to.len() {
        true => {
            let text = format!(
                "{} cannot be dialled, because link-local addresses need an interface; give them a tunnel of their own with \
                 dial.{}",
                and_more(first, count),
                key::BIND_DEVICE
            );
            Remark::warning("to", text)
        }
        false => remark,
    });
    remark.into_iter().collect()
}

/// Returns a warning if `to` has a next hop twice. Letters of a name have no case (RFC 4343), and an IPv4-mapped address is
/// dialled by IPv4.
pub(super) fn repeated_hops(tunnel: &Tunnel) -> Vec<Remark> {
    let host = |hop: &NextHop| match hop.host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => hop.host.to_ascii_lowercase(),
    };
    let mut known = HashSet::new();
    let repeated: Vec<&NextHop> = tunnel.to.iter().filter(|hop| !known.insert((host(hop), hop.port))).collect();
    let Some(first) = repeated.first() else { return Vec::new() };
    let text = format!(
        "{} is in the list already, and is dialled again after it has failed; write it once",
        and_more(first, repeated.len())
    );
    vec![Remark::warning("to", text)]
}

/// Returns an error if `source` is link-local and the dial leg has no interface.
pub(super) fn link_local_source(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let found = tunnel.source.and_then(|source| link_local(tunnel, Leg::Dial, "source", source, syntax));
    found.into_iter().collect()
}

/// Returns a warning if `allow` lets nobody in: no entry has the IP version of the listener's clients. A list for both versions
/// may serve several tunnels, so an entry that no client has is no mistake by itself.
pub(super) fn unseen_networks(tunnel: &Tunnel) -> Vec<Remark> {
    let Some(only) = only_version(tunnel.listen) else { return Vec::new() };
    let version = |net: &IpNet| if matches!(net, IpNet::V4(_)) { 4 } else { 6 };
    if tunnel.allow.is_empty() || tunnel.allow.iter().any(|net| version(net) == only) {
        return Vec::new();
    }
    let text =
        format!("it lets nobody in: only IPv{only} clients reach {}; write their IPv{only} networks", tunnel.listen);
    vec![Remark::warning("allow", text)]
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
        Syntax::File => format!("{device} = \"eth0\" to {leg}"),
        Syntax::Flags => format!("--set {leg}.{device}=eth0"),
    };
    (!works).then(|| {
        let text = format!("{address} is link-local and needs an interface: add {option}, with the name of yours");
        Remark::error(key, text)
    })
}

/// Returns `first`, and how many more there are of `count` in all.
fn and_more(first: &NextHop, count: usize) -> String {
    if count > 1 { format!("{first} (and {} more)", count - 1) } else { first.to_string() }
}
