//! The places on the path: four hosts, and the two directions of the WAN between the relays.

use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A direction over the WAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the near relay to the far one.
    Out,
    /// From the far relay to the near one.
    Back,
}

/// One of the four hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// The host that connects.
    A,
    /// The relay beside it.
    Near,
    /// The relay at the other end of the WAN.
    Far,
    /// The host that accepts connections.
    B,
}

impl Host {
    /// All four hosts, in the order of the path.
    pub const ALL: [Host; 4] = [Host::A, Host::Near, Host::Far, Host::B];

    /// Returns the name of the host.
    pub fn name(self) -> &'static str {
        ["A", "near", "far", "B"][self.index()]
    }

    /// Returns the host's place on the path, from 0.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the address on the LAN of the host's site. Hosts A and B reach their relays at this address.
    pub fn lan(self) -> IpAddr {
        IpAddr::V4(match self {
            Host::A => Ipv4Addr::new(10, 10, 10, 10),
            Host::Near => Ipv4Addr::new(10, 10, 10, 20),
            Host::Far => Ipv4Addr::new(10, 20, 20, 20),
            Host::B => Ipv4Addr::new(10, 20, 20, 10),
        })
    }

    /// Returns the IPv6 address on the LAN.
    pub fn lan6(self) -> IpAddr {
        let site = if matches!(self, Host::A | Host::Near) { 0x10 } else { 0x20 };
        let host = if matches!(self, Host::A | Host::B) { 0x10 } else { 0x20 };
        IpAddr::V6(Ipv6Addr::new(0xfd00, site, 0, 0, 0, 0, 0, host))
    }

    /// Returns the relay's address on the WAN, at which the other relay reaches it. For A and B, which have no WAN address,
    /// returns the LAN address.
    pub fn wan(self) -> IpAddr {
        match self {
            Host::Near => IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)),
            Host::Far => IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2)),
            Host::A | Host::B => self.lan(),
        }
    }

    /// Returns the IPv6 address on the WAN; for A and B the one on the LAN.
    pub fn wan6(self) -> IpAddr {
        match self {
            Host::Near => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1)),
            Host::Far => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 2)),
            Host::A | Host::B => self.lan6(),
        }
    }
}

impl Direction {
    /// Both directions, from near to far first.
    pub const BOTH: [Direction; 2] = [Direction::Out, Direction::Back];

    /// Returns the hosts at both ends, as reports show them.
    pub(crate) fn arrow(self) -> &'static str {
        match self {
            Direction::Out => "A → B",
            Direction::Back => "B → A",
        }
    }

    /// Returns the direction's place in [`Direction::BOTH`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns the sending host and the receiving host.
    pub(crate) fn ends(self) -> [Host; 2] {
        match self {
            Direction::Out => [Host::A, Host::B],
            Direction::Back => [Host::B, Host::A],
        }
    }
}
