//! The figures of the Snapshot. A row of the tables is the whole figure: its value, its name, and its place in each view.
//!
//! ```text
//! figure   what a row has
//! tables   the figures of flows, legs, next hops and tunnels
//! ```
//! `top`, `status` and the dashboard draw these tables, and `/metrics` has those of next hops and of the counters.

mod figure;
mod tables;

pub use figure::{Figure, PageColumn, SortKey, StatusColumn, TopColumn, Unit, Width};
pub use tables::{FLOWS, HOPS, LEGS, TUNNELS, hop_state, of_leg, saved, tunnel_state, verify_state};
