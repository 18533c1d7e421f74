//! Stages of the line: a packet waits in its queue and may be lost on it.

use crate::error::StageError;
use crate::packet::Packet;
use crate::random::{Chance, Random};
use crate::row::{Common, Exit, Limit, Row, Stage, Traits};
use crate::value;
use longhaul_units::{Bytes, Rate, percentage};
use std::time::Duration;

/// Stages of the line, in the order in which a packet passes them.
pub(super) const ROWS: &[Row] = &[RATE, LOSS, BURST_LOSS];

/// Rate: a line that sends one segment after the other, behind a queue of limited bytes. A segment that finds the queue
/// full is lost (drop-tail).
const RATE: Row = Row {
    key: "rate",
    help: "rate of the line in IP bits, with the bytes that its queue holds (100 ms at that rate if left out)",
    sample: "1Gbit/s queue 8MB",
    events: None,
    needs: None,
    traits: Traits {
        dropped_by: "the line's full queue",
        limit: Limit::Line,
        rate: Some(|value| Line::read(value).ok().map(|line| line.rate())),
        changes_timing: true,
        has_closed_form: true,
        common: Some(Common::Rate),
        ..Traits::NONE
    },
    build: |value, _seed| Ok(Some(Box::new(Line::read(value)?))),
};

/// Default length of a line's queue, as time at the line's rate. Routers of long paths have queues of about one round
/// trip.
const DEFAULT_QUEUE: Duration = Duration::from_millis(100);

struct Line {
    /// Bits per second, at least 1.
    rate: u128,
    /// Maximum number of bytes waiting or being sent.
    queue: u64,
    /// Bytes waiting or being sent at `since`, in nanoseconds times bits per second, so that nothing is rounded.
    backlog: u128,
    since: Duration,
}

impl Line {
    fn read(text: &str) -> Result<Line, StageError> {
        let (rate, [queue]) = value::parts(text, ["queue"]).ok_or(StageError::Form(RATE.sample))?;
        let rate = rate.parse::<Rate>()?;
        let queue = queue.map(str::parse::<Bytes>).transpose()?;
        if rate.0 == 0 {
            return Err(StageError::NoRate);
        }
        let by_default = u128::from(rate.bytes_per_second()) * DEFAULT_QUEUE.as_nanos() / NANOS;
        let queue = queue.map_or(by_default as u64, |queue| queue.0);
        Ok(Line { rate: u128::from(rate.0), queue, backlog: 0, since: Duration::ZERO })
    }

    fn rate(&self) -> Rate {
        Rate(u64::try_from(self.rate).unwrap_or(u64::MAX))
    }

    /// Subtracts from the backlog the bytes sent until `now`.
    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since);
        self.backlog = self.backlog.saturating_sub(passed.as_nanos() * self.rate);
        self.since = self.since.max(now);
    }

    /// Returns the number of leading segments that fit into the queue. An idle line takes at least one, whatever the size of
    /// its queue, because that segment goes straight onto the wire.
    fn room_for(&self, packet: &Packet) -> u32 {
        let waiting = u64::try_from(self.backlog.div_ceil(8 * NANOS)).unwrap_or(u64::MAX);
        let room = self.queue.saturating_sub(waiting);
        if packet.wire_bytes() <= room {
            return packet.segments;
        }
        let each = packet.front(1).wire_bytes().max(1);
        let fitting = u32::try_from(room / each).unwrap_or(u32::MAX).min(packet.segments - 1);
        fitting.max(u32::from(self.backlog == 0))
    }

    /// Queues `packet`. It leaves the stage when its last segment is on the wire.
    fn take(&mut self, packet: Packet, exit: &mut Exit) {
        self.backlog += u128::from(packet.wire_bytes()) * 8 * NANOS;
        exit.push(Packet { at: self.idle_from(), ..packet });
    }

    /// Returns the time at which all queued bytes are on the wire.
    fn idle_from(&self) -> Duration {
        let wait = u64::try_from(self.backlog.div_ceil(self.rate)).unwrap_or(u64::MAX);
        self.since.saturating_add(Duration::from_nanos(wait))
    }
}

impl Stage for Line {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.advance(packet.at);
        let fitting = self.room_for(&packet);
        if fitting > 0 {
            self.take(packet.front(fitting), exit);
        }
        // The last segment is often shorter than the rest, so it may fit where they did not.
        let last = packet.after(fitting.max(packet.segments - 1)).filter(|_| fitting < packet.segments);
        if let Some(last) = last.filter(|last| self.room_for(last) > 0) {
            self.take(last, exit);
        }
    }

    fn last(&self) -> Duration {
        self.idle_from()
    }

    /// Begins to send at `last`, when all bytes of the previous line are sent. Those bytes do not count in the new queue.
    fn follow(&mut self, last: Duration) {
        self.since = last;
    }
}

const NANOS: u128 = 1_000_000_000;

/// Random loss: each segment is lost with the same probability, independently of the others. A super-packet that loses a
/// segment continues as two packets: the segments before it and the segments after it.
const LOSS: Row = Row {
    key: "loss",
    help: "share of segments lost at random, a percentage",
    sample: "0.1%",
    events: None,
    needs: None,
    traits: Traits { dropped_by: "the link's loss", common: Some(Common::Loss), ..Traits::NONE },
    build: |value, seed| {
        let share = percentage(value)?;
        Ok((share > 0.0).then(|| Box::new(Loss(Chance::new(share, seed))) as Box<dyn Stage>))
    },
};

struct Loss(Chance);

impl Stage for Loss {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.0.split_hits(packet, |piece, is_hit| {
            if !is_hit {
                exit.push(piece);
            }
        });
    }
}

/// Loss in bursts, after Gilbert and Elliott. The line is in a good or a bad state, and each segment may change the state.
/// Each state has its own loss probability: by default a good line loses nothing and a bad one everything (Gilbert). Then
/// p / (p + r) of all segments are lost, in bursts of 1 / r segments on average.
///
/// Elliott: Estimates of error rates for codes on burst-noise channels, 1963. The letters are those of gemodel in
/// tc-netem(8).
const BURST_LOSS: Row = Row {
    key: "burst-loss",
    help: "loss in bursts (Gilbert-Elliott): each segment turns a good line bad with probability p, and a bad \
           line good with probability r; a good line loses nothing and a bad one everything, unless \
           `good 0.01% bad 50%` is added",
    sample: "p 0.1% r 30%",
    events: Some("bursts"),
    needs: None,
    traits: Traits { dropped_by: "the link's burst-loss", ..Traits::NONE },
    build: |value, seed| {
        let line = BurstLoss::read(value, seed)?;
        Ok(line.loses().then(|| Box::new(line) as Box<dyn Stage>))
    },
};

struct BurstLoss {
    random: Random,
    /// The good state, then the bad one. The line begins in the good state.
    states: [LossState; 2],
    is_bad: bool,
    /// Number of segments before the state changes.
    left: u64,
}

struct LossState {
    /// Probability, per segment, of leaving the state.
    leave: f64,
    share: f64,
    loss: Chance,
}

impl BurstLoss {
    fn read(text: &str, seed: u64) -> Result<BurstLoss, StageError> {
        let form = StageError::Form(BURST_LOSS.sample);
        let ("", [Some(p), Some(r), good, bad]) =
            value::parts(text, ["p", "r", "good", "bad"]).ok_or_else(|| form.clone())?
        else {
            return Err(form);
        };
        let state = |leave: &str, share: &str, seed| -> Result<LossState, StageError> {
            let leave = percentage(leave)?;
            let share = percentage(share)?;
            Ok(LossState { leave, share, loss: Chance::new(share, seed) })
        };
        let good = state(p, good.unwrap_or("0"), seed.wrapping_add(1))?;
        let bad = state(r, bad.unwrap_or("100%"), seed.wrapping_add(2))?;
        let mut random = Random::new(seed);
        let left = random.failures(good.leave);
        Ok(BurstLoss { random, states: [good, bad], is_bad: false, left })
    }

    /// Returns whether the line can lose anything.
    fn loses(&self) -> bool {
        let [good, bad] = &self.states;
        good.share > 0.0 || (good.leave > 0.0 && bad.share > 0.0)
    }

    /// Changes the state. The segment that changes it already belongs to the new state, so the next change is at least one
    /// segment later.
    fn turn(&mut self, exit: &mut Exit) {
        self.is_bad = !self.is_bad;
        exit.happened(u64::from(self.is_bad));
        let leave = self.states[usize::from(self.is_bad)].leave;
        self.left = self.random.failures(leave).saturating_add(1);
    }
}

impl Stage for BurstLoss {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        let mut left = Some(packet);
        while let Some(packet) = left {
            if self.left == 0 {
                self.turn(exit);
            }
            let run = packet.front(u32::try_from(self.left).unwrap_or(u32::MAX));
            self.left -= u64::from(run.segments);
            left = packet.after(run.segments);
            self.states[usize::from(self.is_bad)].loss.split_hits(run, |piece, is_hit| {
                if !is_hit {
                    exit.push(piece);
                }
            });
        }
    }
}
