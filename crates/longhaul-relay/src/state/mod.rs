//! State that flows share: permits, next hops, memory and pipes; and the keepalive of silent peers.
//!
//! Enters: requests of flows and listeners. Leaves: rights, next hops and empty pipes, each given back by its owner's drop.
//! [`Tunnels`] has the list of tunnels that are served, each a `ServedTunnel`. [`Relay`] joins it with the rest; `legs` is one
//! flow's part of it.
//! May use: `caps`, `names`, `live` and what is below them.

mod absence;
mod budget;
pub(crate) mod hops;
pub(crate) mod legs;
pub(crate) mod listeners;
pub(crate) mod listening;
mod load;
mod loop_guard;
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
