//! A whole configuration: every tunnel of a file, and the settings of the process.

use crate::tunnel::Tunnel;
use ipnet::IpNet;
use longhaul_core::caps::Bandwidth;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The tunnels, in the order of the file. Names and listen addresses are unique.
    pub tunnels: Vec<Tunnel>,
    /// Maximum number of flows of all tunnels; further connections wait in the listen queue. With `None` the limit on open
    /// files decides.
    pub max_flows: Option<usize>,
    /// Time that flows have to end by themselves in a drain before they are reset; `None` means no limit.
    pub drain_timeout: Option<Duration>,
    /// Time between a command to drain and the end of listening.
    pub drain_grace: Duration,
    /// Cap of all flows of all tunnels together, for each direction.
    pub bandwidth: Bandwidth,
    /// How host names are resolved; `None` chooses by /etc/nsswitch.conf.
    pub resolver: Option<Resolver>,
    /// Where the process is controlled and watched.
    pub admin: Admin,
    /// Who may send probes.
    pub probe: Probe,
}

impl Config {
    /// Default of [`drain_grace`](Config::drain_grace). Load balancers and keepalived look every second or two, so they send
    /// no more connections by then.
    pub const DRAIN_GRACE: Duration = Duration::from_secs(5);
}

impl Default for Config {
    fn default() -> Config {
        Config {
            tunnels: Vec::new(),
            drain_timeout: None,
            drain_grace: Config::DRAIN_GRACE,
            max_flows: None,
            bandwidth: Bandwidth::default(),
            resolver: None,
            admin: Admin::default(),
            probe: Probe::default(),
        }
    }
}

/// A way to resolve host names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// Asks /etc/hosts and the nameservers of /etc/resolv.conf. Answers have a TTL.
    Dns,
    /// Asks getaddrinfo(3), and with it every source of /etc/nsswitch.conf. Answers have no TTL.
    System,
}

/// The values of `[admin]`: where the process is controlled and watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Absolute path of the control socket; `None` means the default path of the command.
    pub socket: Option<PathBuf>,
    /// Address of the read-only HTTP listener; `None` means that there is none.
    pub listen: Option<SocketAddr>,
    /// Names by which browsers and scrapers may call this machine, beside its own.
    pub hosts: Vec<String>,
}

/// The values of `[probe]`: who may send probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Absolute path of the file with the key that probers must prove; `None` asks for no proof.
    pub key_file: Option<PathBuf>,
    /// The clients that may measure the path to this relay without a proof of the key.
    pub measure_from: Vec<IpNet>,
}
