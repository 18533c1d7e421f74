//! One TCP connection: its options, what the kernel says of it, its end.
//!
//! Enters: a connected socket, and the options of its tunnel. Leaves: a [`Stream`](stream::Stream) that tokio watches; samples of
//! TCP_INFO; the first bytes, peeked; a wake-up when the peer closes.
//! May use: `lock`.

pub(crate) mod accept_loop;
pub(crate) mod closing;
pub(crate) mod hangups;
pub(crate) mod leg_state;
pub(crate) mod low_water;
pub(crate) mod peek;
pub(crate) mod race;
pub(crate) mod rto;
pub(crate) mod sample;
pub(crate) mod setup;
pub(crate) mod stream;
pub(crate) mod talk;

pub use leg_state::LegState;
