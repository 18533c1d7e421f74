//! Decisions about the path of one leg, from what the kernel reports.
//!
//! [`Sample`] is one look at the leg. From samples, [`AutoCongestion`] decides whether the leg gets BBR, and
//! [`findings`] tells what limited it: a buffer, or the path itself.

mod auto_congestion;
pub mod findings;
mod sample;

pub use auto_congestion::{AutoCongestion, Start};
pub use sample::{MIN_ACKED_BYTES, Sample, WAN_RTT};
