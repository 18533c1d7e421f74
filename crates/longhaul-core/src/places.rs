//! Divides a number of places among those who use them for a while and send bytes meanwhile.
//!
//! A user keeps its place while it sends [`PACE`] bytes a second on average, after a time of [`GRACE`]. Its first
//! [`SMALL_BYTES`] may come at [`SMALL_PACE`]. One that is slower, silent or idle keeps it, too, until another one wants a
//! place and there is none: then the one that is the furthest behind gives way.
//!
//! ```text
//! take      ────── GRACE ──────>|
//! bytes     ── 2,000, later 16 KiB ── 1 s more ──>|          at most GRACE from now on
//!                                                 '── from here on it gives way when somebody wants its place
//! ```

use crate::sources::Source;
use std::time::{Duration, Instant};

/// The places, each with a `T` of its user.
#[derive(Debug)]
pub struct Places<T> {
    taken: Vec<Taken<T>>,
    max: usize,
    max_of_a_source: usize,
    /// Number of the next user.
    next: u64,
}

#[derive(Debug)]
struct Taken<T> {
    number: u64,
    source: Source,
    /// Time until which nobody else gets this place.
    safe_until: Instant,
    /// Number of bytes that the user has sent.
    sent: usize,
    of_user: T,
}

/// A place that was taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Place<T> {
    /// The number of its user.
    pub number: u64,
    /// The one that gave way, and has no place any more.
    pub gave_way: Option<T>,
}

/// Time from the start during which a user keeps its place without a byte. Also the time that bytes earn at most.
pub const GRACE: Duration = Duration::from_secs(3);

/// Number of bytes that earn a second.
pub const PACE: u32 = 16 * 1024;

/// Number of bytes of each user that earn more: the payload of a daemon's own probe, on a path with a low bandwidth cap.
pub const SMALL_BYTES: usize = 16 * 1024;

/// Number of those bytes that earn a second: 16 kbit/s.
pub const SMALL_PACE: u32 = 2000;

impl<T> Places<T> {
    /// Returns `max` free places, of which each source may have `max_of_a_source`.
    pub const fn new(max: usize, max_of_a_source: usize) -> Places<T> {
        Places { taken: Vec::new(), max, max_of_a_source, next: 0 }
    }

    /// Takes a place for a user of `source` at `now`. Returns `None` if there is none, and nobody is slow enough to give way.
    pub fn take(&mut self, source: Source, now: Instant, of_user: T) -> Option<Place<T>> {
        let of_source = self.taken.iter().filter(|taken| taken.source == source).count();
        let gave_way = if of_source >= self.max_of_a_source {
            Some(self.slowest(now, |taken| taken.source == source)?)
        } else if self.taken.len() >= self.max {
            Some(self.slowest(now, |_| true)?)
        } else {
            None
        };
        let gave_way = gave_way.map(|index| self.taken.swap_remove(index).of_user);
        let number = self.next;
        self.next += 1;
        self.taken.push(Taken { number, source, safe_until: now + GRACE, sent: 0, of_user });
        Some(Place { number, gave_way })
    }

    /// Records that the user `number` has sent `bytes` bytes at `now`. A user without a place is ignored.
    pub fn sent(&mut self, number: u64, bytes: usize, now: Instant) {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.number == number) {
            let small = bytes.min(SMALL_BYTES.saturating_sub(taken.sent));
            taken.sent = taken.sent.saturating_add(bytes);
            let seconds = small as f64 / f64::from(SMALL_PACE) + (bytes - small) as f64 / f64::from(PACE);
            let earned = Duration::from_secs_f64(seconds);
            taken.safe_until = (taken.safe_until + earned).min(now + GRACE);
        }
    }

    /// Frees the place of the user `number`, if it has one.
    pub fn free(&mut self, number: u64) {
        self.taken.retain(|taken| taken.number != number);
    }

    /// Returns the index of the user that is the furthest behind at `now`, of those that `may` give way.
    fn slowest(&self, now: Instant, may: impl Fn(&Taken<T>) -> bool) -> Option<usize> {
        let behind = self.taken.iter().enumerate().filter(|(_, taken)| may(taken) && taken.safe_until <= now);
        behind.min_by_key(|(_, taken)| taken.safe_until).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const SECOND: Duration = Duration::from_secs(1);

    fn source(n: u32) -> Source {
        Source::V4(Ipv4Addr::from_bits(n))
    }

    /// Takes `places` of source `n` at `now`; returns the number of its user.
    fn take(places: &mut Places<&'static str>, n: u32, now: Instant, name: &'static str) -> Option<u64> {
        places.take(source(n), now, name).map(|place| place.number)
    }

    fn gave_way(places: &mut Places<&'static str>, n: u32, now: Instant) -> Option<&'static str> {
        places.take(source(n), now, "new")?.gave_way
    }

    #[test]
    fn places_are_bounded_in_all_and_for_each_source() {
        let (mut places, now) = (Places::new(3, 2), Instant::now());
        let first = take(&mut places, 1, now, "one").unwrap();
        assert!(take(&mut places, 1, now, "one").is_some());
        assert_eq!(take(&mut places, 1, now, "one"), None, "its share is taken");
        assert!(take(&mut places, 2, now, "two").is_some());
        assert_eq!(take(&mut places, 3, now, "three"), None, "all are taken");
        places.free(first);
        places.free(first);
        assert!(take(&mut places, 3, now, "three").is_some());
        assert_eq!(take(&mut places, 1, now, "one"), None);
    }

    #[test]
    fn the_one_that_is_the_furthest_behind_gives_way_after_a_grace() {
        let (mut places, start) = (Places::new(2, 2), Instant::now());
        take(&mut places, 1, start, "idle").unwrap();
        take(&mut places, 2, start + SECOND, "idle too").unwrap();
        let almost = start + GRACE - Duration::from_nanos(1);
        assert_eq!(take(&mut places, 3, almost, "new"), None, "a path has a round trip");
        assert_eq!(gave_way(&mut places, 3, start + GRACE), Some("idle"));
        assert_eq!(take(&mut places, 3, start + GRACE, "new"), None);
        assert_eq!(gave_way(&mut places, 3, start + GRACE + SECOND), Some("idle too"));
    }

    #[test]
    fn a_source_with_its_share_takes_no_place_of_another_one() {
        let (mut places, start) = (Places::new(3, 2), Instant::now());
        take(&mut places, 2, start, "other").unwrap();
        take(&mut places, 1, start + SECOND, "own").unwrap();
        take(&mut places, 1, start + SECOND, "own").unwrap();
        assert_eq!(take(&mut places, 1, start + GRACE, "own"), None);
        assert_eq!(gave_way(&mut places, 1, start + GRACE + SECOND), Some("own"));
    }

    #[test]
    fn a_small_payload_below_a_low_cap_keeps_its_place() {
        let (mut places, start) = (Places::new(1, 1), Instant::now());
        let small = take(&mut places, 1, start, "small").unwrap();
        for second in 1..=8 {
            assert_eq!(take(&mut places, 2, start + SECOND * second, "new"), None, "after {second} s");
            places.sent(small, SMALL_PACE as usize, start + SECOND * second);
        }
        // More bytes at this pace do not keep it.
        for second in 9..=13 {
            places.sent(small, SMALL_PACE as usize, start + SECOND * second);
        }
        assert_eq!(gave_way(&mut places, 2, start + SECOND * 13), Some("small"));
    }

    #[test]
    fn a_user_at_the_pace_keeps_its_place_and_a_trickle_does_not() {
        let (mut places, start) = (Places::new(2, 2), Instant::now());
        let steady = take(&mut places, 1, start, "steady").unwrap();
        let trickle = take(&mut places, 1, start, "trickle").unwrap();
        for second in 1..=100 {
            let now = start + SECOND * second;
            places.sent(steady, PACE as usize, now);
            places.sent(trickle, 100, now);
        }
        let now = start + SECOND * 100;
        assert_eq!(gave_way(&mut places, 2, now), Some("trickle"));
        assert_eq!(take(&mut places, 2, now, "new"), None);
        // Many bytes at once are no credit for long.
        places.sent(steady, 64 << 20, now);
        assert_eq!(take(&mut places, 2, now + GRACE - Duration::from_nanos(1), "new"), None);
        places.sent(trickle, 1 << 20, now);
        assert_eq!(gave_way(&mut places, 2, now + GRACE), Some("steady"));
    }
}
