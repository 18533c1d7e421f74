//! The last looks at a path, and the rates and losses that they show.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The measurements of one look at a path. Counts are those since the look before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathLook {
    /// The smallest smoothed round-trip time of the legs whose bytes were acknowledged; `None` without such a leg.
    pub rtt: Option<Duration>,
    /// Mean deviation of that round-trip time.
    pub deviation: Duration,
    /// The smallest round-trip time that the kernel remembers. Only the first look needs it.
    pub least_rtt: Option<Duration>,
    /// Payload bytes acknowledged.
    pub delivered: u64,
    /// Payload bytes retransmitted.
    pub retransmitted: u64,
    /// Number of legs that have moved bytes.
    pub active: u32,
    /// Number of legs with bytes that they have not sent yet.
    pub waiting: u32,
    /// Number of those that the cap limits: they have sent their whole share.
    pub held: u32,
    /// Number of legs that have moved bytes and have more to send, without those in the background.
    pub rivals: u32,
    /// Payload bytes of a full segment.
    pub segment: u32,
}

/// The looks of the last seconds, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    looks: VecDeque<Seen>,
}

/// A look, with totals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) rtt: Option<Duration>,
    pub(super) deviation: Duration,
    /// Whether bytes waited, and none was acknowledged, although some were before.
    pub(super) is_dark: bool,
    delivered: u64,
    retransmitted: u64,
}

impl History {
    /// Adds a look, and forgets those that are older than [`MEMORY`].
    pub(super) fn add(&mut self, now: Instant, look: &PathLook) {
        let (delivered, retransmitted) = self.looks.back().map_or((0, 0), |last| (last.delivered, last.retransmitted));
        while self.looks.front().is_some_and(|first| now.saturating_duration_since(first.at) > MEMORY) {
            self.looks.pop_front();
        }
        self.looks.push_back(Seen {
            at: now,
            rtt: look.rtt,
            deviation: look.deviation,
            is_dark: look.delivered == 0 && look.waiting > 0 && delivered > 0,
            delivered: delivered + look.delivered,
            retransmitted: retransmitted + look.retransmitted,
        });
    }

    /// Returns the looks with a round-trip time, the newest first.
    pub(super) fn measured(&self) -> impl Iterator<Item = &Seen> {
        self.looks.iter().rev().filter(|seen| seen.rtt.is_some())
    }

    /// Returns the looks of the last `time`.
    pub(super) fn since(&self, time: Duration) -> impl Iterator<Item = &Seen> {
        let now = self.looks.back().map(|last| last.at);
        self.looks.iter().filter(move |seen| now.is_some_and(|now| now.saturating_duration_since(seen.at) <= time))
    }

    /// Returns bytes acknowledged and bytes retransmitted in about the last `time`, and the exact time.
    pub(super) fn over(&self, time: Duration) -> (f64, f64, f64) {
        // The totals of a look are those at its time, so the last one that is old enough is where the count begins. Looks may be rare.
        let Some(last) = self.looks.back() else { return (0.0, 0.0, 0.0) };
        let is_old = |seen: &&Seen| last.at.saturating_duration_since(seen.at) >= time;
        let Some(first) = self.looks.iter().rev().find(is_old).or(self.looks.front()) else { return (0.0, 0.0, 0.0) };
        let delivered = (last.delivered - first.delivered) as f64;
        let retransmitted = (last.retransmitted - first.retransmitted) as f64;
        (delivered, retransmitted, last.at.saturating_duration_since(first.at).as_secs_f64())
    }

    /// Returns the rate in bit/s of about the last `time`.
    pub(super) fn rate_over(&self, time: Duration) -> f64 {
        let (delivered, _, elapsed) = self.over(time);
        if elapsed > 0.0 { delivered * 8.0 / elapsed } else { 0.0 }
    }

    /// Returns the share of retransmitted bytes of about the last `time`.
    pub(super) fn loss(&self, time: Duration) -> f64 {
        let (delivered, retransmitted, _) = self.over(time);
        retransmitted / (delivered + retransmitted).max(1.0)
    }
}

/// Time for which looks are kept.
const MEMORY: Duration = Duration::from_secs(4);
