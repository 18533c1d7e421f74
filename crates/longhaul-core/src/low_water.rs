//! Low-water marks (SO_RCVLOWAT): the number of bytes that a bulk flow waits for before it wakes up, by the measured
//! rate.
//!
//! A source with 2 Gbit/s or more wakes its pump once per half a millisecond's worth of bytes. A slower source wakes it
//! for every byte, and so does a source that gets answers: its sender waits for the answer to the last bytes of a
//! message, and these bytes can be fewer than the mark.

use std::time::{Duration, Instant};

/// Measures the rate of one source between the waits of its pump.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    /// Start of the epoch in which `bytes` are counted.
    since: Option<Instant>,
    bytes: u64,
    /// Whether bytes came since the last wait.
    fresh: bool,
    /// Bytes that had moved in the other direction at the last look.
    answered: u64,
    /// Time until which an answer forbids a mark.
    no_mark_until: Option<Instant>,
}

impl Meter {
    /// Returns a meter that has seen nothing.
    pub const fn new() -> Meter {
        Meter { since: None, bytes: 0, fresh: false, answered: 0, no_mark_until: None }
    }

    /// Counts `bytes` that the source gave.
    pub fn filled(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.fresh = true;
    }

    /// Records that the pump waits for its empty source. `answered` is the number of bytes that have moved in the other
    /// direction. Returns the low-water mark, 1 byte to [`MAX_MARK`], once per epoch of at least a millisecond,
    /// otherwise `None`. `clock` is read only if bytes came since the last wait.
    pub fn wait(&mut self, answered: u64, clock: impl FnOnce() -> Instant) -> Option<u32> {
        if !std::mem::take(&mut self.fresh) {
            return None;
        }
        let now = clock();
        if std::mem::replace(&mut self.answered, answered) != answered {
            self.no_mark_until = Some(now + NO_MARK_AFTER_ANSWER);
        }
        let mark = match self.since.map(|since| now - since) {
            Some(took) if took < EPOCH => return None,
            Some(_) if self.no_mark_until.is_some_and(|until| now < until) => Some(1),
            Some(took) => Some(mark_for(self.bytes, took)),
            None => None,
        };
        (self.since, self.bytes) = (Some(now), 0);
        mark
    }
}

/// Returns the mark for a source that brought `bytes` in `took`: half a millisecond's worth, rounded down to a power of
/// two, so that a small change of the rate does not change the mark.
fn mark_for(bytes: u64, took: Duration) -> u32 {
    let per_second = (bytes as f64 / took.as_secs_f64()) as u64;
    if per_second < BULK_RATE {
        return 1;
    }
    let wanted = (per_second / WAKE_UPS).clamp(1, MAX_MARK.into());
    1 << wanted.ilog2()
}

/// The highest mark in bytes: a pipe's worth.
pub const MAX_MARK: u32 = 1 << 20;
/// Rate in bytes per second from which on fewer wake-ups pay off: 2 Gbit/s.
const BULK_RATE: u64 = 250_000_000;
/// Approximate number of wake-ups per second of a bulk flow.
const WAKE_UPS: u64 = 2000;
/// Minimum time over which a rate is measured.
const EPOCH: Duration = Duration::from_millis(1);
/// Time after an answer in which there is no mark. A mark delays the end of a message by 2 ms at most: 2 % of this time.
const NO_MARK_AFTER_ANSWER: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bulk_has_a_mark_and_it_is_half_a_millisecond() {
        let second = Duration::from_secs(1);
        assert_eq!(mark_for(0, second), 1);
        assert_eq!(mark_for(125_000_000, second), 1, "1 Gbit/s");
        assert_eq!(mark_for(1_250_000_000, second), 524_288, "10 Gbit/s: 625,000 bytes and down to a power of two");
        assert_eq!(mark_for(50_000_000_000, second), 1 << 20, "no more than the maximum");
        assert_eq!(mark_for(u64::MAX, Duration::from_nanos(1)), 1 << 20);
        assert_eq!(mark_for(u64::MAX, Duration::ZERO), 1 << 20);
    }

    #[test]
    fn the_mark_follows_the_rate_between_two_waits() {
        let (mut meter, start) = (Meter::new(), Instant::now());
        let mut at = |micros: u64, bytes: usize| {
            if bytes > 0 {
                meter.filled(bytes);
            }
            meter.wait(0, || start + Duration::from_micros(micros))
        };
        assert_eq!(at(0, 1_000_000), None, "an epoch begins");
        assert_eq!(at(999, 1_000_000), None, "it lasts a millisecond");
        assert_eq!(at(1_000, 250_000), Some(524_288), "1,250,000 bytes in it: 10 Gbit/s");
        assert_eq!(at(1_500, 1), None);
        assert_eq!(at(5_000, 0), None, "a wait without a byte since the last one counts for nothing");
        assert_eq!(at(3_000, 1_250_000 - 1), Some(262_144), "the same bytes in 2 ms: 5 Gbit/s");
        assert_eq!(at(4_000, 100_000), Some(1), "800 Mbit/s");
    }

    #[test]
    fn a_source_that_gets_answers_has_no_mark() {
        let (mut meter, start) = (Meter::new(), Instant::now());
        let mut at = |millis: u64, answered: u64| {
            meter.filled(1_250_000);
            meter.wait(answered, || start + Duration::from_millis(millis))
        };
        assert_eq!([at(0, 0), at(1, 0)], [None, Some(524_288)], "10 Gbit/s one way");
        assert_eq!([at(2, 5), at(3, 5), at(101, 5)], [Some(1); 3], "an answer of 5 bytes came");
        assert_eq!(at(102, 6), Some(1), "another one");
        assert_eq!([at(201, 6), at(202, 6)], [Some(1), Some(524_288)], "no answer for 100 ms");
    }

    #[test]
    fn the_clock_is_not_read_without_a_byte() {
        let mut meter = Meter::new();
        assert_eq!(meter.wait(1, || unreachable!("no byte came")), None);
    }
}
