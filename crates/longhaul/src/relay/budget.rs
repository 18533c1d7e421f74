//! The number of bytes that pumps may hold while they wait for their sinks, in pipes and on the heap together.
//!
//! Bytes that were read can go nowhere but to the sink. So the bound is on what is read: the more bytes wait, the less is
//! read at once. Ten thousand readers that stand still hold [`MAX_HELD`] and [`MIN_FILL`] for each, and no more.

use super::pool::BULK;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes of all pumps that wait for their sinks.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    /// Returns the number of bytes that a pump may read at once.
    pub(super) fn fill(&self) -> usize {
        (MAX_HELD.saturating_sub(self.0.load(Relaxed)) / PARTS).clamp(MIN_FILL, BULK)
    }

    /// A pump that held `before` bytes while it waited now holds `now`.
    pub(super) fn hold(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add(now - before, Relaxed);
        } else if now < before {
            self.0.fetch_sub(before - now, Relaxed);
        }
    }
}

/// Bytes that wait before fills are as small as they get: as much as 64 bulk flows take to fill their pipes.
const MAX_HELD: usize = 64 << 20;

/// The largest part of what is left of [`MAX_HELD`] that one fill takes is one in so many: full pipes until three quarters are
/// in use.
const PARTS: usize = 16;

/// Bytes that a pump may always read at once. Splice is still worth its calls with so many.
const MIN_FILL: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_pumps_that_wait_hold_a_bounded_number_of_bytes() {
        const PUMPS: usize = 10_000;
        let budget = Budget::default();
        assert_eq!(budget.fill(), BULK);
        let held: Vec<usize> = std::iter::repeat_with(|| {
            let fill = budget.fill();
            budget.hold(0, fill);
            fill
        })
        .take(PUMPS)
        .collect();
        assert!(held.iter().sum::<usize>() <= MAX_HELD + PUMPS * MIN_FILL);
        assert_eq!(budget.fill(), MIN_FILL);
        held.into_iter().for_each(|held| budget.hold(held, 0));
        assert_eq!(budget.fill(), BULK);
    }
}
