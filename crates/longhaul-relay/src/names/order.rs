//! The order of a name's addresses, as getaddrinfo(3) returns them for most hosts (RFC 6724 6).

use longhaul_sys::route;
use std::net::{IpAddr, SocketAddr};

/// Sorts `addresses`: those that this host can reach come first, and of these IPv6 comes before IPv4. Otherwise the
/// order stays that of the answer, by which many zones share load.
pub(super) fn sort(addresses: &mut [IpAddr]) {
    addresses.sort_by_cached_key(|address| {
        let source = source(*address);
        // Rule 1: avoid unusable destinations. Rule 5: prefer a matching label; a source that is valid only inside the
        // site does not reach a global address. Rule 6: prefer higher precedence, which is IPv6.
        let other_label = source.is_some_and(|source| is_unique_local(source) != is_unique_local(*address));
        (source.is_none(), other_label, address.is_ipv4())
    });
}

/// Returns the address from which this host would dial `to`, or `None` if it has no route to it.
fn source(to: IpAddr) -> Option<IpAddr> {
    route::source(SocketAddr::new(to, DISCARD)).ok()?
}

fn is_unique_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unique_local()) // RFC 4193
}

/// Any port; connect(2) of a datagram socket only looks for a route.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn reachable_addresses_come_first_in_the_order_of_the_answer() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        // A socket without SO_BROADCAST cannot have the first one as its peer (socket(7)).
        let mut addresses = [ip("255.255.255.255"), ip("127.0.0.3"), ip("127.0.0.1"), ip("127.0.0.2")];
        sort(&mut addresses);
        assert_eq!(addresses, [ip("127.0.0.3"), ip("127.0.0.1"), ip("127.0.0.2"), ip("255.255.255.255")]);
    }

    #[test]
    fn ipv6_comes_before_ipv4_where_the_host_has_it() {
        let mut addresses = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)];
        sort(&mut addresses);
        assert_eq!(addresses[0].is_ipv6(), source(Ipv6Addr::LOCALHOST.into()).is_some());
    }
}
