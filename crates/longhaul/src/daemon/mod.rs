//! The process around the tunnels:
//!
//! ```text
//! start        descriptors, threads, signals, tunnels
//!   descriptors  how many flows and pipes may have
//!   signals      SIGHUP, SIGUSR1, SIGTERM as commands
//! control      the commands, each with its reply
//! serve        obeys commands
//!   tunnels      what is served, and how it becomes something else
//!   reload       reads the file again
//!   log          what is wrong with the file
//! drain        ends with the last flow
//! status       the line that `systemctl status` shows
//! notify       messages to systemd
//! error        why the daemon ended
//! ```

mod control;
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
mod tunnels;

pub use control::{Control, NotReloaded, Phase, Reloaded, Status};
pub use error::DaemonError;
pub use log::log;
pub use start::run;
