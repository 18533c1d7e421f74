//! A tunnel: a listener and where its connections go.
//!
//! To add a key, add a field here, a row in `keys/tunnel.rs` and the place in the relay that uses the field.

use crate::options::{Leg, LegOptions, Value, key};
use ipnet::IpNet;
use longhaul_core::next_hop::{POLICIES, Policy};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A listener and where its connections go.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// Name in logs and metrics.
    pub name: String,
    /// Address to listen on; `[::]` means every address of the host, also IPv4.
    pub listen: SocketAddr,
    /// Next hops, at least one.
    pub to: Vec<NextHop>,
    /// Order in which the next hops are dialled.
    pub policy: &'static Policy,
    /// Networks that may connect; empty means everybody.
    pub allow: Vec<IpNet>,
    /// Maximum number of flows; further connections wait in the listen queue. With `None` the limit on open files decides.
    pub max_flows: Option<usize>,
    /// Time that one address has to answer a dial.
    pub connect_timeout: Duration,
    /// Address to dial from; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// Whether bytes move through pipes with splice(2); `false` copies them through user space.
    pub splice: bool,
    /// Socket options of the accept leg.
    pub accept: LegOptions,
    /// Socket options of the dial leg.
    pub dial: LegOptions,
}

/// A host, by name or by address, and a port; or an SRV name, whose answer has hosts and ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The TCP port, 1 to 65535; 0 if `host` is an SRV name.
    pub port: u16,
}

impl NextHop {
    /// Returns the next hop of the SRV name `name` (RFC 2782).
    pub fn srv(name: impl Into<String>) -> NextHop {
        // No host has port 0, so it can stand for the ports of the answer.
        NextHop { host: name.into(), port: 0 }
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

impl Tunnel {
    /// Default of [`connect_timeout`](Tunnel::connect_timeout). The kernel sends SYNs at 0, 1, 3 and 7 s (tcp(7)), so a dial
    /// survives three lost SYNs.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns a tunnel with the default of every optional key.
    pub fn new(name: impl Into<String>, listen: SocketAddr, to: Vec<NextHop>) -> Tunnel {
        Tunnel {
            name: name.into(),
            listen,
            to,
            policy: &POLICIES[0],
            allow: Vec::new(),
            max_flows: None,
            connect_timeout: Tunnel::CONNECT_TIMEOUT,
            source: None,
            splice: true,
            accept: LegOptions::default(),
            dial: LegOptions::default(),
        }
    }

    /// Returns whether `leg` speaks Multipath TCP.
    pub fn mptcp(&self, leg: Leg) -> bool {
        self.options(leg).find(key::MPTCP).is_some_and(|setting| setting.value == Value::Switch(true))
    }

    /// Returns the options of `leg`.
    pub fn options(&self, leg: Leg) -> &LegOptions {
        match leg {
            Leg::Accept => &self.accept,
            Leg::Dial => &self.dial,
        }
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NextHop { host, port } = self;
        match host {
            _ if self.is_srv() => write!(f, "srv:{host}"),
            _ if host.contains(':') => write!(f, "[{host}]:{port}"),
            _ => write!(f, "{host}:{port}"),
        }
    }
}
