//! The demo's table: a row for each kind of traffic, a column for each carrier, and the reason for each figure below.

use crate::carrier::{Carrier, DIRECT, LONGHAUL, SOCAT};
use crate::plan::profile::Profile;
use crate::plan::setup::Setup;
use crate::report::json::Report;
use crate::report::run::RunReport;
use crate::report::table::wrapped;
use crate::traffic::Counts;
use std::fmt;

/// Prints the report as Markdown.
pub(crate) struct Table<'a> {
    pub(crate) report: &'a Report,
    /// Hosts and link of all runs except the one with extra loss.
    pub(crate) setup: &'a Setup,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.hosts())?;
        if let Some(doubt) = self.doubt() {
            writeln!(f, "{doubt}\n")?;
        }
        self.line(f, "", CARRIERS.map(|carrier| carrier.name.to_string()))?;
        writeln!(f, "| {} |{}", "-".repeat(LABEL), format!(" {}: |", "-".repeat(CELL - 1)).repeat(CARRIERS.len()))?;
        let mut before = "";
        for run in &self.report.runs {
            if run.id != before {
                self.line(f, &self.label(run), CARRIERS.map(|carrier| self.cell(&run.id, carrier)))?;
            }
            before = &run.id;
        }
        self.line(f, "relay CPU for raw TCP, seconds per GB", CARRIERS.map(|carrier| self.cpu(carrier)))?;
        let runs = || self.report.runs.iter();
        if runs().any(|run| run.measured.is_some()) {
            writeln!(f, "\nEvery byte of every transfer was checked at the far end. The reasons:\n")?;
        }
        for run in runs() {
            let moved = format!("{:.0} MB", run.bytes as f64 / 1e6);
            let text = match run.measured {
                Some(_) => format!("- {} {}, {moved}: {}", run.carrier_name(), run.id, run.why),
                None => format!("- left out: {} {}: {}", run.carrier_name(), run.id, run.why),
            };
            writeln!(f, "{}", wrapped(&text, 96))?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn line(&self, f: &mut fmt::Formatter<'_>, label: &str, cells: [String; CARRIERS.len()]) -> fmt::Result {
        write!(f, "| {label:<LABEL$} |")?;
        cells.iter().try_for_each(|cell| write!(f, " {cell:>CELL$} |"))?;
        writeln!(f)
    }

    fn label(&self, run: &RunReport) -> String {
        match has_speed(run) {
            true => format!("{}, MB/s (times direct)", run.what),
            false => format!("{}, ms (median)", run.what),
        }
    }

    /// Returns a cell: the speed in MB/s with the gain, or the median time of an answer in milliseconds.
    fn cell(&self, id: &str, carrier: &'static Carrier) -> String {
        let Some(run) = self.find(id, carrier) else { return "-".into() };
        let figure = match (run.measured, run.gain_over_direct, run.figures.get("p50_us")) {
            (Some(_), _, Some(micros)) => format!("{:.1}", micros / 1e3),
            (Some(speed), Some(gain), None) if !run.is_direct() => format!("{speed:.1} ({gain:.1})"),
            (Some(speed), _, None) => format!("{speed:.1}"),
            (None, ..) => return "-".into(),
        };
        marked(run, figure)
    }

    /// Returns the warning above a table with doubtful figures.
    fn doubt(&self) -> Option<String> {
        let doubtful = || self.report.runs.iter().filter(|run| is_doubtful(run));
        let taken = |run: &RunReport| run.disturbance.outside_share + run.disturbance.steal_share;
        let max = doubtful().map(taken).fold(0.0, f64::max);
        let text = format!(
            "DISTURBED: other programs, or the host of this virtual machine, took up to {:.0} % of the processor, or held up \
             packets. A speed with ? may be too low, a time with ? too long. Run it again on a quiet machine.",
            max * 100.0
        );
        doubtful().next().map(|_| wrapped(&text, 98))
    }

    /// Returns the processor time of both relays together, in seconds per GB of the raw transfer.
    fn cpu(&self, carrier: &'static Carrier) -> String {
        let run = self.find("raw", carrier).filter(|run| !run.is_direct() && run.bytes > 0);
        run.map_or("-".into(), |run| marked(run, format!("{:.2}", run.relay_cpu_s * 1e9 / run.bytes as f64)))
    }

    fn find(&self, id: &str, carrier: &'static Carrier) -> Option<&RunReport> {
        self.report.runs.iter().find(|run| run.id == id && run.carrier == Some(carrier))
    }

    /// Returns a description of hosts and link.
    fn hosts(&self) -> String {
        let Setup { link, host, .. } = self.setup;
        let rate = link.rate.map_or("no rate limit".to_string(), |rate| rate.to_string());
        let window = host.window.map_or("autotuned".to_string(), |window| window.to_string());
        let text = format!(
            "Emulated WAN: {:.1} ms round trip, {rate} of IP, {:.1} MiB queue, {} % loss. Hosts like AIX: {window} windows, \
             Reno, no SACK. Relay hosts: tcp_rmem and tcp_wmem up to {}, CUBIC. Each transfer takes some seconds. The time of scp \
             excludes its login.",
            link.rtt.as_secs_f64() * 1e3,
            link.queue().0 as f64 / f64::from(1 << 20),
            link.loss * 100.0,
            Profile::relay_buffer(link),
        );
        wrapped(&text, 98)
    }
}

/// Whether the speed of this traffic is shown.
fn has_speed(run: &RunReport) -> bool {
    run.traffic.counts != Counts::Figures
}

/// Returns a figure of `run`, with a mark if it is doubtful.
fn marked(run: &RunReport, figure: String) -> String {
    if is_doubtful(run) { format!("{figure}?") } else { figure }
}

/// Whether the run has figures that others may have changed.
fn is_doubtful(run: &RunReport) -> bool {
    run.measured.is_some() && run.disturbance.disturbed
}

/// The columns.
pub(crate) const CARRIERS: [&Carrier; 3] = [&DIRECT, &SOCAT, &LONGHAUL];
/// Width of the first cell of a line, in characters.
const LABEL: usize = 42;
/// Width of each other cell, in characters.
const CELL: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::disturbance::Disturbance;

    #[test]
    fn the_figures_of_a_disturbed_run_are_marked() {
        let cell = |measured, disturbed| {
            let disturbance = Disturbance { disturbed, ..Disturbance::default() };
            marked(&RunReport { measured, disturbance, ..RunReport::default() }, "0.58".into())
        };
        assert_eq!((cell(Some(28.0), true), cell(Some(28.0), false)), ("0.58?".into(), "0.58".into()));
        assert_eq!(cell(None, true), "0.58");
    }
}
