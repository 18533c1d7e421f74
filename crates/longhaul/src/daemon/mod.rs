//! The process around the tunnels:
//!
//! ```text
//! start        descriptors, threads, signals, tunnels
//!   descriptors  number of descriptors for flows and pipes
//!   signals      SIGHUP, SIGUSR1, SIGTERM as commands
//! serve        obeys commands until the last flow has ended or is cut
//!   reload       reads the file again
//!   log          writes messages of the configuration to the log
//! drain        a drain, which a command or a stop begins
//! status       the line that `systemctl status` shows
//! notify       messages to systemd
//! error        why the daemon ended
//! ```

mod descriptors;
mod drain;
mod error;
mod log;
mod notify;
mod reload;
mod serve;
mod signals;
mod start;
mod status;

pub use error::DaemonError;
pub use log::log;
pub use start::run;
