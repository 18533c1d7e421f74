//! The runs that the page shows side by side: one figure, over all its carriers.

use crate::carrier::{
    Role, {self},
};
use crate::report::json::Report;
use crate::report::run::{RunReport, Verdict};

/// One figure over several carriers.
pub(crate) struct Group<'a> {
    /// Its name.
    pub(crate) id: &'a str,
    /// What it is.
    pub(crate) what: &'a str,
    /// The run to compare with when no run of its own is direct: the first direct one of the same traffic and hosts.
    pub(crate) reference: Option<&'a RunReport>,
    /// The hosts alone, tuned, with the same traffic: a run of its own or of another figure.
    pub(crate) tuned: Option<&'a RunReport>,
    /// Its runs.
    pub(crate) runs: Vec<&'a RunReport>,
}

/// The figures of `report` in its order.
pub(crate) fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &report.runs {
        match groups.iter_mut().find(|group| group.id == run.id) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { id: &run.id, what: &run.what, reference: None, tuned: None, runs: vec![run] }),
        }
    }
    for group in &mut groups {
        group.reference = reference(report, &group.runs);
        let mut tuned = report.runs.iter().filter(|run| run.has_role(Role::Tuned) && run.measured.is_some());
        let first = group.runs[0];
        let alike = |run: &&RunReport| (&run.traffic, run.connections) == (&first.traffic, first.connections);
        let same_path = |run: &&RunReport| alike(run) && run.topology.wan == first.topology.wan;
        group.tuned = tuned.clone().find(|run| run.id == group.id).or_else(|| tuned.find(same_path));
    }
    groups
}

impl<'a> Group<'a> {
    /// The run over the carrier of this role and its speed, if it was measured.
    pub(crate) fn measured(&self, role: Role) -> Option<(&'a RunReport, f64)> {
        self.all().find(|run| run.has_role(role)).and_then(|run| Some((run, run.measured?)))
    }

    /// Returns the run to compare with, then its own runs.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a RunReport> {
        self.reference.into_iter().chain(self.runs.iter().copied())
    }
}

/// The direct run that `gain_over_direct` refers to, when it is not in the group itself.
fn reference<'a>(report: &'a Report, runs: &[&RunReport]) -> Option<&'a RunReport> {
    let has_own = runs.iter().any(|run| run.is_direct() && run.measured.is_some());
    let compared = runs.iter().find(|run| run.gain_over_direct.is_some())?;
    let measured = compared.measured?;
    let gain = compared.gain_over_direct?;
    let is_its = |direct: f64| (measured / direct / gain - 1.0).abs() < 1e-3;
    let mut direct = report.runs.iter().filter(|run| run.is_direct() && run.measured.is_some());
    direct.find(|other| !has_own && other.traffic == compared.traffic && other.measured.is_some_and(is_its))
}

/// Which colour and dashes each carrier has, on the whole page.
pub(crate) struct Palette {
    carriers: Vec<&'static str>,
}

impl Palette {
    /// One for each carrier of `reports`.
    pub(crate) fn of(reports: &[Report]) -> Palette {
        // The two that every reader looks for have the same colours on every page.
        let of_role = |role| carrier::ROWS.iter().filter(move |row| row.role == role).map(|row| row.name);
        let mut carriers: Vec<&str> = of_role(Role::Longhaul).chain(of_role(Role::Direct)).collect();
        for run in reports.iter().flat_map(|report| &report.runs) {
            if !carriers.contains(&run.carrier_name()) {
                carriers.push(run.carrier_name());
            }
        }
        Palette { carriers }
    }

    /// The class of a run's carrier in the style sheet.
    pub(crate) fn class(&self, run: &RunReport) -> String {
        let place = self.carriers.iter().position(|other| *other == run.carrier_name()).unwrap_or_default();
        format!("c{}", if place < COLOURS { place } else { 2 + (place - 2) % (COLOURS - 2) })
    }
}

/// The word, and the class in the style sheet, of a run's verdict.
pub(crate) fn verdict(run: &RunReport) -> (&'static str, &'static str) {
    match run.verdict {
        Verdict::Pass if !run.has_expectation => ("· nothing expected", "skip"),
        Verdict::Pass => ("✓ as expected", "pass"),
        Verdict::Fail if run.measured.is_none() => ("✗ failed", "fail"),
        Verdict::Fail => ("✗ not as expected", "fail"),
        Verdict::Unclear => ("? unclear", "unclear"),
        Verdict::Skip => ("– left out", "skip"),
    }
}

/// Number of colours in the style sheet.
const COLOURS: usize = 8;
