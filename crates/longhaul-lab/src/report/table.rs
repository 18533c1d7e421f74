//! The table of results that `lab run` prints.
//!
//! comfy-table does not fit, because its Markdown lacks the marks that right-align numbers when the table is rendered.

use crate::report::columns::{self, Column};
use crate::report::json::Report;
use crate::report::run::{RunReport, Verdict};
use std::fmt;
use textwrap::{Options, WordSplitter};

/// The table of the runs: the columns that they have, and the verdict, with the reason for each run below.
/// With names of usual length, no line is longer than 100 columns.
pub(crate) struct Figures<'a>(pub(crate) &'a [Report]);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&Column> = columns::of(self.runs()).chain([VERDICT]).collect();
        let mut before = "";
        let rows: Vec<Vec<String>> = self
            .runs()
            .map(|run| {
                let mut cells: Vec<String> = columns.iter().map(|column| (column.cell)(run)).collect();
                cells.iter_mut().filter(|cell| cell.is_empty()).for_each(|cell| *cell = "-".into());
                // A figure's name is printed once, for all its carriers.
                if run.id == before {
                    cells[0].clear();
                }
                before = &run.id;
                cells
            })
            .collect();
        let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0).max(columns[at].name.len());
        let widths: Vec<usize> = (0..columns.len()).map(|at| width(at).max(MIN_WIDTH)).collect();
        let line = |cells: Vec<String>| {
            let padded = columns.iter().zip(&widths).zip(cells).map(|((column, width), cell)| match column.is_number {
                true => format!("| {cell:>width$} "),
                false => format!("| {cell:<width$} "),
            });
            padded.collect::<String>() + "|"
        };
        let rule = |(column, width): (&&Column, &usize)| {
            if column.is_number { "-".repeat(width - 1) + ":" } else { "-".repeat(*width) }
        };
        writeln!(f, "{}", line(columns.iter().map(|column| column.name.to_string()).collect()))?;
        writeln!(f, "{}", line(columns.iter().zip(&widths).map(rule).collect()))?;
        rows.into_iter().try_for_each(|row| writeln!(f, "{}", line(row)))?;
        writeln!(f, "\n{}", self.tally())?;
        self.reasons(f)
    }
}

impl Figures<'_> {
    fn runs(&self) -> impl Iterator<Item = &RunReport> + Clone {
        self.0.iter().flat_map(|report| &report.runs)
    }

    /// Returns a sentence with the number of runs with each verdict, and with the units of the table.
    fn tally(&self) -> String {
        let of = |verdict| self.runs().filter(|run| run.verdict == verdict).count();
        let (pass, fail, skip) = (of(Verdict::Pass), of(Verdict::Fail), of(Verdict::Skip));
        let some =
            |verdict, what| Some(of(verdict)).filter(|count| *count > 0).map(|count| format!(" {count} {what},"));
        let unjudged = some(Verdict::Unjudged, "without an expectation").unwrap_or_default();
        let unclear = some(Verdict::Unclear, "unclear").unwrap_or_default();
        format!(
            "{pass} as expected, {fail} not,{unjudged}{unclear} {skip} left out. MB/s are 10^6 bytes; gain is times direct. Reasons:"
        )
    }

    /// Writes the reason for each run.
    fn reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for run in self.runs() {
            if run.id != before {
                let what = if run.what.is_empty() { run.traffic.name } else { &run.what };
                writeln!(f, "\n{}", wrapped(&format!("{}: {what}", run.id), 98))?;
            }
            before = &run.id;
            let over = run.carrier.map_or(run.verdict.word(), |carrier| carrier.name);
            writeln!(f, "{}", wrapped(&format!("- {over}: {}", run.why), 98))?;
        }
        if self.runs().any(|run| run.verdict == Verdict::Unclear) {
            writeln!(
                f,
                "\nOther programs disturbed the runs marked unclear. Repeat them when the machine is quieter."
            )?;
        }
        Ok(())
    }
}

const VERDICT: &Column = &Column::words("verdict", |run| run.verdict.word().into());
/// Minimum width of a column in characters.
const MIN_WIDTH: usize = 5;

/// Wraps `text` to lines of at most `width` characters. In an item of a list, lines after the first are indented.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let options = Options::new(width).subsequent_indent(indent).word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options.break_words(false))
}
