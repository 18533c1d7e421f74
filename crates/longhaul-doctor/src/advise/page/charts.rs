//! The two charts: the rate that each limit allows against the round trip, and the first 30 s of each row of the table.

use crate::advise::advice::{Advice, PredictionRow, What};
use crate::page::chart::{self, Curve, Frame, Marker};
use crate::page::table::grouped;
use crate::page::{Axis, Html, paragraph, power};
use crate::path::Path;
use crate::predict::Hosts;
use crate::show::speed;
use longhaul_core::path::laws::{self, LossResponse, SlowStart};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// Writes both charts, each with its legend. Both have the same vertical axis.
pub(super) fn draw(html: &mut Html, advice: &Advice) {
    let limits = limits(advice);
    let up = up(advice, &limits);
    html.node("div", &[("class", "curves")], |html| {
        html.node("div", &[], |html| by_round_trip(html, &advice.question.path, &limits, up));
        html.node("div", &[], |html| by_time(html, advice, up));
    });
    paragraph(html, "source", &laws_of(advice));
}

/// One limit of a connection.
struct Limit {
    name: String,
    class: &'static str,
    rate: Box<dyn Fn(&Path) -> Rate>,
}

impl Limit {
    fn new(name: impl Into<String>, class: &'static str, rate: impl Fn(&Path) -> Rate + 'static) -> Limit {
        Limit { name: name.into(), class, rate: Box::new(rate) }
    }

    /// Returns its rate for `path` at another round trip, in MB/s.
    fn at(&self, path: &Path, millis: f64) -> f64 {
        megabytes((self.rate)(&Path { rtt: Duration::from_secs_f64(millis / 1e3), ..*path }))
    }
}

/// Returns the limits, each without the application's window, which is one of them. A later one is drawn above an earlier one.
fn limits(advice: &Advice) -> Vec<Limit> {
    let plain = |hosts: Hosts| Hosts { application: None, ..hosts };
    let (hosts, tuned) = (plain(advice.hosts), plain(advice.tuned));
    let window = |Bytes(window): Bytes| format!("window of {} bytes", grouped(window));
    let mut limits = vec![
        Limit::new("relay at each site", class(What::Relay), move |path| hosts.with_relay(path).rate),
        Limit::new(format!("hosts tuned, {}", window(tuned.window)), class(What::HostsTuned), move |path| {
            tuned.alone(path, 1).rate
        }),
        Limit::new(format!("hosts as they are, {}", window(hosts.window)), class(What::Hosts), move |path| {
            hosts.alone(path, 1).rate
        }),
    ];
    if let Some((application, bytes)) = advice.question.application.and_then(|row| Some((row, row.window?))) {
        limits.push(Limit::new(format!("{}, {}", application.title, window(bytes)), APPLICATION, move |path| {
            laws::window_rate(bytes, path.rtt).min(path.goodput())
        }));
    }
    limits.push(Limit::new("the line", LINE, Path::goodput));
    limits
}

/// Returns the shortest and the longest round trip on the axis, in milliseconds.
fn round_trips(path: &Path) -> [f64; 2] {
    let own = path.rtt.as_secs_f64() * 1e3;
    [SHORTEST_MS.min(own / 2.0), LONGEST_MS.max(own * 2.0)]
}

/// Returns the vertical axis for all limits, and for the first round trip of slow start.
fn up(advice: &Advice, limits: &[Limit]) -> Axis {
    let path = &advice.question.path;
    let line = megabytes(path.goodput()).max(LEAST);
    let limits = limits.iter().map(|limit| limit.at(path, round_trips(path)[1]));
    let starts = advice.rows.iter().map(|row| start(row, path).rate_at(Duration::ZERO)).map(megabytes);
    let lowest = limits.chain(starts).fold(line / 100.0, f64::min).max(line * LEAST);
    // The room above the line, a fifth of the axis, is for the text of the marker.
    Axis::logarithmic_up(lowest, line * (line / lowest).powf(0.25), power)
}

fn by_round_trip(html: &mut Html, path: &Path, limits: &[Limit], up: Axis) {
    let own = path.rtt.as_secs_f64() * 1e3;
    let own_rate = |limit: &Limit| (limit.rate)(path);
    let marker = Marker {
        at: own,
        text: round_trip(own),
        dots: limits.iter().map(own_rate).map(|rate| (megabytes(rate), speed(rate))).collect(),
    };
    let [shortest, longest] = round_trips(path);
    let frame = Frame {
        title: "Rate of one connection",
        unit: "MB/s",
        across_unit: "round trip",
        across: Axis::logarithmic_across(shortest, longest, round_trip),
        up,
        marker: Some(&marker),
    };
    let name = |limit: &Limit| format!("{}: {} MB/s", limit.name, speed(own_rate(limit)));
    let names: Vec<String> = limits.iter().map(name).collect();
    let named = limits.iter().zip(&names);
    let curves: Vec<Curve<'_>> =
        named.map(|(limit, name)| frame.curve(name, limit.class, |millis| limit.at(path, millis))).collect();
    chart::draw(html, &frame, &curves);
    chart::legend(html, &curves);
}

fn by_time(html: &mut Html, advice: &Advice, up: Axis) {
    let path = &advice.question.path;
    let frame = Frame {
        title: "Slow start: rate in the first 30 s",
        unit: "MB/s",
        across_unit: "seconds",
        across: Axis::across(SECONDS),
        up,
        marker: None,
    };
    let name = |row: &PredictionRow| {
        let seconds = start(row, path).time_to_steady().as_secs_f64();
        format!("{}: {} MB/s after {seconds:.1} s", row.title(), speed(row.prediction.rate))
    };
    let names: Vec<String> = advice.rows.iter().map(name).collect();
    let mut curves = Vec::new();
    for (row, name) in advice.rows.iter().zip(&names) {
        curves.push(Curve { name, class: class(row.what).into(), stretches: vec![steps(row, path)] });
    }
    // The band comes first, so that equal lines are seen on it.
    curves.sort_by_key(|curve| curve.class != class(What::Relay));
    chart::draw(html, &frame, &curves);
    chart::legend(html, &curves);
}

/// Returns the start of one connection of a row.
fn start(row: &PredictionRow, path: &Path) -> SlowStart {
    let each = Rate(row.prediction.rate.0 / row.prediction.connections.max(1));
    SlowStart::new(each, path.rtt, path.mss_clamp())
}

/// Returns the rate of all connections of a row over time: a step in each round trip.
fn steps(row: &PredictionRow, path: &Path) -> Vec<(f64, f64)> {
    let (start, rtt) = (start(row, path), path.rtt.as_secs_f64());
    let all = row.prediction.connections.max(1) as f64;
    let rate = |round: u32| all * megabytes(start.rate_at(path.rtt * round));
    let mut points = Vec::new();
    for round in 0.. {
        let (from, is_steady) = (f64::from(round) * rtt, path.rtt * round >= start.time_to_steady());
        let to = if is_steady { SECONDS } else { (from + rtt).min(SECONDS) };
        points.extend([(from, rate(round)), (to, rate(round))]);
        if to >= SECONDS {
            break;
        }
    }
    points
}

/// Returns the sources of what is drawn.
fn laws_of(advice: &Advice) -> String {
    let mut text = String::from(
        "Each way gets the lowest of its own window, the application's, and the line. The laws: one window in each round trip; slow start doubles the rate in each \
         round trip, from 10 segments (RFC 6928)",
    );
    if advice.question.path.loss > 0.0 {
        text += match advice.hosts.response {
            LossResponse::Reno => "; random loss, Reno (Mathis, Semke, Mahdavi, Ott 1997)",
            LossResponse::Cubic => "; random loss, CUBIC (RFC 8312 5.1)",
            LossResponse::Ignores => "",
        };
    }
    text + "."
}

/// Returns the colour and dashes of a row, the same in both charts.
fn class(what: What) -> &'static str {
    match what {
        What::Relay => "c0 band",
        What::Hosts => "c1",
        What::HostsTuned => "c4",
        What::RelayAndTuned => "c3",
        What::Connections => "c2",
    }
}

fn megabytes(rate: Rate) -> f64 {
    rate.0 as f64 / 8e6
}

/// Returns a round trip in milliseconds with its unit: `100 us`, `63 ms`, `1 s`.
fn round_trip(millis: f64) -> String {
    let (value, unit) = match millis {
        millis if millis < 1.0 => (millis * 1e3, "us"),
        millis if millis < 1e3 => (millis, "ms"),
        millis => (millis / 1e3, "s"),
    };
    // Rounded, because a tenth times a thousand may be a little more than a hundred.
    format!("{} {unit}", (value * 1e3).round() / 1e3)
}

const APPLICATION: &str = "c5";
const LINE: &str = "line";
/// Ends of the axis of round trips in milliseconds; a path outside them moves them.
const SHORTEST_MS: f64 = 1.0;
const LONGEST_MS: f64 = 1000.0;
/// Least rate on the axis in MB/s, and least share of the line: a logarithm has no zero.
const LEAST: f64 = 1e-9;
/// Time of the chart of slow start.
const SECONDS: f64 = 30.0;
