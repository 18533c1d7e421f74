//! A question to a resolver, and its answer.

use longhaul_config::NextHop;
use longhaul_core::names::srv::{self, Rank};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A question to the resolver. The name is in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// The addresses of this host.
    Host(String),
    /// The targets of this SRV name.
    Srv(String),
}

/// A host of an answer. A host name has one, an SRV name any number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Rank among the targets of the answer.
    pub(super) rank: Rank,
    /// The port; `None` stands for that of the next hop.
    pub(super) port: Option<u16>,
    /// The addresses, the best first.
    pub(super) addresses: Vec<IpAddr>,
}

/// An answer, shared by the flows that use it.
pub(super) type Targets = Arc<[Target]>;

impl Question {
    /// Returns the question for a next hop that is no address.
    pub(super) fn of(next_hop: &NextHop) -> Question {
        let name = next_hop.host.to_ascii_lowercase(); // RFC 4343
        if next_hop.is_srv() { Question::Srv(name) } else { Question::Host(name) }
    }

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        let (Question::Host(name) | Question::Srv(name)) = self;
        name
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Host(name) => f.write_str(name),
            Question::Srv(name) => write!(f, "srv:{name}"),
        }
    }
}

impl Target {
    /// Returns the target of a host name.
    pub(super) fn of_host(addresses: Vec<IpAddr>) -> Target {
        Target { rank: Rank::default(), port: None, addresses }
    }
}

/// Returns the addresses of `targets` in the order in which to dial them. The order of an SRV name's targets is drawn
/// anew at each call. `port` is the next hop's.
pub(super) fn addresses(targets: &[Target], port: u16) -> Vec<SocketAddr> {
    let ranks: Vec<Rank> = targets.iter().map(|target| target.rank).collect();
    let in_order = srv::order(&ranks, random).into_iter().map(|index| &targets[index]);
    let of_target = |target: &Target| {
        let port = target.port.unwrap_or(port);
        target.addresses.iter().map(move |ip| SocketAddr::new(*ip, port)).collect::<Vec<_>>()
    };
    in_order.flat_map(of_target).collect()
}

/// Returns a number of `0..=max`. Its quality is enough to share load, and not for secrets.
fn random(max: u32) -> u32 {
    // Each RandomState has another key.
    let number = RandomState::new().hash_one(()) % (u64::from(max) + 1);
    u32::try_from(number).unwrap_or(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_the_target_s_or_the_next_hop_s() {
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let host = [Target::of_host(vec![ip(1), ip(2)])];
        assert_eq!(addresses(&host, 6000), [SocketAddr::new(ip(1), 6000), SocketAddr::new(ip(2), 6000)]);
        let target =
            |priority, port, addresses| Target { rank: Rank { priority, weight: 1 }, port: Some(port), addresses };
        let srv = [target(20, 2, vec![ip(3)]), target(10, 1, vec![ip(1), ip(2)])];
        let wanted = [(1, 1), (2, 1), (3, 2)].map(|(last, port)| SocketAddr::new(ip(last), port));
        assert_eq!(addresses(&srv, 0), wanted);
        assert!(addresses(&[], 6000).is_empty());
    }

    #[test]
    fn names_are_compared_without_case() {
        let hop = |host: &str| NextHop::new(host, 1);
        assert_eq!(Question::of(&hop("B.example")), Question::of(&hop("b.Example")));
        assert_ne!(Question::of(&NextHop::srv("_a._tcp.b")), Question::of(&hop("_a._tcp.b")));
    }
}
