//! From a path, or a paste of a host's settings, to the exact change and what it will give.
//!
//! Each folder uses only those below it:
//!
//! ```text
//! tune      a subcommand
//! advise    a subcommand
//! audit     a subcommand
//! measure   a subcommand
//! responder a subcommand
//! page      one HTML file, with its style and its charts
//! first     what lifts the first limit of a measured path
//! predict   the rates of a path with hosts as they are, with tuned hosts, and with a relay
//! path      the flags of a path, and the file of a measured one
//! show      numbers and sentences for people
//! say       stdout, stderr and exit codes
//! ```

#![forbid(unsafe_code)]

mod advise;
mod audit;
mod first;
#[cfg(test)]
mod hosts_manual;
#[cfg(test)]
#[path = "../../../interface/check.rs"]
mod interface;
mod measure;
pub mod page;
mod path;
mod predict;
mod responder;
mod say;
mod show;
mod tune;

pub use advise::Advise;
pub use audit::{Audit, Reports, audit_text};
pub use measure::Measure;
pub use path::{Limited, Measured, read_measured};
pub use responder::Responder;
pub use tune::Tune;
