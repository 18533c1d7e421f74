//! Limits how often something happens.

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

    /// Returns whether the event may happen `now`, and counts it if so.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    #[test]
    fn a_burst_and_then_one_after_each_pause() {
        let (mut ration, start) = (Ration::new(3, PAUSE), Instant::now());
        let mut count = |after: Duration| (0..10).filter(|_| ration.spend(start + after)).count();
        assert_eq!([count(Duration::ZERO), count(PAUSE / 2), count(PAUSE), count(PAUSE * 3)], [3, 0, 1, 2]);
        assert_eq!(count(PAUSE * 100), 3, "a long pause saves up no more than the burst");
    }
}
