//! Measures whether other programs disturbed a run: the lateness of packets that left the link, and the processor time of
//! programs outside the lab.
//!
//! The lab is this process and all its descendants. Processor time is that of /proc/stat, of all processors together.
//! Interrupts and softirqs count for nobody: during a run they carry the lab's packets. If they interrupt a program, their time
//! is in that program's own time too. So the share of other programs is too small rather than too large. Steal is time that the
//! machine's own host took. It counts as time of other programs.

use crate::world::live::LinkCounters;
use crate::world::processes::family_ticks;
use serde::Serialize;
use std::time::Duration;

/// Disturbance of a run by other programs. The names of the fields are fixed, because programs read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Disturbance {
    /// Lateness of packets in milliseconds: the median, the 99th percentile and the maximum. Each is the larger value of the two
    /// directions. `None` without a WAN.
    pub(crate) late_p50_ms: Option<f64>,
    pub(crate) late_p99_ms: Option<f64>,
    pub(crate) late_max_ms: Option<f64>,
    /// Shares of the machine's processor time, 0 to 1: of programs outside the lab, of the machine's own host, and of the lab.
    pub(crate) outside_share: f64,
    pub(crate) steal_share: f64,
    pub(crate) lab_share: f64,
    /// Whether others may have changed the results.
    pub(crate) disturbed: bool,
}

/// Processor time between two moments, as shares of the machine's whole processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    pub(crate) outside: f64,
    pub(crate) steal: f64,
    pub(crate) lab: f64,
}

/// Processor time so far, in clock ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    all: u64,
    /// User and system mode of all programs.
    programs: u64,
    steal: u64,
    lab: u64,
}

impl Ticks {
    /// Returns the processor time so far; zero if /proc/stat cannot be read.
    pub(crate) fn now() -> Ticks {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Ticks { lab: family_ticks(), ..Ticks::read(&stat).unwrap_or_default() }
    }

    /// Reads the first line of /proc/stat (proc_stat(5)).
    fn read(stat: &str) -> Option<Ticks> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<u64> = line.split_whitespace().map_while(|time| time.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = *times.get(..8)?.first_chunk()?;
        let programs = user + nice + system;
        Some(Ticks { all: programs + idle + iowait + irq + softirq + steal, programs, steal, lab: 0 })
    }

    /// Returns the shares between `before` and `self`.
    pub(crate) fn since(self, before: Ticks) -> Shares {
        let passed = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let all = passed(self.all, before.all).max(1.0);
        let lab = passed(self.lab, before.lab);
        let outside = (passed(self.programs, before.programs) - lab).max(0.0);
        let share = |ticks: f64| (ticks / all).clamp(0.0, 1.0);
        Shares { outside: share(outside), steal: share(passed(self.steal, before.steal)), lab: share(lab) }
    }
}

impl Disturbance {
    /// Returns the disturbance of a run over a path of `rtt`. `traffic` are the counters of its link.
    pub(crate) fn of(rtt: Duration, traffic: Option<&[LinkCounters; 2]>, shares: Shares) -> Disturbance {
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let worst = |value: fn(&LinkCounters) -> Duration| Some(traffic?.iter().map(value).max().unwrap_or_default());
        let late_p99 = worst(|way| way.lateness.quantile(99));
        let late_max = worst(|way| way.lateness.max());
        let is_late = late_p99.is_some_and(|late| late > LATE_P99.max(rtt / 50))
            || late_max.is_some_and(|late| late > LATE_MAX.max(rtt / 5));
        let taken = shares.outside + shares.steal;
        // If the lab is late because its own programs used up the processor, it was not disturbed.
        let is_others = taken >= LATE_SHARE || shares.lab < BUSY_LAB;
        let rounded = |share: f64| (share * 1e4).round() / 1e4;
        Disturbance {
            late_p50_ms: worst(|way| way.lateness.quantile(50)).map(millis),
            late_p99_ms: late_p99.map(millis),
            late_max_ms: late_max.map(millis),
            outside_share: rounded(shares.outside),
            steal_share: rounded(shares.steal),
            lab_share: rounded(shares.lab),
            disturbed: taken >= SHARE || (is_late && is_others),
        }
    }

    /// Returns the disturbance in words: `packets left the link up to 14 ms late: other programs took 38 % of the processor`.
    pub(crate) fn words(&self) -> String {
        let late = self.late_max_ms.filter(|late| *late >= 0.05).map(|late| {
            let late = if late < 9.95 { format!("{late:.1}") } else { format!("{late:.0}") };
            format!("packets left the link up to {late} ms late")
        });
        match (late, self.takers()) {
            (Some(late), Some(takers)) => format!("{late}: {takers}"),
            // The cause is unknown.
            (Some(late), None) => format!("{late}, and /proc/stat shows less than 1 % for other programs"),
            (None, takers) => takers.unwrap_or_else(|| "other programs took less than 1 % of the processor".into()),
        }
    }

    /// Returns a clause about the others that took 1 % of the processor or more; `None` if there are none.
    fn takers(&self) -> Option<String> {
        let took = |share: f64| (share >= SHOWN).then(|| format!("{:.0} %", share * 100.0));
        match (took(self.outside_share), took(self.steal_share)) {
            (Some(others), None) => Some(format!("other programs took {others} of the processor")),
            (Some(others), Some(host)) => {
                Some(format!("other programs took {others} of the processor, the host of this machine {host}"))
            }
            (None, Some(host)) => Some(format!("the host of this machine took {host} of the processor")),
            (None, None) => None,
        }
    }
}

/// Minimum share of the processor that the words name.
const SHOWN: f64 = 0.01;
/// Minimum share of others that disturbs a run: a tenth of one core of two.
const SHARE: f64 = 0.05;
/// Minimum share of others at which late packets are attributed to them.
const LATE_SHARE: f64 = 0.02;
/// The lab's own share below which late packets are not attributed to the lab.
const BUSY_LAB: f64 = 0.6;
/// Permitted 99th percentile of lateness: this or a fiftieth of the round trip, whichever is larger. On an idle machine packets
/// are much less late.
const LATE_P99: Duration = Duration::from_millis(1);
/// Permitted lateness of a single packet: this or a fifth of the round trip, whichever is larger.
const LATE_MAX: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_link::Lateness;

    const RTT: Duration = Duration::from_millis(63);

    /// Returns a link with one packet of a thousand `late`, the others on time.
    fn link(late: Duration) -> [LinkCounters; 2] {
        let mut lateness = Lateness::default();
        (0..999).for_each(|_| lateness.note(Duration::from_micros(20)));
        lateness.note(late);
        [LinkCounters { lateness, ..LinkCounters::default() }, LinkCounters::default()]
    }

    fn of(late_ms: u64, outside: f64, steal: f64, lab: f64) -> Disturbance {
        Disturbance::of(RTT, Some(&link(Duration::from_millis(late_ms))), Shares { outside, steal, lab })
    }

    #[test]
    fn processor_time_is_read_and_compared() {
        let stat = "cpu  100 10 50 800 0 5 15 20 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let before = Ticks { lab: 30, ..Ticks::read(stat).unwrap() };
        assert_eq!((before.all, before.programs, before.steal), (1000, 160, 20));
        let now = Ticks { lab: 90, ..Ticks::read("cpu  180 10 90 1600 0 15 75 30 0 0\n").unwrap() };
        // 1000 ticks: 120 of programs, 60 of them of the lab; 70 of interrupts count for nobody.
        assert_eq!(now.since(before), Shares { outside: 0.06, steal: 0.01, lab: 0.06 });
        // The lab's time includes interrupts and is more than all programs had, so nothing is left for others.
        let now = Ticks { lab: 300, ..now };
        assert_eq!(now.since(before).outside, 0.0);
        assert!(Ticks::read("cpu 1 2 3").is_none() && Ticks::read("").is_none());
        let none = Ticks::default().since(Ticks::default());
        assert_eq!(none, Shares::default());
    }

    #[test]
    fn a_quiet_machine_disturbs_nothing() {
        for quiet in [of(0, 0.01, 0.0, 0.3), of(3, 0.03, 0.0, 0.3), of(12, 0.01, 0.01, 0.5)] {
            assert!(!quiet.disturbed, "{quiet:?}");
        }
    }

    #[test]
    fn others_who_take_time_or_hold_up_packets_disturb() {
        for busy in [of(0, 0.38, 0.0, 0.5), of(0, 0.0, 0.06, 0.2), of(14, 0.03, 0.0, 0.9), of(14, 0.0, 0.0, 0.3)] {
            assert!(busy.disturbed, "{busy:?}");
        }
        let without_wan = Disturbance::of(RTT, None, Shares { outside: 0.2, ..Shares::default() });
        assert!(without_wan.disturbed && without_wan.late_max_ms.is_none());
    }

    #[test]
    fn a_lab_that_is_late_by_its_own_doing_was_not_disturbed() {
        assert!(!of(40, 0.01, 0.0, 0.95).disturbed);
    }

    #[test]
    fn it_says_how_late_and_who() {
        let said = "packets left the link up to 14 ms late: other programs took 38 % of the processor";
        assert_eq!(of(14, 0.38, 0.0, 0.5).words(), said);
        let both = "other programs took 3 % of the processor, the host of this machine 12 %";
        assert_eq!(of(0, 0.03, 0.12, 0.5).words(), both);
        let nobody = "packets left the link up to 14 ms late, and /proc/stat shows less than 1 % for other programs";
        for outside in [0.0, 0.004, 0.0099] {
            assert_eq!(of(14, outside, 0.0, 0.3).words(), nobody);
        }
        let host = "packets left the link up to 14 ms late: the host of this machine took 12 % of the processor";
        assert_eq!(of(14, 0.0, 0.12, 0.3).words(), host);
    }
}
