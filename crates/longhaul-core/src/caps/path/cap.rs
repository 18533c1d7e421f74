//! The cap of a path: what it remembers, and what it says.

use super::base::Base;
use super::history::{History, MOST_SHORT, PathLook};
use super::losses::{LEAST_SECOND, Losses};
use super::phase::{Declines, Draining, PathState, Phase, first_and_longest_step};
use super::sharing::{BELOW, Doubts, FIRST_PATIENCE};
use longhaul_units::Rate;
use std::time::{Duration, Instant};

/// The cap of one path.
#[derive(Clone, Debug)]
pub struct PathCap {
    pub(super) phase: Phase,
    /// Whether all of its flows are in the background.
    pub(super) is_background: bool,
    pub(super) history: History,
    pub(super) base: Base,
    /// The line's rate in bit/s, of payload, as last seen; 0 if it was never.
    pub(super) line: f64,
    /// The highest rate that the path has had for a second.
    pub(super) highest: f64,
    pub(super) cap: Option<f64>,
    pub(super) last: PathLook,
    /// The least round-trip time at the end of the last attempt, or beside the background, if it was steady, and since when it is the same.
    pub(super) steady: Option<(Duration, Instant)>,
    /// Time since which the queue is short.
    pub(super) short_since: Option<Instant>,
    /// Time when the last queue was empty again.
    pub(super) drained: Option<Instant>,
    pub(super) losses: Losses,
    pub(super) declines: Declines,
    pub(super) doubts: Doubts,
    /// Time for which the line is shared next before an attempt to empty its queue.
    pub(super) patience: Duration,
    /// Multiple of the usual first step with which the next raise begins.
    pub(super) boost: f64,
    /// Number of hurried raises left: without a rest before, and with a longer first step. Another relay has found more of the line.
    pub(super) hurried_raises: u32,
    pub(super) state: PathState,
    pub(super) since: Instant,
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
        match self.phase {
            // Those that hold their share by a cap keep their own.
            Phase::Sharing { .. } => self.cap.is_none(),
            Phase::Draining(Draining { is_attempt, .. }) => is_attempt,
            Phase::Emptied { .. } => true,
            Phase::Searching | Phase::Resting { .. } | Phase::Raising { .. } | Phase::Losing { .. } => false,
        }
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
    /// cap, they have that alone. `None` while there is neither a cap nor another program.
    pub fn background(&self) -> Option<Rate> {
        (self.highest > 0.0 && self.cap.is_some() || self.state == PathState::Sharing)
            .then_some(Rate((FLOOR * self.highest).max(LEAST_BACKGROUND) as u64))
    }

    pub(super) fn remember(&mut self, now: Instant, look: &PathLook) {
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
        // The highest rate is kept while the background yields, and while nothing moves.
        let yields = self.is_background && matches!(self.phase, Phase::Draining(_)) && !has_less;
        let kept = match is_slower {
            true => KEPT_OF_A_SLOWER_LINE,
            false if yields || look.delivered == 0 => 1.0,
            false => KEPT_OF_HIGHEST,
        };
        self.highest = rate.max(self.highest * kept);
    }

    /// Returns the time that a packet waits in the queue: the least of the last two looks, because one may be disturbed.
    pub(super) fn queued(&self) -> Option<Duration> {
        let base = self.base.rtt?;
        let last = self.history.measured().take(2).filter_map(|seen| seen.rtt).min()?;
        Some(last.saturating_sub(base))
    }

    /// Returns the queue that counts as short: what bursts of the flows make of it, and delayed acknowledgements, and the noise of the
    /// path.
    pub(super) fn short(&self) -> Duration {
        let line = if self.line > 0.0 { self.line } else { self.history.rate_over(SECOND) };
        LEAST_SHORT.max(self.last.bursts(line)).max(self.history.noise())
    }

    /// Whether bytes waited at the last look: the path, the cap or a reader limits what we send.
    pub(super) fn is_wanted(&self) -> bool {
        self.last.waiting > 0
    }

    pub(super) fn rtt(&self) -> Duration {
        self.base.rtt.unwrap_or_default() + self.queued().unwrap_or_default()
    }

    pub(super) fn rest(&mut self, now: Instant, time: Duration) {
        self.cap = Some((BELOW * self.line).max(self.floor()));
        self.phase = Phase::Resting { until: now + time };
    }

    pub(super) fn steps(&self) -> (f64, f64) {
        first_and_longest_step(self.cap.unwrap_or_default(), self.rtt())
    }

    /// Returns the least cap.
    pub(super) fn floor(&self) -> f64 {
        self.highest * if self.is_background { FLOOR } else { LEAST_OF_HIGHEST }
    }
}

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// Part of the highest rate that is left after a look: half of it after four minutes; with rare looks two and a half times as late.
const KEPT_OF_HIGHEST: f64 = 0.9997;
/// The same while the line seems to be slower than the least cap: half of it after two seconds.
const KEPT_OF_A_SLOWER_LINE: f64 = 0.97;
/// Part of its floor that others may leave to the background without that being so.
const LESS_OF_FLOOR: f64 = 0.8;
/// Least cap, and least rate that says something about the line, as a part of the highest rate.
pub(super) const LEAST_OF_HIGHEST: f64 = 0.02;
/// Time over which the line's rate is measured: two looks, or one that is later than usual.
pub(super) const RECENT: Duration = Duration::from_millis(180);
/// Least queue that is a queue: what acknowledgements of several segments and a busy host make of none.
const LEAST_SHORT: Duration = Duration::from_millis(4);
/// Least cap of the background, as a part of the highest rate.
const FLOOR: f64 = 0.05;
/// The same in bit/s. Below it, a segment takes a second and more.
const LEAST_BACKGROUND: f64 = 20_000.0;
/// Multiple of a short queue at which the line's rate counts as found.
pub(super) const SEARCHED: u32 = 3;
/// Multiple of the first step after a rate that may be too low: the first one found, or one much below the one before. Half of it
/// below a policer that was just found.
pub(super) const FOUND_BOOST: f64 = 4.0;
/// Part of the cap that must be used before it is raised, and the same if a flow uses all of its share: the divider keeps a quarter above its
/// rate free for a flow that something else limits.
pub(super) const USED: f64 = 0.92;
pub(super) const USED_BY_MOST: f64 = 0.75;
/// Time for which the background leaves the line as it is after a queue.
pub(super) const BACKGROUND_REST: Duration = Duration::from_millis(1_250);
