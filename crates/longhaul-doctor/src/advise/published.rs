//! Figures that others have published, against the advice for the same path; and the tables of them in docs/published.md
//! (`UPDATE=1 cargo test -p longhaul-doctor --lib published` writes them).

use super::tests::{document, row};
use crate::show;
use longhaul_core::path::laws::bandwidth_delay;
use longhaul_units::{Bytes, Rate};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Value;

const FIGURES: &str = include_str!("../../tests/published.toml");
const PAGE: &str = include_str!("../../../../docs/published.md");

#[derive(Deserialize)]
struct Published {
    figure: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    id: String,
    source: String,
    what: Option<String>,
    rtt_ms: Option<f64>,
    window_bytes: Option<u64>,
    #[serde(rename = "link_Mbps")]
    link_mbps: Option<u32>,
    mss: Option<u32>,
    note: Option<String>,
    /// The keys `published_KIND` and `computed_KIND`.
    #[serde(flatten)]
    values: BTreeMap<String, Value>,
}

/// A kind of value: the end of its key.
struct Kind {
    key: &'static str,
    /// Text before and after the number.
    text: [&'static str; 2],
    /// Size of the unit in bit/s; 0 for what is no rate.
    bits: f64,
}

const KINDS: &[Kind] = &[
    Kind { key: "MBps", text: ["", " MB/s"], bits: 8e6 },
    Kind { key: "Mbps", text: ["", " Mbit/s"], bits: 1e6 },
    Kind { key: "kBps", text: ["", " kB/s"], bits: 8e3 },
    Kind { key: "Mbps_at_least", text: ["at least ", " Mbit/s"], bits: 1e6 },
    Kind { key: "peak_MBps", text: ["peak ", " MB/s"], bits: 8e6 },
    Kind { key: "parallel_MBps", text: ["together ", " MB/s"], bits: 8e6 },
    Kind { key: "gain", text: ["", " times direct"], bits: 0.0 },
    Kind { key: "cpu_percent", text: ["", " %"], bits: 0.0 },
];

/// The advice for the path of a figure.
struct Prediction {
    /// The command line.
    line: String,
    /// The rate in bit/s.
    rate: f64,
    limited_by: String,
}

impl Figure {
    /// Returns the values whose keys are `prefix_KIND`: a number, or the ends of a range.
    fn values(&self, prefix: &str) -> Vec<(&'static Kind, Vec<f64>)> {
        let of_key = |(key, value): (&String, &Value)| {
            let key = key.strip_prefix(prefix)?.strip_prefix('_')?;
            let kind = KINDS.iter().find(|kind| kind.key == key).unwrap_or_else(|| panic!("no kind {key}"));
            let ends = value.as_array().map_or_else(|| vec![number(value)], |ends| ends.iter().map(number).collect());
            Some((kind, ends))
        };
        self.values.iter().filter_map(of_key).collect()
    }

    /// Returns what the file says that the law gives.
    fn computed(&self) -> Option<(&'static Kind, f64)> {
        self.values("computed").pop().map(|(kind, ends)| (kind, ends[0]))
    }

    /// Returns what the advice for this path gives: hosts with the figure's window, or, without one, a relay with the window of
    /// ssh.
    fn predicted(&self) -> Prediction {
        let rtt = self.rtt_ms.expect("a round trip");
        let mtu = self.mss.map_or(1500, |mss| mss + 40);
        let path = format!("--rtt {rtt}ms --rate {}Mbit/s --mtu {mtu}", self.link_mbps.unwrap_or(10_000));
        let (what, hosts) = match self.window_bytes {
            Some(window) => ("hosts", format!("--window {window}")),
            None => ("relay", "--os aix --app ssh".into()),
        };
        let line = format!("{path} {hosts}");
        let document = document(&line);
        let field = |name| row(&document, what, name);
        let limited_by = field("limited_by").as_str().unwrap().into();
        Prediction { rate: field("mbps").as_f64().unwrap() * 1e6, limited_by, line }
    }
}

fn figures() -> Vec<Figure> {
    let Published { figure } = toml::from_str(FIGURES).unwrap();
    figure
}

fn number(value: &Value) -> f64 {
    value.as_float().or(value.as_integer().map(|whole| whole as f64)).expect("a number")
}

#[test]
fn advise_predicts_every_computed_figure() {
    let figures = figures();
    let computed: Vec<_> = figures.iter().filter_map(|figure| Some((figure, figure.computed()?))).collect();
    assert_eq!(computed.len(), FIGURES.matches("\ncomputed").count(), "every one is looked at");
    for (figure, (kind, computed)) in computed {
        let Prediction { line, rate, .. } = figure.predicted();
        // The file has two or three digits.
        let ratio = rate / kind.bits / computed;
        assert!((0.99..1.01).contains(&ratio), "{}: advise {line} gives {:.2} Mbit/s", figure.id, rate / 1e6);
    }
}

/// 2 TB at 3.6 MB/s are published as 7 days and 10 hours.
#[test]
fn two_terabytes_at_3_6_megabytes_a_second_take_6_days_and_10_hours() {
    let document = document("--rtt 63ms --rate 10Gbit/s --window 226800 --bytes 2TB");
    assert_eq!(row(&document, "hosts", "mbps"), 28.8);
    assert_eq!(show::time(row(&document, "hosts", "seconds").as_f64().unwrap()), "6 d 10 h");
}

/// 9.3 Mbit/s are published.
#[test]
fn a_window_of_1_gib_at_900_ms_gives_9_5_gbit_per_second() {
    let document = document("--rtt 900ms --rate 10Gbit/s --window 1GiB");
    assert_eq!(row(&document, "hosts", "limited_by"), "window");
    let gbps = row(&document, "hosts", "mbps").as_f64().unwrap() / 1e3;
    assert_eq!(format!("{gbps:.1}"), "9.5");
}

/// An MSS of 1250 is published for an MTU of 1200.
#[test]
fn an_mtu_of_1200_has_no_room_for_an_mss_of_1250() {
    assert_eq!(document("--rtt 34ms --rate 1Gbit/s --window 2MiB --mtu 1200")["mss"], 1160);
    assert_eq!(document("--rtt 34ms --rate 1Gbit/s --window 2MiB --mtu 1290")["mss"], 1250, "it needs an MTU of 1290");
}

/// 12.18 Mb/s are published.
#[test]
fn megabytes_a_second_are_eight_times_as_many_megabits() {
    let rate: Rate = "15.23MB/s".parse().unwrap();
    assert_eq!(crate::predict::mbps(rate), 121.84);
    assert_eq!(show::speed(rate), "15.2");
}

/// "60 % more" is published.
#[test]
fn ten_connections_carry_two_and_a_half_times_as_much_as_four() {
    let of = |connections| {
        let document = document(&format!("--rtt 63ms --rate 10Gbit/s --window 256KiB --connections {connections}"));
        row(&document, "connections", "mbps").as_f64().unwrap()
    };
    assert_eq!((of(10) / of(4) * 100.0).round(), 250.0);
}

/// Figures whose notes stand in the page's table of errors.
const IN_ERRORS: [&str; 2] = ["mitre-streams", "kurtcms-900ms-scale"];

#[test]
fn docs_published_md_has_every_figure() {
    let (mut with_law, mut without) = (String::new(), String::new());
    for figure in figures() {
        let published: Vec<_> = figure.values("published");
        let texts: Vec<_> = published.iter().map(|(kind, ends)| text(kind, ends)).collect();
        let what = figure.what.as_deref().unwrap_or("one connection");
        let head = format!("| {} | {what} | {} | {}", figure.source, path(&figure), texts.join(", "));
        let note = match figure.note.as_deref().unwrap_or_default() {
            _ if IN_ERRORS.contains(&figure.id.as_str()) => "[Errors](#errors)",
            note => note.trim_end_matches('.'),
        };
        // The first rate in bit/s; none if the source has only a gain or a share.
        let rates = published.iter().find(|(kind, _)| kind.bits > 0.0);
        let rates: Vec<f64> = rates.iter().flat_map(|(kind, ends)| ends.iter().map(|end| end * kind.bits)).collect();
        match figure.computed() {
            Some((kind, _)) => {
                let predicted = figure.predicted();
                let right = text(kind, &[predicted.rate / kind.bits]);
                let shares: Vec<_> =
                    rates.iter().map(|rate| format!("{:.0} %", rate / predicted.rate * 100.0)).collect();
                let why = why(&figure, &predicted) + if note.is_empty() { "" } else { ". " } + note;
                with_law += &format!("{head} | {right} | {} | {why} |\n", shares.join(" to "));
            }
            None => {
                let rtt = Duration::from_secs_f64(figure.rtt_ms.unwrap_or_default() / 1e3);
                let in_flight = |rate: &f64| show_bytes(bandwidth_delay(Rate(*rate as u64), rtt));
                let in_flight: Vec<_> = rates.iter().filter(|_| !rtt.is_zero()).map(in_flight).collect();
                without += &format!("{head} | {} | {note} |\n", in_flight.join(" to "));
            }
        }
    }
    let page = with_rows(PAGE, "computed figures", "right | measured / right | why", &with_law);
    let page = with_rows(&page, "other figures", "in flight | note", &without);
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md"), page).unwrap();
    }
    assert!(page == PAGE, "run UPDATE=1 cargo test -p longhaul-doctor --lib published; read the diff");
}

/// Returns `page` with `rows` in the table called `name`, whose last columns are `columns`.
fn with_rows(page: &str, name: &str, columns: &str, rows: &str) -> String {
    let (begin, end) = (format!("<!-- rows of {name} -->\n"), format!("<!-- end of {name} -->"));
    let before = page.split_once(&begin).unwrap_or_else(|| panic!("{begin} is missing")).0;
    let after = page.split_once(&end).unwrap_or_else(|| panic!("{end} is missing")).1;
    let head = format!("| source | what | path | published | {columns} |");
    let line = "| --- ".repeat(head.matches('|').count() - 1);
    format!("{before}{begin}{head}\n{line}|\n{rows}{end}{after}")
}

/// Returns round trip, window, segments and rate of the line, as far as the figure has them.
fn path(figure: &Figure) -> String {
    let parts = [
        figure.rtt_ms.map(|rtt| format!("{rtt} ms")),
        figure.window_bytes.map(|window| show::size(Bytes(window))),
        figure.mss.map(|mss| format!("MSS {mss}")),
        figure.link_mbps.map(|rate| format!("{rate} Mbit/s")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns a clause on what limits the rate.
fn why(figure: &Figure, predicted: &Prediction) -> String {
    let window = match (predicted.limited_by.as_str(), figure.window_bytes) {
        ("application", None) => "The window of ssh, 2 MiB,".into(),
        ("window", Some(window)) => format!("{window} bytes"),
        other => panic!("{}: write the clause for {other:?}", figure.id),
    };
    format!("{window} in each {} ms", figure.rtt_ms.unwrap_or_default())
}

/// Returns a value as text, with at most three digits.
fn text(kind: &Kind, ends: &[f64]) -> String {
    let digits = |value: &f64| {
        let after_point = 2usize.saturating_sub(value.max(1.0).log10() as usize);
        let text = format!("{value:.after_point$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
    };
    let [before, after] = kind.text;
    format!("{before}{}{after}", ends.iter().map(digits).collect::<Vec<_>>().join(" to "))
}

/// Returns a number of bytes in MB, with two digits after the point.
fn show_bytes(bytes: Bytes) -> String {
    format!("{:.2} MB", bytes.0 as f64 / 1e6)
}
