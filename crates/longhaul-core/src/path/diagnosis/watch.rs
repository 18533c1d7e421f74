//! Gathers looks at a direction until they are enough for a finding.

use super::facts::{Facts, POLICED, Processor, Sink, Source, UNREAD};
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
    /// Payload bytes that have arrived at the sink's host on all flows to it: one line serves them.
    pub line_acked: u64,
}

/// The looks at a direction since the window began.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    first: Option<(Instant, Looks)>,
    history: History,
    losses: Losses,
    count: u32,
    limits: [u32; Limit::ALL.len()],
    /// Sums over the looks.
    rtt: Duration,
    silent: Duration,
    /// Smallest and largest window, and the sum over the looks.
    windows: (u64, u64),
    windows_sum: u64,
    /// Number of looks at which the window was below half of the largest one before, and at which the relay was behind.
    closed: u32,
    behind: u32,
    delivery: u64,
    cap: u64,
    /// Time at the beginning of the current third.
    third: Option<Instant>,
    /// The rates of the thirds: of the flow, and of all flows to the sink's host.
    own: Thirds,
    line: Thirds,
}

/// The smallest and the largest rate of a third of a window, in bit/s, and the acknowledged bytes at the beginning of the current one.
#[derive(Clone, Copy, Debug, Default)]
struct Thirds {
    acked: u64,
    rates: Option<(f64, f64)>,
}

impl Thirds {
    fn are_constant(&self) -> bool {
        self.rates.is_some_and(|(slowest, fastest)| slowest > 0.0 && slowest >= CONSTANT * fastest)
    }

    /// Ends a third.
    fn end(&mut self, acked: u64, elapsed: Duration) {
        let rate = bits(acked.saturating_sub(self.acked)) / elapsed.as_secs_f64();
        let (least, most) = self.rates.unwrap_or((rate, rate));
        (self.rates, self.acked) = (Some((least.min(rate), most.max(rate))), acked);
    }
}

/// The windows before the present one.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    /// The losses of all windows, the earlier ones for less each.
    losses: Losses,
    /// Number of windows at a constant rate, the earlier ones for less each.
    constant_windows: f64,
    /// Number of windows in which much was lost, the earlier ones for less each.
    lossy_windows: f64,
    /// The largest number of payload bytes that were lost so far at a look. A duplicate is reported later than it is sent, so it falls again.
    lost: u64,
    /// The shortest round trip at the first look of all.
    first_min_rtt: Option<Duration>,
    /// The largest rate of a third of the first window, and of all later ones, in bit/s.
    first_fastest: Option<f64>,
    fastest: f64,
    /// The largest delivery rate in bit/s.
    delivery: f64,
    /// The last time that a segment came out of order, and the number of them by then.
    disorder: Option<(Instant, u32)>,
}

/// Losses of some looks.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    looks: f64,
    acked: u64,
    /// Bytes retransmitted, without those that the peer had already.
    lost: u64,
    /// Sums of the segments lost between two looks, and of their squares.
    segments: f64,
    squares: f64,
}

impl Losses {
    fn add(&mut self, lost: u64, mss: u32) {
        let segments = lost as f64 / f64::from(mss.max(1));
        self.looks += 1.0;
        self.lost += lost;
        self.segments += segments;
        self.squares += segments * segments;
    }

    /// Returns these and the `earlier` ones, which count for less.
    fn after(self, earlier: Losses) -> Losses {
        let kept = |before: u64| (before as f64 * KEPT) as u64;
        Losses {
            looks: self.looks + KEPT * earlier.looks,
            acked: self.acked.saturating_add(kept(earlier.acked)),
            lost: self.lost.saturating_add(kept(earlier.lost)),
            segments: self.segments + KEPT * earlier.segments,
            squares: self.squares + KEPT * earlier.squares,
        }
    }

    /// Returns the variance of the segments lost between two looks, divided by its mean; 0 without losses.
    fn dispersion(&self) -> f64 {
        if self.segments <= 0.0 {
            return 0.0;
        }
        let mean = self.segments / self.looks;
        (self.squares / self.looks - mean * mean) / mean
    }
}

impl History {
    /// Whether the segments of `source` have come in order for [`DISORDER`], or since it began.
    fn is_in_order(&mut self, now: Instant, source: &Sample) -> bool {
        let count = source.out_of_order;
        // A kernel that does not report the peer's window does not report this either. Both came with 5.4.
        if source.peer_window == 0 || count == 0 {
            return source.peer_window > 0;
        }
        let (since, before) = *self.disorder.get_or_insert((now, count));
        if count != before {
            self.disorder = Some((now, count));
        }
        count == before && now.saturating_duration_since(since) >= DISORDER
    }
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
        self.losses.acked = looks.sink.acked_bytes.saturating_sub(first.sink.acked_bytes);
        self.end();
        let is_in_order = self.history.is_in_order(now, &looks.source);
        let mut facts = self.facts(elapsed, &first, looks, response());
        facts.source.is_in_order = is_in_order;
        *self = Watch { history: self.history, ..Watch::default() };
        self.begin(now, looks);
        Some(facts)
    }

    fn begin(&mut self, now: Instant, looks: &Looks) {
        self.first = Some((now, *looks));
        self.third = Some(now);
        (self.own.acked, self.line.acked) = (looks.sink.acked_bytes, looks.line_acked);
        self.history.lost = self.history.lost.max(lost(&looks.sink));
        self.history.first_min_rtt.get_or_insert(looks.sink.min_rtt);
    }

    /// Adds the window to the history.
    fn end(&mut self) {
        let history = &mut self.history;
        let share = self.losses.lost as f64 / (self.losses.acked + self.losses.lost).max(1) as f64;
        history.lossy_windows = history.lossy_windows * KEPT + f64::from(u8::from(share >= POLICED));
        history.losses = self.losses.after(history.losses);
        history.delivery = history.delivery.max(bits(self.delivery));
        let (_, fastest) = self.own.rates.unwrap_or_default();
        history.constant_windows = history.constant_windows * KEPT + f64::from(u8::from(self.line.are_constant()));
        match history.first_fastest {
            None => history.first_fastest = Some(fastest),
            Some(_) => history.fastest = history.fastest.max(fastest),
        }
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
        self.windows_sum += sink.peer_window;
        let lost = lost(sink);
        self.losses.add(lost.saturating_sub(self.history.lost), sink.mss_bytes);
        self.history.lost = self.history.lost.max(lost);
        let limit = Limit::of(sink);
        self.limits[limit as usize] += 1;
        self.rtt += sink.rtt;
        self.silent += source.since_received;
        if !sink.is_app_limited {
            self.delivery = self.delivery.max(sink.delivery_rate);
        }
        self.cap = self.cap.max(sink.max_pacing_rate.unwrap_or(0));
        let Some(began) = self.third else { return };
        let elapsed = now.saturating_duration_since(began);
        if elapsed >= LEAST_TIME / 3 {
            self.own.end(sink.acked_bytes, elapsed);
            self.line.end(looks.line_acked, elapsed);
            self.third = Some(now);
        }
    }

    fn facts(&self, elapsed: Duration, first: &Looks, last: &Looks, response: Option<LossResponse>) -> Facts {
        Facts {
            elapsed,
            carried: last.carried.saturating_sub(first.carried),
            is_ssh: false,
            processor: Processor::default(),
            source: Source {
                rtt: last.source.rtt,
                least_rtt: last.source.least_rtt(),
                receive_rtt: last.source.receive_rtt,
                is_in_order: false,
                silent: self.silent / self.count.max(1),
                answered: last.source.acked_bytes.saturating_sub(first.source.acked_bytes),
                behind: self.of_looks(self.behind),
            },
            sink: Sink { response, ..self.sink(elapsed, &first.sink, &last.sink) },
        }
    }

    fn sink(&self, elapsed: Duration, from: &Sample, to: &Sample) -> Sink {
        let busy = to.busy.saturating_sub(from.busy);
        let part = |whole: Duration, part: Duration| part.as_secs_f64() / whole.as_secs_f64().max(1e-3);
        let (slowest, fastest) = self.own.rates.unwrap_or_default();
        Sink {
            rtt: self.rtt / self.count.max(1),
            min_rtt: to.min_rtt,
            first_min_rtt: self.history.first_min_rtt.unwrap_or_default(),
            limits: self.limits.map(|count| self.of_looks(count)),
            constant_windows: if self.line.are_constant() { self.history.constant_windows } else { 0.0 },
            busy: part(elapsed, busy).min(1.0),
            limited_by_peer: part(busy, to.limited_by_peer.saturating_sub(from.limited_by_peer)),
            limited_by_buffer: part(busy, to.limited_by_send_buffer.saturating_sub(from.limited_by_send_buffer)),
            least_window: self.windows.0,
            mean_window: self.windows_sum / u64::from(self.count.max(1)),
            window: self.windows.1,
            closed: self.closed,
            acked: self.losses.acked,
            acked_in_all: to.acked_bytes,
            retransmitted: to.retransmitted_bytes.saturating_sub(from.retransmitted_bytes),
            acked_lately: self.history.losses.acked,
            lost_lately: self.history.losses.lost,
            loss_dispersion: self.history.losses.dispersion(),
            lossy_windows: self.history.lossy_windows,
            answers: to.received_segments.wrapping_sub(from.received_segments),
            duplicates: to.duplicates.saturating_sub(from.duplicates),
            reorderings: to.reorderings.saturating_sub(from.reorderings),
            timeouts: to.timeouts,
            slowest,
            fastest,
            line_rate: self.line.rates.map_or(0.0, |(_, fastest)| fastest),
            first_fastest: self.history.first_fastest.unwrap_or_default(),
            later_fastest: self.history.fastest,
            delivery: bits(self.delivery),
            best_delivery: self.history.delivery,
            cap: bits(self.cap),
            mss: to.mss_bytes,
            response: None,
        }
    }

    fn of_looks(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.count.max(1))
    }
}

/// Returns the bytes lost so far: retransmitted, without those that the peer had already.
fn lost(sink: &Sample) -> u64 {
    sink.retransmitted_bytes.saturating_sub(u64::from(sink.duplicates) * u64::from(sink.mss_bytes))
}

fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

/// Least length of a window: three seconds, or so many round trips.
const LEAST_TIME: Duration = Duration::from_secs(3);
const LEAST_ROUND_TRIPS: u32 = 10;
/// Time for which a loss may hold back its sender.
const DISORDER: Duration = Duration::from_secs(60);
/// Rate of the slowest third of a window, as a part of the fastest, at a constant rate. A line of its own gave 0.995 and more, and eight flows
/// together 0.992.
const CONSTANT: f64 = 0.99;
/// Part of the losses of a window that the next one keeps.
const KEPT: f64 = 0.8;
/// Least number of looks in a window.
const LEAST_LOOKS: u32 = 8;
