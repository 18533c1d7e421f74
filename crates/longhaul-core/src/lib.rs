//! The decisions of longhaul: no I/O, no clock, no async. `now` and randomness are arguments, so every decision is
//! tested in virtual time.
//!
//! In the order in which a byte passes them: [`permits`] decides whether a tunnel may have another flow. [`next_hop`]
//! decides which address is dialled first. [`pump`] decides what one direction of a flow does next, and [`low_water`]
//! how many bytes it waits for. [`path`] decides what a leg's path needs, and finds what limited it.

#![forbid(unsafe_code)]

pub mod low_water;
pub mod next_hop;
pub mod path;
pub mod permits;
pub mod pump;
