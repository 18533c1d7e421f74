//! The decisions of longhaul, and nothing else: no I/O, no clock, no async. `now` and randomness come in as arguments, so every
//! decision is tested in virtual time.
//!
//! In the order of a byte's way: [`permits`] decides whether a tunnel may have another flow, [`next_hop`] which address is
//! dialled first, [`pump`] what one direction of a flow does next, [`low_water`] how many bytes it waits for, and [`path`] what a
//! leg's path needs and what limited it.

#![forbid(unsafe_code)]

pub mod low_water;
pub mod next_hop;
pub mod path;
pub mod permits;
pub mod pump;
