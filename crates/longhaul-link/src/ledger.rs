//! Payload that a link has delivered, by time: the maximum that any receiver behind it can have got in a given time.
//!
//! A receiver's own count may exceed that for a while: bytes that waited behind a lost segment, or in a relay, arrive at once
//! when the wait is over.

use std::time::Duration;

/// Payload bytes delivered over time, noted in steps of [`STEP`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Moments, and what had been delivered by then.
    marks: Vec<(Duration, u64)>,
    /// The last packet and everything up to it.
    last: (Duration, u64),
}

impl Ledger {
    /// An empty ledger that begins at `start`.
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

    /// Bytes delivered so far.
    pub fn bytes(&self) -> u64 {
        self.last.1
    }

    /// The highest rate in bytes a second over any time of at least `length`; `None` for no time.
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

/// Short beside any time over which a speed is measured.
pub const STEP: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_steady_link_has_one_rate_over_every_time() {
        let mut ledger = Ledger::from(Duration::ZERO);
        (1..=3000).for_each(|at| ledger.note(MS * at, 1000));
        for length in [MS * 50, MS * 1000, MS * 2995] {
            let rate = ledger.fastest(length).unwrap();
            assert!((rate / 1e6 - 1.0).abs() < 1e-9, "{length:?}: {rate}");
        }
        assert_eq!((ledger.fastest(Duration::ZERO), ledger.bytes()), (None, 3_000_000));
        // Beyond the end nothing was delivered.
        assert_eq!(ledger.fastest(MS * 6000), Some(500_000.0));
    }

    #[test]
    fn the_fastest_time_is_found_and_no_shorter_one() {
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
