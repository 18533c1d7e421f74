//! Two measurements, and what has changed from one to the other.

use crate::measure::document::Document;
use crate::measure::values::{Figure, rate, three};
use crate::measure::words::{limit, partial, start};
use longhaul_core::text::printable;
use longhaul_measure::message::Direction;
use std::path::{Path, PathBuf};

/// Two measurements, and what has changed.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(super) before: Side,
    pub(super) after: Side,
    /// The figures of which at least one side is known.
    pub(super) changes: Vec<Change>,
}

/// One of the two measurements.
#[derive(Debug)]
pub(super) struct Side {
    /// Its file as it was named.
    pub(super) file: String,
    pub(super) document: Document,
}

/// A figure before and after.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) before: Figure,
    after: Figure,
    pub(super) direction: Direction,
}

impl Comparison {
    /// Reads the two files; `-` is standard input.
    ///
    /// # Errors
    /// A file cannot be read, or is no measured path: a sentence that says what to do.
    pub(crate) fn read(files: &[PathBuf]) -> Result<Comparison, String> {
        let [before, after] = files else { return Err("name two files, before and after".into()) };
        if [before, after].iter().all(|file| file.as_os_str() == "-") {
            return Err("only one of the two can be standard input; name a file".into());
        }
        Ok(Comparison::new(Side::read(before)?, Side::read(after)?))
    }

    pub(super) fn new(before: Side, after: Side) -> Comparison {
        let pairs = Figure::all(&before.document).into_iter().zip(Figure::all(&after.document));
        let changes = pairs.flat_map(|(before, after)| {
            let directions = if before.is_of_path { &Direction::ALL[..1] } else { &Direction::ALL };
            let change =
                |direction: &Direction| Change { before: before.clone(), after: after.clone(), direction: *direction };
            directions.iter().map(change).collect::<Vec<_>>()
        });
        let changes = changes.filter(Change::is_known).collect();
        Comparison { before, after, changes }
    }

    pub(super) fn sides(&self) -> [(&'static str, &Side); 2] {
        [("before", &self.before), ("after", &self.after)]
    }

    /// Returns what one connection carries now instead of before, and what limits it, in sentences for each direction.
    pub(super) fn verdict(&self) -> Vec<String> {
        Direction::ALL.iter().filter_map(|direction| self.verdict_of(*direction)).collect()
    }

    fn verdict_of(&self, direction: Direction) -> Option<String> {
        let [before, after] = [&self.before, &self.after].map(|side| &side.document);
        let carried = before.first(direction).map(|run| run.payload_mbps);
        let carries = after.first(direction).map(|run| run.payload_mbps);
        let rates = match (carried, carries) {
            (Some(carried), Some(carries)) => {
                let how = match ratio(Some(carried), Some(carries)) {
                    Some(ratio) if is_same(ratio) => ", as before".into(),
                    Some(ratio) => format!(", {} times the {} before", three(ratio), rate(carried)),
                    None => format!(", where it carried {} before", rate(carried)),
                };
                format!("one connection carries {}{how}", rate(carries))
            }
            (None, Some(carries)) => format!("one connection carries {}; before, it was not measured", rate(carries)),
            (Some(carried), None) => {
                format!("one connection carried {} before; now, it was not measured", rate(carried))
            }
            (None, None) => return None,
        };
        Some(format!("{}, {rates}. {}", start(direction), self.limits(direction)).trim_end().to_string())
    }

    /// Returns what limited `direction` before, and what does now.
    fn limits(&self, direction: Direction) -> String {
        let [before, after] = self.limited_by(direction);
        let words = |kind: Option<&str>| kind.map(|kind| limit(kind, direction));
        match (words(before), words(after)) {
            (None, None) => "What limits it is not known.".into(),
            (Some(before), Some(after)) if before == after => format!("Before and now, it is limited by {before}."),
            (Some(before), Some(after)) => {
                format!("Before, it was limited by {before}; now, it is limited by {after}.")
            }
            (Some(before), None) => format!("Before, it was limited by {before}; what limits it now is not known."),
            (None, Some(after)) => format!("What limited it before is not known; now, it is limited by {after}."),
        }
    }

    /// Returns the kind of the first finding of `direction` before and after; `None` if it is not known.
    pub(super) fn limited_by(&self, direction: Direction) -> [Option<&str>; 2] {
        [&self.before, &self.after].map(|side| {
            let known = side.document.finding(direction).filter(|finding| !finding.is_unknown());
            known.map(|finding| finding.kind.as_str())
        })
    }

    /// Returns what the reader has to know to trust the comparison.
    pub(super) fn notes(&self) -> Vec<String> {
        let [before, after] = [&self.before, &self.after].map(|side| &side.document);
        let mut notes = Vec::new();
        if before.to != after.to {
            notes.push(format!("The far ends are different: before {}, after {}.", before.to, after.to));
        }
        for (name, side) in self.sides() {
            notes.extend(partial(&side.document).map(|why| format!("{}, {name}: {why}", side.file)));
        }
        notes
    }
}

impl Side {
    fn read(file: &Path) -> Result<Side, String> {
        let document = Document::read(file)?;
        Ok(Side { file: printable(&file.to_string_lossy()).collect(), document })
    }
}

impl Change {
    /// Returns the values before and after.
    pub(super) fn values(&self) -> [Option<f64>; 2] {
        [&self.before, &self.after].map(|figure| figure.value(self.direction))
    }

    /// Returns the values with their units.
    pub(super) fn shown(&self) -> [String; 2] {
        [&self.before, &self.after].map(|figure| figure.shown(self.direction))
    }

    /// Returns the value after as a multiple of that before. `None` if one is not known or there was nothing before.
    pub(super) fn ratio(&self) -> Option<f64> {
        let [before, after] = self.values();
        ratio(before, after)
    }

    /// Returns the ratio for people; empty if there is none.
    pub(super) fn shown_ratio(&self) -> String {
        match self.values() {
            [Some(before), Some(after)] if before == after => SAME.into(),
            _ => self.ratio().map(shown_ratio).unwrap_or_default(),
        }
    }

    fn is_known(&self) -> bool {
        self.values().iter().any(Option::is_some)
    }

    /// Returns its name, with the direction if it has one.
    pub(super) fn name(&self) -> String {
        match self.before.is_of_path {
            true => self.before.name.into(),
            false => format!("{}, {}", self.before.name, self.direction.name()),
        }
    }
}

fn ratio(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = (before?, after?);
    (before > 0.0).then(|| after / before).filter(|ratio| ratio.is_finite())
}

/// Whether a measurement cannot tell the two values of `ratio` apart.
fn is_same(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= SAME_SHARE
}

/// Returns `same` for what a measurement cannot tell apart, and otherwise `x 76.2`.
fn shown_ratio(ratio: f64) -> String {
    if is_same(ratio) { SAME.into() } else { format!("x {}", three(ratio)) }
}

const SAME: &str = "same";
/// Part of a value that two measurements of the same path may differ by.
const SAME_SHARE: f64 = 0.02;
