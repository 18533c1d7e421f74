//! The report of a scenario: the JSON document. The tables and the page are made from it. The part of each run is in run.rs.

use crate::carrier::row::Carrier;
use crate::error::LabError;
use crate::measure::done::Done;
use crate::measure::rounded;
use crate::plan::setup::Setup;
use crate::report::run::{RunReport, Verdict, blank};
use crate::report::verdict;
use crate::report::{reason, repeat};
use crate::scenario::model::{Run, Scenario};
use crate::traffic::row::Traffic;
use serde::Serialize;
use std::collections::BTreeMap;

/// The report of a scenario.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) about: String,
    pub(crate) source: String,
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    /// Number of times that each run took place. The median counts.
    pub(crate) rounds: u32,
    /// The command that repeats the scenario, as typed in a shell.
    pub(crate) command: String,
    /// The time at which the scenario began: `2026-11-21 15:10 UTC`.
    pub(crate) date: String,
    pub(crate) runs: Vec<RunReport>,
    /// The run of each report, to find the direct transfer under the same conditions.
    #[serde(skip)]
    pub(crate) planned: Vec<Run>,
}

impl Report {
    /// Returns a report without runs.
    pub(crate) fn new(scenario: &Scenario) -> Report {
        let read = |path| std::fs::read_to_string(path).map(|text: String| text.trim().to_string()).unwrap_or_default();
        Report {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            source: scenario.source.clone(),
            kernel: read("/proc/sys/kernel/osrelease"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: scenario.rounds,
            command: repeat::command(repeat::arguments()),
            date: repeat::date(std::time::SystemTime::now()),
            runs: Vec::new(),
            planned: Vec::new(),
        }
    }

    /// Adds a run that cannot be emulated.
    pub(crate) fn skip(&mut self, run: &Run) {
        let why = run.skip.clone().unwrap_or_default();
        self.push(run, RunReport { why, ..blank(run, None) });
    }

    /// Adds the result of the rounds of `run` over `carrier`, with its verdict. `attempt` counts from 1. Replaces the previous attempt.
    pub(crate) fn add(
        &mut self,
        run: &Run,
        carrier: &'static Carrier,
        rounds: Vec<Result<Done, LabError>>,
        attempt: u32,
    ) -> &RunReport {
        if attempt > 1 {
            self.runs.pop();
            self.planned.pop();
        }
        let mut report = RunReport { attempts: attempt, ..blank(run, Some(carrier)) };
        let mut good = Vec::new();
        let mut problems = Vec::new();
        for round in rounds {
            match round {
                Ok(done) => good.push(done),
                Err(problem) => problems.push(problem),
            }
        }
        // Wrong bytes in any round are the most important problem.
        let differs = |problem: &LabError| matches!(problem, LabError::Bytes(_));
        let at = problems.iter().position(differs).unwrap_or(0);
        match problems.into_iter().nth(at) {
            Some(problem) => {
                let missing = matches!(problem, LabError::Missing { .. } | LabError::Lacking(_));
                report.verdict = if missing { Verdict::Skip } else { Verdict::Fail };
                report.bytes_ok = differs(&problem).then_some(false);
                report.why = if missing { format!("{}: {problem}", run.at) } else { problem.to_string() };
            }
            None => {
                report.spread = spread(&good);
                report.cut = good.iter().map(|done| done.measured.cut).sum();
                report.wrong = good.iter().flat_map(|done| done.measured.wrong.iter().cloned()).collect();
                good.sort_by(|one, other| one.measured.speed.total_cmp(&other.measured.speed));
                if !good.is_empty() {
                    let median = good.swap_remove(good.len() / 2);
                    report.fill(run, &median);
                    report.direct = self.direct(run, &report).filter(|_| !report.is_direct());
                    let direct = report.direct.map(|at| &self.runs[at]);
                    report.gain_over_direct = gain(&report, direct);
                    let assessment = verdict::assess(run, &report, &self.runs, direct);
                    report.why = reason::why(run, &median, &assessment, &report);
                    report.verdict = assessment.verdict;
                }
            }
        }
        self.push(run, report);
        &self.runs[self.runs.len() - 1]
    }

    fn push(&mut self, run: &Run, report: RunReport) {
        self.runs.push(report);
        self.planned.push(run.clone());
    }

    /// Whether a run failed, or no run took place.
    pub(crate) fn is_bad(&self) -> bool {
        let has = |verdict| self.runs.iter().any(|run| run.verdict == verdict);
        has(Verdict::Fail) || self.runs.iter().all(|run| run.verdict == Verdict::Skip)
    }

    /// Whether the verdict of a run is unclear.
    pub(crate) fn is_unclear(&self) -> bool {
        self.runs.iter().any(|run| run.verdict == Verdict::Unclear)
    }

    /// Returns the place of the direct transfer of the same traffic over the same link: that of the same run, or else the first
    /// one.
    fn direct(&self, run: &Run, report: &RunReport) -> Option<usize> {
        let is_direct = |at: &usize| {
            let other = &self.runs[*at];
            other.is_direct()
                && other.traffic == report.traffic
                && other.measured.is_some()
                && is_alike(run, &self.planned[*at])
        };
        let mut direct = (0..self.runs.len()).filter(is_direct);
        direct.clone().find(|at| self.runs[*at].id == report.id).or_else(|| direct.next())
    }
}

/// Returns the speed as a multiple of the direct transfer.
fn gain(report: &RunReport, direct: Option<&RunReport>) -> Option<f64> {
    if report.is_direct() {
        return Some(1.0);
    }
    let speed = direct?.measured.filter(|speed| *speed > 0.0)?;
    report.measured.map(|measured| rounded(measured / speed))
}

/// Whether two runs of the same traffic can be compared: their hosts, path and load are equal.
fn is_alike(one: &Run, other: &Run) -> bool {
    let (Setup { topology, link, host, .. }, Traffic { size, rate, outside, .. }) = (&one.setup, one.traffic);
    (topology, link, host) == (&other.setup.topology, &other.setup.link, &other.setup.host)
        && (one.traffic.load(), size, rate) == (other.traffic.load(), other.traffic.size, other.traffic.rate)
        && outside == other.traffic.outside
}

fn spread(rounds: &[Done]) -> BTreeMap<String, [f64; 2]> {
    let mut spread: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for done in rounds.iter().filter(|_| rounds.len() > 1) {
        let figures = done.measured.figures.iter().map(|(name, value)| (*name, *value));
        for (name, value) in figures.chain([("measured_MBps", done.measured.speed / 1e6)]) {
            let [min, max] = spread.entry(name.to_string()).or_insert([value, value]);
            (*min, *max) = (rounded(min.min(value)), rounded(max.max(value)));
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::read::read;
    use crate::traffic::row::Measured;

    /// The speed is the median of the rounds, but a defect in any round counts.
    #[test]
    fn a_connection_that_was_cut_off_in_any_round_fails_the_run() {
        let text = "about = \"a\"\nsource = \"b\"\n[[run]]\nid = \"one\"\ncarriers = [\"direct\"]\nexpect = { megabytes_per_s = [1] }\n";
        let scenario = read("small", "small.toml", text).unwrap();
        let run = &scenario.runs[0];
        let round = |speed: f64, cut| {
            let measured = Measured { bytes: 1, checked: true, speed: speed * 1e6, cut, ..Measured::default() };
            Ok(Done { measured, ..Done::default() })
        };
        let added = |rounds| Report::new(&scenario).add(run, run.carriers[0], rounds, 1).clone();
        let good = added(vec![round(9.0, 0), round(10.0, 0), round(11.0, 0)]);
        assert_eq!((good.verdict, good.cut, good.bytes_ok, good.measured), (Verdict::Pass, 0, Some(true), Some(10.0)));
        let bad = added(vec![round(9.0, 2), round(10.0, 0), round(11.0, 1)]);
        assert_eq!(
            (bad.verdict, bad.cut, bad.bytes_ok, bad.measured),
            (Verdict::Fail, 3, None, Some(10.0)),
            "{}",
            bad.why
        );
    }

    /// Only a difference of bytes is `bytes_ok: false`. No other error says anything about the bytes.
    #[test]
    fn only_different_bytes_are_reported_as_different() {
        let text = "about = \"a\"\nsource = \"b\"\n[[run]]\nid = \"one\"\ncarriers = [\"direct\"]\n";
        let scenario = read("small", "small.toml", text).unwrap();
        let run = &scenario.runs[0];
        let added = |problems: Vec<LabError>| {
            let rounds = problems.into_iter().map(Err).collect();
            let report = Report::new(&scenario).add(run, run.carriers[0], rounds, 1).clone();
            (report.verdict, report.bytes_ok, report.why)
        };
        let panicking = || -> Result<u64, LabError> { std::panic::panic_any("a defect") };
        let panicked = || crate::error::joined(std::thread::spawn(panicking)).unwrap_err();
        let why = "a thread of the lab panicked, which is a defect of longhaul lab".to_string();
        assert_eq!(added(vec![panicked()]), (Verdict::Fail, None, why));
        let differs = || LabError::Bytes("wrong bytes arrived".into());
        for problems in [vec![differs()], vec![panicked(), differs()]] {
            assert_eq!(added(problems), (Verdict::Fail, Some(false), "wrong bytes arrived".into()));
        }
        for other in
            [LabError::NotConnected(String::new()), LabError::Unfinished(String::new()), LabError::Late(String::new())]
        {
            assert_eq!(added(vec![other]).1, None);
        }
    }
}
