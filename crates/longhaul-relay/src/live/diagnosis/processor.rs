//! The processor time of this process over the last seconds. One meter for all flows.

use longhaul_core::path::diagnosis::Processor;
use longhaul_sys::{cgroup, process};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The readings of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct ProcessorMeter(VecDeque<Reading>);

/// Times since the process, or its control group, began.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    computed: Duration,
    throttled: Duration,
}

impl ProcessorMeter {
    /// Reads the times, at most once in [`INTERVAL`]: some ten system calls.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.0.back().is_some_and(|last| now < last.at + INTERVAL) {
            return;
        }
        self.add(Reading { at: now, computed: process::cpu_time(), throttled: cgroup::throttled_time() });
    }

    /// Returns the shares of the time between the first and the last reading. Zero before the second one.
    pub(crate) fn shares(&self) -> Processor {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else { return Processor::default() };
        let elapsed = last.at.saturating_duration_since(first.at).as_secs_f64();
        if elapsed <= 0.0 {
            return Processor::default();
        }
        let share = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() / elapsed;
        Processor {
            computed: share(first.computed, last.computed),
            throttled: share(first.throttled, last.throttled).min(1.0),
        }
    }

    fn add(&mut self, reading: Reading) {
        if self.0.back().is_some_and(|last| reading.at > last.at + PAUSE) {
            self.0.clear();
        }
        if self.0.len() > READINGS {
            self.0.pop_front();
        }
        self.0.push_back(reading);
    }
}

/// Time between two readings, and the number of intervals that count: about a window of looks.
const INTERVAL: Duration = Duration::from_secs(1);
const READINGS: usize = 3;
/// Time without a reading after which the earlier ones say nothing about now: no flow carried bytes.
const PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_three_seconds_count() {
        let (began, mut meter) = (Instant::now(), ProcessorMeter::default());
        let millis = |number| Duration::from_millis(number);
        assert_eq!(meter.shares(), Processor::default());
        // It computes for 100 ms of each second, and from the fifth on for 1.5 s, on two CPUs, both throttled for the rest.
        for second in 0..9_u64 {
            let late = second.saturating_sub(4);
            let computed = millis(100 * second.min(4) + 1500 * late);
            meter.add(Reading { at: began + millis(1000 * second), computed, throttled: millis(1200 * late) });
            match second {
                0 => assert_eq!(meter.shares(), Processor::default()),
                1..=4 => assert!((meter.shares().computed - 0.1).abs() < 1e-9, "{second}: {meter:?}"),
                _ => {}
            }
        }
        assert_eq!(meter.shares(), Processor { computed: 1.5, throttled: 1.0 });
        meter.look(began + millis(8500));
        assert_eq!(meter.0.back().unwrap().at, began + millis(8000), "too early");
        meter.look(began + millis(60_000));
        assert_eq!(meter.shares(), Processor::default(), "after a pause");
    }
}
