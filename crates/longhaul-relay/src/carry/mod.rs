//! Moves the bytes of a flow between its two connections, until both directions have ended.
//!
//! Enters: two connected [`Legs`](crate::state::legs::Legs), and the number of bytes that passed while dialling. Leaves: why the flow
//! ended, as a [`How`](crate::live::how::How), and the log line of its end.
//! May use: `probe` and what is below it.

mod buffer;
mod direction;
pub(crate) mod end;
mod first_bytes;
pub(crate) mod join;
