//! Decides when a flow has made no progress for too long.

use std::time::{Duration, Instant};

/// The progress of one flow since its last look. Progress is a byte moved into a socket, or an acknowledgement of a byte
/// that waits there: a socket with a large buffer takes no more until a third of it is free, while its peer may read all
/// the time.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    limit: Duration,
    /// Time of the last progress.
    since: Instant,
    moved: u64,
    left: u32,
}

impl Stall {
    /// Returns the state of a flow that may go without progress for `limit` from `now` on. It has moved `moved` bytes
    /// so far, of which the peers have not acknowledged `left`.
    pub const fn begin(limit: Duration, now: Instant, moved: u64, left: u32) -> Stall {
        Stall { limit, since: now, moved, left }
    }

    /// Returns the time that the flow may go without progress.
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the interval between two looks: an eighth of the limit.
    pub fn step(&self) -> Duration {
        self.limit / 8
    }

    /// Looks at the flow, which by `now` has moved `moved` bytes, of which `left` are not acknowledged. Returns whether
    /// it made no progress for the limit, give or take a [step](Stall::step).
    pub fn is_over(&mut self, now: Instant, moved: u64, left: u32) -> bool {
        if moved > self.moved || left < self.left {
            self.since = now;
        }
        self.moved = moved;
        self.left = left;
        now - self.since >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(80);

    /// Returns the looks of a flow, a step apart, until it is over. `after` gives the moved bytes and the
    /// unacknowledged bytes at each look; the flow begins with 100 of each.
    fn looks(after: impl Fn(u32) -> (u64, u32)) -> u32 {
        let start = Instant::now();
        let mut stall = Stall::begin(LIMIT, start, 100, 100);
        let is_over = |look: &u32| {
            let (moved, left) = after(*look);
            stall.is_over(start + stall.step() * *look, moved, left)
        };
        (1..1000).find(is_over).unwrap_or(1000)
    }

    #[test]
    fn a_flow_is_over_after_its_limit_without_progress() {
        assert_eq!(looks(|_| (100, 100)), 8);
        assert_eq!(looks(|_| (100, 500)), 8, "more bytes wait, none is acknowledged");
    }

    #[test]
    fn a_moved_byte_and_an_acknowledged_byte_are_progress() {
        assert_eq!(looks(|look| (100 + u64::from(look.min(5)), 100)), 5 + 8);
        assert_eq!(looks(|look| (100, 100 - look.min(50))), 50 + 8);
        assert_eq!(looks(|look| (u64::from(look) * 1000, 100)), 1000, "never");
    }
}
