//! Whether what a run expects came out, did not, or cannot be told because other programs disturbed the run.
//!
//! A disturbance makes a run slower, never faster: its speed could have been higher, its times shorter, a ratio to it lower.
//! Each figure of the traffic declares how a disturbance changes it ([`Effect`]). From that follow three rules:
//!
//! 1. A miss that a disturbance could explain is `unclear`: a disturbed run that is too slow, a time of it that is too long, a
//!    rate of it that is too small, too much CPU, a ratio too high to a run that was disturbed.
//! 2. A pass stays `pass` unless the disturbance could have made it: a bound from above, or a ratio to a disturbed run. How much
//!    faster the run would have been is estimated ([`Disturbance::slowdown`](crate::measure::disturbance::Disturbance::slowdown)).
//! 3. Everything else is `fail`: wrong bytes and endings, connections that were refused or cut off, nothing at all, a time that
//!    is too short, a rate that is too high, more than the line carries.

use crate::report::run::{RunReport, Verdict};
use crate::scenario::{Expect, Run, Times};
use crate::traffic::Effect;
use std::ops::RangeInclusive;

/// The verdict of a run and the reasons for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Assessment {
    pub(crate) verdict: Verdict,
    /// Clauses: the misses, or why a pass is no pass.
    pub(crate) reasons: Vec<String>,
}

/// The runs that others are compared with.
pub(crate) struct Compared<'a> {
    /// The runs before this one.
    pub(crate) earlier: &'a [RunReport],
    /// The direct transfer that the gain refers to.
    pub(crate) direct: Option<&'a RunReport>,
    /// Whether later runs are compared with this one.
    pub(crate) is_reference: bool,
}

/// Judges a run that brought `report`.
pub(crate) fn assess(run: &Run, report: &RunReport, compared: &Compared<'_>) -> Assessment {
    let mut remarks = Remarks::default();
    sound(run, report, &mut remarks);
    speeds(run, report, compared, &mut remarks);
    let speed = Value::speed(report);
    if compared.is_reference && speed.likely.1 > speed.measured * COMPARABLE {
        remarks.doubts.push(format!(
            "others are compared with this run, and undisturbed it could have reached {:.2} MB/s",
            speed.likely.1
        ));
    }
    remarks.assessment(report)
}

/// Notes defects that fail a run at any speed.
fn sound(run: &Run, report: &RunReport, remarks: &mut Remarks) {
    let may_stand_still = run.expect.speed.as_ref().is_some_and(|speed| speed.contains(&0.0));
    let mut wrong = |text: String| remarks.misses.push(Miss { text, is_explained: false });
    if report.bytes == 0 && !may_stand_still {
        wrong("nothing arrived, and expect.megabytes_per_s does not allow that".into());
    }
    if report.cut > 0 && !may_stand_still {
        wrong(format!("{} connections did not end long after their time and were cut off", report.cut));
    }
    report.wrong.iter().take(WRONG_SAID).for_each(|flow| wrong(flow.clone()));
    if report.wrong.len() > WRONG_SAID {
        wrong(format!("{} more flows were wrong", report.wrong.len() - WRONG_SAID));
    }
    if let (Some(measured), Some(ceiling)) = (report.measured, report.ceiling) {
        if measured > ceiling * DEFECT {
            let percent = 100.0 * measured / ceiling;
            wrong(format!("{measured:.2} MB/s is {percent:.0} % of what the line can carry: a defect of the lab"));
        }
    }
    if run.expect.within.is_some() && report.computed.is_none() {
        wrong("nothing is computed for this carrier, so `within` cannot be judged".into());
    }
}

/// The speed, what it is compared with, and the further figures.
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
    // What others are compared with is no gain itself.
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

/// The run called `of` with the same carrier, or its first one.
fn reference<'a>(report: &RunReport, of: &str, earlier: &'a [RunReport]) -> Option<&'a RunReport> {
    let mut same = earlier.iter().filter(|other| other.id == of && other.measured.is_some());
    same.clone().find(|other| other.carrier == report.carrier).or_else(|| same.next())
}

/// A value, and lowest and highest of what it could have been if nothing had been disturbed.
#[derive(Clone, Copy, Debug)]
struct Value {
    measured: f64,
    /// As far as the disturbance's extent goes: whether a pass is one.
    likely: (f64, f64),
    /// At all: whether a miss is one.
    possible: (f64, f64),
}

impl Value {
    /// The speed of a run.
    fn speed(report: &RunReport) -> Value {
        let measured = report.measured.unwrap_or_default();
        let max = measured * report.disturbance.max_slowdown(report.rtt_ms);
        Value { measured, likely: (measured, report.fastest.max(measured)), possible: (measured, max) }
    }

    /// The speed of a run as a multiple of another's.
    fn ratio(report: &RunReport, other: &RunReport) -> Option<Value> {
        let (value, other) = (Value::speed(report), Value::speed(other));
        (other.measured > 0.0).then(|| Value {
            measured: value.measured / other.measured,
            likely: (value.likely.0 / other.likely.1, value.likely.1 / other.likely.0),
            possible: (value.possible.0 / other.possible.1, value.possible.1 / other.possible.0),
        })
    }

    /// A further figure, which a disturbance changes as `effect` says.
    fn figure(report: &RunReport, effect: Effect, measured: f64) -> Value {
        let slowdown = report.disturbance.slowdown(report.rtt_ms);
        let (less, more) = (measured / slowdown, measured * slowdown);
        let (likely, possible) = match effect {
            Effect::Grows => ((less, measured), (0.0, measured)),
            Effect::GrowsFrom(errors) => {
                let errors = report.figures.get(errors).copied().unwrap_or_default();
                ((less.max(errors), measured), (errors, measured))
            }
            Effect::Shrinks => ((measured, more), (measured, f64::INFINITY)),
            Effect::Varies => ((less, more), (0.0, f64::INFINITY)),
            Effect::Stays => ((measured, measured), (measured, measured)),
        };
        let possible = if report.disturbance.disturbed { possible } else { (measured, measured) };
        Value { measured, likely, possible }
    }
}

/// A miss.
#[derive(Debug)]
struct Miss {
    text: String,
    /// Whether a disturbance could be the reason.
    is_explained: bool,
}

#[derive(Debug, Default)]
struct Remarks {
    misses: Vec<Miss>,
    /// Why what passed could have failed undisturbed.
    doubts: Vec<String>,
    /// Disturbances of the runs that this one is compared with.
    disturbances: Vec<String>,
}

impl Remarks {
    /// Notes when `value` is not in `range`, or not there at all, or could have been elsewhere; `text` says the first in other
    /// words.
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
        let reaches = |(from, to): (f64, f64)| from <= *range.end() && to >= *range.start();
        if !range.contains(&measured) {
            let text = text.unwrap_or_else(|| format!("{measured:.2} {what}, expected {wanted}"));
            self.misses.push(Miss { text, is_explained: reaches(possible) });
        } else if likely.0 < *range.start() || likely.1 > *range.end() {
            let (from, to) = likely;
            self.doubts.push(format!("{measured:.2} {what}, undisturbed {from:.2} to {to:.2}, expected {wanted}"));
        }
    }

    /// Takes note of a run that this one is compared with.
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

/// Wrong flows that the reasons name.
const WRONG_SAID: usize = 3;
/// Above this share of the line a measured speed is wrong.
const DEFECT: f64 = 1.01;
/// So much faster a run may have been that others can still be compared with it.
const COMPARABLE: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::disturbance::Disturbance;
    use crate::{scenario, traffic};

    /// A run that expects `expect`, as a scenario's file says it.
    fn run(expect: &str) -> Run {
        let text = format!(
            "about = \"a\"\nsource = \"b\"\n[[run]]\nid = \"direct\"\ncarriers = [\"direct\"]\n\
             [[run]]\nid = \"raw\"\ncarriers = [\"longhaul\"]\ncomputed = \"line\"\nexpect = {{ {expect} }}\n"
        );
        scenario::read("small", "small.toml", &text).unwrap().runs.remove(1)
    }

    const QUIET: f64 = 0.01;
    const BUSY: f64 = 0.38;

    /// A report of `measured` MB/s while others took the share `outside`.
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
        // 2.6 times as fast, at most.
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
    fn what_has_nothing_to_do_with_speed_is_a_failure_beside_a_busy_core_too() {
        let silent = RunReport { bytes: 0, measured: Some(0.0), fastest: 0.0, ..report(0.0, BUSY) };
        assert_eq!(judged("megabytes_per_s = [1]", &silent, None).0, Verdict::Fail);
        assert_eq!(judged("megabytes_per_s = [0, 1]", &silent, None).0, Verdict::Pass);
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
        // 8 MB/s could have been 12.9.
        assert_eq!(judged("megabytes_per_s = [1, 12]", &report(8.0, QUIET), None).0, Verdict::Pass);
        assert_eq!(judged("megabytes_per_s = [1, 12]", &report(8.0, BUSY), None).0, Verdict::Unclear);
        assert_eq!(judged("megabytes_per_s = [1, 14]", &report(8.0, BUSY), None).0, Verdict::Pass);
        assert_eq!(judged("megabytes_per_s = [1]", &report(8.0, BUSY), None).0, Verdict::Pass);
        // A window that is the limit is one beside a busy core too.
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
        // Too high a gain may come of a direct run that was held up.
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
    fn more_than_the_line_carries_is_a_defect_of_the_lab_whatever_was_expected() {
        let fast = |measured| judged("megabytes_per_s = [1]", &report(measured, BUSY), None);
        assert_eq!(fast(121.0).0, Verdict::Pass);
        let (verdict, why) = fast(121.3);
        assert_eq!(verdict, Verdict::Fail);
        assert_eq!(why, "121.30 MB/s is 101 % of what the line can carry: a defect of the lab");
    }

    /// The verdict of a run of `kind` whose figure `name` was `value` where `range` was expected.
    fn of_figure(kind: &str, (name, value): (&str, f64), range: RangeInclusive<f64>, outside: f64) -> Verdict {
        let mut run = run("megabytes_per_s = [1]");
        run.traffic.kind = traffic::find(kind).unwrap();
        run.expect.figures = vec![(name.into(), range)];
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
            run.expect.figures = vec![("failed".into(), 0.0..=0.0)];
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
        run.expect.figures = vec![("p99_us".into(), 0.0..=1.0)];
        let compared = Compared { earlier: &[], direct: None, is_reference: false };
        assert_eq!(assess(&run, &report(30.0, BUSY), &compared).verdict, Verdict::Fail);
    }

    #[test]
    fn without_a_disturbance_every_miss_is_a_failure() {
        // A relay that is slow by itself, such as with max-pacing-rate.
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
