//! `longhaul verify`: goes through a tunnel as a client, and finds out how far its bytes come.
//!
//! Enters: a plan: the address to go to, the key, how many bytes. Leaves: the findings, and as text, JSON or a line for Nagios.
//! May use: `leg` and what is below it.
//!
//! ```text
//! plan     the probe to make
//! prober   connects, sends the preface, reads the reports, sends bytes and compares the echo
//!   stream   the prober's connection
//!   pattern  the bytes of the payload
//! findings the stages of the path, and where it is broken
//! verdict  the findings as text, JSON and a line for Nagios
//! ```
//! docs/protocol.md describes the bytes.

mod findings;
mod pattern;
mod plan;
mod prober;
mod stream;
mod verdict;

pub use findings::{Echo, Findings, Relay};
pub use plan::{MIN_ECHO_BYTES, Plan};
pub use prober::run;
pub(crate) use prober::{run_announced, run_on};
pub use verdict::{Verified, json, nagios};
