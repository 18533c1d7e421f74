//! State that flows share: permits, next hops, memory and pipes; and the keepalive of silent peers.
//!
//! Enters: requests of flows and listeners. Leaves: rights, next hops and empty pipes, each given back by its owner's drop.
//! May use: `caps`, `names`, `live` and what is below them. The files:
//!
//! ```text
//! legs              the two legs of one flow, and what its pumps share
//! shared            the Relay
//! tunnels           the list of tunnels that are served, and their views
//!   loop_guard      finds dials that would come back to this process
//!   loop_watch      finds flows that come back through another relay
//!   served_tunnel   a tunnel: its settings, and what is kept for it
//!     absence       the address of its listener that is gone
//!     hops          its next hops
//!     listening     its listening socket
//!     permits       its part of the permits for flows
//!     waiting       its clients that wait for one
//! listeners         the tasks that accept, and the sockets of systemd
//! budget            the bytes that blocked pumps hold
//! pool              empty pipes
//! probes            the probers, and the probes that are answered
//! silence           the sweep: keepalive and retransmission of silent peers
//! load              the use of these limits, for views
//! ```

mod absence;
mod budget;
pub(crate) mod hops;
pub(crate) mod legs;
pub(crate) mod listeners;
pub(crate) mod listening;
mod load;
mod loop_guard;
mod loop_watch;
pub(crate) mod permits;
pub(crate) mod pool;
pub(crate) mod probes;
pub(crate) mod served_tunnel;
pub(crate) mod shared;
pub(crate) mod silence;
pub(crate) mod tunnels;
mod waiting;

pub use load::{AddressLoad, Load, TunnelLoad};
pub use shared::Relay;
pub use tunnels::{TunnelView, Tunnels};
