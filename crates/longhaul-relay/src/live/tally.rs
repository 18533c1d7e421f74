//! Bytes of a flow, both ways, and their rates.

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

/// Rates in both directions, in bits per second. `None` while they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// From the accept leg to the dial leg.
    pub up: Option<f64>,
    /// From the dial leg to the accept leg.
    pub down: Option<f64>,
}

impl Rates {
    /// Returns the rates at which the bytes grew from `before` to `after` in `seconds`.
    pub fn between(before: Tally, after: Tally, seconds: f64) -> Rates {
        let rate = |before: u64, after: u64| Some(after.saturating_sub(before) as f64 * 8.0 / seconds);
        Rates { up: rate(before.up, after.up), down: rate(before.down, after.down) }
    }

    /// Returns the sum of both directions.
    pub fn both(self) -> Option<f64> {
        Some(self.up? + self.down?)
    }
}
