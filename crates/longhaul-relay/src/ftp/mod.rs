//! Flows that carry control connections of FTP. [`longhaul_core::ftp`] rewrites their lines; this module moves the bytes and
//! opens or dials each data connection.
//!
//! Enters: a carried control connection. Leaves: its rewritten bytes, and data connections, each a flow of its own.
//! May use: `carry` and what is below it.
//!
//! ```text
//! control          carries out what the session of a control connection asks for
//!   data           the data connections that the session asks for
//!     data_listener  admits one data connection, which `flow` then runs
//!     fetch          dials the server for a client that waits as well
//!     meeting        waits for both sides
//!     commands       holds the FIN of an upload until the server has the commands before it
//!     ports          finds a free port
//!     places         counts the data connections
//!     trouble        tells of those that were refused, or whose dial failed
//! ```
//! A data connection is a flow like any other, of a tunnel that is made for it: its next hop is the address that the other
//! side named. Its socket options are those of the control connection's legs.

mod commands;
mod control;
mod data;
mod data_listener;
mod fetch;
mod meeting;
mod places;
mod ports;
mod trouble;

pub(super) use control::run;
pub(super) use data_listener::NewFlow;
pub(super) use trouble::note_failed_dial;
