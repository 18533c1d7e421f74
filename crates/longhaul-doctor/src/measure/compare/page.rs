//! A comparison as one HTML page.

use super::comparison::Comparison;
use crate::measure::page::charts::{Line, over_time};
use crate::measure::page::{findings, verdicts, with_units};
use crate::measure::words::where_and_when;
use crate::page::table::{cell, table};
use crate::page::{Html, document, paragraph, section};
use longhaul_measure::message::Direction;

/// Returns the page.
pub(crate) fn page(comparison: &Comparison) -> String {
    document(&format!("longhaul path: {}, before and after", comparison.after.document.to), |html| {
        body(html, comparison)
    })
}

fn body(html: &mut Html, comparison: &Comparison) {
    html.leaf("h1", &[], &format!("Path to {}, before and after", comparison.after.document.to));
    let [before, after] =
        comparison.sides().map(|(_, side)| format!("{}{}", side.file, where_and_when(&side.document)));
    paragraph(html, "about", &format!("Before: {before}. After: {after}."));
    comparison.notes().iter().for_each(|note| paragraph(html, "unclear", note));
    section(html, "What has changed", |html| {
        comparison.verdict().iter().for_each(|sentences| paragraph(html, "headline", &with_units(sentences)));
        changes(html, comparison);
    });
    runs(html, comparison);
    for ((_, side), title) in comparison.sides().into_iter().zip(["What limited it before", "What limits it now"]) {
        section(html, title, |html| {
            verdicts(html, &side.document, "");
            findings(html, &side.document);
        });
    }
    html.node("footer", &[], |html| paragraph(html, "", UNITS));
}

fn changes(html: &mut Html, comparison: &Comparison) {
    table(html, "rates", &COLUMNS, |html| {
        for change in &comparison.changes {
            let [before, after] = change.shown();
            html.node("tr", &[], |html| {
                cell(html, COLUMNS[0].0, "", &change.name());
                for ((column, class), value) in COLUMNS[1..].iter().zip([before, after, change.shown_ratio()]) {
                    cell(html, column, class, &value);
                }
            });
        }
    });
}

/// Draws the first run of each direction, before and after.
fn runs(html: &mut Html, comparison: &Comparison) {
    let lines = Direction::ALL.map(|direction| lines(comparison, direction));
    if lines.iter().any(|lines| !lines.is_empty()) {
        section(html, "One connection over time", |html| over_time(html, &lines, [None, None]));
    }
}

fn lines(comparison: &Comparison, direction: Direction) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for ((name, side), class) in comparison.sides().into_iter().zip(["c1", "c0"]) {
        let run = side.document.first(direction).filter(|run| run.series.len() > 1);
        lines.extend(run.map(|run| Line::new(name, class, run)));
    }
    lines
}

/// The columns of the table: name, and class in the style sheet.
const COLUMNS: [(&str, &str); 4] = [("", "words"), ("before", "number"), ("after", "number"), ("ratio", "number")];
const UNITS: &str = "Compared by `longhaul path --compare`. Mbit/s is 10^6 bit/s. Values within 2 % of each other are the same. The ratio is \
    that of the value after to the one before.";
