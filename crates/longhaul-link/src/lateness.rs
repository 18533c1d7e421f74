//! Histogram of the lateness of packets that leave the link. It costs a shift and an increment per packet.

use std::time::Duration;

/// Counts packets by their lateness: the time from the moment when a packet was due to the moment when it left.
///
/// Buckets are one microsecond wide up to 8 microseconds, and an eighth of a power of two above. A quantile is at most
/// an eighth too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
    packets: u64,
    max: Duration,
}

impl Lateness {
    /// Counts a packet that left `late` after it was due.
    pub fn note(&mut self, late: Duration) {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(micros)] += 1;
        self.packets += 1;
        self.max = self.max.max(late);
    }

    /// Returns the number of packets counted.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the largest lateness; zero without packets.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the lateness that `percent` of the packets did not exceed, by nearest rank; zero without packets.
    pub fn quantile(&self, percent: u64) -> Duration {
        let rank = (self.packets * percent.min(100)).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(Duration::ZERO, |index| Duration::from_micros(upper(index)).min(self.max))
    }
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { counts: vec![0; BUCKETS], packets: 0, max: Duration::ZERO }
    }
}

/// Returns the index of the bucket for a lateness in microseconds.
fn bucket(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2());
    let step = (micros >> (power - STEPS_LOG2)) & (STEPS - 1);
    ((STEPS + (power - STEPS_LOG2) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// Returns the first microsecond above bucket `index`.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index + 1;
    }
    let power = (index - STEPS) / STEPS;
    let step = (index - STEPS) % STEPS;
    (STEPS + step + 1) << power
}

const STEPS_LOG2: u64 = 3;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Number of buckets: up to 2^30 microseconds (18 minutes). The last bucket also holds all later packets.
const BUCKETS: usize = (STEPS + (30 - STEPS_LOG2) * STEPS) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Lateness {
        let mut lateness = Lateness::default();
        times.into_iter().for_each(|micros| lateness.note(Duration::from_micros(micros)));
        lateness
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let lateness = of(1..=10_000);
        for (percent, exact) in [(1, 100), (50, 5000), (99, 9900), (100, 10_000)] {
            let found = lateness.quantile(percent).as_micros() as u64;
            assert!(found >= exact && found <= exact + exact / 8, "{percent} %: {found}");
        }
        assert_eq!((lateness.max(), lateness.packets()), (Duration::from_micros(10_000), 10_000));
    }

    #[test]
    fn one_late_packet_in_a_thousand_changes_only_the_maximum() {
        let lateness = of(std::iter::repeat_n(3, 999).chain([14_000]));
        assert_eq!(lateness.quantile(50), Duration::from_micros(4));
        assert_eq!(lateness.quantile(99), Duration::from_micros(4));
        assert_eq!(lateness.quantile(100), Duration::from_micros(14_000));
    }

    #[test]
    fn zero_packets_and_an_hour_late_do_not_panic() {
        assert_eq!(Lateness::default().quantile(99), Duration::ZERO);
        let hour = of([3_600_000_000, 0]);
        assert_eq!(hour.max(), Duration::from_secs(3600));
        assert_eq!(hour.quantile(1), Duration::from_micros(1));
        assert!(hour.quantile(99) > Duration::from_secs(1000));
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_ends() {
        for index in 0..BUCKETS - 1 {
            assert_eq!((bucket(upper(index) - 1), bucket(upper(index))), (index, index + 1));
        }
    }
}
