//! Where longhaul touches the kernel, and the only crate with `unsafe`. Every function is one system call or a few that
//! belong together; none decides anything.
//!
//! [`splice`] moves bytes, [`sockopt`] is the table of socket options, [`tcp_info`] reads what the kernel knows of a
//! connection, [`limits`] reads what a process may have. Every failure is a [`SysError`]: the call, its argument, the
//! errno and a hint.

#![warn(missing_docs)]

mod error;
pub mod sockopt;

pub use error::{Result, SysError};
