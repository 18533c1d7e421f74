//! Reads the configuration of a daemon: [`load`] turns a file into a [`Config`] with its [`Tunnel`]s.
//!
//! The modules in the order in which a file is read: `read.rs` walks the tables with [`document`]; a row of [`keys`] reads
//! one key; [`value`] parses one value; [`loops`] compares tunnels. A row of [`keys`] also holds the key's flag, default,
//! summary line, remarks and line in docs/configuration.md. Reading and checking a file
//! does not look at the machine: the same file gives the same answer everywhere. Only [`options`] calls the kernel: it sets an
//! option on a socket, reads it back, and reads /proc for the remedy of a refused one. [`key_file`] reads the key of probes.

#![forbid(unsafe_code)]

mod config;
pub mod document;
mod file;
pub mod key_file;
pub mod keys;
pub mod loops;
mod next_hop;
pub mod options;
mod read;
mod remark;
mod row;
pub mod suggest;
mod summary;
mod tunnel;
pub mod value;

pub use config::{Admin, Config, Probe, Resolver};
pub use document::{Message, Refused, Severity};
pub use file::{DEFAULT_PATH, Loaded, control_socket, load, load_from, parse};
pub use keys::{Remark, Syntax, daemon_remarks, remarks};
pub use next_hop::{Check, CheckBy, NextHop};
pub use summary::summary;
pub use tunnel::{Ftp, Protocol, Tunnel};
