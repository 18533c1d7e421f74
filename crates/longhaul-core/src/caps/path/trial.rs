//! Losses without a queue, and the trial with a lower rate.

use super::cap::{FOUND_BOOST, PathCap, RECENT, SECOND, USED, USED_BY_MOST};
use super::losses::{LASTING, Losses, Verdict};
use super::phase::Phase;
use super::sharing::BELOW;
use std::time::{Duration, Instant};

impl PathCap {
    /// Looks for losses while the queue has been short `for_time`: a policer, or a bad line. A start that loses much needs no second of looks.
    pub(super) fn watch_losses(&mut self, now: Instant, for_time: Duration) {
        if !matches!(self.phase, Phase::Searching | Phase::Resting { .. } | Phase::Raising { .. }) {
            return;
        }
        let is_heavy = self.cap.is_none() && Losses::are_heavy(&self.history);
        // Losses of a full queue are told a round trip later.
        let needed = if is_heavy { 3 * self.rtt() } else { SECOND + 2 * self.rtt() };
        if for_time < needed {
            return;
        }
        let Some(loss) = self.losses.suspect(&self.history, is_heavy) else { return };
        let before = self.cap;
        // While a start grows, what passes is not yet seen.
        if !self.is_wanted() || before.is_none() && self.history.grows() {
            return;
        }
        let lately = if is_heavy { RECENT } else { LASTING };
        let (mut rate, passes) = (self.history.rate_over(lately), 1.0 - self.history.loss(lately));
        // Losses of traffic that does not use the cap say nothing about it.
        if rate <= 0.0 || before.is_some_and(|cap| rate < USED_BY_MOST * passes * cap) {
            return;
        }
        // The look before may have found the policer's bucket full. With a much lower rate, the last look is a disturbed one.
        let last = self.history.last_rate();
        if is_heavy && last > MUCH_LOWER * rate {
            rate = rate.min(last);
        }
        // A loss makes a sender slower for a while, and then the rate is less than what would pass.
        self.line = before.map_or(rate, |cap| self.history.rate_over(2 * SECOND).max(rate).min(passes * cap));
        self.cap = Some(before.unwrap_or(f64::INFINITY).min((BELOW * self.line).max(self.floor())));
        self.phase = Phase::Losing { loss, before, until: now + (2 * SECOND).max(6 * self.rtt()) };
    }

    /// Ends the trial.
    pub(super) fn lose(&mut self, now: Instant, loss: f64, before: Option<f64>) {
        // A cap that nobody has used has shown nothing.
        let rate = self.history.rate_over(SECOND);
        if !self.is_wanted() || rate <= 0.0 {
            return self.forgive(now, before);
        }
        // The rate of a start may have been too high. If the cap was used, what has passed is what passes.
        let sent = rate / (1.0 - self.history.loss(SECOND));
        if before.is_none() && self.cap.is_some_and(|cap| sent >= USED * cap) {
            self.line = self.line.min(rate / BELOW);
        }
        match self.losses.judge(&self.history, loss, self.line, before) {
            Verdict::Policer if before.is_some() => self.rest(now, POLICED_REST),
            Verdict::Policer => {
                self.boost = FOUND_BOOST / 2.0;
                self.rest(now, SECOND);
            }
            Verdict::NoPolicer(rate) => {
                self.line = rate;
                self.rest(now, SECOND);
            }
            Verdict::Random => self.forgive(now, before),
        }
    }

    /// Ends a look for a policer that has found none. The cap is as `before`.
    pub(super) fn forgive(&mut self, now: Instant, before: Option<f64>) {
        self.cap = before;
        self.phase = match before {
            Some(_) => Phase::Resting { until: now + SECOND },
            None => Phase::Searching,
        };
    }
}

/// Part of the rate of two looks below which that of the last one is of a disturbed look, at a start.
const MUCH_LOWER: f64 = 0.7;
/// Time below a policer before the first step.
const POLICED_REST: Duration = Duration::from_secs(5);
