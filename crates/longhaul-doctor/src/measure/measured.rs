//! A measured path: what the steps have shown, and what follows from it.

use super::ladder::Ladder;
use super::session::{Echoed, Outcome};
use super::trains::Line;
use longhaul_core::path::diagnosis::{Facts, Finding, Kind, Looks, Watch};
use longhaul_core::path::laws::{LossResponse, bandwidth_delay, packet, window_rate};
use longhaul_core::path::measured::{REORDERED, Run, Way};
use longhaul_measure::look::Look;
use longhaul_measure::message::{Buffers, Direction, Ran};
use longhaul_units::{Bytes, Rate};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A measured path.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// The far end as it was named, and its address.
    pub(super) to: String,
    /// The tunnel whose daemon has made the connections.
    pub(super) tunnel: Option<String>,
    pub(super) address: Option<SocketAddr>,
    /// Name and version of the far host; empty if it does not answer to us.
    pub(super) name: String,
    pub(super) version: String,
    /// Time that the connection took.
    pub(super) connect: Duration,
    /// Round trips of small messages before the first run, in the order in which they came.
    pub(super) idle: Vec<Duration>,
    /// The times of these messages; empty if nobody answered them.
    pub(super) echoes: Vec<Echoed>,
    /// The smallest round trip that the kernel saw.
    pub(super) kernel_rtt: Option<Duration>,
    /// MSS of a connection whose ends chose it.
    pub(super) mss: Option<u32>,
    pub(super) ladder: Ladder,
    /// The trains up and down, and the rate of the line by them.
    pub(super) lines: [Line; 2],
    /// The largest MSS whose packets no box cuts into fragments, up and down, where larger ones lose more.
    pub(super) uncut: [Option<u32>; 2],
    /// The largest rate that the measurement may send, of IP packets.
    pub(super) limit: Option<Rate>,
    /// The largest buffers of this host and of the far one.
    pub(super) buffers: [Buffers; 2],
    /// The runs, in their order.
    pub(super) outcomes: Vec<Outcome>,
    /// What could not be measured, and why.
    pub(super) notes: Vec<String>,
    /// Why the measurement ended before its time.
    pub(super) ended: Option<Ended>,
}

/// Why a measurement ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Ctrl-C.
    Interrupted,
    /// The session was lost, for this reason.
    Lost(String),
    /// No answer came any more, after bytes had gone in this direction.
    Died(Direction),
}

/// The three metrics of RFC 6349 (section 4) for one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Metrics {
    /// Time of the transfer, as a multiple of that which the line needs (4.1).
    pub(super) transfer_time_ratio: f64,
    /// Share of the bytes that were not retransmitted (4.2).
    pub(super) efficiency: f64,
    /// How much the mean round trip was longer than the baseline, as a part of it (4.3).
    pub(super) buffer_delay: f64,
}

/// A finding, and the direction that has it.
pub(super) type Found = (Direction, Finding);

impl Measured {
    /// Returns the smallest round trip; `None` if none was measured.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        let looks = self.outcomes.iter().flat_map(|outcome| &outcome.sender.looks).map(|look| look.min_rtt);
        let looks = looks.filter(|rtt| *rtt > 0).map(Duration::from_micros);
        self.idle.iter().copied().chain(self.kernel_rtt).chain(looks).min()
    }

    /// Returns the time for which the small messages before the first run waited in `direction`, at the median.
    ///
    /// The round trip tells how long both ways are together. How much each changed from message to message tells whose queue that is.
    /// A queue that does not change counts for both ways.
    pub(super) fn idle_queue(&self, direction: Direction) -> Option<Duration> {
        let mut idle = self.idle.clone();
        idle.sort_unstable();
        let both = idle.get(idle.len() / 2)?.saturating_sub(self.min_rtt()?);
        let changes = Direction::ALL.map(|direction| {
            let mut times: Vec<f64> = self.echoes.iter().map(|echoed| echoed.one_way(direction)).collect();
            times.sort_unstable_by(f64::total_cmp);
            times.get(times.len() / 2).map_or(0.0, |median| median - times[0])
        });
        let sum: f64 = changes.iter().sum();
        if sum < LEAST_CHANGE.max(0.1 * both.as_secs_f64()) {
            return Some(both);
        }
        Some(both.mul_f64((changes[direction as usize] / sum).clamp(0.0, 1.0)))
    }

    /// Returns the smoothed round trip during the first run in `direction`, on the mean.
    pub(super) fn loaded_rtt(&self, direction: Direction) -> Option<Duration> {
        let looks = steady(&self.first(direction).filter(|first| first.rate().0 > 0)?.sender.looks);
        let sum: Duration = looks.iter().map(|look| Duration::from_micros(look.rtt)).sum();
        (!looks.is_empty()).then(|| sum / looks.len() as u32)
    }

    /// Returns the share of the bytes that single connections in `direction` lost after their starts. A burst of losses, as when a queue
    /// overflows, does not count where the losses of the other looks are enough to tell it.
    pub(super) fn loss(&self, direction: Direction) -> Option<f64> {
        let (sent, lost) = self.lost_segments(direction);
        (sent > 0.0).then(|| lost / sent)
    }

    /// Returns the segments that single connections in `direction` sent after their starts, and those of them that were lost, without bursts.
    fn lost_segments(&self, direction: Direction) -> (f64, f64) {
        let mss_of = self.mss_of(direction);
        let is_counted =
            |outcome: &&Outcome| outcome.run.connections == 1 && outcome.mss == mss_of && outcome.rate().0 > 0;
        let runs = self.of(direction).filter(is_counted).filter(|outcome| self.knows_lost(outcome));
        by_chance(runs.flat_map(|outcome| steady(&outcome.sender.looks).windows(2).map(segments)).collect())
    }

    /// Returns the rate of the line in `direction`, in bits of IP packets, and whether it was reached. Otherwise it is at least that.
    pub(super) fn rate(&self, direction: Direction) -> Option<(Rate, bool)> {
        let best = self.of(direction).map(|outcome| self.on_line(outcome)).max().unwrap_or_default();
        let line = self.lines[direction as usize].rate;
        match line {
            // A run lasts longer than a train, so its rate is the better one.
            Some(line) if (best.0 as f64) < 0.9 * line.0 as f64 => Some((line, true)),
            _ if best.0 == 0 => None,
            line => Some((best, line.is_some() || self.way(direction).is_line_reached())),
        }
    }

    /// Returns the rate of `outcome` in bits of IP packets.
    fn on_line(&self, outcome: &Outcome) -> Rate {
        let sender = &outcome.sender;
        match sender.looks.last() {
            Some(look) if look.mss > 0 => {
                let packet = f64::from(sender.mss) + f64::from(self.headers());
                Rate((outcome.rate().0 as f64 * packet / f64::from(look.mss)) as u64)
            }
            // The run ended without the sender's result: its packets are not known.
            _ => outcome.rate(),
        }
    }

    /// Returns the bytes in flight that fill the path.
    pub(super) fn bandwidth_delay(&self) -> Option<Bytes> {
        let rate = Direction::ALL.iter().filter_map(|direction| self.rate(*direction)).map(|(rate, _)| rate).max()?;
        Some(bandwidth_delay(rate, self.min_rtt()?))
    }

    /// Returns the rate of payload that the line carries.
    pub(super) fn line_payload(&self, direction: Direction) -> Option<Rate> {
        Some(self.payload(self.rate(direction)?.0, direction))
    }

    /// Returns the largest MSS that the path carries whole, if the first run's was larger.
    pub(super) fn whole_mss(&self, direction: Direction) -> Option<u32> {
        let of_mtu = self.ladder.path_mtu[direction as usize].map(|mtu| mtu.saturating_sub(self.headers()));
        let first = self.first(direction).map_or(0, |first| first.sender.mss);
        self.uncut[direction as usize].into_iter().chain(of_mtu).min().filter(|mss| *mss < first)
    }

    /// Returns the metrics of a run, or `None` without the rate of the line or a byte.
    pub(super) fn metrics(&self, outcome: &Outcome) -> Option<Metrics> {
        let direction = outcome.run.direction;
        let line = self.line_payload(direction)?;
        let Ran { acked, retransmitted, looks, .. } = &outcome.sender;
        let (at, bytes) = outcome.series.last()?;
        if *bytes == 0 {
            return None;
        }
        let achieved = *bytes as f64 * 8.0 / at.as_secs_f64().max(1e-3);
        let baseline = self.min_rtt()?.as_secs_f64();
        let mean = looks.iter().map(|look| look.rtt as f64 / 1e6).sum::<f64>() / looks.len().max(1) as f64;
        Some(Metrics {
            transfer_time_ratio: line.0 as f64 / achieved.max(1.0),
            efficiency: *acked as f64 / (acked + retransmitted).max(1) as f64,
            buffer_delay: ((mean - baseline) / baseline.max(1e-6)).max(0.0),
        })
    }

    /// Returns what limits the path, first what is worth most to lift.
    pub(super) fn findings(&self) -> Vec<Found> {
        let mut weighted: Vec<(f64, Found)> = Vec::new();
        for direction in Direction::ALL {
            let findings = self.way(direction).findings();
            let is_full = findings.first().is_some_and(|first| first.kind == Kind::LinkRate);
            for (nth, finding) in findings.into_iter().enumerate() {
                let found = (direction, finding);
                // What another congestion control would suffer from limits nothing where that of the hosts fills the line.
                let weight = if is_full && nth > 0 { OF_OTHERS } else { self.weight(&found) };
                weighted.push((weight, found));
            }
        }
        // Stable: the order of a direction stays where the weight is the same.
        weighted.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        weighted.into_iter().map(|(_, found)| found).collect()
    }

    /// Returns the direction as the decision takes it.
    pub(super) fn way(&self, direction: Direction) -> Way {
        let is_full = |outcome: &&Outcome| outcome.mss.is_none();
        let run = |outcome: &Outcome| self.run(outcome);
        let runs: Vec<Run> = self.of(direction).filter(is_full).map(run).collect();
        let first_mss = runs.first().map_or(u32::MAX, |run| run.mss);
        // With other segments only: another congestion control, or several connections, lift other limits, too.
        let is_like_first = |outcome: &Outcome| outcome.run.connections == 1 && outcome.run.congestion.is_none();
        let others = self.of(direction).filter(|outcome| outcome.mss.is_some() && is_like_first(outcome)).map(run);
        let others: Vec<Run> = others.filter(|run| run.mss < first_mss).collect();
        let best = others.iter().map(|run| run.rate).max().unwrap_or_default();
        // Of those that are about as fast, the one with the largest segments.
        let fast = others.into_iter().filter(|run| run.rate.0 as f64 >= 0.8 * best.0 as f64);
        let smaller = fast.max_by_key(|run| run.mss);
        let (sent, lost) = self.lost_segments(direction);
        Way {
            is_from_here: direction == Direction::Up,
            min_rtt: self.min_rtt().unwrap_or_default(),
            idle_queue: self.idle_queue(direction).unwrap_or_default(),
            runs,
            smaller,
            overtaken: self.lines[direction as usize].reordered().unwrap_or_default(),
            is_policed: self.lines[direction as usize].is_policed,
            uncut: self.uncut[direction as usize],
            loss: (lost >= FEW).then(|| lost / sent),
            line: self.lines[direction as usize].rate.map(|line| self.payload(line, direction)),
            ceilings: self.ceilings(direction),
            limit: self.limit.map(|limit| self.payload(limit, direction)),
            has_died: self.ended == Some(Ended::Died(direction)),
        }
    }

    /// Returns the run as the decision takes it.
    fn run(&self, outcome: &Outcome) -> Run {
        let sender = &outcome.sender;
        Run {
            congestion: sender.congestion.clone(),
            connections: outcome.run.connections,
            rate: outcome.rate(),
            mss: sender.mss,
            facts: facts(outcome),
            cpu: sender.cpu.max(outcome.receiver.cpu),
            throttled: sender.throttled.max(outcome.receiver.throttled),
            is_sender_busier: (sender.throttled, sender.cpu) >= (outcome.receiver.throttled, outcome.receiver.cpu),
            lost: if self.knows_lost(outcome) { outcome.lost_share() } else { 0.0 },
        }
    }

    /// Whether what the sender of `outcome` sent again was lost. On a path that reorders it may only have been late, which a sender learns
    /// by DSACK (RFC 2883).
    fn knows_lost(&self, outcome: &Outcome) -> bool {
        let last = outcome.sender.looks.last();
        let is_guess = last.is_some_and(|look| look.retransmitted > 0 && look.duplicates == 0);
        !(is_guess && self.is_reordering(outcome.run.direction))
    }

    fn is_reordering(&self, direction: Direction) -> bool {
        self.lines[direction as usize].reordered().is_some_and(|share| share >= REORDERED)
    }

    /// Returns the rate of payload that fills `line` in segments of `mss` bytes with timestamps, or in those that the ends choose.
    pub(super) fn payload_in(&self, line: Rate, mss: Option<u32>) -> Rate {
        let Some(mss) = mss.into_iter().chain(self.mss).min() else { return line };
        let payload = f64::from(mss.saturating_sub(TIMESTAMPS));
        Rate((line.0 as f64 * payload / f64::from(mss + self.headers())) as u64)
    }

    /// Returns the rate of payload that a line of `line` carries in segments as those of the first run in `direction`.
    fn payload(&self, line: Rate, direction: Direction) -> Rate {
        let sender = self.first(direction).map(|first| &first.sender);
        let payload = sender.and_then(|sender| sender.looks.last()).map_or(0, |look| look.mss);
        let packet = f64::from(sender.map_or(0, |sender| sender.mss)) + f64::from(self.headers());
        if payload == 0 { line } else { Rate((line.0 as f64 * f64::from(payload) / packet) as u64) }
    }

    /// Returns the rates that the largest buffers of the sender and the receiver allow.
    fn ceilings(&self, direction: Direction) -> Vec<(Rate, Kind)> {
        let Some(rtt) = self.min_rtt() else { return Vec::new() };
        let (sender, receiver, whose) = match direction {
            Direction::Up => (self.buffers[0], self.buffers[1], Kind::OwnSendBuffer),
            Direction::Down => (self.buffers[1], self.buffers[0], Kind::PeerSendBuffer),
        };
        let part = |bytes: u64, part: f64| Bytes((bytes as f64 * part) as u64);
        // Linux wakes a writer when a third of the send buffer is free (tcp(7), sk_stream_wspace), so the bytes go in bursts of a third, which
        // wait before the line: 63 ms became 71 ms with 4 MiB at 1 Gbit/s.
        let burst = |bytes: Bytes| {
            let line = self.lines[direction as usize].rate;
            line.map_or(Duration::ZERO, |line| {
                Duration::from_secs_f64(bytes.0 as f64 * 8.0 / 3.0 / line.0.max(1) as f64)
            })
        };
        let sends = sender.send.map(|bytes| part(bytes, PAYLOAD_OF_SEND_BUFFER));
        let sends = sends.map(|bytes| (window_rate(bytes, rtt + burst(bytes)), whose));
        let takes = receiver.receive.map(|bytes| part(bytes, WINDOW_OF_RECEIVE_BUFFER));
        let takes = takes.map(|bytes| (window_rate(bytes, rtt), Kind::ReceiverWindow));
        sends.into_iter().chain(takes).collect()
    }

    /// Returns the first run in `direction`.
    pub(super) fn first(&self, direction: Direction) -> Option<&Outcome> {
        self.of(direction).next()
    }

    fn of(&self, direction: Direction) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(move |outcome| outcome.run.direction == direction)
    }

    /// Returns the MSS that runs in `direction` need: `None`, which is what the hosts choose, unless full segments do not pass.
    pub(super) fn mss_of(&self, direction: Direction) -> Option<u32> {
        let is_stuck = self.first(direction).is_some_and(|first| first.rate().0 == 0);
        self.of(direction).filter(|_| is_stuck).find_map(|outcome| outcome.mss)
    }

    /// Returns the bytes of the headers of IP and TCP.
    pub(super) fn headers(&self) -> u32 {
        packet::headers(self.address.is_some_and(|address| address.is_ipv6()))
    }

    /// Returns how much there is to gain, as a factor: more than any number where nothing passes.
    fn weight(&self, (direction, finding): &Found) -> f64 {
        let rate = self.first(*direction).map_or(0, |first| first.rate().0).max(1) as f64;
        match finding.kind {
            Kind::Stalled | Kind::MtuBlackHole => f64::INFINITY,
            Kind::LinkRate => 0.5,
            Kind::Unknown => 0.25,
            _ => finding.what_if.map_or(1.0, |what_if| (what_if.0 as f64 / rate).max(1.0)),
        }
    }
}

impl Outcome {
    /// Returns the rate of payload after the start: over the second half of the run.
    pub(super) fn rate(&self) -> Rate {
        // The last sample may come after the end.
        let until = self.series.iter().rposition(|(at, _)| at.as_secs_f64() <= self.run.seconds).unwrap_or_default();
        let Some((_, all)) = self.series.get(until) else { return Rate(0) };
        // A run that its bytes have ended is over with the first sample that has them all.
        let until = if self.is_out_of_bytes() {
            self.series.iter().position(|(_, bytes)| bytes == all).unwrap_or(until)
        } else {
            until
        };
        let (end, bytes) = &self.series[until];
        let half = self.series[..until].iter().rfind(|(at, _)| *at <= *end / 2);
        let (from, before) = half.copied().unwrap_or_default();
        let lasted = (*end - from).as_secs_f64();
        Rate((bytes.saturating_sub(before) as f64 * 8.0 / lasted.max(1e-3)) as u64)
    }

    /// Whether all that the run was given has arrived.
    fn is_out_of_bytes(&self) -> bool {
        let connections = u64::from(self.run.connections.max(1));
        let arrived = self.series.last().map_or(0, |(_, bytes)| *bytes);
        arrived >= self.run.max_bytes / connections * connections
    }

    /// Returns the share of the bytes that the first connection of the sender lost, after its start.
    pub(super) fn lost_share(&self) -> f64 {
        let (sent, lost) = lost_of(steady(&self.sender.looks));
        lost as f64 / sent.max(1) as f64
    }

    /// Returns the segments that the first connection sent after its start, and those that were lost, without bursts. `expected` is the
    /// share that is lost by chance, or none is.
    pub(super) fn lost_by_chance(&self, expected: Option<f64>) -> (f64, f64) {
        let looks: Vec<_> = steady(&self.sender.looks).windows(2).map(segments).collect();
        match expected {
            Some(expected) => about(looks, expected),
            None => by_chance(looks),
        }
    }

    /// Whether the far end's figures contradict what this host has seen, or each other, or are none that a run has.
    pub(super) fn is_contradictory(&self) -> bool {
        let Outcome { sender, receiver, run, .. } = self;
        let connections = u64::from(run.connections);
        let looks = &sender.looks;
        let is_order = looks.is_sorted_by_key(|look| look.at) && looks.is_sorted_by_key(|look| look.acked);
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let are_shares = [sender, receiver].iter().all(|ran| is_share(ran.cpu) && is_share(ran.throttled));
        let is_time = |micros: u64| micros <= MAX_MICROS;
        // The kernel measures the busy time since the handshake, and the looks come when the thread has time.
        let (most, slack) = ((run.seconds * 1e6) as u64 + LATE_MICROS, LATE_MICROS);
        let are_times = looks.iter().all(|look| {
            let is_share = look.busy.saturating_sub(slack) <= look.at
                && look.by_peer.max(look.by_buffer).saturating_sub(slack) <= look.busy;
            is_time(look.rtt) && is_time(look.min_rtt) && look.at <= most && is_share
        });
        // The MSS may fall on the way, and `sender.mss` is that at the end.
        let are_segments = sender.mss <= MAX_MSS
            && looks.iter().all(|look| look.mss <= MAX_MSS)
            && looks.last().is_none_or(|last| last.mss <= sender.mss);
        let are_counts = looks.iter().all(|look| look.window <= MAX_WINDOW)
            && looks.is_sorted_by_key(|look| look.retransmitted)
            && looks.last().is_none_or(|last| last.acked <= sender.acked && last.retransmitted <= sender.retransmitted)
            && sender.retransmitted <= sender.acked.saturating_add(MAX_RESENT);
        // The SYN and FIN of each connection count as a byte.
        let has_come = receiver.bytes.saturating_add(connections * (UNREAD + 2));
        let is_too_much = run.direction == Direction::Down && sender.acked > has_come;
        receiver.bytes > sender.bytes
            || !is_order
            || !are_shares
            || !are_times
            || !are_segments
            || !are_counts
            || is_too_much
    }
}

/// Returns the facts of the last whole window of the sender's looks.
fn facts(outcome: &Outcome) -> Option<Facts> {
    let (mut watch, mut last) = (Watch::default(), None);
    let began = Instant::now();
    for look in &outcome.sender.looks {
        let sink = look.sample();
        let looks = Looks { source: Default::default(), sink, carried: sink.acked_bytes, line_acked: sink.acked_bytes };
        let response = || LossResponse::of(&outcome.sender.congestion);
        last = watch.look(began + look.time(), &looks, response).or(last);
    }
    last
}

/// Returns the sums of the segments sent and lost in looks, without those looks that lost far more than usual.
fn by_chance(looks: Vec<(f64, f64)>) -> (f64, f64) {
    let usual = usual_share(&looks).unwrap_or(1.0);
    looks
        .into_iter()
        .filter(|look| is_usual(look, usual))
        .fold((0.0, 0.0), |sum, look| (sum.0 + look.0, sum.1 + look.1))
}

/// Returns the same where about the share `expected` is lost, or none. A few lost at once count as about as many as are expected of a look.
fn about(looks: Vec<(f64, f64)>, expected: f64) -> (f64, f64) {
    let usual = looks.into_iter().filter(|look| is_usual(look, expected));
    usual.fold((0.0, 0.0), |sum, (sent, lost)| {
        let mean = sent * expected;
        (sum.0 + sent, sum.1 + lost.min((mean + mean.sqrt()).ceil()))
    })
}

/// Whether a look's segments may have been lost by chance, each with the probability `share`: five deviations more (Poisson) come once in
/// millions of looks.
fn is_usual((sent, lost): &(f64, f64), share: f64) -> bool {
    *lost <= sent * share + 5.0 * (sent * share).sqrt() + 5.0
}

/// Returns the lower quartile of the share of lost segments, over the looks with so many segments that it means something: bursts are in
/// the others. `None` without such looks.
fn usual_share(each: &[(f64, f64)]) -> Option<f64> {
    let mut shares: Vec<f64> = each.iter().filter(|(sent, _)| *sent >= MANY).map(|(sent, lost)| lost / sent).collect();
    shares.sort_unstable_by(f64::total_cmp);
    shares.get(shares.len() / 4).copied().filter(|_| shares.len() >= LOOKS)
}

/// Returns the segments that were sent from the first of two looks to the second, and those of them that were lost.
fn segments(pair: &[Look]) -> (f64, f64) {
    let (sent, lost) = lost_of(pair);
    let mss = f64::from(pair.last().map_or(1, |look| look.mss.max(1)));
    (sent as f64 / mss, lost as f64 / mss)
}

/// Returns the bytes that were sent from the first of `looks` to the last, and those of them that were lost: sent again, and not reported
/// by DSACK as come twice.
fn lost_of(looks: &[Look]) -> (u64, u64) {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return (0, 0) };
    let again = last.retransmitted.saturating_sub(first.retransmitted);
    let needless = u64::from(last.duplicates.saturating_sub(first.duplicates)) * u64::from(last.mss);
    (last.acked.saturating_sub(first.acked).saturating_add(again), again.saturating_sub(needless))
}

/// Returns the looks after the start of a run: its last two thirds.
fn steady(looks: &[Look]) -> &[Look] {
    let end = looks.last().map_or(0, |look| look.at);
    let from = looks.iter().position(|look| look.at >= end / 3).unwrap_or_default();
    &looks[from..]
}

/// Bytes of TCP's timestamps in a segment, with padding (RFC 7323).
const TIMESTAMPS: u32 = 12;
/// Least change of one-way times that tells which way has a queue, in seconds.
const LEAST_CHANGE: f64 = 5e-4;
/// Bytes that may have arrived at this host, and been acknowledged, before a program had read them at the end of a run.
const UNREAD: u64 = 64 << 20;
/// Parts of a send buffer and of a receive buffer that hold payload: the kernel counts its own memory, too (ip-sysctl,
/// tcp_adv_win_scale; 3.7 MB in flight of 4 MiB on Linux 6.18).
const PAYLOAD_OF_SEND_BUFFER: f64 = 0.89;
const WINDOW_OF_RECEIVE_BUFFER: f64 = 0.5;
/// Segments of a look from which on a share of lost ones means something.
const MANY: f64 = 1000.0;
/// Looks of a run from which on one of them is usual.
const LOOKS: usize = 5;
/// Weight of a limit that nobody has: below that of a full line.
const OF_OTHERS: f64 = 0.4;
/// Lost segments from which on their share is no matter of chance.
pub(super) const FEW: f64 = 3.0;
/// An hour in µs: no run and no round trip lasts longer.
const MAX_MICROS: u64 = 3_600_000_000;
/// Largest window (RFC 7323 2.3).
const MAX_WINDOW: u64 = 1 << 30;
/// Bytes that a run may retransmit beyond those that are acknowledged: where full segments do not pass, some windows of them.
const MAX_RESENT: u64 = 64 << 30;
/// Time by which looks, and the kernel's times in them, may be late, in µs.
const LATE_MICROS: u64 = 15_000_000;
/// MSS at most: a packet has 65,535 bytes.
const MAX_MSS: u32 = 65_495;
