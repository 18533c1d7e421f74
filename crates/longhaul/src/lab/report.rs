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
/// reason for each. No line is longer than 100 columns as long as names are of usual length.
pub(super) struct Figures<'a>(pub(super) &'a [Report]);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = || self.0.iter().flat_map(|report| &report.runs);
        let width = |text: fn(&RunReport) -> usize, least| runs().map(text).max().unwrap_or(0).max(least);
        let (figure, carrier) = (width(|run| run.id.len(), 6), width(|run| run.carrier.len(), 7));
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
        for run in runs() {
            // A figure's name once: what stands below it belongs together.
            let name = if run.id == before { "" } else { &run.id };
            before = &run.id;
            let gain = run.gain_over_direct.filter(|_| run.carrier != "direct");
            writeln!(
                f,
                "| {name:<figure$} | {:<carrier$} | {:>publication$} | {:>8} | {:>8} | {:>5} | {:<7} |",
                run.carrier,
                published(run),
                run.computed.map_or("-".into(), shown),
                run.measured.map_or("-".into(), shown),
                digits(gain, 1),
                verdict(run.verdict)
            )?;
        }
        let of = |verdict| runs().filter(|run| run.verdict == verdict).count();
        let (pass, fail, skip) = (of(Verdict::Pass), of(Verdict::Fail), of(Verdict::Skip));
        let unclear = match of(Verdict::Unclear) {
            0 => String::new(),
            count => format!(" {count} unclear,"),
        };
        writeln!(
            f,
            "\n{pass} as expected, {fail} not,{unclear} {skip} left out. MB/s are 10^6 bytes; gain is times direct. Why:"
        )?;
        let mut before = "";
        for run in runs() {
            if run.id != before {
                let what = if run.what.is_empty() { &run.traffic } else { &run.what };
                writeln!(f, "\n{}", wrapped(&format!("{}: {what}", run.id), 98))?;
            }
            before = &run.id;
            let over = if run.carrier == "-" { verdict(run.verdict) } else { &run.carrier };
            writeln!(f, "{}", wrapped(&format!("- {over}: {}", run.why), 98))?;
        }
        Ok(())
    }
}

/// What somebody published, as it stands in a table.
fn published(run: &RunReport) -> String {
    let range = |values: &[f64]| values.iter().map(|value| shown(*value)).collect::<Vec<_>>().join("-");
    Some(run.published(range, " x")).filter(|text| !text.is_empty()).unwrap_or("-".into())
}

/// The word for a verdict.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Unclear => "unclear",
        Verdict::Skip => "skip",
    }
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// As many digits as somebody would write.
pub(super) fn shown(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}").trim_end_matches(".00").to_string(),
        value if value < 100.0 => format!("{value:.1}").trim_end_matches(".0").to_string(),
        value => format!("{value:.0}"),
    }
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
