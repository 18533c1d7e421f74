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
    /// Whether bytes waited, and none was acknowledged, although some were in the looks before: an outage. At a start, none was.
    pub(super) is_dark: bool,
    delivered: u64,
    retransmitted: u64,
}

impl PathLook {
    /// Returns the longest queue that the bursts of the flows make, and delayed acknowledgements, on a line of `line` bit/s.
    pub(super) fn bursts(&self, line: f64) -> Duration {
        let (active, waiting) = (f64::from(self.active), f64::from(self.waiting));
        let packet = f64::from(self.segment) * 8.0 / line.max(1.0);
        // Not every slow leg has an acknowledgement between two looks.
        let bursts = (3.0 + active.max(waiting).min(MOST_LEGS) / 2.0) * packet;
        let delayed = if line < SINGLE_SEGMENTS * waiting { (waiting * packet).min(DELAYED_ACK) } else { 0.0 };
        Duration::try_from_secs_f64(bursts + delayed).unwrap_or(MOST_SHORT).min(MOST_SHORT)
    }
}

impl History {
    /// Adds a look, and forgets those that are older than [`MEMORY`].
    pub(super) fn add(&mut self, now: Instant, look: &PathLook) {
        let (delivered, retransmitted, was_dark) =
            self.looks.back().map_or((0, 0, false), |last| (last.delivered, last.retransmitted, last.is_dark));
        let has_moved = self.looks.iter().rev().take(FEW).any(|seen| seen.delivered < delivered);
        while self.looks.front().is_some_and(|first| now.saturating_duration_since(first.at) > MEMORY) {
            self.looks.pop_front();
        }
        self.looks.push_back(Seen {
            at: now,
            rtt: look.rtt,
            deviation: look.deviation,
            is_dark: look.delivered == 0 && look.waiting > 0 && (was_dark || has_moved),
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

    /// Returns by how much the path's round-trip time varies without a queue.
    pub(super) fn noise(&self) -> Duration {
        let measured = self.since(Duration::from_secs(3)).filter(|seen| seen.rtt.is_some());
        measured.map(|seen| seen.deviation).min().unwrap_or_default().min(MOST_NOISE)
    }

    /// Returns bytes acknowledged and bytes retransmitted in about the last `time`, and the exact time.
    pub(super) fn over(&self, time: Duration) -> (f64, f64, f64) {
        self.between(time, Duration::ZERO)
    }

    /// Returns the same between two times ago, the longer one first.
    fn between(&self, from: Duration, to: Duration) -> (f64, f64, f64) {
        // The totals of a look are those at its time, so the last one that is old enough is where the count begins. Looks may be rare.
        let Some(newest) = self.looks.back() else { return (0.0, 0.0, 0.0) };
        let at_least = |time: Duration| {
            let is_old = |seen: &&Seen| newest.at.saturating_duration_since(seen.at) >= time;
            self.looks.iter().rev().find(is_old).or(self.looks.front())
        };
        let (Some(first), Some(last)) = (at_least(from), at_least(to)) else { return (0.0, 0.0, 0.0) };
        last.after(first)
    }

    /// Returns the rate in bit/s of about the last `time`.
    pub(super) fn rate_over(&self, time: Duration) -> f64 {
        rate(self.over(time))
    }

    /// Returns the rate in bit/s between two times ago, the longer one first; 0 without looks there.
    pub(super) fn rate_between(&self, from: Duration, to: Duration) -> f64 {
        rate(self.between(from, to))
    }

    /// Returns the rate in bit/s since the look before.
    pub(super) fn last_rate(&self) -> f64 {
        self.rate_over(SHORTEST)
    }

    /// Whether the rate still grows. Fewer than three looks do not show that it no longer does.
    pub(super) fn grows(&self) -> bool {
        let mut newest = self.looks.iter().rev().take(3);
        let (Some(last), Some(middle), Some(first)) = (newest.next(), newest.next(), newest.next()) else {
            return true;
        };
        rate(last.after(middle)) > GROWS * rate(middle.after(first))
    }

    /// Returns the share of retransmitted bytes of about the last `time`.
    pub(super) fn loss(&self, time: Duration) -> f64 {
        loss(self.over(time))
    }

    /// Returns the time from the first look of the last `time` with a share of at least `least` retransmitted to the last such look.
    pub(super) fn lossy_for(&self, time: Duration, least: f64) -> Duration {
        let pairs = self.looks.iter().zip(self.looks.iter().skip(1));
        let now = self.looks.back().map(|last| last.at);
        let mut lossy = pairs.filter_map(|(before, look)| {
            let is_recent = now.is_some_and(|now| now.saturating_duration_since(look.at) <= time);
            let share = loss(look.after(before));
            (is_recent && share > 0.0 && share >= least).then_some(look.at)
        });
        let Some(first) = lossy.next() else { return Duration::ZERO };
        lossy.next_back().unwrap_or(first).saturating_duration_since(first)
    }
}

impl Seen {
    /// Returns bytes acknowledged and bytes retransmitted after the look `before`, and the time in seconds.
    fn after(&self, before: &Seen) -> (f64, f64, f64) {
        let delivered = (self.delivered - before.delivered) as f64;
        let retransmitted = (self.retransmitted - before.retransmitted) as f64;
        (delivered, retransmitted, self.at.saturating_duration_since(before.at).as_secs_f64())
    }
}

fn rate((delivered, _, elapsed): (f64, f64, f64)) -> f64 {
    delivered * 8.0 / elapsed.max(SHORTEST.as_secs_f64())
}

fn loss((delivered, retransmitted, _): (f64, f64, f64)) -> f64 {
    retransmitted / (delivered + retransmitted).max(1.0)
}

/// Longest queue that counts as short because of the flows' bursts, on slow lines.
pub(super) const MOST_SHORT: Duration = Duration::from_millis(80);
/// Largest noise of a path's round-trip time that is taken for noise.
const MOST_NOISE: Duration = Duration::from_millis(25);
/// Number of legs whose bursts count.
const MOST_LEGS: f64 = 16.0;
/// Rate in bit/s below which the kernel's BBR sends one segment at a time (`bbr_min_tso_segs`). The peer then delays the acknowledgement
/// until the next one comes (RFC 1122 4.2.3.2), for so many seconds at most (`TCP_DELACK_MIN`).
const SINGLE_SEGMENTS: f64 = 1_200_000.0;
const DELAYED_ACK: f64 = 0.04;
/// Time for which looks are kept.
const MEMORY: Duration = Duration::from_secs(4);
/// Shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(1);
/// Number of looks before an outage, one of which has acknowledged bytes.
const FEW: usize = 4;
/// Multiple of the rate of a look above which that of the next one says that the rate still grows.
const GROWS: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;

    /// A request long ago, and then bulk, of which no look has seen an acknowledgement yet.
    #[test]
    fn a_start_on_a_quiet_path_is_no_outage() {
        let mut history = History::default();
        let start = Instant::now();
        let mut see = |tenth: u32, delivered, waiting| {
            history.add(
                start + tenth * Duration::from_millis(100),
                &PathLook { delivered, waiting, ..PathLook::default() },
            );
            history.since(Duration::ZERO).any(|seen| seen.is_dark)
        };
        assert!(!see(0, 100, 0) && (1..50).all(|tenth| !see(tenth, 0, 0)));
        assert!((50..53).all(|tenth| !see(tenth, 0, 1)), "a start");
        assert!(!see(53, 100_000, 1) && (54..100).all(|tenth| see(tenth, 0, 1)), "an outage");
    }
}
