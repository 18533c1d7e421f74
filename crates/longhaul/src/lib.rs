//! longhaul, the program: sockets, tasks, files and screens. It joins longhaul-core, which decides, and longhaul-sys,
//! which calls the kernel, under tokio.
//!
//! It is a library so that tests, benches and fuzz targets can use it. Nothing else depends on it.

#![forbid(unsafe_code)]

pub mod admin;
pub mod daemon;
pub mod figures;
mod random;
pub mod relay;
mod resources;
pub mod top;
pub mod verify;
