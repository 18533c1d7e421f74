//! The table of results that `lab run` prints.
//!
//! comfy-table does not fit, because its Markdown lacks the marks that right-align numbers when the table is rendered.

use crate::report::json::Report;
use crate::report::run::{RunReport, Verdict};
use std::fmt;
use textwrap::{Options, WordSplitter};

/// The table of the runs: figure, carrier, published, computed, measured, gain and verdict, with the reason for each run below.
/// With names of usual length, no line is longer than 100 columns.
pub(crate) struct Figures<'a>(pub(crate) &'a [Report]);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&RunReport) -> usize, min| self.runs().map(text).max().unwrap_or(0).max(min);
        let figure = width(|run| run.id.len(), 6);
        let carrier = width(|run| run.carrier_name().len(), 7);
        let publication = width(|run| published(run).len(), 9);
        let head = ["published", "computed", "measured", "gain", "verdict"];
        let [published_, computed, measured, gain, verdict_] = head;
        writeln!(
            f,
            "| {:<figure$} | {:<carrier$} | {published_:>publication$} | {computed:>8} | {measured:>8} | {gain:>5} | {verdict_} |",
            "figure", "carrier"
        )?;
        writeln!(
            f,
            "| {0:-<figure$} | {0:-<carrier$} | {0:->dashes$}: | {0:->7}: | {0:->7}: | {0:->4}: | {0:-<7} |",
            "",
            dashes = publication - 1
        )?;
        let mut before = "";
        for run in self.runs() {
            // A figure's name is printed once, for all its carriers.
            let name = if run.id == before { "" } else { &run.id };
            before = &run.id;
            let gain = run.gain_over_direct.filter(|_| !run.is_direct());
            writeln!(
                f,
                "| {name:<figure$} | {:<carrier$} | {:>publication$} | {:>8} | {:>8} | {:>5} | {:<7} |",
                run.carrier_name(),
                published(run),
                run.computed.map_or("-".into(), shown),
                run.measured.map_or("-".into(), shown),
                digits(gain, 1),
                verdict(run)
            )?;
        }
        writeln!(f, "\n{}", self.tally())?;
        self.reasons(f)
    }
}

impl Figures<'_> {
    fn runs(&self) -> impl Iterator<Item = &RunReport> {
        self.0.iter().flat_map(|report| &report.runs)
    }

    /// Returns a sentence with the number of runs with each verdict, and with the units of the table.
    fn tally(&self) -> String {
        let of = |verdict| self.runs().filter(|run| run.verdict == verdict && !run.is_plain_pass()).count();
        let (pass, fail, skip) = (of(Verdict::Pass), of(Verdict::Fail), of(Verdict::Skip));
        let unclear = match of(Verdict::Unclear) {
            0 => String::new(),
            count => format!(" {count} unclear,"),
        };
        let plain = match self.runs().filter(|run| run.is_plain_pass()).count() {
            0 => String::new(),
            count => format!(" {count} without an expectation,"),
        };
        format!(
            "{pass} as expected, {fail} not,{plain}{unclear} {skip} left out. MB/s are 10^6 bytes; gain is times direct. Reasons:"
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
            let over = run.carrier.map_or(verdict(run), |carrier| carrier.name);
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

/// Returns the published figures as a cell of a table.
fn published(run: &RunReport) -> String {
    let range = |values: &[f64]| values.iter().map(|value| shown(*value)).collect::<Vec<_>>().join("-");
    Some(run.published(range, " x")).filter(|text| !text.is_empty()).unwrap_or("-".into())
}

/// Returns the word for the verdict of a run; a dash for a pass without an expectation.
pub(crate) fn verdict(run: &RunReport) -> &'static str {
    match run.verdict {
        Verdict::Pass if !run.has_expectation => "-",
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Unclear => "unclear",
        Verdict::Skip => "skip",
    }
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// Writes `value` with three significant digits.
pub(crate) fn shown(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}").trim_end_matches(".00").to_string(),
        value if value < 100.0 => format!("{value:.1}").trim_end_matches(".0").to_string(),
        value => format!("{value:.0}"),
    }
}

/// Wraps `text` to lines of at most `width` characters. In an item of a list, lines after the first are indented.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let options = Options::new(width).subsequent_indent(indent).word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options.break_words(false))
}
