//! The time that each part of a measurement has, by `--seconds` and the round trip.
//!
//! ```text
//! 0        before_runs        first run up, first run down, other runs        all
//! |--------|------------------|---------------------------------------------|
//! ```
//!
//! On a long path the messages and datagrams before the runs take most of a minute if nothing limits them. The first run of each direction has
//! the finding, so its time is set aside.

use longhaul_measure::message::MAX_RUN_SECONDS;
use std::time::Duration;

/// The times of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// Time of sending: `--seconds`.
    pub(super) sending: Duration,
    /// Smallest round trip that was seen.
    pub(super) rtt: Duration,
}

impl Schedule {
    /// Returns the time of the whole measurement.
    pub(super) fn all(&self) -> Duration {
        self.sending + BESIDE + LONGER_RTTS * self.rtt.saturating_sub(LONG_RTT)
    }

    /// Returns the time in which a run begins and ends.
    pub(super) fn beside_run(&self) -> Duration {
        5 * self.rtt
    }

    /// Returns the time at which the steps before the runs end, from the begin of the measurement on.
    pub(super) fn before_runs(&self) -> Duration {
        let runs = 2 * (Duration::from_secs_f64(self.first_run()) + self.beside_run());
        self.all().saturating_sub(runs + SLACK)
    }

    /// Whether another small message is sent after `count` of them in the time `taken`.
    pub(super) fn has_more_echoes(&self, count: u32, taken: Duration) -> bool {
        count < ECHOES && (count < MIN_ECHOES || taken + self.rtt < ECHOES_TIME)
    }

    /// Whether long round trips have taken time from the runs, if the steps before them took `taken`.
    pub(super) fn is_short(&self, taken: Duration) -> bool {
        taken + RUNS * self.beside_run() + self.sending > self.all()
    }

    /// Returns the time of sending of all runs, in seconds, if the steps before them took `taken`.
    pub(super) fn runs(&self, taken: Duration) -> f64 {
        if !self.is_short(taken) {
            return self.sending.as_secs_f64();
        }
        // Fewer runs fit, and less is lost between them.
        let left = self.all().saturating_sub(taken + FEW_RUNS * self.beside_run());
        let time = left.min(self.sending).max(self.sending / 2).as_secs_f64();
        time.max(2.0 * self.first_run())
    }

    /// Returns the time of sending for one more run, in seconds, after `taken`.
    pub(super) fn until_end(&self, taken: Duration) -> f64 {
        self.all().saturating_sub(taken + self.beside_run()).as_secs_f64()
    }

    /// Returns the length of the first run of a direction in seconds, where the measurement has all the time that it wants: two windows of
    /// looks, of which the first has the start.
    pub(super) fn wanted_first_run(&self) -> f64 {
        (2.1 * 10.0 * self.rtt.as_secs_f64()).max(6.5)
    }

    /// Returns the length of the first run of a direction in seconds, where the time is short.
    pub(super) fn first_run(&self) -> f64 {
        self.wanted_first_run().min(self.sending.as_secs_f64() / 2.0).min(MAX_RUN_SECONDS)
    }

    /// Returns the length below which another run shows only the start of its connections, in seconds.
    pub(super) fn least_run(&self) -> f64 {
        4.0 * self.rtt.as_secs_f64()
    }
}

/// Time of the steps that send little, such as the datagrams. A measurement with the defaults takes a minute at most on
/// round trips up to 600 ms, and more where the session dies.
const BESIDE: Duration = Duration::from_secs(19);
/// Round trip up to which that is enough for the path MTU, the first runs and some trains, and how often the rest of a longer one is added.
const LONG_RTT: Duration = Duration::from_millis(600);
const LONGER_RTTS: u32 = 50;
/// Time by which a step may end too late: the queue of a run drains.
const SLACK: Duration = Duration::from_secs(2);
/// Usual number of runs, and that of a measurement that is short of time.
const RUNS: u32 = 10;
const FEW_RUNS: u32 = 4;
/// Number of small messages before the first run.
pub(super) const ECHOES: u32 = 20;
/// Number of them that is enough for a median, and time after which no more are sent.
const MIN_ECHOES: u32 = 6;
const ECHOES_TIME: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    fn by_default(rtt: u64) -> Schedule {
        Schedule { sending: Duration::from_secs(40), rtt: Duration::from_millis(rtt) }
    }

    #[test]
    fn a_minute_holds_the_first_runs_of_paths_up_to_600_ms() {
        for rtt in [0, 63, 300, 600] {
            let schedule = by_default(rtt);
            assert_eq!(schedule.all(), Duration::from_secs(59), "{rtt} ms");
            assert_eq!(schedule.first_run(), schedule.wanted_first_run(), "{rtt} ms");
            // Also where the steps before end late.
            let first = schedule.until_end(schedule.before_runs() + SLACK);
            let runs = 2.0 * schedule.first_run() + schedule.beside_run().as_secs_f64();
            assert!((first - runs).abs() < 0.001, "{rtt} ms: {first} s for {runs} s");
        }
        assert!(by_default(600).before_runs() > Duration::from_secs(25));
        assert!(by_default(1000).before_runs() >= Duration::from_secs(27));
    }

    #[test]
    fn the_time_of_short_paths_is_what_was_asked_for() {
        let (schedule, taken) = (by_default(63), Duration::from_secs(15));
        assert!(!schedule.is_short(taken) && schedule.runs(taken) == 40.0);
        assert!(schedule.before_runs() > Duration::from_secs(43));
        let long = by_default(600);
        let taken = long.before_runs();
        assert!(long.is_short(taken) && long.runs(taken) >= 2.0 * long.first_run());
        let brief = Schedule { sending: Duration::from_secs(5), ..long };
        assert_eq!((brief.first_run(), brief.runs(taken)), (2.5, 5.0));
    }

    #[test]
    fn long_round_trips_have_fewer_small_messages() {
        let count = |rtt: u64| {
            let each = Duration::from_millis(rtt + 30);
            (0..).find(|count| !by_default(rtt).has_more_echoes(*count, each * *count)).unwrap()
        };
        assert_eq!([1, 63, 150, 300, 600, 2000].map(count), [20, 20, 20, 12, 6, 6]);
    }
}
