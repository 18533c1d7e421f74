//! Decides which full sinks are sampled. A sample is a system call, and a sink of bulk is full thousands of times a
//! second.

use super::auto_congestion::AutoCongestion;
use super::sample::MIN_ACKED_BYTES;

/// Counts how often the sink of one pump was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullSinks(u32);

impl FullSinks {
    /// Returns the count of a sink that was never full.
    pub const fn new() -> FullSinks {
        FullSinks(0)
    }

    /// Whether a sink that has taken `moved` bytes carries enough for its samples to mean something.
    pub const fn are_worth_a_look(moved: u64) -> bool {
        moved >= MIN_ACKED_BYTES
    }

    /// Counts a full sink. Returns whether to sample it: always while the `choice` of its congestion control is open,
    /// and then one time in eight.
    pub fn is_next_due(&mut self, choice: &AutoCongestion) -> bool {
        self.0 = self.0.wrapping_add(1);
        !choice.is_settled() || self.0 % PERIOD == 0
    }
}

/// One look in so many is sample enough for the finding about a small send buffer.
const PERIOD: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_full_sink_is_sampled_until_the_choice_is_made_and_then_one_in_eight() {
        let mut sinks = FullSinks::new();
        let mut looks = |choice, count| (0..count).filter(|_| sinks.is_next_due(&choice)).count();
        assert_eq!(looks(AutoCongestion::open(), 100), 100);
        assert_eq!(looks(AutoCongestion::settled(), 800), 100);
        assert!(!FullSinks::are_worth_a_look(MIN_ACKED_BYTES - 1) && FullSinks::are_worth_a_look(MIN_ACKED_BYTES));
    }

    #[test]
    fn the_count_wraps() {
        assert!(FullSinks(u32::MAX).is_next_due(&AutoCongestion::settled()));
    }
}
