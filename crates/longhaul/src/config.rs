//! What a daemon is told to do: the model. `config/` reads it from a file.

use crate::options::LegOptions;
use ipnet::IpNet;
use longhaul_core::next_hop::Policy;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A whole configuration: every tunnel of the file and what holds for the process.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The tunnels, in the order of the file; their names are unique, and so are their listen addresses.
    pub tunnels: Vec<Tunnel>,
    /// How long a drain waits for flows to end before it cuts them with RST; `None` waits without bound.
    pub drain_timeout: Option<Duration>,
}

/// A listener and where its connections go.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// What logs and metrics call it.
    pub name: String,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its next hops, at least one.
    pub to: Vec<NextHop>,
    /// Which of the next hops is dialled first.
    pub policy: &'static Policy,
    /// Who may connect; empty means everybody.
    pub allow: Vec<IpNet>,
    /// How many flows at once; further connections wait in the listen queue. `None` is as many as descriptors allow.
    pub max_flows: Option<usize>,
    /// How long one address may take to answer a dial.
    pub connect_timeout: Duration,
    /// The address to dial from; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// Whether bytes go through pipes with splice(2); false copies them through user space.
    pub splice: bool,
    /// Socket options of the accept leg.
    pub accept: LegOptions,
    /// Socket options of the dial leg.
    pub dial: LegOptions,
}

/// A host, by name or by address, and a port. A name is resolved again for each dial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The TCP port, 1 to 65535.
    pub port: u16,
}
