//! Counts the bytes that pumps hold while they wait for their sinks, in pipes and on the heap together.
//! [`longhaul_core::budget`] decides how much a pump may read meanwhile.

use longhaul_core::budget::max_fill;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of bytes that wait for their sinks, over all pumps.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    /// Returns the number of bytes that a pump may read at once.
    pub(crate) fn fill(&self) -> usize {
        max_fill(self.0.load(Relaxed))
    }

    /// Counts a pump that waits and holds `now` bytes, after `before` bytes at the last call.
    pub(crate) fn hold(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add(now - before, Relaxed);
        } else if now < before {
            self.0.fetch_sub(before - now, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_a_sink_has_taken_are_free_again() {
        let budget = Budget::default();
        let (all, held) = (budget.fill(), longhaul_core::budget::MAX_HELD);
        budget.hold(0, held);
        assert!(budget.fill() < all);
        budget.hold(held, held / 2);
        budget.hold(held / 2, 0);
        assert_eq!(budget.fill(), all);
    }
}
