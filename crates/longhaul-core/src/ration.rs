//! Limits how often something happens, and how often at the same time.

use std::time::{Duration, Instant};

/// A ration: up to `burst` events at once, one more after each `pause`, and up to `together` that are under way.
#[derive(Clone, Copy, Debug)]
pub struct Ration {
    burst: u32,
    pause: Duration,
    together: u32,
    /// Time at which the burst would be used up to the last event again.
    spent_until: Option<Instant>,
    under_way: u32,
}

impl Ration {
    /// Returns a ration of which nothing is used.
    pub const fn new(burst: u32, pause: Duration, together: u32) -> Ration {
        Ration { burst, pause, together, spent_until: None, under_way: 0 }
    }

    /// Returns whether the event may happen `now`, and counts it if so. It is under way until [`end`](Ration::end).
    pub fn begin(&mut self, now: Instant) -> bool {
        let may = self.under_way < self.together && self.spend(now);
        self.under_way += u32::from(may);
        may
    }

    /// Returns whether an event that is over at once may happen `now`, and counts it if so.
    pub fn spend(&mut self, now: Instant) -> bool {
        // The events so far, as the time in which the pauses make up for them.
        let spent = self.spent_until.filter(|until| *until > now).unwrap_or(now);
        let until = spent + self.pause;
        let may = until.duration_since(now) <= self.pause * self.burst;
        if may {
            self.spent_until = Some(until);
        }
        may
    }

    /// Records that an event that [`begin`](Ration::begin) allowed is over.
    pub fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    #[test]
    fn a_burst_and_then_one_after_each_pause() {
        let (mut ration, start) = (Ration::new(3, PAUSE, 9), Instant::now());
        let mut count = |after: Duration| (0..10).filter(|_| ration.spend(start + after)).count();
        assert_eq!([count(Duration::ZERO), count(PAUSE / 2), count(PAUSE), count(PAUSE * 3)], [3, 0, 1, 2]);
        assert_eq!(count(PAUSE * 100), 3, "a long pause saves up no more than the burst");
    }

    #[test]
    fn no_more_than_allowed_are_under_way() {
        let (mut ration, now) = (Ration::new(100, PAUSE, 2), Instant::now());
        assert_eq!([(); 3].map(|()| ration.begin(now)), [true, true, false]);
        ration.end();
        assert_eq!([(); 2].map(|()| ration.begin(now)), [true, false]);
    }
}
