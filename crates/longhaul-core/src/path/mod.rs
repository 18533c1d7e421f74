//! Decisions about the path of one leg, from what the kernel reports.
//!
//! [`Sample`] is one look at the leg, and [`FullSinks`] decides when to take one. From samples, [`AutoCongestion`]
//! decides whether the leg gets BBR, and [`findings`] tells what limited it: a buffer, or the path itself. [`limit`] tells
//! what limits it at the moment of one look. [`laws`] has the arithmetic of a path, before a packet is sent.

mod auto_congestion;
pub mod findings;
mod full_sinks;
pub mod laws;
pub mod limit;
mod sample;

pub use auto_congestion::{AutoCongestion, BBR, CUBIC, RENO, Start, first_controls};
pub use full_sinks::FullSinks;
pub use sample::{MIN_ACKED_BYTES, Sample, WAN_RTT};
