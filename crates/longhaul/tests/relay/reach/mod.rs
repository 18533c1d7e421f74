//! Tests how a flow reaches a next hop.

mod fast_open;
mod hops;
