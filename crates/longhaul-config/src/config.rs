//! A whole configuration: every tunnel of a file, and the settings of the process.

use crate::tunnel::Tunnel;
use std::time::Duration;

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The tunnels, in the order of the file. Names and listen addresses are unique.
    pub tunnels: Vec<Tunnel>,
    /// Time that flows have to end by themselves in a drain before they are reset; `None` means no limit.
    pub drain_timeout: Option<Duration>,
    /// How host names are resolved; `None` chooses by /etc/nsswitch.conf.
    pub resolver: Option<Resolver>,
}

/// A way to resolve host names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// Asks /etc/hosts and the nameservers of /etc/resolv.conf. Answers have a TTL.
    Dns,
    /// Asks getaddrinfo(3), and with it every source of /etc/nsswitch.conf. Answers have no TTL.
    System,
}
