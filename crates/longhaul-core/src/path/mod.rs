//! Decisions about the path of one leg, from what the kernel reports.
//!
//! [`Sample`] is one look at the leg. From samples, [`AutoCongestion`] decides whether the leg gets BBR. [`limit`] tells what limits
//! the leg at the moment of one look, [`diagnosis`] what limits a flow over some seconds, and [`measured`] what limits a measured path.
//! [`gain`] tells what the relays are worth for a flow. [`laws`] has the arithmetic of a path,
//! before a packet is sent.

mod auto_congestion;
pub mod diagnosis;
pub mod gain;
pub mod laws;
pub mod limit;
pub mod measured;
mod sample;

pub use auto_congestion::{AutoCongestion, BBR, CUBIC, RENO, Start, first_controls};
pub use sample::{MIN_ACKED_BYTES, Sample, WAN_RTT, is_answered_late};
