//! How a flow finds a next hop.

mod fast_open;
mod hops;
