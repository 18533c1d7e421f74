//! Slow start: the rate doubles in each round trip, until it is the path's rate.

use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// A connection that begins with [`SlowStart::INITIAL_SEGMENTS`] segments, doubles its window in each round trip, and stays at
/// its steady rate from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStart {
    /// Bytes of the first round trip.
    first: f64,
    /// The steady rate in bytes per second.
    steady: f64,
    rtt: Duration,
    /// Number of round trips below the steady rate.
    rounds: u32,
}

impl SlowStart {
    /// Segments of the first round trip (RFC 6928). Older hosts send 2 to 4, and take up to three round trips more.
    pub const INITIAL_SEGMENTS: u32 = 10;

    /// Returns the start of a connection with segments of `mss` bytes of payload, up to the rate `steady`.
    pub fn new(steady: Rate, rtt: Duration, mss: u32) -> SlowStart {
        let first = f64::from(mss.max(1)) * f64::from(SlowStart::INITIAL_SEGMENTS);
        let steady = steady.0 as f64 / 8.0;
        // At most 64 for any u64.
        let rounds = (steady * rtt.as_secs_f64() / first).log2().ceil().clamp(0.0, 64.0) as u32;
        SlowStart { first, steady, rtt, rounds }
    }

    /// Returns the time until the connection has its steady rate: whole round trips.
    pub fn time_to_steady(&self) -> Duration {
        duration(f64::from(self.rounds) * self.rtt.as_secs_f64())
    }

    /// Returns the rate during the round trip at the time `at` after the first byte.
    pub fn rate_at(&self, at: Duration) -> Rate {
        let round = at.as_nanos() / self.rtt.as_nanos().max(1);
        let bytes_per_second = match round < u128::from(self.rounds) {
            true => self.first * (round as f64).exp2() / self.rtt.as_secs_f64(),
            false => self.steady,
        };
        Rate((bytes_per_second * 8.0).round() as u64)
    }

    /// Returns the time to send `bytes`; the longest time if the steady rate is zero. The last bytes still take half a round
    /// trip to arrive, which is not counted.
    pub fn time_for(&self, bytes: Bytes) -> Duration {
        let (mut left, rtt) = (bytes.0 as f64, self.rtt.as_secs_f64());
        for round in 0..self.rounds {
            let window = self.first * f64::from(round).exp2();
            if left <= window {
                return duration((f64::from(round) + left / window) * rtt);
            }
            left -= window;
        }
        duration(f64::from(self.rounds) * rtt + left / self.steady)
    }
}

/// Returns a time of `seconds`, which are not negative; the longest for infinity and for what is not a number (0 / 0).
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn the_rate_doubles_until_it_is_steady() {
        // 10 segments of 1000 bytes, then 20, 40, 80: 1 MB/s is 100 segments in each round trip.
        let start = SlowStart::new(Rate(8_000_000), RTT, 1000);
        let rates = [0, 100, 250, 300, 400, 9000].map(|ms| start.rate_at(Duration::from_millis(ms)).0 / 8);
        assert_eq!(rates, [100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000]);
        assert_eq!(start.time_to_steady(), RTT * 4);
        assert_eq!(start.time_for(Bytes(10_000)), RTT);
        assert_eq!(start.time_for(Bytes(20_000)), RTT * 3 / 2);
        assert_eq!(start.time_for(Bytes(150_000 + 1_000_000)), RTT * 14);
    }

    #[test]
    fn a_slow_path_has_no_slow_start() {
        let start = SlowStart::new(Rate(80_000), RTT, 1000);
        assert_eq!(start.time_to_steady(), Duration::ZERO);
        assert_eq!(start.time_for(Bytes(10_000)), Duration::from_secs(1));
        assert_eq!(SlowStart::new(Rate(0), RTT, 1000).time_for(Bytes(1)), Duration::MAX);
        assert_eq!(SlowStart::new(Rate(0), Duration::ZERO, 0).time_for(Bytes(0)), Duration::MAX);
    }

    proptest! {
        #[test]
        fn slow_start_costs_time_and_never_saves_any(
            bits in 1u64..1_000_000_000_000, nanos in 1_000u64..10_000_000_000, bytes in 0u64..1 << 45, mss in 1u32..9000,
        ) {
            let start = SlowStart::new(Rate(bits), Duration::from_nanos(nanos), mss);
            let (time, steady) = (start.time_for(Bytes(bytes)).as_secs_f64(), bytes as f64 * 8.0 / bits as f64);
            prop_assert!(time >= steady * (1.0 - 1e-9) - 1e-9, "{time} {steady}");
            prop_assert!(time <= steady + start.time_to_steady().as_secs_f64() + 1e-6, "{time} {steady}");
        }
    }
}
