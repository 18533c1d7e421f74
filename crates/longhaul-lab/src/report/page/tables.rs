//! The tables: the overview of several scenarios, all figures, the carriers' commands, and the link's counters.

use crate::carrier::Role;
use crate::measure::disturbance::Disturbance;
use crate::plan::place::Direction;
use crate::report::json::Report;
use crate::report::page::group;
use crate::report::page::{range, speed, words};
use crate::report::run::{RunReport, Verdict};
use longhaul_doctor::page::Html;
use longhaul_doctor::page::table::{self, cell, grouped};
use std::collections::BTreeMap;

/// Writes a row for each scenario: the result with longhaul, and the number of runs with each verdict.
pub(crate) fn overview(html: &mut Html, reports: &[Report]) {
    let columns = ["scenario", "result", "as expected", "not", "unclear", "left out"];
    table(html, "overview", &columns, |html| {
        for report in reports {
            let groups = group::groups(report);
            let best = groups.iter().filter(|group| words::headline(group).is_some());
            // The figure with the largest gain.
            let gain = |group: &&group::Group<'_>| {
                group.measured(Role::Longhaul).and_then(|(run, _)| run.gain_over_direct).unwrap_or_default()
            };
            let best = best.max_by(|one, other| gain(one).total_cmp(&gain(other))).and_then(words::headline);
            let said = best.unwrap_or_else(|| words::without_relay(report));
            html.node("tr", &[], |html| {
                html.node("td", &[("data-name", columns[0])], |html| {
                    html.leaf("a", &[("href", &format!("#{}", report.scenario))], &report.scenario);
                });
                cell(html, columns[1], "wide", &said);
                let verdicts = [
                    (Verdict::Pass, "pass"),
                    (Verdict::Fail, "fail"),
                    (Verdict::Unclear, "unclear"),
                    (Verdict::Skip, "skip"),
                ];
                for (column, (verdict, class)) in columns[2..].iter().zip(verdicts) {
                    let count = report.runs.iter().filter(|run| run.verdict == verdict && !run.is_plain_pass()).count();
                    let class = if count == 0 { "number".to_string() } else { format!("number {class}") };
                    cell(html, column, &class, &count.to_string());
                }
            });
        }
    });
}

/// Writes a row for each run, with its figures, its verdict and the reason.
pub(crate) fn figures(html: &mut Html, report: &Report) {
    let columns = [
        "figure", "carrier", "published", "computed", "measured", "gain", "round trip", "window", "bytes checked",
        "verdict", "why",
    ];
    table(html, "figures", &columns, |html| {
        for run in &report.runs {
            let (word, class) = group::verdict(run);
            let checked = match run.bytes_ok {
                Some(true) => "all",
                Some(false) => "✗ wrong",
                None => "",
            };
            let measured = run.measured.is_some();
            let digits = if run.rtt_ms < 10.0 { 2 } else { 1 };
            let millis = if measured { format!("{:.digits$} ms", run.rtt_ms) } else { String::new() };
            let gain = run.gain_over_direct.filter(|_| !run.is_direct());
            html.node("tr", &[], |html| {
                html.node("td", &[("data-name", columns[0])], |html| html.leaf("code", &[], &run.id));
                cell(html, columns[1], "", run.carrier.map_or("", |carrier| carrier.name));
                cell(html, columns[2], "number", &run.published(range, "×"));
                cell(html, columns[3], "number", &run.computed.map(speed).unwrap_or_default());
                cell(html, columns[4], "number strong", &run.measured.map(speed).unwrap_or_default());
                cell(html, columns[5], "number", &gain.map(|gain| format!("{gain:.1}×")).unwrap_or_default());
                cell(html, columns[6], "number", &millis);
                cell(html, columns[7], "number", &run.window_bytes.map(grouped).unwrap_or_default());
                cell(html, columns[8], "", checked);
                cell(html, columns[9], class, word);
                cell(html, columns[10], "wide", &why(run));
            });
        }
    });
    html.leaf("p", &[("class", "source")], COLUMNS);
}

/// Describes the lateness of packets and the share of the processor that programs outside the lab took.
fn disturbance(run: &RunReport) -> String {
    let Disturbance { late_p99_ms, late_max_ms, outside_share, steal_share, .. } = run.disturbance;
    let late = late_p99_ms
        .zip(late_max_ms)
        .map(|(p99, max)| format!("99 % of packets {p99:.1} ms late or less, {max:.1} at most"));
    let others = format!("others took {:.0} % of the processor", 100.0 * (outside_share + steal_share));
    late.into_iter().chain([others]).collect::<Vec<_>>().join(", ")
}

/// Returns the reason, the further figures of the traffic, and the disturbance.
fn why(run: &RunReport) -> String {
    let figures = run.figures.iter().map(|(name, value)| format!("{} {value}", name.replace('_', " ")));
    let cpu = (run.relay_cpu_s > 0.0).then(|| format!("relays used {:.2} s of CPU", run.relay_cpu_s));
    let said = (!run.why.is_empty()).then(|| run.why.clone());
    let disturbance = run.measured.map(|_| disturbance(run));
    said.into_iter().chain(figures).chain(cpu).chain(disturbance).collect::<Vec<_>>().join("; ")
}

/// Writes the commands of each carrier. Equal commands are written once.
pub(crate) fn commands(html: &mut Html, report: &Report) {
    let mut all: Vec<(&str, &[String])> = Vec::new();
    for run in report.runs.iter().filter(|run| run.measured.is_some()) {
        if !all.contains(&(run.carrier_name(), &run.shown)) {
            all.push((run.carrier_name(), &run.shown));
        }
    }
    if all.is_empty() {
        html.leaf("p", &[], "No carrier was started.");
    }
    for (carrier, shown) in all {
        html.leaf("h4", &[], carrier);
        match shown {
            [] => html.leaf("p", &[], "No command: the relay hosts only route."),
            lines => html.leaf("pre", &[], &lines.join("\n")),
        }
    }
}

/// Writes the counters of each stage of the link, run by run.
pub(crate) fn counters(html: &mut Html, report: &Report) {
    let runs = || report.runs.iter().filter(|run| !run.link.is_empty());
    if runs().next().is_none() {
        return html.leaf("p", &[], "No run went over an emulated WAN.");
    }
    for run in runs() {
        html.node("details", &[], |html| counters_of(html, run));
    }
}

/// Writes the counters of one run: a table of the stages, then the other counters of each direction.
fn counters_of(html: &mut Html, run: &RunReport) {
    html.leaf("summary", &[], &format!("{} over {}{}", run.id, run.carrier_name(), losses(run)));
    table(html, "counters", &STAGE_COLUMNS, |html| {
        for (way, counters) in &run.link {
            stages(counters).iter().for_each(|(stage, of)| stage_row(html, *way, stage, of));
        }
    });
    for (way, counters) in &run.link {
        let others = counters.iter().filter(|(name, _)| split(name).is_none());
        let others: Vec<String> =
            others.map(|(name, count)| format!("{} {}", name.replace('_', " "), grouped(*count))).collect();
        html.leaf("p", &[("class", "source")], &format!("{}: {}", way.arrow(), others.join(", ")));
    }
}

fn stage_row(html: &mut Html, way: Direction, stage: &str, of: &BTreeMap<&str, u64>) {
    let value = |name| of.get(name).copied().unwrap_or_default();
    let [direction, name, segments_in, segments_out, bytes_in, bytes_out] = STAGE_COLUMNS;
    html.node("tr", &[], |html| {
        cell(html, direction, "", way.arrow());
        cell(html, name, "", stage);
        cell(html, segments_in, "number", &grouped(value("segments_in")));
        cell(html, segments_out, "number", &grouped(value("segments_out")));
        cell(html, bytes_in, "number", &format!("{:.2}", value("bytes_in") as f64 / 1e6));
        cell(html, bytes_out, "number", &format!("{:.2}", value("bytes_out") as f64 / 1e6));
    });
}

const STAGE_COLUMNS: [&str; 6] = ["direction", "stage", "segments in", "segments out", "MB in", "MB out"];

/// Returns the number of segments that the link did not deliver as text, for the line that is always visible.
fn losses(run: &RunReport) -> String {
    let mut lost = 0;
    for (_, of) in run.link.values().flat_map(stages) {
        let value = |name| of.get(name).copied().unwrap_or_default();
        lost += value("segments_in").saturating_sub(value("segments_out"));
    }
    if lost == 0 { String::new() } else { format!(": {} segments not delivered", grouped(lost)) }
}

/// Returns the counters of each stage, by the stage's name.
fn stages(counters: &BTreeMap<String, u64>) -> BTreeMap<&str, BTreeMap<&str, u64>> {
    let mut stages: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (name, count) in counters {
        if let Some((stage, counter)) = split(name) {
            stages.entry(stage).or_default().insert(counter, *count);
        }
    }
    stages
}

/// Splits the name of a counter: `rate_bytes_in` is `bytes_in` of the stage `rate`. `frames_in` belongs to no stage.
fn split(name: &str) -> Option<(&str, &str)> {
    let counter =
        ["segments_in", "segments_out", "bytes_in", "bytes_out"].into_iter().find(|end| name.ends_with(end))?;
    Some((name.strip_suffix(counter)?.strip_suffix('_')?, counter))
}

fn table(html: &mut Html, class: &str, columns: &[&str], rows: impl FnOnce(&mut Html)) {
    let columns: Vec<(&str, &str)> = columns.iter().map(|column| (*column, column_class(column))).collect();
    table::table(html, class, &columns, rows);
}

/// Returns the class of a column's heading. Headings of numbers are right-aligned, as the numbers are.
fn column_class(column: &str) -> &'static str {
    let words = ["scenario", "result", "figure", "carrier", "bytes checked", "verdict", "why", "direction", "stage"];
    if words.contains(&column) { "words" } else { "number" }
}

const COLUMNS: &str = "Published, computed and measured speeds are in MB/s. Gain is a multiple of the direct transfer. The window in \
    force is in bytes, from TCP_INFO of the sending host.";
