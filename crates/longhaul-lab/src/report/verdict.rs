//! Decides whether a run met its expectations, missed them, or is unclear because other programs disturbed it.
//!
//! A disturbance makes a run slower, never faster. Without it, the speed could have been higher, the times shorter, and a ratio
//! to this run lower. Each figure of the traffic declares how a disturbance changes it ([`Effect`]). There are three rules:
//!
//! 1. A miss that a disturbance could explain is `unclear`: a speed or rate that is too low, a time that is too long, too much
//!    CPU, or a ratio that is too high because the other run was disturbed. A speed of 0 counts as too low if every byte arrived
//!    after the measured time.
//! 2. A pass stays `pass` unless the disturbance could have caused it. It could if the expectation is an upper bound on the
//!    speed, or a ratio to a disturbed run. The undisturbed speed is estimated
//!    ([`Disturbance::slowdown`](crate::measure::disturbance::Disturbance::slowdown)).
//! 3. Every other miss is `fail`: wrong bytes and endings, connections that were refused or cut off, no bytes at all, a time
//!    that is too short, a rate that is too high, more than the line carries.

use crate::report::run::{RunReport, Verdict};
use crate::scenario::{Expect, Run, Times};
use crate::traffic::Effect;
use std::ops::RangeInclusive;

/// The verdict of a run and the reasons for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Assessment {
    pub(crate) verdict: Verdict,
    /// Clauses that name the misses, or the doubts about a pass.
    pub(crate) reasons: Vec<String>,
}

/// The runs with which a run is compared.
pub(crate) struct Compared<'a> {
    /// The runs before this run.
    pub(crate) earlier: &'a [RunReport],
    /// The direct transfer to which the gain refers.
    pub(crate) direct: Option<&'a RunReport>,
    /// Whether later runs are compared with this run.
    pub(crate) is_reference: bool,
}

/// Returns the verdict of `run` with the results `report`.
pub(crate) fn assess(run: &Run, report: &RunReport, compared: &Compared<'_>) -> Assessment {
    let mut remarks = Remarks::default();
    sound(run, report, &mut remarks);
    speeds(run, report, compared, &mut remarks);
    let speed = Value::speed(report);
    if compared.is_reference && speed.likely.max > speed.measured * COMPARABLE {
        remarks.doubts.push(format!(
            "other runs are compared with this one, which could have reached {:.2} MB/s undisturbed",
            speed.likely.max
        ));
    }
    remarks.assessment(report)
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

/// Checks the speed, its comparisons, and the further figures.
fn speeds(run: &Run, report: &RunReport, compared: &Compared<'_>, remarks: &mut Remarks) {
    let Expect { within, speed, gain, times, cpu, figures } = &run.expect;
    let measured = Value::speed(report);
    if let (Some(within), Some(computed)) = (within, report.computed) {
        let range = computed * (1.0 - within)..=computed * (1.0 + within);
        let off = 100.0 * (measured.measured / computed - 1.0);
        let text = format!("{:.2} MB/s is {off:+.0} % of the computed {computed:.2}", measured.measured);
        remarks.check("MB/s", Some(measured), Some(&range), Some(text));
    }
    remarks.check("MB/s", Some(measured), speed.as_ref(), None);
    // A direct transfer has no gain, because others are compared with it.
    if !report.is_direct() && gain.is_some() {
        let ratio = compared.direct.and_then(|direct| Value::ratio(report, direct));
        remarks.check("times direct", ratio, gain.as_ref(), None);
        compared.direct.into_iter().for_each(|direct| remarks.beside(direct));
    }
    if let Some(Times { of, by }) = times {
        let other = reference(report, of, compared.earlier);
        other.into_iter().for_each(|other| remarks.beside(other));
        let ratio = other.and_then(|other| Value::ratio(report, other));
        remarks.check(&format!("times {of}"), ratio, Some(by), None);
    }
    if let Some(max) = cpu {
        let share = report.series.last().filter(|point| point.t_s > 0.0).map(|point| report.relay_cpu_s / point.t_s);
        let share = share.map(|share| Value::figure(report, Effect::Varies, share));
        remarks.check("of a CPU", share, Some(&(0.0..=*max)), None);
    }
    for (name, range) in figures {
        let value = report.figures.get(name).map(|value| Value::figure(report, run.traffic.kind.effect(name), *value));
        remarks.check(name, value, Some(range), None);
    }
}

/// Returns the earlier run called `of` with the same carrier, or else with its first carrier.
fn reference<'a>(report: &RunReport, of: &str, earlier: &'a [RunReport]) -> Option<&'a RunReport> {
    let mut same = earlier.iter().filter(|other| other.id == of && other.measured.is_some());
    same.clone().find(|other| other.carrier == report.carrier).or_else(|| same.next())
}

/// A value, and the range that it could have had without the disturbance.
#[derive(Clone, Copy, Debug)]
struct Value {
    measured: f64,
    /// By the estimated slowdown. Decides whether a pass is clear.
    likely: Bounds,
    /// With TCP's reaction included. Decides whether a miss is clear.
    possible: Bounds,
}

/// The lowest and the highest value that a figure could have had undisturbed.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    min: f64,
    max: f64,
}

impl Bounds {
    fn new(min: f64, max: f64) -> Bounds {
        Bounds { min, max }
    }

    /// Returns the bounds of the ratio to another figure.
    fn over(self, other: Bounds) -> Bounds {
        Bounds { min: self.min / other.max, max: self.max / other.min }
    }

    /// Whether a value within the bounds is in `range`.
    fn touches(self, range: &RangeInclusive<f64>) -> bool {
        self.min <= *range.end() && self.max >= *range.start()
    }

    /// Whether every value within the bounds is in `range`.
    fn is_within(self, range: &RangeInclusive<f64>) -> bool {
        self.min >= *range.start() && self.max <= *range.end()
    }
}

impl Value {
    /// Returns the speed of a run.
    fn speed(report: &RunReport) -> Value {
        let measured = report.measured.unwrap_or_default();
        // If every byte arrived, but after the measured time, no factor of 0 says how fast the run could have been.
        let came_later = measured == 0.0 && report.bytes > 0 && report.cut == 0;
        let max = match came_later && report.disturbance.disturbed {
            true => f64::INFINITY,
            false => measured * report.disturbance.max_slowdown(report.rtt_ms),
        };
        let likely = Bounds::new(measured, report.fastest.max(measured));
        Value { measured, likely, possible: Bounds::new(measured, max) }
    }

    /// Returns the ratio of the speeds of two runs; `None` if the other speed is 0.
    fn ratio(report: &RunReport, other: &RunReport) -> Option<Value> {
        let (value, other) = (Value::speed(report), Value::speed(other));
        (other.measured > 0.0).then(|| Value {
            measured: value.measured / other.measured,
            likely: value.likely.over(other.likely),
            possible: value.possible.over(other.possible),
        })
    }

    /// Returns a further figure, which a disturbance changes by `effect`.
    fn figure(report: &RunReport, effect: Effect, measured: f64) -> Value {
        let slowdown = report.disturbance.slowdown(report.rtt_ms);
        let (less, more) = (measured / slowdown, measured * slowdown);
        let exact = Bounds::new(measured, measured);
        let (likely, possible) = match effect {
            Effect::Grows => (Bounds::new(less, measured), Bounds::new(0.0, measured)),
            Effect::GrowsFrom(errors) => {
                let errors = report.figures.get(errors).copied().unwrap_or_default();
                (Bounds::new(less.max(errors), measured), Bounds::new(errors, measured))
            }
            Effect::Shrinks => (Bounds::new(measured, more), Bounds::new(measured, f64::INFINITY)),
            Effect::Varies => (Bounds::new(less, more), Bounds::new(0.0, f64::INFINITY)),
            Effect::Stays => (exact, exact),
        };
        let possible = if report.disturbance.disturbed { possible } else { exact };
        Value { measured, likely, possible }
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
    /// Reasons why a passed expectation could have been missed undisturbed.
    doubts: Vec<String>,
    /// Disturbances of the runs with which this run is compared.
    disturbances: Vec<String>,
}

impl Remarks {
    /// Checks `value`. Notes a miss if it is not in `range` or is missing, and a doubt if it could have been outside undisturbed.
    /// `text` replaces the usual words for a value outside the range.
    fn check(&mut self, what: &str, value: Option<Value>, range: Option<&RangeInclusive<f64>>, text: Option<String>) {
        let Some(range) = range else { return };
        let wanted = match (range.start(), range.end()) {
            (min, max) if max.is_infinite() => format!("at least {min:.2}"),
            (min, max) if *min == 0.0 => format!("at most {max:.2}"),
            (min, max) => format!("{min:.2} to {max:.2}"),
        };
        let Some(Value { measured, likely, possible }) = value else {
            let text = format!("{what}: there is nothing to compare with, expected {wanted}");
            return self.misses.push(Miss { text, is_explained: false });
        };
        if !range.contains(&measured) {
            let text = text.unwrap_or_else(|| format!("{measured:.2} {what}, expected {wanted}"));
            self.misses.push(Miss { text, is_explained: possible.touches(range) });
        } else if !likely.is_within(range) {
            let Bounds { min, max } = likely;
            self.doubts.push(format!("{measured:.2} {what}, undisturbed {min:.2} to {max:.2}, expected {wanted}"));
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

    fn assessment(mut self, report: &RunReport) -> Assessment {
        let misses = self.misses.iter().map(|miss| miss.text.clone());
        if self.misses.iter().any(|miss| !miss.is_explained) {
            return Assessment { verdict: Verdict::Fail, reasons: misses.collect() };
        }
        if self.misses.is_empty() && self.doubts.is_empty() {
            return Assessment { verdict: Verdict::Pass, reasons: Vec::new() };
        }
        let mut reasons: Vec<String> = if self.misses.is_empty() { self.doubts } else { misses.collect() };
        reasons.extend(report.disturbance.disturbed.then(|| report.disturbance.words()));
        reasons.append(&mut self.disturbances);
        Assessment { verdict: Verdict::Unclear, reasons }
    }
}

/// Maximum number of wrong flows that the reasons name.
const WRONG_SAID: usize = 3;
/// Multiple of the line's capacity above which a measured speed is wrong.
const DEFECT: f64 = 1.01;
/// Maximum factor by which a reference run could have been faster undisturbed.
const COMPARABLE: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::disturbance::Disturbance;
    use crate::{scenario, traffic};

    /// Returns a run with the expectation `expect`, in the syntax of a scenario.
    fn run(expect: &str) -> Run {
        let text = format!(
            "about = \"a\"\nsource = \"b\"\n[[run]]\nid = \"direct\"\ncarriers = [\"direct\"]\n\
             [[run]]\nid = \"raw\"\ncarriers = [\"longhaul\"]\ncomputed = \"line\"\nexpect = {{ {expect} }}\n"
        );
        scenario::read("small", "small.toml", &text).unwrap().runs.remove(1)
    }

    const QUIET: f64 = 0.01;
    const BUSY: f64 = 0.38;

    /// Returns a report of `measured` MB/s while other programs took the share `outside`.
    fn report(measured: f64, outside: f64) -> RunReport {
        let disturbance = Disturbance { outside_share: outside, disturbed: outside >= 0.05, ..Disturbance::default() };
        RunReport {
            id: "raw".into(),
            carrier: crate::carrier::find("longhaul").ok(),
            measured: Some(measured),
            computed: Some(30.0),
            bytes: 1,
            rtt_ms: 63.0,
            fastest: measured * disturbance.slowdown(63.0),
            ceiling: Some(120.0),
            disturbance,
            ..RunReport::default()
        }
    }

    fn judged(expect: &str, report: &RunReport, direct: Option<&RunReport>) -> (Verdict, String) {
        let earlier: Vec<RunReport> =
            direct.map(|direct| RunReport { id: "direct".into(), ..direct.clone() }).into_iter().collect();
        let compared = Compared { earlier: &earlier, direct: earlier.first(), is_reference: false };
        let Assessment { verdict, reasons } = assess(&run(expect), report, &compared);
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
        // Undisturbed, the run is at most 2.6 times as fast.
        assert_eq!(judged("megabytes_per_s = [26]", &report(9.0, BUSY), None).0, Verdict::Fail);
        let (_, said) = judged("megabytes_per_s = [26]", &report(12.0, QUIET), None);
        assert_eq!(said, "12.00 MB/s, expected at least 26.00");
        let (_, said) = judged("within = \"15%\"", &report(12.0, QUIET), None);
        assert_eq!(said, "12.00 MB/s is -60 % of the computed 30.00");
    }

    #[test]
    fn a_disturbance_excuses_no_run_that_is_too_fast() {
        assert_eq!(judged("megabytes_per_s = [1, 12]", &report(13.0, BUSY), None).0, Verdict::Fail);
        assert_eq!(judged("within = \"15%\"", &report(40.0, BUSY), None).0, Verdict::Fail);
    }

    #[test]
    fn a_miss_other_than_speed_is_a_failure_beside_a_busy_core_too() {
        let silent = RunReport { bytes: 0, measured: Some(0.0), fastest: 0.0, ..report(0.0, BUSY) };
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
    fn a_pass_that_the_disturbance_may_have_made_is_unclear() {
        // Undisturbed, 8 MB/s could have been 12.9.
        assert_eq!(judged("megabytes_per_s = [1, 12]", &report(8.0, QUIET), None).0, Verdict::Pass);
        assert_eq!(judged("megabytes_per_s = [1, 12]", &report(8.0, BUSY), None).0, Verdict::Unclear);
        assert_eq!(judged("megabytes_per_s = [1, 14]", &report(8.0, BUSY), None).0, Verdict::Pass);
        assert_eq!(judged("megabytes_per_s = [1]", &report(8.0, BUSY), None).0, Verdict::Pass);
        // A window is the limit beside a busy core too.
        let limited = RunReport { fastest: 8.1, ..report(8.0, BUSY) };
        assert_eq!(judged("megabytes_per_s = [1, 12]", &limited, None).0, Verdict::Pass);
    }

    #[test]
    fn a_disturbed_reference_makes_a_gain_unclear_unless_it_is_far_enough() {
        let (quiet, busy) = (report(4.0, QUIET), report(4.0, BUSY));
        let said = |measured, direct: &RunReport| judged("gain = [6]", &report(measured, QUIET), Some(direct));
        assert_eq!(said(28.0, &quiet).0, Verdict::Pass);
        let (verdict, why) = said(28.0, &busy);
        assert_eq!(verdict, Verdict::Unclear);
        assert!(why.contains("while direct ran over longhaul, other programs took 38 %"), "{why}");
        assert_eq!(said(60.0, &busy).0, Verdict::Pass, "the direct run could have reached 6.5");
        assert_eq!(said(20.0, &busy).0, Verdict::Fail, "an undisturbed direct run makes the gain smaller still");
        // A gain that is too high may come from a disturbed direct run.
        assert_eq!(judged("gain = [1, 6]", &report(28.0, QUIET), Some(&busy)).0, Verdict::Unclear);
        assert_eq!(judged("gain = [1, 6]", &report(28.0, QUIET), Some(&quiet)).0, Verdict::Fail);
    }

    #[test]
    fn a_run_that_others_are_compared_with_must_be_undisturbed_or_limited_otherwise() {
        let as_reference = |report: &RunReport| {
            assess(&run("megabytes_per_s = [1]"), report, &Compared { earlier: &[], direct: None, is_reference: true })
                .verdict
        };
        assert_eq!(as_reference(&report(4.0, QUIET)), Verdict::Pass);
        assert_eq!(as_reference(&report(4.0, BUSY)), Verdict::Unclear);
        assert_eq!(as_reference(&RunReport { fastest: 4.2, ..report(4.0, BUSY) }), Verdict::Pass);
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
        run.traffic.kind = traffic::find(kind).unwrap();
        run.expect.figures = [(name.into(), range)].into();
        let report = RunReport { figures: [(name.to_string(), value)].into(), ..report(30.0, outside) };
        assess(&run, &report, &Compared { earlier: &[], direct: None, is_reference: false }).verdict
    }

    #[test]
    fn a_disturbance_excuses_a_time_only_for_being_too_long() {
        let p99 = |range, outside| of_figure("request", ("p99_us", 90.0), range, outside);
        assert_eq!((p99(0.0..=80.0, QUIET), p99(0.0..=80.0, BUSY)), (Verdict::Fail, Verdict::Unclear));
        assert_eq!((p99(100.0..=200.0, QUIET), p99(100.0..=200.0, BUSY)), (Verdict::Fail, Verdict::Fail));
        assert_eq!(p99(0.0..=100.0, BUSY), Verdict::Pass, "undisturbed it is shorter still");
        assert_eq!(p99(80.0..=1000.0, BUSY), Verdict::Unclear, "undisturbed it could have been 56");
    }

    #[test]
    fn a_disturbance_excuses_a_rate_only_for_being_too_small() {
        let rate = |range, outside| of_figure("connections", ("per_second", 90.0), range, outside);
        let at_least = 100.0..=f64::INFINITY;
        assert_eq!((rate(at_least.clone(), QUIET), rate(at_least, BUSY)), (Verdict::Fail, Verdict::Unclear));
        assert_eq!((rate(0.0..=80.0, QUIET), rate(0.0..=80.0, BUSY)), (Verdict::Fail, Verdict::Fail));
        assert_eq!(rate(0.0..=100.0, BUSY), Verdict::Unclear, "undisturbed it could have been 145");
        assert_eq!(rate(80.0..=200.0, BUSY), Verdict::Pass);
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
    fn a_connection_may_time_out_beside_a_busy_core_but_is_not_reset_by_it() {
        let failed = |refused: f64| {
            let mut run = run("megabytes_per_s = [1]");
            run.traffic.kind = traffic::find("connections").unwrap();
            run.expect.figures = [("failed".into(), 0.0..=0.0)].into();
            let figures = [("failed".to_string(), 3.0), ("refused".to_string(), refused)].into();
            let report = RunReport { figures, ..report(30.0, BUSY) };
            assess(&run, &report, &Compared { earlier: &[], direct: None, is_reference: false }).verdict
        };
        assert_eq!((failed(0.0), failed(1.0)), (Verdict::Unclear, Verdict::Fail));
    }

    #[test]
    fn an_answer_beside_bulk_may_be_late_or_wait_behind_less() {
        let p50 = |range| of_figure("mix", ("p50_ms", 90.0), range, BUSY);
        assert_eq!((p50(0.0..=80.0), p50(100.0..=f64::INFINITY)), (Verdict::Unclear, Verdict::Unclear));
        assert_eq!(of_figure("mix", ("p50_ms", 90.0), 0.0..=80.0, QUIET), Verdict::Fail);
    }

    #[test]
    fn a_figure_that_is_not_there_is_a_failure() {
        let mut run = run("megabytes_per_s = [1]");
        run.expect.figures = [("p99_us".into(), 0.0..=1.0)].into();
        let compared = Compared { earlier: &[], direct: None, is_reference: false };
        assert_eq!(assess(&run, &report(30.0, BUSY), &compared).verdict, Verdict::Fail);
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
        for kind in traffic::ROWS {
            for figure in kind.figures {
                for range in [0.0..=80.0, 100.0..=200.0] {
                    let came = of_figure(kind.name, (figure.name, 90.0), range, 0.0);
                    assert_eq!(came, Verdict::Fail, "{} {}", kind.name, figure.name);
                }
            }
        }
    }
}
