//! Whether a hop may be dialled.
//!
//! ```text
//!        3 failed dials in a row               an answer to any dial, or `rise` good checks
//!   Up ──────────────────────────> Ejected ──────────────────────────────────────────────> SlowStart
//!    ^                               ^  └── the dial failed: pause doubles                   │   │
//!    │                               └──────────────────────── a failed dial ────────────────┘   │
//!    └──────────────────────────────────── 30 s ─────────────────────────────────────────────────┘
//!
//!   any state ── `fall` failed checks ──> Down ── `rise` good checks ──> SlowStart
//! ```
//!
//! An answer and `rise` good checks forgive the failed dials before them.

use std::time::{Duration, Instant};

/// Number of failed dials in a row after which a hop is ejected. One or two may be lost SYNs: at 1 % of loss, three in a
/// row are one in a million.
pub const EJECT_AFTER: u32 = 3;
/// Time for which a hop is ejected at first. After it, one dial tries the hop. A restarted relay is back in less.
pub const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Longest time for which a hop is ejected; each failed return doubles the time up to this. A hop that is repaired waits
/// no longer for its first flow.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time over which the share of a hop that came back grows from a tenth to all of its flows.
pub const SLOW_START: Duration = Duration::from_secs(30);

/// Number of resets in a row that are no accident of one client.
const MANY_RESETS: u32 = 5;
/// Time after which resets of a hop say nothing any more.
pub(super) const RESETS_LAST: Duration = Duration::from_secs(600);

/// Availability of a hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// It is dialled as the policy says.
    #[default]
    Up,
    /// It has come back, and gets a growing share of its flows.
    SlowStart,
    /// Its last dials failed. After a pause, one dial tries it. Otherwise it is dialled only when no other hop answers.
    Ejected,
    /// Its active checks failed. It is not dialled.
    Down,
}

impl Availability {
    /// Returns the state as the log and every view write it.
    pub fn text(self) -> &'static str {
        match self {
            Availability::Up => "up",
            Availability::SlowStart => "slow start",
            Availability::Ejected => "ejected",
            Availability::Down => "down",
        }
    }
}

/// State of a hop at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopView {
    /// Its state.
    pub state: Availability,
    /// Time for which it has had the state. For a hop that is up, the time since it last came back or was first seen.
    pub age: Duration,
    /// Number of flows to it, including those that are being dialled.
    pub flows: u32,
    /// Smoothed time of its handshakes; `None` before the first one.
    pub rtt: Option<Duration>,
    /// Number of failed dials since it last answered or passed its checks.
    pub failures: u32,
    /// Time since the first of those, or since its first failed check after a good one; `None` without one.
    pub failing_for: Option<Duration>,
    /// Whether its last check failed.
    pub is_check_failed: bool,
    /// Time since any flow to it had an answer, if all that carry bytes wait for one. `None` otherwise.
    pub stalled_for: Option<Duration>,
    /// The flows in a row that it has reset before it sent a byte. A flow that began after the first of them clears them by a byte or FIN
    /// of the hop; other endings do not count. `None` without one.
    pub resets: Option<Resets>,
}

/// Flows in a row that a next hop has accepted and reset before a byte came from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resets {
    /// Their number.
    pub count: u32,
    /// Time since the first one.
    pub age: Duration,
    /// Time since the last one.
    pub last: Duration,
}

impl Resets {
    /// Whether they are so many, and so new, that they show something.
    pub fn are_many(&self) -> bool {
        self.count >= MANY_RESETS && self.last < RESETS_LAST
    }
}

/// A change that is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was ejected for this time.
    Ejected(Duration),
    /// It answered after it was ejected.
    Returned,
    /// Its checks failed.
    Down,
    /// Its checks succeed again.
    Up,
}

/// Number of checks in a row that change a hop's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Number of good checks after which a hop is up again.
    pub rise: u32,
    /// Number of failed checks after which a hop is down.
    pub fall: u32,
}

/// The dials and checks of one hop so far, and what follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DialRecord {
    phase: Phase,
    /// Time when the phase began.
    since: Instant,
    /// Number of failed dials that are not forgiven.
    failures: u32,
    /// Time of the first of them, or of the first failed check after a good one.
    failing_since: Option<Instant>,
    /// Length of the next ejection.
    pause: Duration,
    /// Result of the last check.
    passed: bool,
    /// Number of checks in a row with this result. Good checks count since the last failed dial, unless the hop is ejected or
    /// down.
    streak: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    SlowStart,
    Ejected {
        /// Time from which on one dial may try it.
        until: Instant,
        /// Whether a dial tries it now.
        on_trial: bool,
    },
    Down,
}

/// The place of a hop in the order of a dial: lower ranks are dialled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// As the policy says.
    Usual,
    /// After those: it has come back and has had its share.
    Spared,
    /// When no other hop answers.
    Last,
}

impl DialRecord {
    /// Returns the record of a hop that was not dialled yet.
    pub(super) fn new(now: Instant) -> DialRecord {
        DialRecord {
            phase: Phase::Up,
            since: now,
            failures: 0,
            failing_since: None,
            pause: FIRST_PAUSE,
            passed: true,
            streak: 0,
        }
    }

    /// Returns the state at `now`.
    fn state(&self, now: Instant) -> Availability {
        match self.phase {
            Phase::SlowStart if self.age(now) < SLOW_START => Availability::SlowStart,
            Phase::Up | Phase::SlowStart => Availability::Up,
            Phase::Ejected { .. } => Availability::Ejected,
            Phase::Down => Availability::Down,
        }
    }

    /// Returns the time for which it has had its state.
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Returns its state at `now`, with what the group knows of it: the number of its flows, and the time of its handshakes.
    pub(super) fn view(&self, flows: u32, rtt: Option<Duration>, now: Instant) -> HopView {
        let failing_for = self.failing_since.map(|since| now.saturating_duration_since(since));
        HopView {
            state: self.state(now),
            age: self.age(now),
            flows,
            rtt,
            failures: self.failures,
            failing_for,
            is_check_failed: !self.passed,
            stalled_for: None,
            resets: None,
        }
    }

    /// Returns its place in the order of a dial. `dice` is a random number below 1. `None` if it is not to be dialled.
    pub(super) fn rank(&self, dice: f64, now: Instant) -> Option<Rank> {
        match self.phase {
            Phase::Down => None,
            Phase::Ejected { until, .. } => Some(if now >= until { Rank::Usual } else { Rank::Last }),
            Phase::Up => Some(Rank::Usual),
            Phase::SlowStart => {
                let share = self.age(now).as_secs_f64() / SLOW_START.as_secs_f64();
                Some(if dice < share.max(FIRST_SHARE) { Rank::Usual } else { Rank::Spared })
            }
        }
    }

    /// Records that a dial begins. If it tries an ejected hop, no other dial tries the hop for another pause.
    pub(super) fn began(&mut self, now: Instant) {
        match self.phase {
            Phase::Ejected { until, .. } if now >= until => {
                self.phase = Phase::Ejected { until: now + self.pause, on_trial: true };
            }
            _ => {}
        }
    }

    /// Records that a dial was answered.
    pub(super) fn answered(&mut self, now: Instant) -> Option<Change> {
        self.failures = 0;
        // The next hop may answer although what its checks look for is broken.
        if self.passed {
            self.failing_since = None;
        }
        match self.phase {
            Phase::Ejected { .. } => {
                self.enter(Phase::SlowStart, now);
                Some(Change::Returned)
            }
            // Only once it has proved itself, a later ejection begins with the short pause again.
            Phase::SlowStart if self.age(now) >= SLOW_START => {
                self.pause = FIRST_PAUSE;
                self.phase = Phase::Up;
                None
            }
            Phase::Up | Phase::SlowStart | Phase::Down => None,
        }
    }

    /// Records that a dial failed. `is_alone` tells whether the tunnel has no other hop: then there is nothing to eject
    /// it for.
    pub(super) fn failed(&mut self, is_alone: bool, now: Instant) -> Option<Change> {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        // Only checks that pass after it show that the hop answers again.
        if self.passed && matches!(self.phase, Phase::Up | Phase::SlowStart) {
            self.streak = 0;
        }
        let returning = self.state(now) == Availability::SlowStart;
        match self.phase {
            _ if is_alone => None,
            Phase::Up | Phase::SlowStart if returning || self.failures >= EJECT_AFTER => {
                self.enter(Phase::Ejected { until: now + self.pause, on_trial: false }, now);
                self.streak = 0;
                let pause = self.pause;
                self.pause = (2 * pause).min(LONGEST_PAUSE);
                Some(Change::Ejected(pause))
            }
            // The ejection goes on. Only the dial that tries the hop counts, and not an older one or a last resort.
            Phase::Ejected { on_trial: true, .. } => {
                self.phase = Phase::Ejected { until: now + self.pause, on_trial: false };
                self.pause = (2 * self.pause).min(LONGEST_PAUSE);
                None
            }
            Phase::Up | Phase::SlowStart | Phase::Ejected { .. } | Phase::Down => None,
        }
    }

    /// Records the result of an active check.
    pub(super) fn checked(&mut self, passed: bool, thresholds: Thresholds, now: Instant) -> Option<Change> {
        self.streak = if passed == self.passed { self.streak.saturating_add(1) } else { 1 };
        self.passed = passed;
        match passed {
            true if self.failures == 0 => self.failing_since = None,
            true => {}
            false => _ = self.failing_since.get_or_insert(now),
        }
        match (passed, self.phase) {
            (true, Phase::Down | Phase::Ejected { .. }) if self.streak >= thresholds.rise => {
                let change = if self.phase == Phase::Down { Change::Up } else { Change::Returned };
                self.forgive();
                self.enter(Phase::SlowStart, now);
                Some(change)
            }
            (true, Phase::Up | Phase::SlowStart) if self.streak >= thresholds.rise => {
                self.forgive();
                None
            }
            (false, Phase::Up | Phase::SlowStart | Phase::Ejected { .. }) if self.streak >= thresholds.fall => {
                self.enter(Phase::Down, now);
                Some(Change::Down)
            }
            _ => None,
        }
    }

    /// Ends the effect of checks, because the tunnel no longer has any.
    pub(super) fn unchecked(&mut self, now: Instant) {
        self.streak = 0;
        self.passed = true;
        if self.failures == 0 {
            self.failing_since = None;
        }
        if self.phase == Phase::Down {
            self.enter(Phase::SlowStart, now);
        }
    }

    /// Forgets the failed dials.
    fn forgive(&mut self) {
        self.failures = 0;
        self.failing_since = None;
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }
}

/// Share of its flows that a hop gets at once when it has come back.
const FIRST_SHARE: f64 = 0.1;
