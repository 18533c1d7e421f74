//! The charts: the rate of each run over time, and the distribution of the round trip.

use crate::measure::document::{Document, Far, Run};
use crate::measure::values::{millis, rate};
use crate::page::chart::{self, Curve, Frame};
use crate::page::table::{cell, table};
use crate::page::{Axis, Html, paragraph, power};
use longhaul_measure::message::Direction;

/// A run as a line over time.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    /// Its text in the legend.
    name: String,
    /// Its colour and dashes in the style sheet.
    class: String,
    run: &'a Run,
}

/// Draws the runs of both directions, one chart each, with the same axes.
pub(super) fn runs(html: &mut Html, path: &Document) {
    let lines = Direction::ALL.map(|direction| lines(path, direction));
    let is_reached = |direction| path.line_reached.of(direction).is_some_and(|is_reached| *is_reached);
    let of_line = |direction| path.rate_mbps.of(direction).copied().filter(|_| is_reached(direction));
    over_time(html, &lines, Direction::ALL.map(of_line));
    paragraph(
        html,
        "source",
        "Payload that arrived in each fifth of a second. The text of a line has the rate over its second half.",
    );
}

/// Returns the runs in `direction`. The same kind of run has the same colour in both.
fn lines(path: &Document, direction: Direction) -> Vec<Line<'_>> {
    let mut kinds: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for run in path.runs.iter().filter(|run| run.series.len() > 1) {
        let mss = path.first(run.direction).filter(|first| first.mss != run.mss).map(|_| format!(", MSS {}", run.mss));
        let connections = if run.connections == 1 { "connection" } else { "connections" };
        let name = format!("{} {connections}, {}{}", run.connections, run.congestion, mss.unwrap_or_default());
        let kind = kinds.iter().position(|kind| *kind == name).unwrap_or_else(|| {
            kinds.push(name.clone());
            kinds.len() - 1
        });
        if run.direction == direction {
            lines.push(Line::new(&name, format!("c{}", kind % COLOURS), run));
        }
    }
    lines
}

/// Draws the lines of each direction in a chart, with the same axes, and the rate of the line as a thin one.
pub(crate) fn over_time(html: &mut Html, lines: &[Vec<Line<'_>>; 2], of_line: [Option<f64>; 2]) {
    let all = || lines.iter().flatten().map(|line| line.run);
    let seconds = all().map(|run| run.seconds).fold(0.0, f64::max);
    let across = Axis::across(seconds);
    let up = up(all().map(|run| run.payload_mbps), of_line, all().flat_map(points).map(|(_, rate)| rate));
    html.node("div", &[("class", "curves")], |html| {
        for ((lines, of_line), title) in
            lines.iter().zip(of_line).zip(TITLES).filter(|((lines, _), _)| !lines.is_empty())
        {
            let frame = Frame { title, unit: "Mbit/s", across_unit: "seconds", across, up, marker: None };
            let of_line = of_line.map(|mbps| (mbps, format!("rate of the line: {}", rate(mbps))));
            let mut curves: Vec<Curve<'_>> = lines.iter().map(Line::curve).collect();
            if let Some((mbps, name)) = &of_line {
                curves.push(Curve {
                    name,
                    class: "line".into(),
                    stretches: vec![vec![(0.0, *mbps), (seconds, *mbps)]],
                });
            }
            html.node("div", &[], |html| {
                // What comes first in the legend is drawn last, above the others.
                let drawn: Vec<Curve<'_>> = curves.iter().rev().cloned().collect();
                chart::draw(html, &frame, &drawn);
                chart::legend(html, &curves);
            });
        }
    });
}

impl<'a> Line<'a> {
    /// Returns the line of `run`. Its rate comes behind `name`.
    pub(crate) fn new(name: &str, class: impl Into<String>, run: &'a Run) -> Line<'a> {
        Line { name: format!("{name}: {}", rate(run.payload_mbps)), class: class.into(), run }
    }

    fn curve(&self) -> Curve<'_> {
        Curve { name: &self.name, class: self.class.clone(), stretches: vec![points(self.run)] }
    }
}

/// Returns the vertical axis for runs of these rates. It is logarithmic where one run is many times as fast as another.
fn up(runs: impl Iterator<Item = f64> + Clone, of_line: [Option<f64>; 2], points: impl Iterator<Item = f64>) -> Axis {
    let line = of_line.into_iter().flatten().fold(0.0, f64::max);
    let largest = points.chain(runs.clone()).fold(line, f64::max).max(LEAST_MBPS);
    // A run that carried nothing is at the lower end of any axis.
    let slowest = runs.filter(|rate| rate * MOST_APART > largest).fold(largest, f64::min);
    if slowest * FAR_APART > largest {
        return Axis::up(largest);
    }
    // A power of ten below the slowest run, so that its start is seen and its line has a number.
    let least = 10f64.powf((slowest / 2.0).log10().floor());
    Axis::logarithmic_up(least, largest * 1.2, power)
}

/// Returns time in seconds and rate in Mbit/s: the bytes that arrived in each [`STEP_S`], at its middle.
fn points(run: &Run) -> Vec<(f64, f64)> {
    let step = STEP_S.max(run.seconds / MAX_POINTS);
    let (mut points, mut from, mut before) = (Vec::new(), 0.0, 0);
    for (ms, bytes) in &run.series {
        let at = ms / 1e3;
        // The samples are not exactly a step apart. One that comes after the end has what was still under way.
        if at - from < 0.9 * step || at > run.seconds {
            continue;
        }
        points.push(((from + at) / 2.0, bytes.saturating_sub(before) as f64 * 8.0 / 1e6 / (at - from)));
        (from, before) = (at, *bytes);
    }
    points
}

/// Draws the distribution of the round trip, idle and during the first run of each direction, with its figures.
pub(super) fn round_trips(html: &mut Html, path: &Document) {
    let all = distributions(path);
    let samples = || all.iter().flat_map(|distribution| &distribution.sorted).copied();
    let (least, largest) = (samples().fold(f64::INFINITY, f64::min), samples().fold(0.0, f64::max));
    let frame = Frame {
        title: "Share of the round trips that took at most this time",
        unit: "%",
        across_unit: "ms",
        across: Axis::between(least, largest),
        up: Axis::up(100.0),
        marker: None,
    };
    let curves: Vec<Curve<'_>> = all.iter().map(|distribution| distribution.curve(largest)).collect();
    html.node("div", &[("class", "curves")], |html| {
        html.node("div", &[], |html| {
            chart::draw(html, &frame, &curves);
            chart::legend(html, &curves);
        });
        html.node("div", &[], |html| {
            table(html, "rates", &COLUMNS, |html| all.iter().for_each(|distribution| distribution.row(html)));
        });
    });
    let loaded = if all.len() > 1 { LOADED } else { "" };
    let idle = if path.far == Far::default() { CONNECTIONS } else { MESSAGES };
    paragraph(html, "source", &format!("{idle}{loaded}"));
}

/// Round trips of one kind.
struct Distribution {
    name: &'static str,
    class: &'static str,
    /// In ms, never empty.
    sorted: Vec<f64>,
}

fn distributions(path: &Document) -> Vec<Distribution> {
    let loaded = |direction| path.first(direction).map(steady).unwrap_or_default();
    let [up, down] = Direction::ALL.map(loaded);
    let kinds = [("idle", "c4", path.rtt_ms.idle.clone()), ("loaded up", "c0", up), ("loaded down", "c2", down)];
    let distribution = |(name, class, mut sorted): (_, _, Vec<f64>)| {
        sorted.sort_unstable_by(f64::total_cmp);
        (!sorted.is_empty()).then_some(Distribution { name, class, sorted })
    };
    kinds.into_iter().filter_map(distribution).collect()
}

/// Returns the round trips of the last two thirds of a run, in ms.
fn steady(run: &Run) -> Vec<f64> {
    let end = run.rtt_ms.last().map_or(0.0, |(at, _)| *at);
    run.rtt_ms.iter().filter(|(at, _)| *at >= end / 3.0).map(|(_, rtt)| *rtt).collect()
}

impl Distribution {
    /// Returns the curve: it rises at each round trip, and ends at `largest` ms.
    fn curve(&self, largest: f64) -> Curve<'_> {
        let percent = |index: usize| 100.0 * index as f64 / self.sorted.len() as f64;
        let rise = |(index, ms): (usize, &f64)| [(*ms, percent(index)), (*ms, percent(index + 1))];
        let mut points: Vec<(f64, f64)> = self.sorted.iter().enumerate().flat_map(rise).collect();
        points.push((largest, 100.0));
        Curve { name: self.name, class: self.class.into(), stretches: vec![points] }
    }

    /// Returns the round trip that this share of them does not exceed.
    fn quantile(&self, share: f64) -> f64 {
        let at = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted[at.clamp(1, self.sorted.len()) - 1]
    }

    fn row(&self, html: &mut Html) {
        let values = [0.0, 0.5, 0.95, 1.0].map(|share| millis(self.quantile(share)));
        html.node("tr", &[], |html| {
            cell(html, COLUMNS[0].0, "", self.name);
            COLUMNS[1..].iter().zip(values).for_each(|((column, class), value)| cell(html, column, class, &value));
        });
    }
}

const TITLES: [&str; 2] = ["Up: from this host to the far one", "Down: from the far host to this one"];
/// The columns of the round trips: name, and class in the style sheet.
const COLUMNS: [(&str, &str); 5] =
    [("", "words"), ("smallest", "number"), ("median", "number"), ("95 % within", "number"), ("largest", "number")];
const CONNECTIONS: &str = "Idle: the time that a connection took.";
const MESSAGES: &str = "Idle: small messages before the first run.";
const LOADED: &str = " Loaded: the round trip that TCP sees while one connection sends, after its start.";
/// Colours of the style sheet.
const COLOURS: usize = 8;
/// Time between two points of a line, and their largest number.
const STEP_S: f64 = 0.2;
const MAX_POINTS: f64 = 200.0;
/// Ratio of the fastest run to the slowest from which on the axis is logarithmic, and the largest one of a run that carried something.
const FAR_APART: f64 = 12.0;
const MOST_APART: f64 = 1e6;
/// Least end of the axis.
const LEAST_MBPS: f64 = 1e-3;
