//! Payload that a link has delivered, by time. It bounds the bytes that any receiver behind the link can have got in a
//! given time.
//!
//! A receiver's own rate may exceed the bound for a while: bytes that waited behind a lost segment, or in a relay, arrive
//! all at once when the wait is over.

use std::time::Duration;

/// Payload bytes delivered over time, noted in steps of [`STEP`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Times, each with the bytes delivered by then.
    marks: Vec<(Duration, u64)>,
    /// Time of the last packet, and the bytes delivered by then.
    last: (Duration, u64),
}

impl Ledger {
    /// Returns an empty ledger that begins at `start`.
    pub fn from(start: Duration) -> Ledger {
        Ledger { marks: vec![(start, 0)], last: (start, 0) }
    }

    /// Adds a packet with `payload` bytes that left the link at `at`; times must not decrease.
    pub fn note(&mut self, at: Duration, payload: u64) {
        self.last = (at, self.last.1 + payload);
        let is_due = self.marks.last().is_none_or(|(before, _)| at.saturating_sub(*before) >= STEP);
        if is_due {
            self.marks.push(self.last);
        }
    }

    /// Returns the bytes delivered so far.
    pub fn bytes(&self) -> u64 {
        self.last.1
    }

    /// Returns the highest rate in bytes a second over any interval of at least `length`; `None` if `length` is zero.
    pub fn fastest(&self, length: Duration) -> Option<f64> {
        let marks: Vec<(Duration, u64)> = self.marks.iter().chain([&self.last]).copied().collect();
        let mut end = 0;
        let rate = |&(from, before): &(Duration, u64)| {
            while end + 1 < marks.len() && marks[end].0.saturating_sub(from) < length {
                end += 1;
            }
            let (to, bytes) = marks[end];
            (bytes - before) as f64 / to.saturating_sub(from).max(length).as_secs_f64()
        };
        (!length.is_zero()).then(|| marks.iter().map(rate).fold(0.0, f64::max))
    }
}

/// Resolution of a [`Ledger`]: short compared with any interval over which a speed is measured.
pub const STEP: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_steady_link_has_the_same_rate_over_every_interval() {
        let mut ledger = Ledger::from(Duration::ZERO);
        (1..=3000).for_each(|at| ledger.note(MS * at, 1000));
        for length in [MS * 50, MS * 1000, MS * 2995] {
            let rate = ledger.fastest(length).unwrap();
            assert!((rate / 1e6 - 1.0).abs() < 1e-9, "{length:?}: {rate}");
        }
        assert_eq!((ledger.fastest(Duration::ZERO), ledger.bytes()), (None, 3_000_000));
        // The interval is longer than the transfer: nothing was delivered after its end.
        assert_eq!(ledger.fastest(MS * 6000), Some(500_000.0));
    }

    #[test]
    fn the_fastest_interval_is_found_and_is_not_too_short() {
        let mut ledger = Ledger::from(Duration::ZERO);
        (1..=1000).for_each(|at| ledger.note(MS * at, if (400..600).contains(&at) { 5000 } else { 1000 }));
        let over = |length: u32| ledger.fastest(MS * length).unwrap() / 1e6;
        assert!(over(150) > 4.8 && (over(400) - 3.0).abs() < 0.1 && (over(999) - 1.8).abs() < 0.01);
    }

    #[test]
    fn an_empty_ledger_has_no_speed() {
        assert_eq!(Ledger::default().fastest(MS), Some(0.0));
        assert_eq!(Ledger::from(MS * 5).fastest(MS), Some(0.0));
    }
}
