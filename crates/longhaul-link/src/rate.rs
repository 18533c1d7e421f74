//! Rate: a line that sends one segment after the other, and a queue of limited bytes before it. What finds the queue
//! full is lost (drop-tail).

use crate::{Common, Exit, Limit, Packet, Row, Stage, StageError, Traits, value};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

pub(super) const ROW: Row = Row {
    key: "rate",
    help: "the line's rate in IP bits, and how many bytes its queue holds (100 ms at that rate if left out)",
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

/// The queue of a line for which none is given, as time at its rate: about the round trip of a long path, as routers
/// of such paths are sized.
const DEFAULT_QUEUE: Duration = Duration::from_millis(100);

struct Line {
    /// Bits per second, at least 1.
    rate: u128,
    /// Bytes that may wait or be on their way out.
    queue: u64,
    /// Bytes that waited at `since`, in nanobits: nanoseconds times bits per second, so that nothing is ever rounded.
    backlog: u128,
    since: Duration,
}

impl Line {
    fn read(text: &str) -> Result<Line, StageError> {
        let (rate, [queue]) = value::parts(text, ["queue"]).ok_or(StageError::Form(ROW.sample))?;
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

    /// Lets the line send until `now`.
    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since);
        self.backlog = self.backlog.saturating_sub(passed.as_nanos() * self.rate);
        self.since = self.since.max(now);
    }

    /// Returns the number of the packet's first segments that find room. An idle line takes one whatever the queue: it goes
    /// straight onto the wire.
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

    /// Queues `packet` and passes it on when its last segment is on the wire.
    fn take(&mut self, packet: Packet, exit: &mut Exit) {
        self.backlog += u128::from(packet.wire_bytes()) * 8 * NANOS;
        exit.push(Packet { at: self.idle_from(), ..packet });
    }

    /// When everything that was taken is on the wire.
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
        // The last segment of a packet is often shorter than the rest, and fits where they did not.
        let last = packet.after(fitting.max(packet.segments - 1)).filter(|_| fitting < packet.segments);
        if let Some(last) = last.filter(|last| self.room_for(last) > 0) {
            self.take(last, exit);
        }
    }

    fn last(&self) -> Duration {
        self.idle_from()
    }

    /// It begins to send when what the line before had taken is gone, which does not count in its queue.
    fn follow(&mut self, last: Duration) {
        self.since = last;
    }
}

const NANOS: u128 = 1_000_000_000;
