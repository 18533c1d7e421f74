//! Phases of a path's cap, what each has to remember until it ends, and how fast the cap falls and rises.

use super::sharing::BELOW;
use std::time::{Duration, Instant};

/// How a path is kept, for views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The line's rate is not known: no cap, or one on trial after losses.
    Searching,
    /// A cap keeps the queue short.
    ShortQueue,
    /// Another program fills the queue: no cap, and a congestion control that gets a fair share. At first, and in attempts to empty the queue,
    /// there is a cap.
    Sharing,
    /// The flows are all in the background, and leave the line to others.
    Background,
}

impl PathState {
    /// Returns its name in views and in the log.
    pub fn name(self) -> &'static str {
        match self {
            PathState::Searching => "searching",
            PathState::ShortQueue => "short queue",
            PathState::Sharing => "sharing",
            PathState::Background => "background",
        }
    }
}

/// The work in progress.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Searching,
    Draining(Draining),
    /// Whether the queue of a shared line, which is empty, stays so. The legs keep their congestion control, and have a cap.
    Emptied {
        at: Instant,
    },
    /// Until the cap is raised.
    Resting {
        until: Instant,
    },
    Raising {
        /// In bit/s.
        step: f64,
        count: u32,
        next: Instant,
    },
    /// Whether losses end with a lower rate.
    Losing {
        loss: f64,
        before: Option<f64>,
        until: Instant,
    },
    /// Until the next attempt to empty the queue. With a cap until `held`, and then without one.
    Sharing {
        until: Instant,
        held: Instant,
    },
}

/// A queue that is to become empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draining {
    pub(super) since: Instant,
    /// The time until which acknowledgements show what the line sent before.
    pub(super) shows_line: Instant,
    /// The longest queue so far.
    pub(super) most: Duration,
    /// The smallest queue since the cap could be seen, and when.
    pub(super) least: Duration,
    pub(super) at: Instant,
    /// Time from which the line's rate may be lowered, if the queue is no shorter then.
    pub(super) next: Instant,
    /// The line's rate as first seen, before it was lowered, or what the background has kept.
    pub(super) line: f64,
    /// The line's rate at the queue before, or 0. `None` if this queue came within a round trip after that one was empty: it is the same.
    pub(super) before: Option<f64>,
    /// The least cap so far.
    pub(super) least_cap: f64,
    /// Whether it is the queue by which the search found the line.
    pub(super) is_first: bool,
    /// Whether less was acknowledged than `least_cap`, while bytes waited: another sender takes more of the line than before.
    pub(super) is_crowded: bool,
    /// Whether the cap keeps half of the rate, to see whether another program fills the queue.
    pub(super) is_attempt: bool,
}

/// Returns the part of the line's rate that is the cap while a `queue` becomes empty.
pub(super) fn part_in_drain(queue: Duration, is_attempt: bool) -> f64 {
    let part = (BELOW - queue.as_secs_f64() / DRAINED_IN.as_secs_f64()).clamp(LEAST_PART, BELOW);
    if is_attempt { part.min(ATTEMPT) } else { part }
}

/// Time in which a queue is to become empty.
const DRAINED_IN: Duration = Duration::from_millis(300);
/// Least part of the line's rate in that time, and the most in an attempt to empty a queue that others may fill.
const LEAST_PART: f64 = 0.3;
const ATTEMPT: f64 = 0.5;

/// Returns the first step of a raise of `cap`, and the longest one, in bit/s.
pub(super) fn first_and_longest_step(cap: f64, rtt: Duration) -> (f64, f64) {
    let with_queue = |seconds: f64| cap * seconds / (rtt + AFTER_STEP).as_secs_f64();
    (with_queue(FIRST_QUEUE).min(MOST_FIRST_STEP), with_queue(LAST_QUEUE))
}

/// Returns the step after `count` of them, the last of which was `step`.
pub(super) fn next_step(step: f64, count: u32, has_policer: bool) -> f64 {
    let steps = if has_policer { POLICED_STEPS } else { STEPS_OF_A_SIZE };
    if count % steps == 0 { 2.0 * step } else { step }
}

/// Number of steps after which they become twice as long, and the same below a policer, whose losses are told after a second of them.
const STEPS_OF_A_SIZE: u32 = 3;
const POLICED_STEPS: u32 = 12;
/// Time after a step, besides a round trip, until its queue is seen.
pub(super) const AFTER_STEP: Duration = Duration::from_millis(150);
/// Longest queue in seconds that the first step of a raise makes until the next one, and that any step makes.
const FIRST_QUEUE: f64 = 0.002;
const LAST_QUEUE: f64 = 0.02;
/// Longest first step in bit/s, without a boost. It is no part of the cap, so that relays on one line, whose caps are above some 40 Mbit/s,
/// come to equal shares.
const MOST_FIRST_STEP: f64 = 400_000.0;

/// Queues one after the other, each at a lower rate of ours: another program takes it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Declines {
    count: u32,
    /// The line's rate before the first one.
    pub(super) from: f64,
    last: Option<Instant>,
}

impl Declines {
    /// Compares the line's rate at a queue with that at the queue `before`.
    pub(super) fn follow(&mut self, line: f64, before: f64, now: Instant) {
        let is_recent = self.last.is_some_and(|last| now.saturating_duration_since(last) < DECLINES_WITHIN);
        *self = match is_recent && line <= DECLINE * before {
            true => Declines { count: self.count + 1, last: Some(now), ..*self },
            false => Declines { count: 0, from: before.max(line), last: Some(now) },
        };
    }

    /// Whether another program has taken a part of the line, of which `line` is left.
    pub(super) fn are_taken(&self, line: f64) -> bool {
        self.count >= MANY_DECLINES && line < TAKEN * self.from
    }
}

/// Rate below which a queue shows that others have taken a part of the line: a part of the rate at the queue before.
const DECLINE: f64 = 0.98;
/// Number of such queues in a row after which the line is shared, if less than [`TAKEN`] of the first rate is left.
const MANY_DECLINES: u32 = 3;
const TAKEN: f64 = 0.8;
/// Time within which the next queue counts as in a row.
const DECLINES_WITHIN: Duration = Duration::from_secs(20);
