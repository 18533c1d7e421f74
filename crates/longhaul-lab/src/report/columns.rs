//! The columns of the table of runs, which the text and the page share, and the figures in them.

use crate::report::run::RunReport;

/// A column of the table of runs.
pub(crate) struct Column {
    /// The heading.
    pub(crate) name: &'static str,
    /// Whether the cells are numbers, which are right-aligned.
    pub(crate) is_number: bool,
    /// Returns the cell of a run; empty if the run has no such value.
    pub(crate) cell: fn(&RunReport) -> String,
}

/// The values of a run over a carrier. [`of`] leaves out the columns of numbers that no run has.
const VALUES: &[Column] = &[
    Column::words("figure", |run| run.id.clone()),
    Column::words("carrier", |run| run.carrier_name().into()),
    Column::number("published", published),
    Column::number("computed", |run| run.computed.map(shown).unwrap_or_default()),
    Column::number("measured", |run| run.measured.map(shown).unwrap_or_default()),
    Column::number("gain", |run| {
        run.gain_over_direct.filter(|_| !run.is_direct()).map(|gain| format!("{gain:.1}")).unwrap_or_default()
    }),
    Column::number("p50 ms", |run| figure(run, "p50_ms")),
    Column::number("p99 ms", |run| figure(run, "p99_ms")),
    Column::number("others MB/s", |run| figure(run, "outside_MBps")),
];

/// Returns the columns of `runs`.
pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a RunReport> + Clone) -> impl Iterator<Item = &'static Column> {
    let is_used = move |column: &&Column| !column.is_number || runs.clone().any(|run| !(column.cell)(run).is_empty());
    VALUES.iter().filter(is_used)
}

impl Column {
    /// Returns a column of words.
    pub(crate) const fn words(name: &'static str, cell: fn(&RunReport) -> String) -> Column {
        Column { name, is_number: false, cell }
    }

    /// Returns a column of numbers.
    pub(crate) const fn number(name: &'static str, cell: fn(&RunReport) -> String) -> Column {
        Column { name, is_number: true, cell }
    }
}

/// Returns a further figure of the traffic; empty if it has none of that name.
fn figure(run: &RunReport, name: &str) -> String {
    run.figures.get(name).map(|value| shown(*value)).unwrap_or_default()
}

/// Returns the published speed, gain, or both; empty if nothing was published.
fn published(run: &RunReport) -> String {
    let speed = run.published.as_deref().map(range);
    let gain = run.published_gain.as_deref().map(|gain| format!("{} x", range(gain)));
    speed.into_iter().chain(gain).collect::<Vec<_>>().join(", ")
}

/// Returns one number, or lowest and highest.
pub(crate) fn range(values: &[f64]) -> String {
    values.iter().map(|value| shown(*value)).collect::<Vec<_>>().join("-")
}

/// Writes `value` with three significant digits.
pub(crate) fn shown(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}").trim_end_matches(".00").to_string(),
        value if value < 100.0 => format!("{value:.1}").trim_end_matches(".0").to_string(),
        value => format!("{value:.0}"),
    }
}
