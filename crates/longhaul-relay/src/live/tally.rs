//! Bytes of a flow, both ways.

use std::ops::AddAssign;

/// Number of bytes that a flow carried. A byte counts when the sink's socket has taken it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// From the accept leg to the dial leg.
    pub up: u64,
    /// From the dial leg to the accept leg.
    pub down: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.up += more.up;
        self.down += more.down;
    }
}
