//! The places on the path: four hosts, and the two directions of the WAN between the relays.

use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One way over the WAN.
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
    /// All four, in the order of the path.
    pub const ALL: [Host; 4] = [Host::A, Host::Near, Host::Far, Host::B];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        ["A", "near", "far", "B"][self.index()]
    }

    /// Its place on the path, from 0.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its address on its site's LAN: for the relays, where their own host reaches them.
    pub fn lan(self) -> IpAddr {
        IpAddr::V4(match self {
            Host::A => Ipv4Addr::new(10, 10, 10, 10),
            Host::Near => Ipv4Addr::new(10, 10, 10, 20),
            Host::Far => Ipv4Addr::new(10, 20, 20, 20),
            Host::B => Ipv4Addr::new(10, 20, 20, 10),
        })
    }

    /// As [`Host::lan`], with IPv6.
    pub fn lan6(self) -> IpAddr {
        let site = if matches!(self, Host::A | Host::Near) { 0x10 } else { 0x20 };
        let host = if matches!(self, Host::A | Host::B) { 0x10 } else { 0x20 };
        IpAddr::V6(Ipv6Addr::new(0xfd00, site, 0, 0, 0, 0, 0, host))
    }

    /// A relay's address on the WAN, where the other relay reaches it; the hosts have none and give their LAN's.
    pub fn wan(self) -> IpAddr {
        match self {
            Host::Near => IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)),
            Host::Far => IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2)),
            Host::A | Host::B => self.lan(),
        }
    }

    /// As [`Host::wan`], with IPv6.
    pub fn wan6(self) -> IpAddr {
        match self {
            Host::Near => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1)),
            Host::Far => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 2)),
            Host::A | Host::B => self.lan6(),
        }
    }
}

impl Direction {
    /// Both, from near to far first.
    pub const BOTH: [Direction; 2] = [Direction::Out, Direction::Back];

    /// The hosts at its two ends, for reports.
    pub(crate) fn arrow(self) -> &'static str {
        match self {
            Direction::Out => "A → B",
            Direction::Back => "B → A",
        }
    }

    /// Its place in [`Direction::BOTH`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The host that sends this way, and the one that receives.
    pub(crate) fn ends(self) -> [Host; 2] {
        match self {
            Direction::Out => [Host::A, Host::B],
            Direction::Back => [Host::B, Host::A],
        }
    }
}
