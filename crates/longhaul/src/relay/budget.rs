//! Bounds the bytes that pumps hold while they wait for their sinks, in pipes and on the heap together.
//!
//! Bytes that were read can only go to the sink, so the bound applies to reads: the more bytes wait, the less a pump
//! reads at once. Ten thousand stalled readers hold at most [`MAX_HELD`] plus [`MIN_FILL`] each.

use super::pool::BULK;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of bytes that wait for their sinks, over all pumps.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    /// Returns the number of bytes that a pump may read at once.
    pub(super) fn fill(&self) -> usize {
        (MAX_HELD.saturating_sub(self.0.load(Relaxed)) / PARTS).clamp(MIN_FILL, BULK)
    }

    /// Counts a pump that waits and holds `now` bytes, after `before` bytes at the last call.
    pub(super) fn hold(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add(now - before, Relaxed);
        } else if now < before {
            self.0.fetch_sub(before - now, Relaxed);
        }
    }
}

/// Number of waiting bytes at which fills shrink to [`MIN_FILL`]. 64 bulk flows fill their pipes with so many.
const MAX_HELD: usize = 64 << 20;

/// One fill takes at most 1/`PARTS` of the unused part of [`MAX_HELD`]. With 16, pipes are filled whole until three
/// quarters are in use.
const PARTS: usize = 16;

/// Number of bytes that a pump may always read at once. With so many, splice still saves more than its calls cost.
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
