//! State that flows share: permits, next hops, memory and pipes; and the keepalive of silent peers.
//!
//! Enters: requests of flows and listeners. Leaves: rights, next hops and empty pipes, each given back by its owner's drop.
//! [`Relay`] joins them; `legs` is one flow's part of it.
//! May use: `caps`, `names`, `live` and what is below them.

mod budget;
pub(crate) mod hops;
pub(crate) mod legs;
mod listen_addresses;
mod load;
mod loop_guard;
pub(crate) mod permits;
pub(crate) mod pool;
mod probe_key;
pub(crate) mod probes;
mod queue;
pub(crate) mod served_tunnel;
pub(crate) mod shared;
mod silence;
mod views;

pub use load::{AddressLoad, Load, TunnelLoad};
pub use served_tunnel::ServedTunnel;
pub use shared::Relay;
pub use views::{GroupView, HopsView};
