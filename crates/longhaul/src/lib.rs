//! longhaul, the program around the relay: daemon, control socket, command line, screens.
//!
//! It is a library so that tests, benches and fuzz targets can use it. Nothing else depends on it.

#![forbid(unsafe_code)]

pub mod admin;
pub mod daemon;
pub mod figures;
mod resources;
pub mod top;
