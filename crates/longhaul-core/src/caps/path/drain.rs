//! A queue is to become empty.

use super::base::Base;
use super::cap::{BACKGROUND_REST, FOUND_BOOST, LEAST_OF_HIGHEST, PathCap, RECENT, SEARCHED, SECOND};
use super::phase::{AFTER_STEP, Draining, Phase, part_in_drain};
use super::sharing::{BELOW, FIRST_PATIENCE};
use std::time::{Duration, Instant};

impl PathCap {
    /// Ends the search if a queue shows the line's rate.
    pub(super) fn search(&mut self, now: Instant, queue: Duration, short: Duration) {
        if queue > SEARCHED * short && self.history.rate_over(RECENT) > 0.0 {
            self.begin_drain(now, queue, false);
            let Phase::Draining(draining) = &mut self.phase else { return };
            draining.is_first = true;
            // The start was faster with each look, so the rate was higher in the last one.
            self.line = self.line.max(self.history.last_rate());
            self.boost = FOUND_BOOST;
        }
    }

    /// Begins to empty a queue; with `is_attempt`, that of a shared line.
    pub(super) fn begin_drain(&mut self, now: Instant, queue: Duration, is_attempt: bool) {
        let (before, rate) = (self.line, self.history.rate_over(RECENT));
        // Of traffic that does not fill the line, the acknowledgements say nothing about the line.
        if rate <= LEAST_OF_HIGHEST * self.highest || !self.is_wanted() {
            if is_attempt {
                self.phase = Phase::Sharing { until: now + SECOND, held: now };
            }
            return;
        }
        // For one round trip, the acknowledgements still tell of the cap that emptied the queue before. Its queue was short.
        let told = self.base.rtt.unwrap_or_default() + self.short();
        let is_same = !is_attempt && self.drained.is_some_and(|drained| now < drained + told);
        if !is_same {
            self.line = rate;
        }
        // If the last look has less, the line has become slower: until the rate has nothing of the time before in it.
        let is_lower = self.history.last_rate() < LOWER * rate;
        let shown = if is_lower { self.rtt().max(RECENT) } else { self.rtt() };
        let (shows_line, before) = if is_same { (now, None) } else { (now + shown, Some(before)) };
        let cap = self.line * part_in_drain(queue, is_attempt);
        self.phase = Phase::Draining(Draining {
            since: now,
            shows_line,
            most: queue,
            least: queue,
            at: now,
            next: now,
            line: self.line,
            before,
            least_cap: cap,
            is_first: false,
            is_crowded: false,
            is_attempt,
        });
        self.cap = Some(cap);
    }

    /// Takes a look while the queue becomes empty.
    pub(super) fn drain(&mut self, now: Instant, mut draining: Draining, queue: Duration, short: Duration) {
        let rate = self.history.rate_over(RECENT);
        if now < draining.shows_line && queue > short && rate > 0.0 && self.is_wanted() {
            (self.line, draining.line) = (rate, rate);
        }
        if queue <= short {
            return self.drained(now, draining);
        }
        // Less is acknowledged than the least that we have sent: another sender takes more of the line than before.
        let base = self.base.rtt.unwrap_or_default();
        draining.is_crowded |= self.is_wanted() && now >= draining.since + base && rate < CROWDED * draining.least_cap;
        draining.most = draining.most.max(queue);
        // What was sent before the cap waits in the queue, too.
        let seen = draining.since + base + draining.most + AFTER_STEP;
        let rest = SECOND.max(4 * base);
        if now < seen || queue + STEADY < draining.least {
            (draining.least, draining.at, draining.next) = (queue, now, now + rest / 3);
        } else if now >= draining.next && rate > 0.0 && self.is_wanted() {
            // Two relays may together have taken more than the line has. If each follows what is acknowledged, the queue empties.
            self.line = rate.max(REDUCED * draining.line).min(self.line);
            draining.next = now + rest / 3;
        }
        // The least cap may be too much for a line that has become much slower. It falls.
        if !self.is_background && rate > 0.0 && rate < self.floor() {
            (self.line, draining.line, draining.at) = (rate, rate, now);
        }
        if now.saturating_duration_since(draining.at) > rest {
            return self.stuck(now, draining);
        }
        let cap = (self.line * part_in_drain(queue, draining.is_attempt)).max(self.floor());
        draining.least_cap = draining.least_cap.min(cap);
        self.cap = Some(cap);
        self.phase = Phase::Draining(draining);
    }

    /// The queue is empty.
    pub(super) fn drained(&mut self, now: Instant, draining: Draining) {
        if draining.is_attempt && !self.is_background {
            return self.emptied(now, self.line);
        }
        // The queue comes back once at most without a new rate: the line may have become slower.
        self.drained = draining.before.map(|_| now);
        (self.patience, self.steady) = (FIRST_PATIENCE, None);
        if let Some(before) = draining.before {
            self.losses.lower(self.line);
            self.declines.follow(self.line, before, now);
            if self.line < MISTAKEN * before {
                self.boost = FOUND_BOOST;
            }
        }
        if self.declines.are_taken(self.line) && !self.is_background {
            return self.share(now, Some(self.declines.from));
        }
        if draining.is_first && draining.is_crowded {
            self.hurried_raises = HURRIED_RAISES;
        }
        let rest = match self.is_background {
            true => BACKGROUND_REST,
            false if self.hurried_raises > 0 => Duration::ZERO,
            false => SECOND,
        };
        self.rest(now, rest);
    }

    /// The queue does not become shorter, whatever we send: it is a longer route, or another program fills it.
    fn stuck(&mut self, now: Instant, draining: Draining) {
        let seen = || self.history.since(SECOND).filter_map(|seen| seen.rtt);
        let (least, most) = (seen().min(), seen().max());
        let varies = 2 * STEADY + self.history.noise();
        let is_steady = least.zip(most).is_some_and(|(least, most)| most - least <= varies);
        // A lower rate has not helped, so it was not that.
        self.line = self.line.max(draining.line);
        let same = self.steady.filter(|(before, _)| least.is_some_and(|least| least.abs_diff(*before) <= 2 * STEADY));
        let is_route = match same {
            _ if !is_steady => false,
            // Beside the little that the background leaves itself, the queue of one CUBIC flow is steady for seconds.
            Some((_, since)) if self.is_background => now.saturating_duration_since(since) >= STEADY_BEHIND,
            // In two attempts the same: nobody else's queue is so steady.
            Some(_) => true,
            None => !(draining.is_attempt || self.is_background),
        };
        let may_be_route = is_steady && (draining.is_attempt || self.is_background);
        self.steady = least.filter(|_| may_be_route).map(|least| same.unwrap_or((least, now)));
        if is_route {
            self.base = Base::of(least);
            self.patience = FIRST_PATIENCE;
            self.rest(now, SECOND);
        } else if self.is_background {
            let cap = self.cap.unwrap_or(self.line) * YIELDED;
            self.line = cap.max(self.floor()) / BELOW;
            self.cap = Some(cap.max(self.floor()));
            let (shows_line, is_attempt, is_first) = (draining.since, false, false);
            self.phase = Phase::Draining(Draining {
                at: now,
                least: Duration::MAX,
                line: self.line,
                shows_line,
                is_attempt,
                is_first,
                ..draining
            });
        } else {
            let had = self.declines.from.max(draining.before.unwrap_or_default());
            self.share(now, (!draining.is_attempt).then_some(had));
        }
    }
}

/// Least part of the line's rate as first seen that is left of it while the queue does not become shorter.
const REDUCED: f64 = 0.92;
/// A queue that is shorter by this is shorter.
const STEADY: Duration = Duration::from_millis(1);
/// Part of its cap that the background keeps each time the queue does not become shorter.
const YIELDED: f64 = 0.7;
/// Part of the line's rate at the queue before below which that at this one may be a mistake.
const MISTAKEN: f64 = 0.9;
/// Time for which a round trip must stay the same for the background to take it for the route.
const STEADY_BEHIND: Duration = Duration::from_secs(10);
/// Part of the least cap below which acknowledgements show, while there is a queue, that another sender takes more of the line than before.
const CROWDED: f64 = 0.9;
/// Number of hurried raises of a relay that was crowded while its first queue drained. Of two that begin together, one may find three times
/// as much as the other.
const HURRIED_RAISES: u32 = 3;
/// Part of the rate of two looks below which that of the last one shows that the rate falls.
const LOWER: f64 = 0.9;
