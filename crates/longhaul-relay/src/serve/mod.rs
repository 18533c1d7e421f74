//! From a configuration to the tunnels that are served.
//!
//! Enters: a configuration, and the sockets from systemd. Leaves: a listener for each tunnel in a task of `accept`, and the tasks
//! that check next hops and probe tunnels; or a refusal, and then nothing has changed.
//! May use: every folder.
//!
//! ```text
//! apply        carries out the plan of longhaul_core::reload
//!   open       the listening socket of a tunnel
//!   activated  the sockets that systemd has opened
//! ```

mod activated;
mod apply;
mod open;

pub use apply::{Applied, Refused};
pub use open::BindError;
