//! A comparison as text: first what has changed, in words.

use super::comparison::Comparison;
use crate::measure::words::where_and_when;
use crate::show::wrapped;

/// Returns the report.
pub(crate) fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, side) in comparison.sides() {
        let measured = where_and_when(&side.document);
        text += &format!("{:8}{}, to {}{measured}\n", format!("{name}:"), side.file, side.document.to);
    }
    text.push('\n');
    for sentences in comparison.verdict() {
        text += &wrapped(&sentences, "", "");
    }
    text += &format!("\n{:25}{:>20}{:>20}{:>10}\n", "", "before", "after", "ratio");
    for change in &comparison.changes {
        let [before, after] = change.shown().map(|shown| if shown.is_empty() { "unknown".into() } else { shown });
        text += format!("{:25}{before:>20}{after:>20}{:>10}", change.name(), change.shown_ratio()).trim_end();
        text.push('\n');
    }
    for note in comparison.notes() {
        text += &wrapped(&note, "note: ", "  ");
    }
    text
}
