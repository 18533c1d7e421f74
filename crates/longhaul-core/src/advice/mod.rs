//! What longhaul knows of hosts, encapsulations and applications: tables, one row for each.
//!
//! - [`SYSTEMS`]: the operating systems, each with its window, its congestion control and its [`Setting`]s;
//! - [`ENCAPSULATIONS`]: the encapsulations that a path may have, with the bytes of each;
//! - [`APPLICATIONS`]: the programs that may have a window of their own;
//! - [`Remedy`]: the remedy for each limit of a measured path.
//!
//! A row that was not tried on such a host has `verified: false`, and every output says `unverified`. [`Goal`] is what a
//! path needs; a setting's `want` turns it into a value.

mod application;
mod encapsulation;
mod goal;
mod remedy;
mod setting;
mod system;
mod systems;

pub use application::{APPLICATIONS, Application};
pub use encapsulation::{ENCAPSULATIONS, Encapsulation};
pub use goal::Goal;
pub use remedy::{End, Remedy};
pub use setting::{Effect, Elsewhere, Fill, Fit, Setting};
pub use system::{EVERY_HOST, System};
pub use systems::{LINUX, SYSTEMS};
