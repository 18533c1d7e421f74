//! Checks of the addresses of a tunnel: against its options, and against one another.

use crate::keys::remark::{Remark, Syntax};
use crate::options::{Leg, key};
use crate::tunnel::Tunnel;
use std::net::IpAddr;

/// Returns an error if `listen` is link-local and the accept leg has no interface.
pub(super) fn link_local_listener(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    link_local(tunnel, Leg::Accept, "listen", tunnel.listen.ip(), syntax).into_iter().collect()
}

/// Returns an error for each next hop with a link-local address, if the dial leg has no interface.
pub(super) fn link_local_hops(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let addresses = tunnel.to.iter().filter_map(|hop| hop.host.parse().ok());
    addresses.filter_map(|address| link_local(tunnel, Leg::Dial, "to", address, syntax)).collect()
}

/// Returns an error if `source` is link-local and the dial leg has no interface.
pub(super) fn link_local_source(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let found = tunnel.source.and_then(|source| link_local(tunnel, Leg::Dial, "source", source, syntax));
    found.into_iter().collect()
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
