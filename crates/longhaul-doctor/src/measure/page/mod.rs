//! A measured path as one HTML page: first what limits it.
//!
//! It is drawn from the JSON document alone. `charts` draws the runs over time and the round trips, `ladder` the path MTU.

pub(super) mod charts;
mod ladder;
#[cfg(test)]
pub(super) mod tests;

use super::document::{Document, Finding};
use super::lab::Lab;
use super::values::{Figure, three};
use super::words::{limit, partial, start, verdict, where_and_when, without};
use crate::page::table::{cell, grouped, table};
use crate::page::{Html, document, paragraph, prose, section};
use longhaul_measure::message::Direction;

/// Returns the page, with the lab's result for this path if there is one.
pub(super) fn page(path: &Document, lab: Option<&Lab>) -> String {
    document(&format!("longhaul path: {}", path.to), |html| body(html, path, lab))
}

fn body(html: &mut Html, path: &Document, lab: Option<&Lab>) {
    html.leaf("h1", &[], &format!("Path to {}", path.to));
    if let Some(partial) = partial(path) {
        paragraph(html, "about unclear", &partial);
    }
    let has_runs = !path.runs.is_empty();
    if has_runs {
        paragraph(html, "about", "Up is from this host to the far one, and down is the way back.");
    }
    section(html, "What limits a transfer", |html| {
        verdicts(html, path, "headline");
        findings(html, path);
    });
    lab.iter().for_each(|lab| section(html, "In the lab", |html| in_lab(html, path, lab)));
    // They say why nothing is known.
    if !has_runs {
        notes(html, path);
    }
    figures(html, path);
    runs(html, path);
    if !path.rtt_ms.idle.is_empty() {
        section(html, "Round trips", |html| charts::round_trips(html, path));
    }
    if Direction::ALL.iter().any(|direction| ladder::is_known(path, *direction)) {
        section(html, "Path MTU", |html| ladder::draw(html, path));
    }
    if has_runs {
        notes(html, path);
    }
    html.node("footer", &[], |html| {
        paragraph(html, "", &how(path));
        paragraph(html, "", UNITS);
    });
}

/// Writes the verdict of each direction, in words, as paragraphs of `class`.
pub(super) fn verdicts(html: &mut Html, path: &Document, class: &str) {
    let verdicts = Direction::ALL.iter().filter_map(|direction| verdict(path, *direction));
    let mut is_known = false;
    for verdict in verdicts {
        paragraph(html, class, &with_units(&verdict));
        is_known = true;
    }
    if !is_known {
        paragraph(html, class, "What limits this path is not known.");
    }
}

/// Writes each finding with its evidence, the rate without it, and what to change.
pub(super) fn findings(html: &mut Html, path: &Document) {
    let known: Vec<&Finding> = path.findings.iter().filter(|finding| !finding.is_unknown()).collect();
    for (index, finding) in known.iter().enumerate() {
        html.node("div", &[("class", "setting")], |html| {
            let heading =
                format!("{}. {}: {}", index + 1, start(finding.direction), limit(&finding.kind, finding.direction));
            html.leaf("h4", &[], &heading);
            html.node("dl", &[("class", "pairs")], |html| {
                pair(html, "Evidence", &finding.evidence);
                pair(html, "Without it", &with_units(&without(finding).unwrap_or_default()));
                pair(html, "Change", &finding.advice);
            });
        });
    }
}

/// Writes a name and its value; nothing for an empty one.
fn pair(html: &mut Html, name: &str, value: &str) {
    if !value.is_empty() {
        html.leaf("dt", &[], name);
        html.node("dd", &[], |html| prose(html, value));
    }
}

/// Writes the figures of the path: what is known as a table, and the names of the others.
fn figures(html: &mut Html, path: &Document) {
    let (unknown, known): (Vec<Figure>, Vec<Figure>) = Figure::all(path).into_iter().partition(Figure::is_unknown);
    section(html, "The path", |html| {
        if !known.is_empty() {
            table(html, "rates", &COLUMNS, |html| known.iter().for_each(|figure| row(html, figure)));
        }
        let mss = path.mss.map(|mss| format!("MSS {mss} bytes. ")).unwrap_or_default();
        let fill = path
            .bdp_bytes
            .map(|bytes| format!("Bytes in flight that fill the path: {}{}. ", path.least(), grouped(bytes)));
        let unknown: Vec<&str> = unknown.iter().map(|figure| figure.name).collect();
        let unknown = if unknown.is_empty() { String::new() } else { format!("Not measured: {}.", unknown.join("; ")) };
        let rest = format!("{mss}{}{unknown}", fill.unwrap_or_default());
        paragraph(html, "note", rest.trim_end());
    });
}

fn row(html: &mut Html, figure: &Figure) {
    html.node("tr", &[], |html| {
        cell(html, COLUMNS[0].0, "", figure.name);
        for (direction, (column, class)) in Direction::ALL.into_iter().zip(&COLUMNS[1..]) {
            cell(html, column, class, &figure.shown(direction));
        }
    });
}

/// Writes the speed of each carrier in the lab.
fn in_lab(html: &mut Html, path: &Document, lab: &Lab) {
    paragraph(html, "headline", &with_units(&lab.headline()));
    lab.doubts(path).iter().for_each(|doubt| paragraph(html, "unclear", doubt));
    paragraph(html, "", &lab.emulated());
    table(html, "rates", &LAB_COLUMNS, |html| {
        for run in &lab.runs {
            let speed = run.speed.unwrap_or_default();
            let gain = run.gain_over_direct.map(three).unwrap_or_default();
            let limit = run.finding.as_ref().map(|finding| finding.kind.replace('-', " ")).unwrap_or_default();
            let values = [&run.what, &run.carrier, &three(speed), &three(speed * 8.0), &gain, &limit];
            html.node("tr", &[], |html| {
                for ((column, class), value) in LAB_COLUMNS.iter().zip(values) {
                    cell(html, column, if *class == "number" { class } else { "" }, value);
                }
            });
        }
    });
    paragraph(html, "note", &lab.how());
}

fn runs(html: &mut Html, path: &Document) {
    if path.runs.iter().any(|run| run.series.len() > 1) {
        section(html, "Each run over time", |html| charts::runs(html, path));
    }
}

fn notes(html: &mut Html, path: &Document) {
    if !path.notes.is_empty() {
        section(html, "Notes", |html| {
            let note = |html: &mut Html, note| html.node("li", &[], |html| prose(html, note));
            html.node("ul", &[], |html| path.notes.iter().for_each(|text| note(html, text)));
        });
    }
}

/// Returns how it was measured.
fn how(path: &Document) -> String {
    let command = path.command.clone().unwrap_or_else(|| format!("longhaul path {}", path.to));
    let version = path.version.as_ref().map(|version| format!(", longhaul {version}")).unwrap_or_default();
    let far = if path.far.name.is_empty() {
        String::new()
    } else {
        format!(" with {}, longhaul {}", path.far.name, path.far.version)
    };
    format!("Measured{} by `{command}`{version}{far}.", where_and_when(path))
}

/// Returns `text` with its units on the lines of their numbers.
pub(super) fn with_units(text: &str) -> String {
    text.replace(" Mbit/s", "\u{a0}Mbit/s").replace(" MB/s", "\u{a0}MB/s").replace(" ms", "\u{a0}ms")
}

/// The columns of the table: name, and class in the style sheet.
const COLUMNS: [(&str, &str); 3] = [("", "words"), ("up", "number"), ("down", "number")];
/// The same of the lab's table.
const LAB_COLUMNS: [(&str, &str); 6] = [
    ("traffic", "words"),
    ("carrier", "words"),
    ("MB/s", "number"),
    ("Mbit/s", "number"),
    ("times direct", "number"),
    ("limited by", "words"),
];
const UNITS: &str = "Mbit/s is 10^6 bit/s. The rate of a run counts payload over its second half, and the rate of the line counts IP \
    packets. Loss is the share of the bytes of single connections, after their start.";
