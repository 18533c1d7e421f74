//! Throughput and round trip over time, with a line for each carrier.
//!
//! Lines differ in colour and in dashes. Both come from the style sheet by class, so that the same drawing can be light, dark
//! or printed.

use crate::report::page::group::{Group, Palette};
use crate::report::page::html::Html;
use crate::report::run::{Point, RunReport};

/// Writes both drawings of `group`, with a legend of the carriers.
pub(crate) fn draw(html: &mut Html, group: &Group<'_>, palette: &Palette) {
    let runs: Vec<&RunReport> = group.all().filter(|run| run.series.len() > 1).collect();
    if runs.is_empty() {
        return;
    }
    html.node("p", &[("class", "legend")], |html| {
        for run in &runs {
            html.node("span", &[("class", "key")], |html| {
                html.node("svg", &[("class", "mark"), ("viewBox", "0 0 28 12"), ("aria-hidden", "true")], |html| {
                    let class = format!("curve {}", palette.class(run));
                    html.empty("line", &[("class", &class), ("x1", "0"), ("x2", "28"), ("y1", "6"), ("y2", "6")]);
                });
                html.text(run.carrier_name());
            });
        }
    });
    html.node("div", &[("class", "curves")], |html| {
        let throughput = |point: &Point| Some(point.speed);
        chart(html, "Throughput", "MB/s", &runs, palette, throughput);
        // The round trip is unknown until TCP has measured one.
        let rtt = |point: &Point| (point.rtt_ms > 0.0).then_some(point.rtt_ms);
        chart(html, "Round trip as TCP sees it", "ms", &runs, palette, rtt);
    });
}

fn chart(
    html: &mut Html,
    title: &str,
    unit: &str,
    runs: &[&RunReport],
    palette: &Palette,
    value: fn(&Point) -> Option<f64>,
) {
    let points = || runs.iter().flat_map(|run| until_end(&run.series));
    let across = Axis::up_to(points().map(|point| point.t_s).fold(0.0, f64::max), LEFT, RIGHT);
    let up = Axis::up_to(points().filter_map(value).fold(0.0, f64::max), BOTTOM, TOP);
    html.node("figure", &[], |html| {
        html.leaf("figcaption", &[], &format!("{title}, {unit}"));
        let label = format!("{title} in {unit} over seconds");
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        html.node("svg", &[("class", "chart"), ("viewBox", &view), ("role", "img"), ("aria-label", &label)], |html| {
            axes(html, &across, &up);
            for run in runs {
                let class = format!("curve {}", palette.class(run));
                for stretch in stretches(until_end(&run.series), value) {
                    let dots: Vec<String> =
                        stretch.iter().map(|(x, y)| format!("{:.1},{:.1}", across.place(*x), up.place(*y))).collect();
                    html.node("polyline", &[("class", &class), ("points", &dots.join(" "))], |html| {
                        html.leaf("title", &[], run.carrier_name());
                    });
                }
            }
        });
    });
}

/// Returns the points until no more data arrives. After that, programs only close connections.
fn until_end(series: &[Point]) -> &[Point] {
    let max = series.iter().map(|point| point.speed).fold(0.0, f64::max);
    let last = series.iter().rposition(|point| point.speed > max / 1000.0).unwrap_or_default();
    &series[..series.len().min(last + 2)]
}

/// Returns the points with a known value, split where it is unknown.
fn stretches(series: &[Point], value: fn(&Point) -> Option<f64>) -> Vec<Vec<(f64, f64)>> {
    let pieces = series.split(|point| value(point).is_none());
    let known = |piece: &[Point]| piece.iter().filter_map(|point| Some((point.t_s, value(point)?))).collect();
    pieces.filter(|piece| piece.len() > 1).map(known).collect()
}

fn axes(html: &mut Html, across: &Axis, up: &Axis) {
    for (value, text) in up.ticks() {
        let y = up.place(value);
        let line =
            [("class", "grid"), ("x1", &tenth(LEFT)), ("x2", &tenth(RIGHT)), ("y1", &tenth(y)), ("y2", &tenth(y))];
        html.empty("line", &line);
        let place = [("x", &*tenth(LEFT - 6.0)), ("y", &tenth(y + 5.0)), ("text-anchor", "end")];
        html.leaf("text", &place, &text);
    }
    for (value, text) in across.ticks() {
        let x = tenth(across.place(value));
        html.empty(
            "line",
            &[("class", "tick"), ("x1", &x), ("x2", &x), ("y1", &tenth(BOTTOM)), ("y2", &tenth(BOTTOM + 4.0))],
        );
        html.leaf("text", &[("x", &x), ("y", &tenth(BOTTOM + 22.0)), ("text-anchor", "middle")], &text);
    }
    html.leaf("text", &[("x", &tenth(RIGHT)), ("y", &tenth(HEIGHT - 4.0)), ("text-anchor", "end")], "seconds");
}

/// An axis from 0 to the largest value or a little more, with its place on the drawing.
struct Axis {
    max: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn up_to(largest: f64, from: f64, to: f64) -> Axis {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let rough = largest / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|nice| nice * power).find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(10.0 * power);
        Axis { max: largest, step, from, to }.rounded()
    }

    /// Returns the axis with its end at a tick, so that the top line has a number. The axis of time keeps its end.
    fn rounded(self) -> Axis {
        let whole = (self.max / self.step).ceil() * self.step;
        // The axis of time ends at the last sample.
        let max = if self.from < self.to { self.max } else { whole };
        Axis { max, ..self }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * value / self.max
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let digits = (-self.step.log10().floor()).clamp(0.0, 6.0) as usize;
        let count = (self.max / self.step + 0.001).floor() as u32;
        let value = |index: u32| f64::from(index) * self.step;
        (0..=count).map(|index| (value(index), format!("{:.digits$}", value(index)))).collect()
    }
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 546.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 222.0;
/// Maximum number of steps on an axis.
const TICKS: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(largest: f64) -> Vec<String> {
        Axis::up_to(largest, BOTTOM, TOP).ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_largest() {
        assert_eq!(labels(33.3), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(120.0), ["0", "50", "100", "150"]);
        assert_eq!(labels(0.55), ["0.0", "0.2", "0.4", "0.6"]);
        assert_eq!(labels(5.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(0.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(f64::NAN), labels(1.0));
        let axis = Axis::up_to(33.3, BOTTOM, TOP);
        assert_eq!((axis.place(0.0), axis.place(40.0)), (BOTTOM, TOP));
    }
}
