//! Probes of a path: answers those of others, makes the daemon's own, answers measurements, and finds flows that come back.
//!
//! Enters: the first bytes of a flow, a flow that begins, or a tunnel whose path the daemon checks. Leaves: an answered probe, a preface
//! that is passed on to the next relay, the latest result of the daemon's own probe, a doubt that flows come back, or the connections of
//! a measurement through a tunnel.
//! May use: `reach` and what is below it.

pub(crate) mod answer;
pub(crate) mod loop_test;
pub(crate) mod measure;
mod proof;
pub(crate) mod through;
pub(crate) mod verifier;
