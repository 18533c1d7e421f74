//! Tables for people: the demo's, and that of a scenario.

use super::result::{Report, RunReport, Verdict};
use super::scenario::Setup;
use super::spec::Profile;
use std::fmt;

/// The demo's table: carriers below each other, scp and raw TCP beside each other, and the reason for each number.
pub(super) struct Table<'a> {
    pub(super) report: &'a Report,
    pub(super) setup: &'a Setup,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.hosts())?;
        let head = ["MB/s (10^6 bytes)", "scp", "gain", "raw TCP", "gain"];
        writeln!(f, "| {:<34} | {:>11} | {:>5} | {:>11} | {:>5} |", head[0], head[1], head[2], head[3], head[4])?;
        writeln!(f, "| {0:-<34} | {0:->10}: | {0:->4}: | {0:->10}: | {0:->4}: |", "")?;
        let mut carriers: Vec<&str> = Vec::new();
        for run in &self.report.runs {
            if !carriers.contains(&run.carrier.as_str()) {
                carriers.push(&run.carrier);
            }
        }
        for carrier in carriers {
            writeln!(f, "{}", self.row(carrier))?;
        }
        let runs = || self.report.runs.iter();
        if runs().any(|run| run.measured.is_some()) {
            writeln!(f, "\nEvery byte of every transfer was checked at the far end. Why these numbers:\n")?;
        }
        for run in runs() {
            let moved = format!("{:.0} MB", run.bytes as f64 / 1e6);
            let text = match run.measured {
                Some(_) => format!("- {} {}, {moved}: {}", run.carrier, run.traffic, run.why),
                None => format!("- left out: {} {}: {}", run.carrier, run.traffic, run.why),
            };
            writeln!(f, "{}", wrapped(&text, 96))?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn row(&self, carrier: &str) -> String {
        let what = super::carrier::find(carrier).map_or("", |carrier| carrier.what);
        let mut line = format!("| {:<34} |", format!("{carrier} ({what})"));
        for traffic in ["scp", "raw"] {
            let run = self.report.runs.iter().find(|run| run.carrier == carrier && run.traffic == traffic);
            let (speed, gain) = run.map_or((None, None), |run| (run.measured, run.gain_over_direct));
            line += &format!(" {:>11} | {:>5} |", digits(speed, 1), digits(gain, 1));
        }
        line
    }

    /// What was built, in words.
    fn hosts(&self) -> String {
        let Setup { link, host, .. } = self.setup;
        let rate = link.rate.map_or("no rate limit".to_string(), |rate| rate.to_string());
        let window = host.window.map_or("autotuned".to_string(), |window| window.to_string());
        let text = format!(
            "Emulated WAN: {:.1} ms round trip, {rate} of IP, {:.1} MiB queue, {} % loss. Hosts like AIX: {window} windows, \
             Reno, no SACK. Relay hosts: tcp_rmem and tcp_wmem up to {}. Each transfer takes some seconds; the time of scp \
             is without its login.",
            link.rtt.as_secs_f64() * 1e3,
            link.queue().0 as f64 / f64::from(1 << 20),
            link.loss * 100.0,
            Profile::relay_buffer(link),
        );
        wrapped(&text, 98)
    }
}

/// The table of scenarios that were run: figure, published, computed, measured, carrier by carrier, verdict; below it the
/// reason for each.
pub(super) struct Figures<'a>(pub(super) &'a [Report]);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = || self.0.iter().flat_map(|report| &report.runs);
        let width = runs().map(|run| run.id.len()).max().unwrap_or(0).max(6);
        writeln!(
            f,
            "| {:<width$} | {:<13} | {:<11} | {:>9} | {:>9} | {:>9} | {:>6} | {:<7} |",
            "figure", "carrier", "traffic", "published", "computed", "measured", "gain", "verdict"
        )?;
        writeln!(
            f,
            "| {0:-<width$} | {0:-<13} | {0:-<11} | {0:->8}: | {0:->8}: | {0:->8}: | {0:->5}: | {0:-<7} |",
            ""
        )?;
        for run in runs() {
            writeln!(
                f,
                "| {:<width$} | {:<13} | {:<11} | {:>9} | {:>9} | {:>9} | {:>6} | {:<7} |",
                run.id,
                run.carrier,
                run.traffic,
                published(run),
                digits(run.computed, 2),
                digits(run.measured, 2),
                digits(run.gain_over_direct, 1),
                verdict(run.verdict)
            )?;
        }
        writeln!(f, "\nMB/s, 10^6 bytes. Why:\n")?;
        for run in runs() {
            writeln!(f, "{}", wrapped(&format!("- {} {}: {}", run.id, run.carrier, run.why), 98))?;
        }
        Ok(())
    }
}

/// What somebody published, as it stands in a table: a speed, or a gain.
pub(super) fn published(run: &RunReport) -> String {
    let range = |values: &[f64]| values.iter().map(|value| shown(*value)).collect::<Vec<_>>().join("-");
    match (&run.published, &run.published_gain) {
        (Some(speed), _) => range(speed),
        (None, Some(gain)) => format!("{} x", range(gain)),
        (None, None) => "-".into(),
    }
}

/// The word for a verdict.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Skip => "skip",
    }
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// As many digits as somebody would write.
fn shown(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// `text` in lines of at most `width` characters, those after the first indented when it is an item of a list.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = &lines[lines.len() - 1];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(indent.to_string());
        }
        let end = lines.len() - 1;
        let line = &mut lines[end];
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join("\n")
}
