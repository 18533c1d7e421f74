//! longhaul, the program: sockets, tasks, files, screens. What decides is in longhaul-core, what touches the kernel in
//! longhaul-sys; this crate joins the two under tokio.
//!
//! It is a library so that tests, benches and fuzz targets can reach it; nothing else depends on it.

#![forbid(unsafe_code)]

pub mod daemon;
pub mod relay;
