//! Gathers looks at a direction until they are enough for a finding.

use super::facts::{Facts, Sink, Source, UNREAD};
use crate::path::laws::LossResponse;
use crate::path::limit::Limit;
use crate::path::sample::Sample;
use std::time::{Duration, Instant};

/// One look at both legs of a direction.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// The leg from which the bytes come. All zero where the program that sends is on the sink's own host: its bytes need no time to come.
    pub source: Sample,
    /// The leg on which they go on.
    pub sink: Sample,
    /// Payload bytes that the sink has taken since the flow began.
    pub carried: u64,
}

/// The looks at a direction since the window began.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    first: Option<(Instant, Looks)>,
    /// Bytes acknowledged and lost in the windows before, the earlier ones for less each.
    lately: (u64, u64),
    count: u32,
    limits: [u32; Limit::ALL.len()],
    /// Sums over the looks.
    rtt: Duration,
    silent: Duration,
    /// Smallest and largest window.
    windows: (u64, u64),
    /// Number of looks at which the window was below half of the largest one before, and at which the relay was behind.
    closed: u32,
    behind: u32,
    delivery: u64,
    cap: u64,
    /// Time and acknowledged bytes at the beginning of the current third, and the smallest and the largest rate of one in bit/s.
    third: Option<(Instant, u64)>,
    rates: Option<(f64, f64)>,
}

impl Watch {
    /// Takes a look. Returns the facts of a window that ends with it; the next window begins with it, too. `response` returns that of
    /// the sink's congestion control, and is called only then.
    pub fn look(
        &mut self,
        now: Instant,
        looks: &Looks,
        response: impl FnOnce() -> Option<LossResponse>,
    ) -> Option<Facts> {
        let Some((began, first)) = self.first else {
            self.begin(now, looks);
            return None;
        };
        self.add(now, looks);
        let elapsed = now.saturating_duration_since(began);
        let is_enough = elapsed >= LEAST_TIME.max(LEAST_ROUND_TRIPS * looks.sink.rtt) && self.count >= LEAST_LOOKS;
        if !is_enough {
            return None;
        }
        let facts = self.facts(elapsed, &first, looks, response());
        let lately = (facts.sink.acked_lately, facts.sink.lost_lately);
        *self = Watch { lately, ..Watch::default() };
        self.begin(now, looks);
        Some(facts)
    }

    fn begin(&mut self, now: Instant, looks: &Looks) {
        self.first = Some((now, *looks));
        self.third = Some((now, looks.sink.acked_bytes));
    }

    fn add(&mut self, now: Instant, looks: &Looks) {
        let Looks { source, sink, .. } = looks;
        self.windows = match self.count {
            0 => (sink.peer_window, sink.peer_window),
            _ => (self.windows.0.min(sink.peer_window), self.windows.1.max(sink.peer_window)),
        };
        self.closed += u32::from(sink.peer_window * 2 < self.windows.1);
        self.behind += u32::from(source.received_bytes.saturating_sub(looks.carried) >= UNREAD);
        self.count += 1;
        self.limits[Limit::of(sink) as usize] += 1;
        self.rtt += sink.rtt;
        self.silent += source.since_received;
        if !sink.is_app_limited {
            self.delivery = self.delivery.max(sink.delivery_rate);
        }
        self.cap = self.cap.max(sink.max_pacing_rate.unwrap_or(0));
        let Some((began, acked)) = self.third else { return };
        let elapsed = now.saturating_duration_since(began);
        if elapsed >= LEAST_TIME / 3 {
            let rate = bits(sink.acked_bytes.saturating_sub(acked)) / elapsed.as_secs_f64();
            let (least, most) = self.rates.unwrap_or((rate, rate));
            (self.rates, self.third) = (Some((least.min(rate), most.max(rate))), Some((now, sink.acked_bytes)));
        }
    }

    fn facts(&self, elapsed: Duration, first: &Looks, last: &Looks, response: Option<LossResponse>) -> Facts {
        let (from, to) = (&first.sink, &last.sink);
        let busy = to.busy.saturating_sub(from.busy);
        let part = |whole: Duration, part: Duration| part.as_secs_f64() / whole.as_secs_f64().max(1e-3);
        let of_looks = |count: u32| f64::from(count) / f64::from(self.count.max(1));
        let (slowest, fastest) = self.rates.unwrap_or_default();
        let acked = to.acked_bytes.saturating_sub(from.acked_bytes);
        let retransmitted = to.retransmitted_bytes.saturating_sub(from.retransmitted_bytes);
        let duplicates = to.duplicates.saturating_sub(from.duplicates);
        let lost = retransmitted.saturating_sub(u64::from(duplicates) * u64::from(to.mss_bytes));
        let kept = |before: u64| before / 5 * 4;
        Facts {
            elapsed,
            carried: last.carried.saturating_sub(first.carried),
            is_ssh: false,
            source: Source {
                rtt: last.source.rtt,
                least_rtt: last.source.least_rtt(),
                silent: self.silent / self.count.max(1),
                behind: of_looks(self.behind),
            },
            sink: Sink {
                rtt: self.rtt / self.count.max(1),
                min_rtt: to.min_rtt,
                limits: self.limits.map(of_looks),
                busy: part(elapsed, busy).min(1.0),
                limited_by_peer: part(busy, to.limited_by_peer.saturating_sub(from.limited_by_peer)),
                limited_by_buffer: part(busy, to.limited_by_send_buffer.saturating_sub(from.limited_by_send_buffer)),
                least_window: self.windows.0,
                window: self.windows.1,
                closed: self.closed,
                acked,
                retransmitted,
                acked_lately: acked.saturating_add(kept(self.lately.0)),
                lost_lately: lost.saturating_add(kept(self.lately.1)),
                answers: to.received_segments.wrapping_sub(from.received_segments),
                duplicates,
                reorderings: to.reorderings.saturating_sub(from.reorderings),
                timeouts: to.timeouts,
                slowest,
                fastest,
                delivery: bits(self.delivery),
                cap: bits(self.cap),
                mss: to.mss_bytes,
                response,
            },
        }
    }
}

fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

/// Least length of a window: three seconds, or so many round trips.
const LEAST_TIME: Duration = Duration::from_secs(3);
const LEAST_ROUND_TRIPS: u32 = 10;
/// Least number of looks in a window.
const LEAST_LOOKS: u32 = 8;
