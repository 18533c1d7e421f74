//! Throughput and round trip over time, with a line for each carrier.

use crate::measure::sampler::Sample;
use crate::report::page::group::{Group, Palette};
use crate::report::run::RunReport;
use longhaul_doctor::page::chart::{self, Curve, Frame};
use longhaul_doctor::page::{Axis, Html};

/// Writes both drawings of `group`, with a legend of the carriers.
pub(crate) fn draw(html: &mut Html, group: &Group<'_>, palette: &Palette) {
    let runs: Vec<&RunReport> = group.all().filter(|run| run.series.len() > 1).collect();
    if runs.is_empty() {
        return;
    }
    let throughput = |point: &Sample| Some(point.speed);
    // The round trip is unknown until TCP has measured one.
    let rtt = |point: &Sample| (point.rtt_ms > 0.0).then_some(point.rtt_ms);
    chart::legend(html, &curves(&runs, palette, throughput));
    html.node("div", &[("class", "curves")], |html| {
        over_time(html, "Throughput", "MB/s", &runs, palette, throughput);
        over_time(html, "Round trip as TCP sees it", "ms", &runs, palette, rtt);
    });
}

fn over_time(
    html: &mut Html,
    title: &str,
    unit: &str,
    runs: &[&RunReport],
    palette: &Palette,
    value: fn(&Sample) -> Option<f64>,
) {
    let points = || runs.iter().flat_map(|run| until_end(&run.series));
    // The axis of time ends at the last sample.
    let across = Axis::across(points().map(|point| point.t_s).fold(0.0, f64::max));
    let up = Axis::up(points().filter_map(value).fold(0.0, f64::max));
    let frame = Frame { title, unit, across_unit: "seconds", across, up, marker: None };
    chart::draw(html, &frame, &curves(runs, palette, value));
}

/// Returns a curve for each run.
fn curves<'a>(runs: &[&'a RunReport], palette: &Palette, value: fn(&Sample) -> Option<f64>) -> Vec<Curve<'a>> {
    let curve = |run: &&'a RunReport| Curve {
        name: run.carrier_name(),
        class: palette.class(run),
        stretches: stretches(until_end(&run.series), value),
    };
    runs.iter().map(curve).collect()
}

/// Returns the points until no more data arrives. After that, programs only close connections.
fn until_end(series: &[Sample]) -> &[Sample] {
    let max = series.iter().map(|point| point.speed).fold(0.0, f64::max);
    let last = series.iter().rposition(|point| point.speed > max / 1000.0).unwrap_or_default();
    &series[..series.len().min(last + 2)]
}

/// Returns the points with a known value, split where it is unknown.
fn stretches(series: &[Sample], value: fn(&Sample) -> Option<f64>) -> Vec<Vec<(f64, f64)>> {
    let pieces = series.split(|point| value(point).is_none());
    let known = |piece: &[Sample]| piece.iter().filter_map(|point| Some((point.t_s, value(point)?))).collect();
    pieces.filter(|piece| piece.len() > 1).map(known).collect()
}
