//! From a listening socket to a client that may have a flow.
//!
//! Enters: a listening socket, and the list of tunnels. Leaves: a [`Flow`](crate::live::flow::Flow) in the registry and its
//! accepted connection, for `flow`; or a reset, for a client that is not allowed or for which there is no room.
//! May use: `flow` and what is below it.

pub(crate) mod listener;
mod opening;
mod source_limits;
