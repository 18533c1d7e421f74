//! The round-trip time of a path without a queue.

use std::time::{Duration, Instant};

/// The path's round-trip time without a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    pub(super) rtt: Option<Duration>,
    /// The smallest round-trip time since then, to follow a route that becomes a little longer.
    least: Option<(Duration, Instant)>,
}

impl Base {
    /// Returns a base that was just measured.
    pub(super) fn of(rtt: Option<Duration>) -> Base {
        Base { rtt, least: None }
    }

    /// Takes the smallest round-trip time of a look. The base follows a shorter one at once, and a longer one slowly while the queue is
    /// short.
    pub(super) fn see(&mut self, rtt: Option<Duration>, is_short: bool, now: Instant) {
        let Some(rtt) = rtt else { return };
        let base = *self.rtt.get_or_insert(rtt);
        if rtt <= base {
            *self = Base::of(Some(rtt));
            return;
        }
        if !is_short {
            self.least = None;
            return;
        }
        let (least, since) = self.least.map_or((rtt, now), |(least, since)| (least.min(rtt), since));
        self.least = Some((least, since));
        if now.saturating_duration_since(since) >= BASE_LASTS {
            *self = Base::of(Some(base + (least - base).min(DRIFT)));
        }
    }
}

/// Time of a smallest round-trip time, and the most by which the base grows in it.
const BASE_LASTS: Duration = Duration::from_secs(10);
const DRIFT: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_a_shorter_route_at_once_and_a_longer_one_slowly_while_the_queue_is_short() {
        let (mut base, start) = (Base::default(), Instant::now());
        let ms = |time| Some(Duration::from_millis(time));
        let mut see = |rtt, is_short, second| {
            base.see(ms(rtt), is_short, start + Duration::from_secs(second));
            base.rtt
        };
        assert_eq!((see(63, true, 0), see(80, true, 1), see(60, true, 2)), (ms(63), ms(63), ms(60)));
        assert_eq!((see(90, false, 3), see(90, false, 20)), (ms(60), ms(60)), "a queue");
        assert_eq!((see(70, true, 21), see(65, true, 25), see(80, true, 31)), (ms(60), ms(60), ms(62)));
        assert_eq!((see(63, true, 32), see(63, true, 42)), (ms(62), ms(63)));
    }
}
