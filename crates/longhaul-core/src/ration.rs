//! Limits how often something happens, in all and for each source.

use crate::sources::Source;
use std::time::{Duration, Instant};

/// A ration: up to `burst` events at once, and one more after each `pause`.
#[derive(Clone, Copy, Debug)]
pub struct Ration {
    burst: u32,
    pause: Duration,
    /// Time at which the burst would be used up to the last event again.
    spent_until: Option<Instant>,
}

impl Ration {
    /// Returns a ration of which nothing is used.
    pub const fn new(burst: u32, pause: Duration) -> Ration {
        Ration { burst, pause, spent_until: None }
    }

    /// Returns whether the event may happen `now`, and counts it as `cost` events if so.
    pub fn spend(&mut self, cost: u32, now: Instant) -> bool {
        // The events so far, as the time in which the pauses make up for them.
        let spent = self.spent_until.filter(|until| *until > now).unwrap_or(now);
        let until = spent + self.pause * cost;
        let may = until.duration_since(now) <= self.pause * self.burst;
        if may {
            self.spent_until = Some(until);
        }
        may
    }

    /// Whether a part of the burst is used at `now`.
    fn is_used(&self, now: Instant) -> bool {
        self.spent_until.is_some_and(|until| until > now)
    }
}

/// A ration of which each source may have at most a share.
#[derive(Debug)]
pub struct Shares {
    all: Ration,
    share: Ration,
    /// The sources whose share is used. Each was entered by an event, and leaves when the pauses have made up for its events.
    /// So there are about as many as the burst of `all`.
    used: Vec<(Source, Ration)>,
}

impl Shares {
    /// Returns `all`, of which each source may have `share`.
    pub const fn new(all: Ration, share: Ration) -> Shares {
        Shares { all, share, used: Vec::new() }
    }

    /// Returns whether an event of `source` may happen `now`, and counts it as `cost` events if so.
    pub fn spend(&mut self, source: Source, cost: u32, now: Instant) -> bool {
        self.used.retain(|(_, share)| share.is_used(now));
        let entry = self.used.iter_mut().find(|(of, _)| *of == source);
        let mut share = entry.as_ref().map_or(self.share, |(_, share)| *share);
        if !share.spend(cost, now) || !self.all.spend(cost, now) {
            return false;
        }
        match entry {
            Some(entry) => entry.1 = share,
            None => self.used.push((source, share)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PAUSE: Duration = Duration::from_millis(100);

    #[test]
    fn a_burst_and_then_one_after_each_pause() {
        let (mut ration, start) = (Ration::new(3, PAUSE), Instant::now());
        let mut count = |after: Duration| (0..10).filter(|_| ration.spend(1, start + after)).count();
        assert_eq!([count(Duration::ZERO), count(PAUSE / 2), count(PAUSE), count(PAUSE * 3)], [3, 0, 1, 2]);
        assert_eq!(count(PAUSE * 100), 3, "a long pause saves up no more than the burst");
    }

    #[test]
    fn an_event_may_cost_as_much_as_several() {
        let (mut ration, start) = (Ration::new(7, PAUSE), Instant::now());
        let mut count = |after: Duration| (0..10).filter(|_| ration.spend(3, start + after)).count();
        assert_eq!([count(Duration::ZERO), count(PAUSE), count(PAUSE * 2), count(PAUSE * 5)], [2, 0, 1, 1]);
    }

    #[test]
    fn a_source_leaves_the_rest_to_the_others() {
        let (all, share) = (Ration::new(6, PAUSE), Ration::new(4, PAUSE * 2));
        let (mut shares, start) = (Shares::new(all, share), Instant::now());
        let source = |n| Source::V4(Ipv4Addr::from_bits(n));
        let mut count = |n, after| (0..10).filter(|_| shares.spend(source(n), 1, start + after)).count();
        assert_eq!([count(1, Duration::ZERO), count(2, Duration::ZERO), count(3, Duration::ZERO)], [4, 2, 0]);
        // What was refused to a source is no event.
        assert_eq!([count(1, PAUSE * 2), count(3, PAUSE * 2)], [1, 1]);
        assert_eq!(count(2, PAUSE * 100), 4);
        assert_eq!(shares.used.len(), 1, "a source without events is forgotten");
        let now = start + PAUSE * 200;
        assert_eq!((10..100).filter(|n| shares.spend(source(*n), 1, now)).count(), 6);
        assert_eq!(shares.used.len(), 6, "a refused source is not entered");
    }
}
