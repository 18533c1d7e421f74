//! From a listening socket to a client that may have a flow.
//!
//! Enters: a listening socket, and the tunnel's part of the configuration. Leaves: a [`Flow`](crate::live::flow::Flow) in the
//! registry and its accepted connection, for `flow`; or a reset, for a client that is not allowed or for which there is no room.
//! May use: every folder.

mod activated;
pub(crate) mod listener;
mod opening;
mod source_limits;

pub use activated::Activated;
pub use listener::{BindError, Handle, Listener, Serving};
