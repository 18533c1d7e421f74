//! The line is shared with another program, and whether that is still there.

use super::cap::{PathCap, RECENT, SECOND};
use super::phase::{Declines, Phase};
use super::sharing::{BELOW, FIRST_PATIENCE, HELD, LAST_PATIENCE, TAKEN_AGAIN, emptied_for, held_cap, was_short};
use std::time::{Duration, Instant};

impl PathCap {
    /// The queue is empty while the line is shared. Our legs had `rate` of it.
    pub(super) fn emptied(&mut self, now: Instant, rate: f64) {
        (self.line, self.steady) = (rate, None);
        self.cap = Some((BELOW * rate).max(self.floor()));
        self.phase = Phase::Emptied { at: now };
    }

    /// An attempt has emptied the queue, which is easy beside few other flows: it takes them a while to fill it again. If they take a part of
    /// our rate then, the line is shared as before.
    pub(super) fn see_others(&mut self, now: Instant, emptied: Instant, is_long: bool) {
        let waited = now.saturating_duration_since(emptied);
        // Until then, the acknowledgements tell of the attempt.
        if waited < self.rtt() + RECENT {
            return;
        }
        if is_long && self.is_wanted() && self.history.rate_over(RECENT) < TAKEN_AGAIN * self.line {
            return self.share(now, None);
        }
        if is_long || waited >= emptied_for(self.history.rate_over(SECOND), self.line) {
            self.patience = FIRST_PATIENCE;
            self.rest(now, Duration::ZERO);
        }
    }

    /// Shares the line with another program. Our legs `had` so much of it before, and have a cap first. `None`: the line was shared before,
    /// and they have none.
    pub(super) fn share(&mut self, now: Instant, had: Option<f64>) {
        let is_doubted = self.doubts.are_many(now);
        let held = had.filter(|_| !is_doubted).map(|had| held_cap(had, self.line, self.highest, self.last.rivals));
        self.cap = held.map(|cap| cap.max(self.floor()));
        // The background has nothing to lose by an attempt.
        let until = now + if self.is_background { SECOND } else { self.patience };
        self.phase = Phase::Sharing { until, held: now + HELD };
        self.patience = LAST_PATIENCE;
        self.declines = Declines::default();
        self.hurried_raises = 0;
    }

    /// Ends the time in which our legs have held their share. If the queue was short meanwhile, nobody fills it: another relay has taken its
    /// part of the line, or the other program has ended.
    pub(super) fn share_or_not(&mut self, now: Instant, short: Duration) {
        let is_short = was_short(&self.history, self.base.rtt.unwrap_or_default() + short);
        match self.cap.filter(|_| is_short) {
            Some(cap) => {
                self.doubts.add(now);
                (self.line, self.patience) = (cap / BELOW, FIRST_PATIENCE);
                self.rest(now, SECOND);
            }
            None => self.cap = None,
        }
    }
}
