//! The decisions of longhaul: no I/O, no clock, no async. `now` and randomness are arguments, so every decision is
//! tested in virtual time.
//!
//! In the order in which a byte passes them: [`permits`] decides whether a tunnel may have another flow. [`next_hop`]
//! decides which address is dialled first, and [`names`] how long the addresses of a name serve. [`pump`] decides what
//! one direction of a flow does next, and [`low_water`] how many bytes it waits for. [`budget`] bounds what it reads
//! while other pumps wait for their sinks. [`path`] decides what a leg's path needs, and finds what limited it.
//! [`silence`] decides when a silent peer is probed, [`stall`] when a flow has made no progress for too long, and
//! [`closing`] when a leg that ends is looked at.

#![forbid(unsafe_code)]

pub mod budget;
pub mod closing;
pub mod low_water;
pub mod names;
pub mod next_hop;
pub mod path;
pub mod permits;
pub mod pump;
pub mod silence;
pub mod stall;
