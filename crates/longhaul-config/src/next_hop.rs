//! A next hop of a tunnel, and how it is checked.

use longhaul_core::next_hop::{HopKey, Member};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A host, by name or by address, and a port; or an SRV name, whose answer has hosts and ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The TCP port, 1 to 65535; 0 if `host` is an SRV name.
    pub port: u16,
    /// Its weight, 1 to 256, for the policies that use weights.
    pub weight: u32,
}

/// Active checks of a tunnel's next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// How a hop is checked; `None` if it is not.
    pub by: Option<CheckBy>,
    /// Time between the beginnings of two checks of a hop.
    pub interval: Duration,
    /// Number of good checks in a row after which a hop is up again.
    pub rise: u32,
    /// Number of failed checks in a row after which a hop is down.
    pub fall: u32,
}

/// How a next hop is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckBy {
    /// By a TCP connection, which is reset at once.
    Tcp,
    /// By a probe through the hop, which is a relay, to the final host.
    Verify,
}

impl Check {
    /// No checks, and the default times of checks. A dead hop is down after 15 s; its dials eject it before, if there are any.
    pub const NONE: Check = Check { by: None, interval: Duration::from_secs(5), rise: 2, fall: 3 };

    /// Returns the time that a check has. A connection has 3 s: the kernel sends a lost SYN again after 1 s (RFC 6298 2.1), so a check
    /// survives one. A probe has the interval, but at least 5 s, because it takes six round trips and its relays dial, and at most 1 min.
    pub fn timeout(&self) -> Duration {
        match self.by {
            Some(CheckBy::Verify) => self.interval.clamp(Duration::from_secs(5), Duration::from_secs(60)),
            Some(CheckBy::Tcp) | None => Duration::from_secs(3),
        }
    }

    /// Returns the time in which a next hop that fails is down. `None` without checks.
    pub fn found_within(&self) -> Option<Duration> {
        self.by.map(|_| self.interval.max(self.timeout()) * (self.fall + 1))
    }
}

impl NextHop {
    /// Returns a next hop of weight 1.
    pub fn new(host: impl Into<String>, port: u16) -> NextHop {
        NextHop { host: host.into(), port, weight: 1 }
    }

    /// Returns the hop as a member of its group.
    pub fn member(&self) -> Member {
        Member { key: HopKey::of(&self.host, self.port), weight: self.weight }
    }

    /// Returns the next hop of the SRV name `name` (RFC 2782).
    pub fn srv(name: impl Into<String>) -> NextHop {
        // No host has port 0, so it can stand for the ports of the answer.
        NextHop::new(name, 0)
    }

    /// Returns whether the hosts and ports come from an SRV name.
    pub fn is_srv(&self) -> bool {
        self.port == 0
    }

    /// Returns the address, if no name has to be resolved.
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, self.port))
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NextHop { host, port, .. } = self;
        match host {
            _ if self.is_srv() => write!(f, "srv:{host}"),
            _ if host.contains(':') => write!(f, "[{host}]:{port}"),
            _ => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe over a satellite (600 ms) takes 3.6 s and more.
    #[test]
    fn a_check_survives_a_lost_syn_and_a_probe_has_its_interval() {
        let time = |by, milliseconds| {
            let interval = Duration::from_millis(milliseconds);
            Check { by: Some(by), interval, ..Check::NONE }.timeout().as_millis()
        };
        assert_eq!([100, 5000].map(|ms| time(CheckBy::Tcp, ms)), [3000, 3000]);
        assert_eq!([1000, 5000, 20_000, 3_600_000].map(|ms| time(CheckBy::Verify, ms)), [5000, 5000, 20_000, 60_000]);
    }
}
