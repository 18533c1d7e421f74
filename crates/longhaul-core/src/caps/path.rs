//! Finds the cap of a path by itself: a little below the line's rate, so that the line's queue stays short for everybody.
//!
//! ```text
//!            a queue                 it is empty            nothing gets worse
//! Searching ─────────> Draining ───────────────> Resting ────────────────────> Raising
//!                       │   ^──────────────────── a queue ─────────────────────────┘
//!                       └─ it does not empty ──> Sharing: another program fills the queue. If it is short for the first seconds ──> Resting
//!
//! Sharing ── now and then ──> Draining ── it is empty ──> Emptied ── it stays so ──> Resting
//!    ^───── it does not empty ─────┴─── others fill it again ─┘
//!
//! Searching, Resting, Raising ── losses without a queue ──> Losing ── with a lower rate there are fewer: a policer ──> Resting
//!                      ^                                      │
//!                      └────── the same losses: a bad line ───┘  (from Raising to Resting)
//! ```
//! While there is a queue, the peers acknowledge as fast as the line sends. That is the only time at which its rate is seen. So the cap
//! goes below that rate until the queue is empty, and then up again by small steps, which find a line that has become faster.

use super::base::Base;
use super::history::{History, MOST_SHORT, PathLook};
use super::losses::{LASTING, LEAST_SECOND, Losses, Verdict};
use super::phase::{
    AFTER_STEP, Declines, Draining, PathState, Phase, first_and_longest_step, next_step, part_in_drain,
};
use super::sharing::{
    BELOW, Doubts, FIRST_PATIENCE, HELD, LAST_PATIENCE, TAKEN_AGAIN, emptied_for, held_cap, was_long, was_short,
};
use longhaul_units::Rate;
use std::time::{Duration, Instant};

/// The cap of one path.
#[derive(Clone, Debug)]
pub struct PathCap {
    phase: Phase,
    /// Whether all of its flows are in the background.
    is_background: bool,
    history: History,
    base: Base,
    /// The line's rate in bit/s, of payload, as last seen; 0 if it was never.
    line: f64,
    /// The highest rate that the path has had for a second.
    highest: f64,
    cap: Option<f64>,
    last: PathLook,
    /// The queue that did not become shorter in the last attempt, although it was steady.
    steady: Option<Duration>,
    /// Time since which the queue is short.
    short_since: Option<Instant>,
    /// Time when the last queue was empty again.
    drained: Option<Instant>,
    losses: Losses,
    declines: Declines,
    doubts: Doubts,
    /// Time for which the line is shared next before an attempt to empty its queue.
    patience: Duration,
    /// Multiple of the usual first step with which the next raise begins.
    boost: f64,
    /// Number of hurried raises left: without a rest before, and with [`HURRIED_BOOST`]. Another relay has found more of the line.
    hurried_raises: u32,
    state: PathState,
    since: Instant,
}

impl PathCap {
    /// Returns the state of a path of which nothing is known.
    pub fn begin(now: Instant) -> PathCap {
        PathCap {
            phase: Phase::Searching,
            is_background: false,
            history: History::default(),
            base: Base::default(),
            line: 0.0,
            highest: 0.0,
            cap: None,
            last: PathLook::default(),
            steady: None,
            short_since: None,
            drained: None,
            losses: Losses::default(),
            declines: Declines::default(),
            doubts: Doubts::default(),
            patience: FIRST_PATIENCE,
            boost: 1.0,
            hurried_raises: 0,
            state: PathState::Searching,
            since: now,
        }
    }

    /// Returns the cap in force, of payload; `None` means no cap.
    pub fn cap(&self) -> Option<Rate> {
        self.cap.map(|cap| Rate(cap as u64))
    }

    /// Returns the state, and since when.
    pub fn state(&self) -> (PathState, Instant) {
        (self.state, self.since)
    }

    /// Whether the legs need a congestion control that gets its share beside others that fill the queue: CUBIC.
    pub fn needs_cubic(&self) -> bool {
        self.state == PathState::Sharing && !(matches!(self.phase, Phase::Sharing { .. }) && self.cap.is_some())
    }

    /// Returns the rate in bit/s of the last second, of payload.
    pub fn rate(&self) -> f64 {
        self.history.rate_over(SECOND)
    }

    /// Returns the path's round-trip time without a queue, and the time that a packet waits in the queue. `None` if neither was measured
    /// in the last second before `now`.
    pub fn queue(&self, now: Instant) -> Option<(Duration, Duration)> {
        let measured = self.history.measured().next()?;
        let is_fresh = now.saturating_duration_since(measured.at) <= SECOND;
        Some((self.base.rtt?, self.queued()?)).filter(|_| is_fresh)
    }

    /// Returns the least cap of the flows in the background together, beside others. While another program fills the queue, and there is no
    /// cap, they have that alone. `None` before a rate was seen.
    pub fn background(&self) -> Option<Rate> {
        (self.highest > 0.0 && self.cap.is_some() || self.state == PathState::Sharing)
            .then_some(Rate((FLOOR * self.highest).max(LEAST_BACKGROUND) as u64))
    }

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
            // Others have left, or another relay makes an attempt. It must be ours, too: each alone takes the other one for a program.
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
            _ => {}
        }
        self.tell(now);
    }

    fn remember(&mut self, now: Instant, look: &PathLook) {
        self.history.add(now, look);
        let is_short = matches!(self.phase, Phase::Resting { .. } | Phase::Raising { .. });
        self.base.see(
            look.rtt.into_iter().chain(look.least_rtt.filter(|_| self.base.rtt.is_none())).min(),
            is_short,
            now,
        );
        self.last = *look;
        let (delivered, _, elapsed) = self.history.over(SECOND);
        let rate = if elapsed >= LEAST_SECOND { delivered * 8.0 / elapsed } else { 0.0 };
        // A long queue although we have less than the least cap: the line has become much slower.
        let has_less = self.is_wanted() && rate < self.floor() * if self.is_background { LESS_OF_FLOOR } else { 1.0 };
        let is_slower = has_less && look.delivered > 0 && self.queued() > Some(MOST_SHORT);
        // What the background yields to others does not show it, nor a time in which nothing moves.
        let yields = self.is_background && matches!(self.phase, Phase::Draining(_)) && !has_less;
        let kept = match is_slower {
            true => KEPT_OF_A_SLOWER_LINE,
            false if yields || look.delivered == 0 => 1.0,
            false => KEPT_OF_HIGHEST,
        };
        self.highest = rate.max(self.highest * kept);
    }

    /// Returns the time that a packet waits in the queue: the least of the last two looks, because one may be disturbed.
    fn queued(&self) -> Option<Duration> {
        let base = self.base.rtt?;
        let last = self.history.measured().take(2).filter_map(|seen| seen.rtt).min()?;
        Some(last.saturating_sub(base))
    }

    /// Returns the queue that counts as short: what bursts of the flows make of it, and delayed acknowledgements, and the noise of the
    /// path.
    fn short(&self) -> Duration {
        let line = if self.line > 0.0 { self.line } else { self.history.rate_over(SECOND) };
        LEAST_SHORT.max(self.last.bursts(line)).max(self.history.noise())
    }

    /// Whether bytes waited at the last look: the path, the cap or a reader limits what we send.
    fn is_wanted(&self) -> bool {
        self.last.waiting > 0
    }

    fn rtt(&self) -> Duration {
        self.base.rtt.unwrap_or_default() + self.queued().unwrap_or_default()
    }

    fn search(&mut self, now: Instant, queue: Duration, short: Duration) {
        if queue > SEARCHED * short && self.history.rate_over(RECENT) > 0.0 {
            self.begin_drain(now, queue, false);
            let Phase::Draining(draining) = &mut self.phase else { return };
            draining.is_first = true;
            // The start was faster with each look, so the rate was higher in the last one.
            self.line = self.line.max(self.history.last_rate());
            self.boost = FOUND_BOOST;
        }
    }

    fn begin_drain(&mut self, now: Instant, queue: Duration, is_attempt: bool) {
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

    fn drain(&mut self, now: Instant, mut draining: Draining, queue: Duration, short: Duration) {
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
    fn drained(&mut self, now: Instant, draining: Draining) {
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

    /// The queue is empty while the line is shared. Our legs had `rate` of it.
    fn emptied(&mut self, now: Instant, rate: f64) {
        (self.line, self.steady) = (rate, None);
        self.cap = Some((BELOW * rate).max(self.floor()));
        self.phase = Phase::Emptied { at: now };
    }

    /// An attempt has emptied the queue, which is easy beside few other flows: it takes them a while to fill it again. If they take a part of
    /// our rate then, the line is shared as before.
    fn see_others(&mut self, now: Instant, emptied: Instant, is_long: bool) {
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

    fn rest(&mut self, now: Instant, time: Duration) {
        self.cap = Some((BELOW * self.line).max(self.floor()));
        self.phase = Phase::Resting { until: now + time };
    }

    /// The queue does not become shorter, whatever we send: it is a longer route, or another program fills it.
    fn stuck(&mut self, now: Instant, draining: Draining) {
        let seen = || self.history.since(SECOND).filter_map(|seen| seen.rtt);
        let (least, most) = (seen().min(), seen().max());
        let varies = 2 * STEADY + self.history.noise();
        let is_steady = least.zip(most).is_some_and(|(least, most)| most - least <= varies);
        // A lower rate has not helped, so it was not that.
        self.line = self.line.max(draining.line);
        // In two attempts the same: nobody else's queue is so steady.
        let is_same = least.zip(self.steady).is_some_and(|(least, before)| least.abs_diff(before) <= 2 * STEADY);
        self.steady = least.filter(|_| is_steady && draining.is_attempt);
        if is_steady && (is_same || !draining.is_attempt) {
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

    /// Shares the line with another program. Our legs `had` so much of it before, and have a cap first. `None`: an attempt has shown that the
    /// other program is there, and they have none.
    fn share(&mut self, now: Instant, had: Option<f64>) {
        let is_doubted = self.doubts.are_many(now);
        let held = had.filter(|_| !is_doubted).map(|had| held_cap(had, self.line, self.highest, self.last.rivals));
        self.cap = held.map(|cap| cap.max(self.floor()));
        // The background has nothing to lose by an attempt.
        let until = now + if self.is_background { SECOND } else { self.patience };
        self.phase = Phase::Sharing { until, held: now + HELD };
        self.patience = (2 * self.patience).min(LAST_PATIENCE);
        self.declines = Declines::default();
        self.hurried_raises = 0;
    }

    /// Ends the time in which our legs have held their share. If the queue was short meanwhile, nobody fills it: another relay has taken its
    /// part of the line, or the other program has ended.
    fn share_or_not(&mut self, now: Instant, short: Duration) {
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

    fn steps(&self) -> (f64, f64) {
        first_and_longest_step(self.cap.unwrap_or_default(), self.rtt())
    }

    /// Looks for losses while the queue has been short `for_time`: a policer, or a bad line. A start that loses much needs no second of looks.
    fn watch_losses(&mut self, now: Instant, for_time: Duration) {
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

    fn lose(&mut self, now: Instant, loss: f64, before: Option<f64>) {
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
    fn forgive(&mut self, now: Instant, before: Option<f64>) {
        self.cap = before;
        self.phase = match before {
            Some(_) => Phase::Resting { until: now + SECOND },
            None => Phase::Searching,
        };
    }

    /// Returns the least cap.
    fn floor(&self) -> f64 {
        self.highest * if self.is_background { FLOOR } else { LEAST_OF_HIGHEST }
    }

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

const SECOND: Duration = Duration::from_secs(1);
/// Part of the highest rate that is left after a look: half of it after four minutes; with rare looks two and a half times as late.
const KEPT_OF_HIGHEST: f64 = 0.9997;
/// The same while the line seems to be slower than the least cap: half of it after two seconds.
const KEPT_OF_A_SLOWER_LINE: f64 = 0.97;
/// Part of its floor that others may leave to the background without that being so.
const LESS_OF_FLOOR: f64 = 0.8;
/// Least cap, and least rate that says something about the line, as a part of the highest rate.
const LEAST_OF_HIGHEST: f64 = 0.02;
/// Time over which the line's rate is measured: two looks, or one that is later than usual.
const RECENT: Duration = Duration::from_millis(180);
/// Least queue that is a queue: what acknowledgements of several segments and a busy host make of none.
const LEAST_SHORT: Duration = Duration::from_millis(4);
/// Multiple of a short queue at which the line's rate counts as found.
const SEARCHED: u32 = 3;
/// Least part of the line's rate as first seen that is left of it while the queue does not become shorter.
const REDUCED: f64 = 0.92;
/// A queue that is shorter by this is shorter.
const STEADY: Duration = Duration::from_millis(1);
/// Part of its cap that the background keeps each time the queue does not become shorter.
const YIELDED: f64 = 0.7;
/// Least cap of the background, as a part of the highest rate.
const FLOOR: f64 = 0.05;
/// The same in bit/s. Below it, a segment takes a second and more.
const LEAST_BACKGROUND: f64 = 20_000.0;
/// Multiple of the first step after a rate that may be too low: the first one found, or one below [`MISTAKEN`] of the one before. Half of it
/// below a policer that was just found.
const FOUND_BOOST: f64 = 4.0;
const MISTAKEN: f64 = 0.9;
/// Part of the least cap below which acknowledgements show, while there is a queue, that another sender takes more of the line than before.
const CROWDED: f64 = 0.9;
/// Number of hurried raises of a relay that was crowded while its first queue drained. Of two that begin together, one may find three times
/// as much as the other.
const HURRIED_RAISES: u32 = 3;
/// Multiple of the first step in a hurried raise; the longest step still holds.
const HURRIED_BOOST: f64 = 16.0;
/// Time for which the background leaves the line as it is after a queue.
const BACKGROUND_REST: Duration = Duration::from_millis(1_250);
/// The step of the background, as a part of the highest rate.
const BACKGROUND_STEP: f64 = 0.1;
/// Part of the cap that must be used before it is raised, and the same if a flow uses all of its share: the divider keeps a quarter above its
/// rate free for a flow that something else limits.
const USED: f64 = 0.92;
const USED_BY_MOST: f64 = 0.75;
/// Part of the rate of two looks below which that of the last one shows that the rate falls, and below which a start does not count it.
const LOWER: f64 = 0.9;
const MUCH_LOWER: f64 = 0.7;
/// Time below a policer before the first step.
const POLICED_REST: Duration = Duration::from_secs(5);
