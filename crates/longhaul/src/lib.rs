//! longhaul, the program around the relay: daemon, control socket, command line, screens. Each folder uses only those below it:
//!
//! ```text
//! cli        the command line; in the program alone
//! daemon     starts and stops the process, obeys commands
//! top        the full screen of `longhaul top`
//! admin      the control socket and the HTTP listener; every view's Snapshot
//! resources  the use of this machine against its limits
//! control    the commands to the daemon, each with its reply
//! figures    numbers as texts
//! time       times as the Snapshot has them
//! ```
//!
//! It is a library so that tests can use it. Nothing else depends on it.

#![forbid(unsafe_code)]

pub mod admin;
pub mod control;
pub mod daemon;
pub mod figures;
#[cfg(test)]
#[path = "../../../interface/check.rs"]
mod interface;
mod resources;
mod time;
pub mod top;
