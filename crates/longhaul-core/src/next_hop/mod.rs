//! The choice among a tunnel's next hops.
//!
//! ```text
//! policy        which hop is dialled first; each policy is one file beside it and one row of POLICIES
//! availability  whether a hop may be dialled: ejection after failed dials, gentle return, active checks
//! group         the state of a tunnel's hops; orders them for a dial
//! hash          the hash that identifies a hop, and that `source-hash` decides by
//! ```

mod availability;
mod group;
mod hash;
mod in_order;
mod least_flows;
mod least_rtt;
mod policy;
mod round_robin;
mod source_hash;

pub use availability::{
    Availability, Change, EJECT_AFTER, FIRST_PAUSE, HopView, LONGEST_PAUSE, Resets, SLOW_START, Thresholds,
};
pub use group::{Group, Member};
pub use hash::HopKey;
pub use policy::{Choice, Load, Policy};

/// Every policy; the first is the default.
pub static POLICIES: &[Policy] =
    &[in_order::POLICY, round_robin::POLICY, least_flows::POLICY, least_rtt::POLICY, source_hash::POLICY];

#[cfg(test)]
mod tests;
