//! Reads a scenario from TOML and reports its errors.

use crate::plan::conflict::Conflict;
use crate::scenario::conflicts;
use crate::scenario::model::{Run, Scenario};
use crate::scenario::{keys, summary};
use longhaul_config::Refused;
use longhaul_config::document::{self, Findings, Key, KeyPlaces, Shape};
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Reads the scenario `name` from `text`. `file` is the file's name in messages.
///
/// # Errors
/// Every error of the file.
pub(crate) fn read(name: &str, file: &str, text: &str) -> Result<Scenario, Refused> {
    document::read(file, text, |findings, root| whole(findings, root, name, file)).map(|(scenario, _)| scenario)
}

/// Returns a summary of the scenario in `text`. `file` is the file's name in messages.
///
/// # Errors
/// Every error of the file. It does not panic for any text.
pub fn parse(file: &str, text: &str) -> Result<String, Refused> {
    read(file, file, text).map(|scenario| summary::summary(&scenario))
}

/// Reads the scenario in the file at `path`.
///
/// # Errors
/// The file cannot be read, or contains errors.
pub(crate) fn load(path: &Path) -> Result<Scenario, Refused> {
    let file = path.display().to_string();
    let text = document::text(path, HINT)?;
    let name = path.file_stem().map_or(file.clone(), |stem| stem.to_string_lossy().into_owned());
    read(&name, &file, &text)
}

fn whole(findings: &mut Findings<'_>, root: &DeTable<'_>, name: &str, file: &str) -> Scenario {
    let mut head = keys::Head::default();
    let places = document::fields(findings, &HEAD, root, &mut head);
    document::required(findings, keys::HEAD, "scenario", root, 0..0);
    let conflicts = head.setup.conflicts();
    note(findings, &conflicts, &places, &(0..0));
    // Whether everything before a run was read without errors. Otherwise a missing run may be one with an error.
    let mut runs = Vec::new();
    let mut all = findings.errors() == 0;
    match root.get("run").map(|given| (given.get_ref(), given.span())) {
        Some((DeValue::Array(list), _)) if !list.is_empty() => {
            for given in list {
                let DeValue::Table(table) = given.get_ref() else {
                    findings.error(given.span(), "a run must be a table; write [[run]]".into());
                    all = false;
                    continue;
                };
                let before = Before { file, head: &head, runs: &runs, is_whole: all };
                let read = run(findings, table, given.span(), &before);
                all &= read.is_some();
                runs.extend(read);
            }
            if all && runs.iter().all(|run| !run.setup.has_wan()) {
                note(findings, &conflicts::without_wan(&places), &places, &(0..0));
            }
        }
        Some((_, span)) => findings.error(span, "runs must be tables; write [[run]], with two brackets".into()),
        None => findings.error(0..0, NO_RUN.into()),
    }
    let keys::Head { about, source, rounds, .. } = head;
    Scenario { name: name.into(), about, source, rounds, runs }
}

/// The part of a file before a run.
struct Before<'a> {
    file: &'a str,
    head: &'a keys::Head,
    runs: &'a [Run],
    /// Whether the part before the run has no errors.
    is_whole: bool,
}

fn run(findings: &mut Findings<'_>, table: &DeTable<'_>, span: Range<usize>, before: &Before<'_>) -> Option<Run> {
    let mut run = keys::blank(before.head);
    run.at = format!("{}:{}", before.file, findings.line(span.start));
    let errors = findings.errors();
    let places = document::fields(findings, &RUN, table, &mut run);
    document::required(findings, keys::RUN, "[[run]]", table, span.clone());
    if run.carriers.is_empty() && run.skip.is_none() && table.get("carriers").is_none() {
        findings
            .error(span.clone(), "this [[run]] has no carriers; write carriers = [\"direct\", \"longhaul\"]".into());
    }
    note(findings, &run.conflicts(before.runs, &places), &places, &span);
    if before.is_whole {
        note(findings, &run.compared(before.runs), &places, &span);
    }
    // An error before the first run is reported there, once.
    let inherited = before.head.setup.conflicts();
    let conflicts: Vec<_> =
        run.setup.conflicts().into_iter().filter(|conflict| !inherited.contains(conflict)).collect();
    note(findings, &conflicts, &places, &span);
    if before.is_whole && findings.errors() == errors {
        note(findings, &run.uncomputed(), &places, &span);
    }
    (findings.errors() == errors).then_some(run)
}

/// Reports each conflict at its key, or at the table of the key, or else at `span`.
fn note(findings: &mut Findings<'_>, conflicts: &[Conflict], places: &KeyPlaces, span: &Range<usize>) {
    for Conflict { key, why } in conflicts {
        let mut keys = std::iter::successors(Some(key.as_str()), |key| Some(key.rsplit_once('.')?.0));
        let at = keys.find_map(|key| places.find(key)).unwrap_or(span.clone());
        findings.error(at, format!("{key}: {why}"));
    }
}

const HEAD: Shape<Key<keys::Head>> =
    Shape { prefix: "", keys: keys::HEAD, tables: &[("run", "[[run]]")], elsewhere: |_, _| None };
const RUN: Shape<Key<Run>> = Shape { prefix: "", keys: keys::RUN, tables: &[], elsewhere: |_, _| None };
const HINT: &str = "`longhaul lab list` shows the built-in scenarios";
const NO_RUN: &str = "there is no run; write [[run]] and below it id, carriers and traffic, one per line";
