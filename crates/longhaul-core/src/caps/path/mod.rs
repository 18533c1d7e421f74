//! Finds the cap of a path by itself: a little below the line's rate, so that the line's queue stays short for everybody.
//!
//! ```text
//!            a queue                 it is empty            nothing gets worse
//! Searching ─────────> Draining ───────────────> Resting ────────────────────> Raising
//!                       │   ^──────────────────── a queue ─────────────────────────┘
//!                       ├─ it is steady: a longer route ──> Resting
//!                       └─ it does not empty, or others take more with each queue ──> Sharing: another program fills the queue
//!
//! Sharing ── now and then ──> Draining ── it is empty ──> Emptied ── it stays so, or we have as much as before ──> Resting
//!  │  │ ^───── it does not empty ─────┴─── others fill it again ─┘
//!  │  └─ a long queue is gone ──> Emptied
//!  └─ it was short in the first seconds ──> Resting
//!
//! Searching, Resting, Raising ── losses without a queue ──> Losing ── with a lower rate there are fewer: a policer ──> Resting
//!                      ^                                      │
//!                      └────── the same losses: a bad line ───┘  (from Raising to Resting)
//! ```
//! While there is a queue, the peers acknowledge as fast as the line sends. That is the only time at which its rate is seen. So the cap
//! goes below that rate until the queue is empty, and then up again by small steps, which find a line that has become faster.
//!
//! ```text
//! cap      what the cap of a path remembers, and what it says; here: what a look does, and the raises
//! drain    a queue is to become empty
//! others   the line is shared with another program, and whether that is still there
//! trial    losses without a queue, and the trial with a lower rate
//! base     the round-trip time of a path without a queue
//! history  the last looks at a path, and the rates and losses that they show
//! losses   which losses may come from a policer, and what is known of them
//! phase    the phases, what each remembers, and how fast the cap falls and rises
//! sharing  how long a line is shared
//! ```

mod base;
mod cap;
mod drain;
mod history;
mod losses;
mod others;
mod phase;
mod sharing;
#[cfg(test)]
mod simulation;
mod trial;

pub use cap::PathCap;
use cap::{BACKGROUND_REST, RECENT, SEARCHED, SECOND, USED, USED_BY_MOST};
pub use history::PathLook;
pub use phase::PathState;
use phase::{AFTER_STEP, Draining, Phase, next_step};
use sharing::{FIRST_PATIENCE, was_long};
use std::time::Instant;

impl PathCap {
    /// Says whether all flows of the path are in the background from now on.
    pub fn set_background(&mut self, is_background: bool, now: Instant) {
        let was_background = std::mem::replace(&mut self.is_background, is_background);
        match &mut self.phase {
            // The background looks at once whether the line is free.
            Phase::Sharing { until, .. } if is_background && !was_background => *until = now,
            Phase::Emptied { .. } if is_background => self.rest(now, BACKGROUND_REST),
            _ => {}
        }
        self.tell(now);
    }

    /// Takes a look. Looks are about a tenth of a second apart.
    pub fn look(&mut self, now: Instant, look: &PathLook) {
        self.remember(now, look);
        if self.base.rtt.is_some() && self.history.since(SECOND.max(2 * self.rtt())).all(|seen| seen.rtt.is_none()) {
            return self.idle(now);
        }
        let Some(queue) = self.queued() else { return };
        let short = self.short();
        match self.phase {
            Phase::Searching => self.search(now, queue, short),
            Phase::Draining(draining) => self.drain(now, draining, queue, short),
            Phase::Emptied { at } => self.see_others(now, at, queue > short),
            Phase::Resting { .. } | Phase::Raising { .. } if queue > short => self.begin_drain(now, queue, false),
            Phase::Resting { until } if now >= until => {
                let boost = if self.hurried_raises > 0 { HURRIED_BOOST } else { self.boost };
                self.hurried_raises = self.hurried_raises.saturating_sub(1);
                self.phase = Phase::Raising { step: boost * self.steps().0, count: 0, next: now };
            }
            Phase::Raising { step, count, next } if now >= next => self.raise(now, step, count, queue <= short / 2),
            Phase::Losing { loss, before, until } if now >= until => self.lose(now, loss, before),
            Phase::Sharing { until, .. } if now >= until => self.begin_drain(now, queue, true),
            Phase::Sharing { held, .. } if now >= held && self.cap.is_some() => self.share_or_not(now, short),
            // The other program has ended, or another relay tries to empty the queue. Both must try together: alone, each takes the
            // other one for a program.
            Phase::Sharing { held, .. }
                if now >= held && queue <= short && self.is_wanted() && was_long(&self.history, self.base.rtt) =>
            {
                self.emptied(now, self.history.rate_over(3 * SECOND).max(self.history.rate_over(RECENT)));
            }
            Phase::Resting { .. } | Phase::Raising { .. } | Phase::Losing { .. } | Phase::Sharing { .. } => {}
        }
        // A queue that is too short for the search to find it may be full all the same.
        let unseen = if matches!(self.phase, Phase::Searching) { SEARCHED * short } else { short };
        if queue > unseen {
            self.short_since = None;
        } else {
            let since = *self.short_since.get_or_insert(now);
            self.watch_losses(now, now.saturating_duration_since(since));
        }
        self.tell(now);
    }

    /// Nothing has moved for a while: the queue is empty.
    fn idle(&mut self, now: Instant) {
        self.short_since = None;
        match self.phase {
            // Nobody has seen whether another program fills it.
            Phase::Draining(Draining { is_attempt: true, .. }) => self.share(now, None),
            Phase::Draining(draining) => self.drained(now, draining),
            Phase::Losing { before, .. } => self.forgive(now, before),
            Phase::Emptied { .. } => self.rest(now, SECOND),
            // What was seen long ago holds no more.
            Phase::Sharing { until, .. } if now >= until => self.begin_anew(),
            // Traffic that does not fill the line may have left a low cap behind. A line that has become slower is found again.
            Phase::Resting { .. } | Phase::Raising { .. }
                if !self.losses.has_policer() && self.cap < Some(BELIEVED * self.highest) =>
            {
                self.highest *= BELIEVED;
                self.begin_anew();
            }
            _ => {}
        }
        self.tell(now);
    }

    /// Forgets the cap, and searches for it as at the start.
    fn begin_anew(&mut self) {
        (self.phase, self.cap, self.patience) = (Phase::Searching, None, FIRST_PATIENCE);
    }

    /// Raises the cap by a step if it is used.
    fn raise(&mut self, now: Instant, step: f64, count: u32, is_empty: bool) {
        let Some(cap) = self.cap else { return };
        // Beside half of a queue that counts, it is the line that keeps the rate below the cap.
        let used = if self.last.held > 0 && is_empty { USED_BY_MOST } else { USED };
        let rate = self.history.rate_over(RECENT);
        if !self.is_wanted() || rate < used * cap || self.losses.seem_policed(&self.history) {
            return;
        }
        self.boost = 1.0;
        let by = if self.is_background { BACKGROUND_STEP * self.highest } else { step.min(self.steps().1) };
        self.cap = Some(cap + by);
        self.line = self.line.max(rate.min(cap));
        self.losses.pass(rate);
        let step = next_step(step, count + 1, self.losses.has_policer());
        self.phase = Phase::Raising { step, count: count + 1, next: now + self.rtt() + AFTER_STEP };
    }

    /// Follows the state for views.
    fn tell(&mut self, now: Instant) {
        let state = match self.phase {
            Phase::Sharing { .. } | Phase::Draining(Draining { is_attempt: true, .. }) | Phase::Emptied { .. } => {
                PathState::Sharing
            }
            _ if self.is_background => PathState::Background,
            Phase::Searching | Phase::Losing { before: None, .. } => PathState::Searching,
            _ => PathState::ShortQueue,
        };
        if state != self.state {
            (self.state, self.since) = (state, now);
        }
    }
}

/// Part of the highest rate below which a cap is not believed after a time in which nothing has moved.
const BELIEVED: f64 = 0.5;
/// Multiple of the first step in a hurried raise; the longest step still holds.
const HURRIED_BOOST: f64 = 16.0;
/// The step of the background, as a part of the highest rate.
const BACKGROUND_STEP: f64 = 0.1;
