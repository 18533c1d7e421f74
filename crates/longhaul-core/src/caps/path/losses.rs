//! Losses without a queue: which of them may come from a policer, and what is known of them.

use super::history::History;
use std::time::Duration;

/// The losses that a path has shown, and the policer that they point to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Losses that do not come from a full queue or a policer, as a share of the bytes.
    random: f64,
    /// The rate in bit/s that passed when a policer was found.
    policer: Option<f64>,
}

/// The result of a trial with a lower rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The losses come from a policer.
    Policer,
    /// They do not, although a policer of this rate was found before.
    NoPolicer(f64),
    /// They come from a bad line.
    Random,
}

impl Losses {
    /// Whether a policer is known.
    pub(super) fn has_policer(&self) -> bool {
        self.policer.is_some()
    }

    /// A queue shows that the line is no faster than `line`, whatever a policer passed before.
    pub(super) fn lower(&mut self, line: f64) {
        self.policer = self.policer.map(|rate| rate.min(line));
    }

    /// So much has passed. A policer that would not have let it through is forgotten.
    pub(super) fn pass(&mut self, rate: f64) {
        self.policer = self.policer.filter(|policer| ONE_RATE * rate <= *policer);
    }

    /// Whether a policer that is known seems to lose what is above its rate.
    pub(super) fn seem_policed(&self, history: &History) -> bool {
        self.has_policer() && history.loss(HEAVY_TIME) > POLICED_LOSS.max(2.0 * self.random)
    }

    /// Takes the losses of a look. Returns the share lost of the last second, if a policer may be the reason. That of a start `is_heavy`, and
    /// needs no second.
    pub(super) fn suspect(&mut self, history: &History, is_heavy: bool) -> Option<f64> {
        let ((_, retransmitted, elapsed), loss) = (history.over(SECOND), history.loss(SECOND));
        let free = if self.has_policer() { POLICED_LOSS } else { FREE_LOSS };
        self.random = (self.random * KEPT_OF_LOSS).max(loss.min(self.random));
        let was_dark = history.since(2 * SECOND).any(|seen| seen.is_dark);
        let is_little = retransmitted < LEAST_LOST || loss < free.max(2.0 * self.random);
        // A policer loses for as long as the rate is above its own. A burst of losses is over soon.
        let lossy_for = history.lossy_for(2 * SECOND, LEAST_OF_SHARE * loss);
        let goes_on = is_heavy || elapsed >= LEAST_SECOND && lossy_for >= LASTING;
        (!was_dark && !is_little && goes_on).then_some(loss)
    }

    /// Judges a trial after `loss` at the rate `line`, below the cap `before`. With less than half of the losses, it is a policer of that
    /// rate.
    pub(super) fn judge(&mut self, history: &History, loss: f64, line: f64, before: Option<f64>) -> Verdict {
        let has_ended = history.loss(SECOND) < loss / 2.0;
        // A policer has one rate. If it has become slower, less has got through than the cap.
        let was_full = before.is_some_and(|cap| line >= FULL * cap);
        let refuted = self.policer.filter(|rate| was_full && line < ONE_RATE * rate);
        if has_ended && refuted.is_none() {
            let known = self.policer.filter(|rate| line >= ONE_RATE * rate);
            self.policer = Some(known.map_or(line, |rate| rate.max(line)));
            return Verdict::Policer;
        }
        *self = Losses { random: loss, policer: None };
        refuted.filter(|_| has_ended).map_or(Verdict::Random, Verdict::NoPolicer)
    }

    /// Whether a start loses much, and what passes is seen: its rate grows no more.
    pub(super) fn are_heavy(history: &History) -> bool {
        let is_start = history.rate_between(2 * SECOND, SECOND) < history.rate_over(SECOND / 4) / 2.0;
        is_start && history.loss(HEAVY_TIME) > HEAVY_LOSS && !history.grows()
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// Time in seconds of looks that count as a second.
pub(super) const LEAST_SECOND: f64 = 0.8;
/// Part of the remembered random loss that is left after a look: half of it after seven seconds; with rare looks two and a half times as
/// late.
const KEPT_OF_LOSS: f64 = 0.99;
/// Share of retransmitted bytes without a queue that is no reason to look for a policer, and the same once one was found.
const FREE_LOSS: f64 = 0.01;
const POLICED_LOSS: f64 = 0.005;
/// Time from the first look to the last one with losses that do not come from a burst. A look has losses if it has this part of the share
/// lost in a second at least.
pub(super) const LASTING: Duration = Duration::from_millis(400);
const LEAST_OF_SHARE: f64 = 0.25;
/// Share of retransmitted bytes, in so much time at the start, that is a reason before a second is over.
const HEAVY_LOSS: f64 = 0.2;
const HEAVY_TIME: Duration = Duration::from_millis(230);
/// Least bytes retransmitted in a second that say anything: about ten segments.
const LEAST_LOST: f64 = 14_480.0;
/// Part of a policer's rate below which a rate is another one.
const ONE_RATE: f64 = 0.9;
/// Part of the cap that got through, if a policer has not become slower. It is so large that a cap just below a policer's rate is never that
/// full with less than [`ONE_RATE`] of the rate: only a cap that a burst has lowered before is.
const FULL: f64 = 0.93;
