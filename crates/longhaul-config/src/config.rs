//! A whole configuration: every tunnel of a file, and the settings of the process.

use crate::tunnel::Tunnel;
use longhaul_core::caps::Bandwidth;
use std::time::Duration;

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The tunnels, in the order of the file. Names and listen addresses are unique.
    pub tunnels: Vec<Tunnel>,
    /// Time that flows have to end by themselves in a drain before they are reset; `None` means no limit.
    pub drain_timeout: Option<Duration>,
    /// Cap of all flows of all tunnels together, for each direction.
    pub bandwidth: Bandwidth,
}
