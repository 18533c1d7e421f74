//! Decides whether a run met its expectations, missed them, or is unclear because other programs disturbed it.
//!
//! There are two rules:
//!
//! 1. Wrong bytes and endings, connections that were cut off, no bytes at all, more than the line carries, and every other miss in an
//!    undisturbed run are `fail`.
//! 2. In a run that was disturbed, or that is compared with a disturbed one, a miss is `unclear`, unless the figure counts errors or
//!    resources ([`Kind::is_exact`](crate::traffic::row::Kind::is_exact)). What was met is met.

use crate::report::run::{RunReport, Verdict};
use crate::scenario::model::{Expect, Run, Times};
use std::ops::RangeInclusive;

/// The verdict of a run and the reasons for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Assessment {
    pub(crate) verdict: Verdict,
    /// Clauses that name the misses.
    pub(crate) reasons: Vec<String>,
}

/// Returns the verdict of `run` with the results `report`. `earlier` are the runs before it, and `direct` is the direct transfer to
/// which the gain refers.
pub(crate) fn assess(run: &Run, report: &RunReport, earlier: &[RunReport], direct: Option<&RunReport>) -> Assessment {
    let mut remarks = Remarks::default();
    sound(run, report, &mut remarks);
    speeds(run, report, &mut remarks);
    ratios(run, report, earlier, direct, &mut remarks);
    figures(run, report, &mut remarks);
    remarks.assessment(run, report)
}

/// Notes defects that fail a run at any speed.
fn sound(run: &Run, report: &RunReport, remarks: &mut Remarks) {
    let may_stand_still = run.expect.speed.as_ref().is_some_and(|speed| speed.contains(&0.0));
    let mut wrong = |text: String| remarks.misses.push(Miss { text, is_explained: false });
    if report.bytes == 0 && !may_stand_still {
        wrong("nothing arrived, but expect.megabytes_per_s does not include 0".into());
    }
    if report.cut > 0 && !may_stand_still {
        let (connections, were) = if report.cut == 1 { ("connection", "was") } else { ("connections", "were") };
        wrong(format!("{} {connections} did not end in time and {were} cut off", report.cut));
    }
    report.wrong.iter().take(WRONG_SAID).for_each(|flow| wrong(flow.clone()));
    if report.wrong.len() > WRONG_SAID {
        let more = report.wrong.len() - WRONG_SAID;
        wrong(if more == 1 { "1 more flow was wrong".into() } else { format!("{more} more flows were wrong") });
    }
    if let (Some(measured), Some(ceiling)) = (report.measured, report.ceiling) {
        if measured > ceiling * DEFECT {
            let percent = 100.0 * measured / ceiling;
            wrong(format!("{measured:.2} MB/s is {percent:.0} % of what the line can carry: a defect of the lab"));
        }
    }
    if run.expect.within.is_some() && report.computed.is_none() {
        wrong("no speed is computed for this carrier, so `within` cannot be judged".into());
    }
}

/// Checks the speed.
fn speeds(run: &Run, report: &RunReport, remarks: &mut Remarks) {
    let Expect { within, speed, .. } = &run.expect;
    let measured = report.measured.unwrap_or_default();
    let value = Value { value: measured, is_doubtful: report.disturbance.disturbed };
    if let (Some(within), Some(computed)) = (within, report.computed) {
        let range = computed * (1.0 - within)..=computed * (1.0 + within);
        let off = 100.0 * (measured / computed - 1.0);
        let text = format!("{measured:.2} MB/s is {off:+.0} % of the computed {computed:.2}");
        remarks.check("MB/s", Some(value), Some(&range), Some(text));
    }
    remarks.check("MB/s", Some(value), speed.as_ref(), None);
}

/// Checks the speed as a multiple of that of other runs.
fn ratios(run: &Run, report: &RunReport, earlier: &[RunReport], direct: Option<&RunReport>, remarks: &mut Remarks) {
    let Expect { gain, times, .. } = &run.expect;
    let mut check = |what: &str, other: Option<&RunReport>, range| {
        remarks.check(what, other.and_then(|other| Value::ratio(report, other)), range, None);
        other.into_iter().for_each(|other| remarks.beside(other));
    };
    // A direct transfer has no gain, because others are compared with it.
    if !report.is_direct() && gain.is_some() {
        check("times direct", direct, gain.as_ref());
    }
    if let Some(Times { of, by }) = times {
        check(&format!("times {of}"), reference(report, of, earlier), Some(by));
    }
}

/// Checks the processor time of the relays, and the further figures.
fn figures(run: &Run, report: &RunReport, remarks: &mut Remarks) {
    let Expect { cpu, figures, .. } = &run.expect;
    let is_disturbed = report.disturbance.disturbed;
    if let Some(max) = cpu {
        let share = report.series.last().filter(|point| point.t_s > 0.0).map(|point| report.relay_cpu_s / point.t_s);
        remarks.check(
            "of a CPU",
            share.map(|share| Value { value: share, is_doubtful: is_disturbed }),
            Some(&(0.0..=*max)),
            None,
        );
    }
    for (name, range) in figures {
        let is_doubtful = is_disturbed && !run.traffic.kind.is_exact(name);
        let value = report.figures.get(name).map(|value| Value { value: *value, is_doubtful });
        remarks.check(name, value, Some(range), None);
    }
}

/// Returns the earlier run called `of` with the same carrier, or else with its first carrier.
fn reference<'a>(report: &RunReport, of: &str, earlier: &'a [RunReport]) -> Option<&'a RunReport> {
    let mut same = earlier.iter().filter(|other| other.id == of && other.measured.is_some());
    same.clone().find(|other| other.carrier == report.carrier).or_else(|| same.next())
}

/// A measured value.
#[derive(Clone, Copy, Debug)]
struct Value {
    value: f64,
    /// Whether a disturbance may have changed it.
    is_doubtful: bool,
}

impl Value {
    /// Returns the ratio of the speeds of two runs; `None` if the other speed is 0.
    fn ratio(report: &RunReport, other: &RunReport) -> Option<Value> {
        let speed = other.measured.filter(|speed| *speed > 0.0)?;
        let is_doubtful = report.disturbance.disturbed || other.disturbance.disturbed;
        Some(Value { value: report.measured.unwrap_or_default() / speed, is_doubtful })
    }
}

/// A missed expectation.
#[derive(Debug)]
struct Miss {
    text: String,
    /// Whether a disturbance could be the reason.
    is_explained: bool,
}

#[derive(Debug, Default)]
struct Remarks {
    misses: Vec<Miss>,
    /// Disturbances of the runs with which this run is compared.
    disturbances: Vec<String>,
}

impl Remarks {
    /// Checks `value`. Notes a miss if it is not in `range` or is missing. `text` replaces the usual words for a value outside the
    /// range.
    fn check(&mut self, what: &str, value: Option<Value>, range: Option<&RangeInclusive<f64>>, text: Option<String>) {
        let Some(range) = range else { return };
        let wanted = match (range.start(), range.end()) {
            (min, max) if max.is_infinite() => format!("at least {min:.2}"),
            (min, max) if *min == 0.0 => format!("at most {max:.2}"),
            (min, max) => format!("{min:.2} to {max:.2}"),
        };
        match value {
            None => {
                let text = format!("{what}: there is nothing to compare with, expected {wanted}");
                self.misses.push(Miss { text, is_explained: false });
            }
            Some(Value { value, is_doubtful }) if !range.contains(&value) => {
                let text = text.unwrap_or_else(|| format!("{value:.2} {what}, expected {wanted}"));
                self.misses.push(Miss { text, is_explained: is_doubtful });
            }
            Some(_) => {}
        }
    }

    /// Notes the disturbance of a run with which this run is compared.
    fn beside(&mut self, other: &RunReport) {
        if other.disturbance.disturbed {
            self.disturbances.push(format!(
                "while {} ran over {}, {}",
                other.id,
                other.carrier_name(),
                other.disturbance.words()
            ));
        }
    }

    fn assessment(mut self, run: &Run, report: &RunReport) -> Assessment {
        let verdict = match self.misses.as_slice() {
            [] if run.expect == Expect::default() => Verdict::Unjudged,
            [] => Verdict::Pass,
            misses if misses.iter().all(|miss| miss.is_explained) => Verdict::Unclear,
            _ => Verdict::Fail,
        };
        let mut reasons: Vec<String> = self.misses.into_iter().map(|miss| miss.text).collect();
        if verdict == Verdict::Unclear {
            reasons.extend(report.disturbance.disturbed.then(|| report.disturbance.words()));
            reasons.append(&mut self.disturbances);
        }
        Assessment { verdict, reasons }
    }
}

/// Maximum number of wrong flows that the reasons name.
const WRONG_SAID: usize = 3;
/// Multiple of the line's capacity above which a measured speed is wrong.
const DEFECT: f64 = 1.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::disturbance::Disturbance;
    use crate::scenario::read::read;
    use crate::traffic as kinds;

    /// Returns a run with the expectation `expect`, in the syntax of a scenario.
    fn run(expect: &str) -> Run {
        let text = format!(
            "about = \"a\"\nsource = \"b\"\n[[run]]\nid = \"direct\"\ncarriers = [\"direct\"]\n\
             [[run]]\nid = \"raw\"\ncarriers = [\"longhaul\"]\ncomputed = \"line\"\nexpect = {{ {expect} }}\n"
        );
        read("small", "small.toml", &text).unwrap().runs.remove(1)
    }

    const QUIET: f64 = 0.01;
    const BUSY: f64 = 0.38;

    /// Returns a report of `measured` MB/s while other programs took the share `outside`.
    fn report(measured: f64, outside: f64) -> RunReport {
        let disturbance = Disturbance { outside_share: outside, disturbed: outside >= 0.05, ..Disturbance::default() };
        RunReport {
            id: "raw".into(),
            carrier: crate::carrier::table::find("longhaul").ok(),
            measured: Some(measured),
            computed: Some(30.0),
            bytes: 1,
            rtt_ms: 63.0,
            ceiling: Some(120.0),
            disturbance,
            ..RunReport::default()
        }
    }

    fn judged(expect: &str, report: &RunReport, direct: Option<&RunReport>) -> (Verdict, String) {
        let earlier: Vec<RunReport> =
            direct.map(|direct| RunReport { id: "direct".into(), ..direct.clone() }).into_iter().collect();
        let Assessment { verdict, reasons } = assess(&run(expect), report, &earlier, earlier.first());
        (verdict, reasons.join("; "))
    }

    #[test]
    fn a_slow_run_is_a_failure_on_a_quiet_machine_and_unclear_on_a_busy_one() {
        for expect in [
            "megabytes_per_s = [26]",
            "megabytes_per_s = [26, 40]",
            "within = \"15%\"",
            "gain = [6]",
            "times = { of = \"direct\", by = [6] }",
        ] {
            let direct = report(4.0, QUIET);
            let came = |outside| judged(expect, &report(12.0, outside), Some(&direct));
            assert_eq!(came(QUIET).0, Verdict::Fail, "{expect}");
            assert_eq!(came(BUSY).0, Verdict::Unclear, "{expect}");
            assert!(came(BUSY).1.ends_with("; other programs took 38 % of the processor"), "{}", came(BUSY).1);
        }
        let (_, said) = judged("megabytes_per_s = [26]", &report(12.0, QUIET), None);
        assert_eq!(said, "12.00 MB/s, expected at least 26.00");
        let (_, said) = judged("within = \"15%\"", &report(12.0, QUIET), None);
        assert_eq!(said, "12.00 MB/s is -60 % of the computed 30.00");
    }

    #[test]
    fn a_miss_other_than_speed_is_a_failure_beside_a_busy_core_too() {
        let silent = RunReport { bytes: 0, ..report(0.0, BUSY) };
        assert_eq!(judged("megabytes_per_s = [1]", &silent, None).0, Verdict::Fail);
        assert_eq!(judged("megabytes_per_s = [0, 1]", &silent, None).0, Verdict::Pass);
        // The bytes arrived after the measured time, and the connection ended by itself.
        let late = |outside| RunReport { bytes: 1, ..report(0.0, outside) };
        assert_eq!(judged("megabytes_per_s = [1]", &late(BUSY), None).0, Verdict::Unclear);
        assert_eq!(judged("megabytes_per_s = [1]", &late(QUIET), None).0, Verdict::Fail);
        let cut = RunReport { cut: 1, ..late(BUSY) };
        let said = judged("megabytes_per_s = [1]", &cut, None);
        assert_eq!(said.0, Verdict::Fail);
        assert!(said.1.contains("1 connection did not end in time and was cut off"), "{}", said.1);
        let cut = RunReport { cut: 2, ..report(30.0, BUSY) };
        let said = judged("megabytes_per_s = [1]", &cut, None);
        assert_eq!(said.0, Verdict::Fail);
        assert!(said.1.contains("2 connections did not end"), "{}", said.1);
        assert_eq!(judged("gain = [2]", &report(30.0, BUSY), None).0, Verdict::Fail, "nothing to compare with");
        let wrong = (1..=5).map(|flow| format!("flow {flow}: client got FIN")).collect();
        let (verdict, said) = judged("megabytes_per_s = [1]", &RunReport { wrong, ..report(30.0, BUSY) }, None);
        assert_eq!(verdict, Verdict::Fail);
        assert!(said.ends_with("; flow 3: client got FIN; 2 more flows were wrong"), "{said}");
    }

    #[test]
    fn what_was_met_is_met_beside_a_busy_core_too() {
        assert_eq!(judged("megabytes_per_s = [1, 12]", &report(8.0, BUSY), None), (Verdict::Pass, String::new()));
        assert_eq!(judged("gain = [6]", &report(28.0, QUIET), Some(&report(4.0, BUSY))).0, Verdict::Pass);
    }

    #[test]
    fn a_miss_is_unclear_if_the_other_run_of_a_ratio_was_disturbed() {
        let said = |direct_outside| judged("gain = [6]", &report(20.0, QUIET), Some(&report(4.0, direct_outside)));
        assert_eq!(said(QUIET).0, Verdict::Fail);
        let (verdict, why) = said(BUSY);
        assert_eq!(verdict, Verdict::Unclear);
        assert!(why.contains("while direct ran over longhaul, other programs took 38 %"), "{why}");
    }

    #[test]
    fn more_than_the_line_carries_is_always_a_defect_of_the_lab() {
        let fast = |measured| judged("megabytes_per_s = [1]", &report(measured, BUSY), None);
        assert_eq!(fast(121.0).0, Verdict::Pass);
        let (verdict, why) = fast(121.3);
        assert_eq!(verdict, Verdict::Fail);
        assert_eq!(why, "121.30 MB/s is 101 % of what the line can carry: a defect of the lab");
    }

    /// Returns the verdict of a run of `kind` with `value` for the figure `name`, if `range` is expected.
    fn of_figure(kind: &str, (name, value): (&str, f64), range: RangeInclusive<f64>, outside: f64) -> Verdict {
        let mut run = run("megabytes_per_s = [1]");
        run.traffic.kind = kinds::find(kind).unwrap();
        run.expect.figures = [(name.into(), range)].into();
        let report = RunReport { figures: [(name.to_string(), value)].into(), ..report(30.0, outside) };
        assess(&run, &report, &[], None).verdict
    }

    #[test]
    fn a_disturbance_excuses_a_time_and_a_rate() {
        for (kind, figure) in [("request", "p99_us"), ("connections", "per_second"), ("mix", "p50_ms")] {
            let of = |range, outside| of_figure(kind, (figure, 90.0), range, outside);
            assert_eq!((of(0.0..=80.0, QUIET), of(0.0..=80.0, BUSY)), (Verdict::Fail, Verdict::Unclear));
            assert_eq!(of(80.0..=1000.0, BUSY), Verdict::Pass);
        }
    }

    #[test]
    fn a_disturbance_excuses_no_count_of_errors() {
        for outside in [QUIET, BUSY] {
            for count in [1.0, 3.0] {
                assert_eq!(of_figure("resets", ("wrong", count), 0.0..=0.0, outside), Verdict::Fail);
                assert_eq!(of_figure("connections", ("refused", count), 0.0..=0.0, outside), Verdict::Fail);
            }
            assert_eq!(of_figure("resets", ("wrong", 0.0), 0.0..=0.0, outside), Verdict::Pass);
        }
    }

    #[test]
    fn a_figure_that_is_not_there_is_a_failure() {
        let mut run = run("megabytes_per_s = [1]");
        run.expect.figures = [("p99_us".into(), 0.0..=1.0)].into();
        assert_eq!(assess(&run, &report(30.0, BUSY), &[], None).verdict, Verdict::Fail);
    }

    #[test]
    fn without_a_disturbance_every_miss_is_a_failure() {
        // The relay itself is slow, for example with max-pacing-rate.
        let quiet = |measured| RunReport { disturbance: Disturbance::default(), ..report(measured, 0.0) };
        let (slow, direct) = (quiet(2.5), quiet(4.0));
        for expect in
            ["megabytes_per_s = [10]", "within = \"15%\"", "gain = [6]", "times = { of = \"direct\", by = [6] }"]
        {
            assert_eq!(judged(expect, &slow, Some(&direct)).0, Verdict::Fail, "{expect}");
        }
        for kind in kinds::ROWS {
            for figure in kind.figures {
                for range in [0.0..=80.0, 100.0..=200.0] {
                    let came = of_figure(kind.name, (figure.name, 90.0), range, 0.0);
                    assert_eq!(came, Verdict::Fail, "{} {}", kind.name, figure.name);
                }
            }
        }
    }
}
