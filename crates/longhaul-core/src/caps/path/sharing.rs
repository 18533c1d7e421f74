//! How long a line is shared: the cap of the first seconds, and the tests whether another program is there.

use super::history::History;
use std::time::{Duration, Instant};

/// Returns the cap for the first seconds in which the line is shared, in bit/s: the legs `had` so much of it before, have seen `line` last and
/// `highest` at all. CUBIC takes half a minute to take back what they have yielded while that was found out. So each of the `legs` has what it
/// would have beside one more.
///
/// If they had much less than the highest rate, it was not all of the line, and they have a little less than now. The same holds if a fair
/// share is not much more than that: a relay may have taken the rest, which must have room.
pub(super) fn held_cap(had: f64, line: f64, highest: f64, legs: u32) -> f64 {
    let legs = f64::from(legs.max(1));
    let fair = had * legs / (legs + 1.0);
    match had > 0.0 && had >= HAD * highest {
        true if fair > MORE * line => fair,
        true => fair.min(BELOW * line),
        false => HELD_OF_LINE * line,
    }
}

/// Times at which nobody was found to fill the queue, in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubts {
    count: u32,
    last: Option<Instant>,
}

impl Doubts {
    /// Counts one more.
    pub(super) fn add(&mut self, now: Instant) {
        *self = Doubts { count: if self.are_recent(now) { self.count + 1 } else { 1 }, last: Some(now) };
    }

    /// Whether there were so many that another program must be there all the same: one that keeps the queue short itself.
    pub(super) fn are_many(&self, now: Instant) -> bool {
        self.count >= MANY_DOUBTS && self.are_recent(now)
    }

    fn are_recent(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < DOUBTS_WITHIN)
    }
}

/// Whether the round-trip time was `most` at most for the larger part of the end of [`HELD`].
pub(super) fn was_short(history: &History, most: Duration) -> bool {
    let (mut all, mut long) = (0, 0);
    for rtt in history.since(HELD_SHORT).filter_map(|seen| seen.rtt) {
        (all, long) = (all + 1, long + u32::from(rtt > most));
    }
    2 * long < all
}

/// Whether the queue was so long in the last seconds, above the round-trip time `base` of the path, that a loss does not empty it: CUBIC keeps
/// 0.7 of its window.
pub(super) fn was_long(history: &History, base: Option<Duration>) -> bool {
    let most = history.since(Duration::from_secs(3)).filter_map(|seen| seen.rtt).max();
    most.zip(base).is_some_and(|(most, base)| 2 * most >= 3 * base)
}

/// Returns the time after an attempt for which the queue must stay empty, if our legs send at `rate` then, and sent at `line` before. Below
/// their cap, they leave others room to grow without a queue.
pub(super) fn emptied_for(rate: f64, line: f64) -> Duration {
    if rate >= MOSTLY * BELOW * line { EMPTY } else { LONG_EMPTY }
}

/// Part of the rate before an attempt. If less is left of it beside the next queue, others have taken the rest.
pub(super) const TAKEN_AGAIN: f64 = 0.96;
/// Part of their cap that our legs must use for [`EMPTY`] to be enough.
const MOSTLY: f64 = 0.96;
/// Time for which the queue must stay empty if they do, and if they do not.
const EMPTY: Duration = Duration::from_secs(2);
const LONG_EMPTY: Duration = Duration::from_secs(4);
/// Time for which the legs hold their share by a cap.
pub(super) const HELD: Duration = Duration::from_secs(6);
/// Part of it at its end that shows whether somebody else fills the queue.
const HELD_SHORT: Duration = Duration::from_secs(4);
/// Number of doubts in a row, and the time from one to the next.
const MANY_DOUBTS: u32 = 3;
const DOUBTS_WITHIN: Duration = Duration::from_secs(30);
/// Part of the highest rate that the legs must have had for it to be all of the line.
const HAD: f64 = 0.7;
/// Multiple of what they have now that a fair share must be for them to take it back.
const MORE: f64 = 1.1;
/// Cap as a part of the line's rate.
pub(super) const BELOW: f64 = 0.98;
/// Part of what they have now that they hold otherwise. Two relays must have less than the line together.
const HELD_OF_LINE: f64 = 0.75;
/// Time from sharing to the first attempt to empty the queue, and from each attempt to the next one.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(30);
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_always_keeps_something() {
        assert_eq!(held_cap(100.0, 50.0, 100.0, 8), 100.0 * 8.0 / 9.0, "a fair share beside one more");
        assert_eq!(held_cap(100.0, 88.0, 100.0, 8), 0.98 * 88.0, "a fair share is little more");
        assert_eq!(held_cap(60.0, 50.0, 100.0, 8), 37.5, "it was not all of the line");
        assert_eq!(held_cap(100.0, 80.0, 100.0, 0), 50.0, "no leg waits at this look");
    }

    #[test]
    fn three_doubts_in_a_row_are_many() {
        let (mut doubts, start) = (Doubts::default(), Instant::now());
        for second in [0, 40, 60, 80] {
            assert!(!doubts.are_many(start + Duration::from_secs(second)));
            doubts.add(start + Duration::from_secs(second));
        }
        assert!(
            doubts.are_many(start + Duration::from_secs(100)) && !doubts.are_many(start + Duration::from_secs(111))
        );
    }
}
