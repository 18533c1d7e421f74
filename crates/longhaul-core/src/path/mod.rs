//! Decisions about the path of one leg, from what the kernel reports.
//!
//! [`Sample`] is one look at the leg. From samples, [`AutoCongestion`] decides whether the leg gets BBR. [`limit`] tells what limits
//! the leg at the moment of one look, and [`diagnosis`] what limits a flow over some seconds. [`gain`] tells what the
//! relays are worth for it. [`laws`] has the arithmetic of a path,
//! before a packet is sent.

mod auto_congestion;
pub mod diagnosis;
pub mod gain;
pub mod laws;
pub mod limit;
mod sample;

pub use auto_congestion::{AutoCongestion, BBR, CUBIC, RENO, Start, first_controls};
pub use sample::{MIN_ACKED_BYTES, Sample, WAN_RTT, is_answered_late};
