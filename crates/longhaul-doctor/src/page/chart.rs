//! Charts with a line for each curve.
//!
//! Lines differ in colour and in dashes. Both come from the style sheet by class, so that the same drawing can be light, dark
//! or printed.

use super::axis::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH};
use super::html::Html;

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Curve<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Its colour and dashes: `c0` to `c7` of the style sheet.
    pub class: String,
    /// Its points, across and up, split where no value is known.
    pub stretches: Vec<Vec<(f64, f64)>>,
}

/// The frame of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What the curves show.
    pub title: &'a str,
    /// The unit of the vertical axis.
    pub unit: &'a str,
    /// The unit of the horizontal axis.
    pub across_unit: &'a str,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
}

/// Writes the name of each curve beside its line.
pub fn legend(html: &mut Html, curves: &[Curve<'_>]) {
    html.node("p", &[("class", "legend")], |html| {
        for curve in curves {
            html.node("span", &[("class", "key")], |html| {
                html.node("svg", &[("class", "mark"), ("viewBox", "0 0 28 12"), ("aria-hidden", "true")], |html| {
                    let class = format!("curve {}", curve.class);
                    html.empty("line", &[("class", &class), ("x1", "0"), ("x2", "28"), ("y1", "6"), ("y2", "6")]);
                });
                html.text(curve.name);
            });
        }
    });
}

/// Writes the chart of `curves`.
pub fn draw(html: &mut Html, frame: &Frame<'_>, curves: &[Curve<'_>]) {
    let Frame { title, unit, across_unit, across, up } = frame;
    html.node("figure", &[], |html| {
        html.leaf("figcaption", &[], &format!("{title}, {unit}"));
        let label = format!("{title} in {unit} over {across_unit}");
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        html.node("svg", &[("class", "chart"), ("viewBox", &view), ("role", "img"), ("aria-label", &label)], |html| {
            axes(html, frame);
            for curve in curves {
                let class = format!("curve {}", curve.class);
                for stretch in &curve.stretches {
                    let dots: Vec<String> =
                        stretch.iter().map(|(x, y)| format!("{:.1},{:.1}", across.place(*x), up.place(*y))).collect();
                    html.node("polyline", &[("class", &class), ("points", &dots.join(" "))], |html| {
                        html.leaf("title", &[], curve.name);
                    });
                }
            }
        });
    });
}

fn axes(html: &mut Html, frame: &Frame<'_>) {
    for (value, text) in frame.up.ticks() {
        let y = frame.up.place(value);
        let line =
            [("class", "grid"), ("x1", &tenth(LEFT)), ("x2", &tenth(RIGHT)), ("y1", &tenth(y)), ("y2", &tenth(y))];
        html.empty("line", &line);
        let place = [("x", &*tenth(LEFT - 6.0)), ("y", &tenth(y + 5.0)), ("text-anchor", "end")];
        html.leaf("text", &place, &text);
    }
    for (value, text) in frame.across.ticks() {
        let x = tenth(frame.across.place(value));
        html.empty(
            "line",
            &[("class", "tick"), ("x1", &x), ("x2", &x), ("y1", &tenth(BOTTOM)), ("y2", &tenth(BOTTOM + 4.0))],
        );
        html.leaf("text", &[("x", &x), ("y", &tenth(BOTTOM + 22.0)), ("text-anchor", "middle")], &text);
    }
    let place = [("x", &*tenth(RIGHT)), ("y", &tenth(HEIGHT - 4.0)), ("text-anchor", "end")];
    html.leaf("text", &place, frame.across_unit);
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}
