//! The runs that the page shows side by side: one figure, over all its carriers.

use crate::carrier::row::Role;
use crate::carrier::table as carriers;
use crate::report::json::Report;
use crate::report::run::{RunReport, Verdict};

/// One figure over several carriers.
pub(crate) struct Group<'a> {
    /// The name of the figure.
    pub(crate) id: &'a str,
    /// The description of the figure.
    pub(crate) what: &'a str,
    /// The run for comparison if the group has no direct run: the first direct run with the same traffic and hosts.
    pub(crate) reference: Option<&'a RunReport>,
    /// The run of the tuned hosts alone with the same traffic, from this group or from another.
    pub(crate) tuned: Option<&'a RunReport>,
    /// The runs of the figure, one per carrier.
    pub(crate) runs: Vec<&'a RunReport>,
}

/// Returns the figures of `report` in its order.
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
        let same_path = |run: &&RunReport| alike(run) && run.path.wan == first.path.wan;
        group.tuned = tuned.clone().find(|run| run.id == group.id).or_else(|| tuned.find(same_path));
    }
    groups
}

impl<'a> Group<'a> {
    /// Returns the run over the carrier of this role and its speed, if it was measured.
    pub(crate) fn measured(&self, role: Role) -> Option<(&'a RunReport, f64)> {
        self.all().find(|run| run.has_role(role)).and_then(|run| Some((run, run.measured?)))
    }

    /// Returns the reference run, then the runs of the group.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a RunReport> {
        self.reference.into_iter().chain(self.runs.iter().copied())
    }
}

/// Returns the direct run to which `gain_over_direct` refers, if it is not in the group itself.
fn reference<'a>(report: &'a Report, runs: &[&RunReport]) -> Option<&'a RunReport> {
    let at = runs.iter().find_map(|run| run.direct)?;
    report.runs.get(at).filter(|direct| direct.id != runs[0].id)
}

/// The colour and dashes of each carrier, the same on the whole page.
pub(crate) struct Palette {
    carriers: Vec<&'static str>,
}

impl Palette {
    /// Returns a palette with one entry for each carrier of `reports`.
    pub(crate) fn of(reports: &[Report]) -> Palette {
        // longhaul and direct have the same colours on every page, because every reader looks for them.
        let of_role = |role| carriers::ROWS.iter().filter(move |row| row.role == role).map(|row| row.name);
        let mut carriers: Vec<&str> = of_role(Role::Longhaul).chain(of_role(Role::Direct)).collect();
        for run in reports.iter().flat_map(|report| &report.runs) {
            if !carriers.contains(&run.carrier_name()) {
                carriers.push(run.carrier_name());
            }
        }
        Palette { carriers }
    }

    /// Returns the style sheet's class for the carrier of a run.
    pub(crate) fn class(&self, run: &RunReport) -> String {
        let place = self.carriers.iter().position(|other| *other == run.carrier_name()).unwrap_or_default();
        format!("c{}", if place < COLOURS { place } else { 2 + (place - 2) % (COLOURS - 2) })
    }
}

/// Returns the word for a run's verdict and its class in the style sheet.
pub(crate) fn verdict(run: &RunReport) -> (&'static str, &'static str) {
    match run.verdict {
        Verdict::Unjudged => ("· no expectation", "skip"),
        Verdict::Pass => ("✓ as expected", "pass"),
        Verdict::Fail if run.measured.is_none() => ("✗ failed", "fail"),
        Verdict::Fail => ("✗ not as expected", "fail"),
        Verdict::Unclear => ("? unclear", "unclear"),
        Verdict::Skip => ("– left out", "skip"),
    }
}

/// Returns the number with its noun: `1 CPU`, `2 CPUs`.
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Number of colours in the style sheet.
const COLOURS: usize = 8;
