//! A whole configuration: every tunnel of a file, and the settings of the process.

use crate::tunnel::Tunnel;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The tunnels, in the order of the file. Names and listen addresses are unique.
    pub tunnels: Vec<Tunnel>,
    /// Time that flows have to end by themselves in a drain before they are reset; `None` means no limit.
    pub drain_timeout: Option<Duration>,
    /// Where the process is controlled and watched.
    pub admin: Admin,
}

/// The values of `[admin]`: where the process is controlled and watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Absolute path of the control socket; `None` means the default path of the command.
    pub socket: Option<PathBuf>,
    /// Address of the read-only HTTP listener; `None` means that there is none.
    pub listen: Option<SocketAddr>,
}
