//! The tables: the overview of several scenarios, all figures, the carriers' commands, and the link's counters.

use crate::carrier::row::Role;
use crate::measure::disturbance::Disturbance;
use crate::plan::place::Direction;
use crate::report::columns::{self, Column};
use crate::report::json::Report;
use crate::report::page::group;
use crate::report::page::words;
use crate::report::run::{RunReport, Verdict};
use crate::world::live::LinkCounters;
use longhaul_doctor::page::Html;
use longhaul_doctor::page::table::{cell, grouped, table};

/// Writes a row for each scenario: the result with longhaul, and the number of runs with each verdict.
pub(crate) fn overview(html: &mut Html, reports: &[Report]) {
    table(html, "overview", &OVERVIEW, |html| {
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
                html.node("td", &[("data-name", OVERVIEW[0].0)], |html| {
                    html.leaf("a", &[("href", &format!("#{}", report.scenario))], &report.scenario);
                });
                cell(html, OVERVIEW[1].0, "wide", &said);
                let verdicts = [
                    (Verdict::Pass, "pass"),
                    (Verdict::Fail, "fail"),
                    (Verdict::Unclear, "unclear"),
                    (Verdict::Skip, "skip"),
                ];
                for ((column, _), (verdict, class)) in OVERVIEW[2..].iter().zip(verdicts) {
                    let count = report.runs.iter().filter(|run| run.verdict == verdict).count();
                    let class = if count == 0 { "number".to_string() } else { format!("number {class}") };
                    cell(html, column, &class, &count.to_string());
                }
            });
        }
    });
}

const OVERVIEW: [(&str, &str); 6] = [
    ("scenario", WORDS),
    ("result", WORDS),
    ("as expected", NUMBER),
    ("not", NUMBER),
    ("unclear", NUMBER),
    ("left out", NUMBER),
];

/// Writes a row for each run, with its figures, its verdict and the reason.
pub(crate) fn figures(html: &mut Html, report: &Report) {
    let values = || columns::of(report.runs.iter()).chain(DETAILS);
    let class = |column: &Column| if column.is_number { NUMBER } else { WORDS };
    let headings = values().map(|column| (column.name, class(column))).chain([("verdict", WORDS), ("why", WORDS)]);
    let columns: Vec<(&str, &str)> = headings.collect();
    table(html, "figures", &columns, |html| {
        for run in &report.runs {
            html.node("tr", &[], |html| {
                html.node("td", &[("data-name", columns[0].0)], |html| html.leaf("code", &[], &run.id));
                for column in values().skip(1) {
                    let class = match column.name {
                        "measured" => "number strong",
                        _ if column.is_number => NUMBER,
                        _ => "",
                    };
                    cell(html, column.name, class, &(column.cell)(run));
                }
                let (word, class) = group::verdict(run);
                cell(html, "verdict", class, word);
                cell(html, "why", "wide", &why(run));
            });
        }
    });
    html.leaf("p", &[("class", "source")], COLUMNS);
}

/// The columns of the page alone.
const DETAILS: &[Column] = &[
    Column::number("round trip", |run| {
        let digits = if run.rtt_ms < 10.0 { 2 } else { 1 };
        run.measured.map(|_| format!("{:.digits$} ms", run.rtt_ms)).unwrap_or_default()
    }),
    Column::number("window", |run| run.window_bytes.map(grouped).unwrap_or_default()),
    Column::words("bytes checked", |run| run.bytes_ok.map_or("", |ok| if ok { "all" } else { "✗ wrong" }).into()),
];

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
    let runs: Vec<_> = report.runs.iter().filter_map(|run| Some((run, run.link.as_ref()?))).collect();
    if runs.is_empty() {
        return html.leaf("p", &[], "No run went over an emulated WAN.");
    }
    for (run, link) in runs {
        html.node("details", &[], |html| counters_of(html, run, link));
    }
}

/// Writes the counters of one run: a table of the stages, then the other counters of each direction.
fn counters_of(html: &mut Html, run: &RunReport, link: &[LinkCounters; 2]) {
    let lost: u64 = link.iter().flat_map(|way| &way.stages).map(|(_, stage)| stage.segments_lost()).sum();
    let lost = if lost == 0 { String::new() } else { format!(": {} segments not delivered", grouped(lost)) };
    html.leaf("summary", &[], &format!("{} over {}{lost}", run.id, run.carrier_name()));
    let ways = || Direction::BOTH.into_iter().zip(link);
    table(html, "counters", &STAGE_COLUMNS, |html| {
        for (direction, (stage, of)) in
            ways().flat_map(|(direction, way)| way.stages.iter().map(move |of| (direction, of)))
        {
            let megabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
            let segments = [of.segments_in, of.segments_out].map(grouped);
            let numbers = segments.into_iter().chain([of.bytes_in, of.bytes_out].map(megabytes));
            html.node("tr", &[], |html| {
                let [(way, _), (name, _), rest @ ..] = STAGE_COLUMNS;
                cell(html, way, "", direction.arrow());
                cell(html, name, "", stage);
                rest.into_iter().zip(numbers).for_each(|((column, class), number)| cell(html, column, class, &number));
            });
        }
    });
    for (direction, way) in ways() {
        let others =
            way.others().into_iter().map(|(name, count)| format!("{} {}", name.replace('_', " "), grouped(count)));
        let others = others.collect::<Vec<_>>().join(", ");
        html.leaf("p", &[("class", "source")], &format!("{}: {others}", direction.arrow()));
    }
}

const STAGE_COLUMNS: [(&str, &str); 6] = [
    ("direction", WORDS),
    ("stage", WORDS),
    ("segments in", NUMBER),
    ("segments out", NUMBER),
    ("MB in", NUMBER),
    ("MB out", NUMBER),
];

/// The classes of headings. Headings of numbers are right-aligned, as the numbers are.
const WORDS: &str = "words";
const NUMBER: &str = "number";
const COLUMNS: &str = "Published, computed and measured speeds are in MB/s. Gain is a multiple of the direct transfer. The window in \
    force is in bytes, from TCP_INFO of the sending host.";
