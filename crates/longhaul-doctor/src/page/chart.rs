//! Charts with a line for each curve.
//!
//! Lines differ in colour and in dashes. Both come from the style sheet by class, so that the same drawing can be light, dark
//! or printed.

use super::axis::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH};
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
    /// A value to be pointed out.
    pub marker: Option<&'a Marker>,
}

/// A vertical line at one value, with dots where curves cross it.
#[derive(Clone, Debug)]
pub struct Marker {
    /// The value on the horizontal axis.
    pub at: f64,
    /// Its text, at the top of the line.
    pub text: String,
    /// The dots: value on the vertical axis, and text. A text that has no room beside earlier ones is left out.
    pub dots: Vec<(f64, String)>,
}

impl Frame<'_> {
    /// Returns the curve of a law: `value` is a function of the horizontal axis.
    pub fn curve<'n>(&self, name: &'n str, class: &str, value: impl Fn(f64) -> f64) -> Curve<'n> {
        let points: Vec<(f64, f64)> = self.across.samples(SAMPLES).map(|x| (x, value(x))).collect();
        let places: Vec<(f64, f64)> = points.iter().map(|(x, y)| (self.across.place(*x), self.up.place(*y))).collect();
        // Between neighbours at equal distances, a point on the straight line says nothing.
        let bends = |at: usize| (places[at - 1].1 + places[at + 1].1 - 2.0 * places[at].1).abs() > BEND;
        let is_kept = |at: usize| at == 0 || at + 1 == points.len() || bends(at);
        let kept = points.iter().enumerate().filter(|(at, _)| is_kept(*at)).map(|(_, point)| *point);
        Curve { name, class: class.into(), stretches: vec![kept.collect()] }
    }
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
    let Frame { title, unit, across_unit, across, up, marker } = frame;
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
            if let Some(marker) = marker {
                mark(html, frame, marker);
            }
        });
    });
}

fn mark(html: &mut Html, frame: &Frame<'_>, marker: &Marker) {
    let x = frame.across.place(marker.at);
    line(html, "marker", [x, x], [TOP, BOTTOM]);
    // Where curves fall, the room above a dot is free on its right side, and the room below it on its left side.
    let mut spots = [Spot { x: x + 8.0, anchor: "start", rise: -7.0 }, Spot { x: x - 8.0, anchor: "end", rise: 18.0 }];
    if x > RIGHT - TEXT_WIDTH {
        spots.swap(0, 1);
    }
    spots[0].tell(html, TOP + 10.0, &marker.text);
    let mut told: [Vec<f64>; 2] = Default::default();
    for (value, label) in &marker.dots {
        let y = frame.up.place(*value);
        html.empty("circle", &[("class", "dot"), ("cx", &tenth(x)), ("cy", &tenth(y)), ("r", "4")]);
        let is_clear = |spot: usize, room: f64| told[spot].iter().all(|other| (other - y).abs() > room);
        let is_new = is_clear(0, DOT) && is_clear(1, DOT);
        let spot = [0, 1].into_iter().find(|spot| is_new && is_clear(*spot, TEXT_HEIGHT));
        if let Some(spot) = spot {
            spots[spot].tell(html, y + spots[spot].rise, label);
            told[spot].push(y);
        }
    }
}

/// A side of the marker, for texts.
struct Spot {
    x: f64,
    anchor: &'static str,
    /// Distance of a text from its dot.
    rise: f64,
}

impl Spot {
    fn tell(&self, html: &mut Html, y: f64, text: &str) {
        let place = [("class", "told"), ("x", &*tenth(self.x)), ("y", &tenth(y)), ("text-anchor", self.anchor)];
        html.leaf("text", &place, text);
    }
}

fn axes(html: &mut Html, frame: &Frame<'_>) {
    let Frame { across, up, .. } = frame;
    for (value, text) in up.ticks() {
        let y = up.place(value);
        line(html, "grid", [LEFT, RIGHT], [y, y]);
        label(html, (LEFT - 6.0, y + 5.0), "end", &text);
    }
    for (value, text) in across.ticks() {
        let x = across.place(value);
        if across.is_logarithmic() {
            line(html, "grid", [x, x], [TOP, BOTTOM]);
        }
        line(html, "tick", [x, x], [BOTTOM, BOTTOM + 4.0]);
        label(html, (x, BOTTOM + 22.0), "middle", &text);
    }
    for x in across.small_ticks().into_iter().map(|value| across.place(value)) {
        line(html, "tick", [x, x], [BOTTOM, BOTTOM + 2.5]);
    }
    for y in up.small_ticks().into_iter().map(|value| up.place(value)) {
        line(html, "tick", [LEFT - 2.5, LEFT], [y, y]);
    }
    label(html, (RIGHT, HEIGHT - 4.0), "end", frame.across_unit);
}

fn line(html: &mut Html, class: &str, [x1, x2]: [f64; 2], [y1, y2]: [f64; 2]) {
    let ends = [("class", class), ("x1", &tenth(x1)), ("x2", &tenth(x2)), ("y1", &tenth(y1)), ("y2", &tenth(y2))];
    html.empty("line", &ends);
}

fn label(html: &mut Html, (x, y): (f64, f64), anchor: &str, text: &str) {
    if !text.is_empty() {
        html.leaf("text", &[("x", &tenth(x)), ("y", &tenth(y)), ("text-anchor", anchor)], text);
    }
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

/// Number of points of a sampled curve.
const SAMPLES: u32 = 246;
/// Distance from the straight line at which a curve bends.
const BEND: f64 = 0.05;
/// Distance of dots that cover each other.
const DOT: f64 = 3.0;
/// Size of the texts of dots, also with the large letters of a narrow screen.
const TEXT_HEIGHT: f64 = 19.0;
const TEXT_WIDTH: f64 = 70.0;
