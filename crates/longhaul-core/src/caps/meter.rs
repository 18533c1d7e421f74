//! The demand of one direction of a flow, from what it has sent and what waits.
//!
//! - Nothing waits: the source is the limit. The demand is the mean rate of the last second, and a quarter more.
//! - Bytes wait: the path or the limit holds them back. The demand is twice the rate of the last tenth of a second. A
//!   flow that is held back by its limit so gets twice as much with each look, and a flow that its path or its reader
//!   holds back reserves no more than twice what it uses. Below a strict cap, whose account does not give others what is
//!   reserved in vain, it is a quarter more, and not twice.
//! - Bytes have begun to wait: the rate says nothing yet. The demand is what sends them in [`EMPTYING`], up to a fair
//!   share.
//! - Bytes wait until the kernel's pacing has paid for the last segment, which can take seconds: the limit holds them back. The
//!   demand is what sends them in [`EMPTYING`]. Without this, the rate would be forgotten between two segments.

use longhaul_units::Rate;
use std::time::{Duration, Instant};

/// One direction of a flow at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of bytes that the sink's socket has taken so far.
    pub taken: u64,
    /// Number of those that the socket has not sent yet.
    pub unsent: u64,
    /// Whether the pump waits for the sink, so that more bytes wait than the socket can take.
    pub is_blocked: bool,
}

/// Measures one direction of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    /// Time of the last look.
    at: Instant,
    /// Number of bytes sent at the last look.
    sent: u64,
    is_new: bool,
    /// Rate of the last tenth of a second, in bit/s.
    recent: f64,
    /// Rate of the last second, in bit/s.
    mean: f64,
    waiting: Option<Waiting>,
    /// Whether bytes were sent between the last two looks.
    has_moved: bool,
}

/// Bytes that wait.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    /// Rate that sends them in [`EMPTYING`].
    rate: Rate,
}

impl Meter {
    /// Returns the meter of a direction that has sent `sent` bytes by `now`.
    pub(super) fn begin(now: Instant, sent: u64) -> Meter {
        Meter { at: now, sent, is_new: true, recent: 0.0, mean: 0.0, waiting: None, has_moved: false }
    }

    /// Takes a sample. Returns the number of bytes sent since the last one.
    pub(super) fn look(&mut self, now: Instant, sample: &Sample) -> u64 {
        // The two figures of a sample are not from the same moment, so the difference may go back a little.
        let sent = sample.taken.saturating_sub(sample.unsent).max(self.sent);
        let elapsed = now.saturating_duration_since(self.at);
        if elapsed < MIN_ELAPSED {
            return 0;
        }
        let moved = sent - self.sent;
        let rate = moved as f64 * 8.0 / elapsed.as_secs_f64();
        let near = if self.is_new { 1.0 } else { weight(elapsed, RECENT) };
        self.recent += (rate - self.recent) * near;
        self.mean += (rate - self.mean) * weight(elapsed, MEAN);
        (self.at, self.sent, self.is_new, self.has_moved) = (now, sent, false, moved > 0);
        self.waiting = (sample.is_blocked || sample.unsent > 0).then(|| {
            let bits = sample.unsent.saturating_mul(8) as f64 / EMPTYING.as_secs_f64();
            let rate = if sample.is_blocked { Rate(u64::MAX) } else { Rate(bits as u64) };
            Waiting { since: self.waiting.map_or(now, |before| before.since), rate }
        });
        moved
    }

    /// Returns the number of bytes sent at the last look.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether bytes waited at the last look.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether no byte waited at the last look, and none was sent since the one before.
    pub(super) fn is_silent(&self) -> bool {
        !(self.has_moved || self.is_waiting())
    }

    /// Whether bytes waited at the last look, and the flow has recently sent about as much as `limit` allowed.
    pub(super) fn is_held_by(&self, limit: Rate) -> bool {
        self.is_waiting() && self.recent * 2.0 >= limit.0 as f64
    }

    /// Whether bytes waited at the last look, and the flow has recently sent what `limit` allows.
    pub(super) fn uses_all_of(&self, limit: Rate) -> bool {
        self.is_waiting() && self.recent >= limit.0 as f64 * ALL
    }

    /// Returns the demand. `fair` is an equal share for each direction in which bytes wait. `is_held` says that the
    /// kernel has not paid for the last segment yet, `is_strict` that the flow is below a strict cap.
    pub(super) fn demand(&self, fair: Rate, is_held: bool, is_strict: bool) -> Rate {
        let mean = Rate((self.mean * HEADROOM) as u64);
        let Some(Waiting { since, rate }) = self.waiting else { return mean };
        let grown = Rate((self.recent * if is_strict { HEADROOM } else { 2.0 }) as u64);
        let is_fresh = self.at.saturating_duration_since(since) < FRESH;
        let first = match (is_held, is_fresh) {
            (true, _) => rate,
            (false, true) => rate.min(fair),
            (false, false) => Rate(0),
        };
        mean.max(grown).max(first)
    }
}

/// Returns the weight of the last `elapsed` in a mean that forgets with the time constant `memory`.
fn weight(elapsed: Duration, memory: Duration) -> f64 {
    let elapsed = elapsed.as_secs_f64();
    elapsed / (elapsed + memory.as_secs_f64())
}

/// Looks in quicker succession than this see too little to compute a rate.
const MIN_ELAPSED: Duration = Duration::from_millis(1);
const RECENT: Duration = Duration::from_millis(100);
const MEAN: Duration = Duration::from_secs(1);
/// Part of a limit that a flow sends when the limit alone holds it back: BBR sends a little less at times.
const ALL: f64 = 0.92;
/// Factor by which the demand of a flow is above its mean rate.
const HEADROOM: f64 = 1.25;
/// Time in which a flow without a known rate wants to send what waits.
const EMPTYING: Duration = Duration::from_millis(100);
/// Time for which bytes count as having just begun to wait: several round trips.
const FRESH: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const FAIR: Rate = Rate(1_000_000_000);

    /// Returns the meter of a flow that sends `per_look` bytes in each of `looks` looks, 25 ms apart.
    fn after(looks: u32, per_look: u64, unsent: u64, is_blocked: bool) -> Meter {
        let start = Instant::now();
        let mut meter = Meter::begin(start, 0);
        for look in 1..=looks {
            let taken = u64::from(look) * per_look + unsent;
            let moved = meter.look(start + look * Duration::from_millis(25), &Sample { taken, unsent, is_blocked });
            assert_eq!(moved, per_look);
        }
        meter
    }

    #[test]
    fn a_flow_that_its_source_limits_wants_its_rate_and_a_quarter() {
        // 25,000 bytes in 25 ms are 8 Mbit/s.
        let demand = after(400, 25_000, 0, false).demand(FAIR, false, false).0;
        assert!((9_900_000..=10_000_000).contains(&demand), "{demand}");
        assert_eq!(after(400, 0, 0, false).demand(FAIR, false, false), Rate(0));
    }

    #[test]
    fn a_flow_whose_bytes_wait_wants_twice_its_rate() {
        let meter = after(400, 25_000, 1_000_000, true);
        let demand = meter.demand(FAIR, false, false).0;
        assert!((15_900_000..=16_000_000).contains(&demand), "{demand}");
        let strict = meter.demand(FAIR, false, true).0;
        assert!((9_900_000..=10_000_000).contains(&strict), "{strict}");
        assert!(meter.is_held_by(Rate(8_000_000)) && !meter.is_held_by(Rate(100_000_000)));
        assert!(meter.uses_all_of(Rate(8_000_000)) && !meter.uses_all_of(Rate(10_000_000)));
    }

    #[test]
    fn bytes_that_begin_to_wait_want_to_leave_soon_and_a_stuck_reader_wants_nothing() {
        assert_eq!(after(1, 0, 10_000, false).demand(FAIR, false, false), Rate(800_000), "10 kB in 100 ms");
        assert_eq!(after(1, 0, 10_000, true).demand(FAIR, false, false), FAIR, "more bytes are behind them");
        assert_eq!(after(400, 0, 10_000, true).demand(FAIR, false, false), Rate(0));
        assert_eq!(after(400, 0, 10_000, false).demand(Rate(1), true, false), Rate(800_000), "its limit holds it back");
        assert_eq!(after(400, 0, 0, false).demand(FAIR, true, false), Rate(0), "nothing waits");
    }

    #[test]
    fn no_byte_is_counted_twice() {
        let start = Instant::now();
        let mut meter = Meter::begin(start, 100);
        let mut look = |millis, taken, unsent| {
            meter.look(start + Duration::from_millis(millis), &Sample { taken, unsent, is_blocked: false })
        };
        assert_eq!(look(10, 200, 50), 50);
        assert_eq!(look(20, 200, 80), 0, "the figures were not from the same moment");
        assert_eq!(look(20, 300, 0), 0, "too early to see");
        assert_eq!(look(30, 300, 0), 150);
    }
}
