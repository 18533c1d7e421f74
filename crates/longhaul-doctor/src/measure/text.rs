//! A measured path as text: first what limits it.

use super::document::{Document, Finding};
use super::values::{Figure, millis, rate};
use super::words::{limit, partial, start, where_and_when, without};
use longhaul_measure::message::Direction;

/// Returns the report.
pub(super) fn text(path: &Document) -> String {
    let mut lines = vec![heading(path), String::new()];
    // They say why nothing is known.
    if path.runs.is_empty() {
        lines.extend(path.notes.clone());
        lines.push(String::new());
    }
    for (nth, finding) in path.findings.iter().enumerate() {
        lines.extend(lines_of(nth + 1, finding));
    }
    let figures = Figure::all(path);
    if figures.iter().any(|figure| !figure.is_unknown()) {
        lines.push(row("", ["up", "down"].map(String::from)));
        lines.extend(figures.iter().map(|figure| row(figure.name, Direction::ALL.map(|way| figure.shown(way)))));
        lines.push(String::new());
    }
    lines.extend(path.connect_ms.map(|ms| format!("connection {}", millis(ms))));
    lines.extend(path.mss.map(|mss| format!("MSS {mss} bytes")));
    let least = path.least();
    lines.extend(path.bdp_bytes.map(|bytes| format!("{least}{bytes} bytes in flight fill the path")));
    if !path.runs.is_empty() {
        lines.extend(path.notes.iter().map(|note| format!("note: {note}")));
    }
    let place = where_and_when(path);
    if !place.is_empty() {
        lines.push(format!("measured{place}"));
    }
    if path.ended.is_some() {
        lines.extend(partial(path));
    }
    lines.join("\n") + "\n"
}

fn heading(path: &Document) -> String {
    let far = match path.far.name.as_str() {
        "" => String::new(),
        name => format!(" ({name}, longhaul {})", path.far.version),
    };
    let through = path.tunnel.as_ref().map_or(String::new(), |tunnel| format!(" through tunnel {tunnel}"));
    format!("Path to {}{far}{through}", path.to)
}

fn lines_of(nth: usize, finding: &Finding) -> Vec<String> {
    let way = start(finding.direction);
    if finding.is_unknown() {
        return vec![format!("{nth}. {way}: the limit is not known: {}", finding.evidence), String::new()];
    }
    let mut lines = vec![format!("{nth}. {way}: limited by {}", limit(&finding.kind, finding.direction))];
    let without = without(finding).map(|without| format!("without it: {without}"));
    let rest = [Some(finding.evidence.clone()), without, Some(finding.advice.clone())];
    lines.extend(rest.into_iter().flatten().filter(|line| !line.is_empty()).map(|line| format!("   {line}")));
    lines.push(String::new());
    lines
}

/// Returns a row of the figures. An empty value is not known.
fn row(name: &str, values: [String; 2]) -> String {
    let [up, down] = values.map(|value| if value.is_empty() { "unknown".to_string() } else { value });
    format!("{name:24}{up:>22}{down:>22}")
}

/// Returns the report of a measurement by RFC 6349: its steps, and the three metrics of each test.
pub(super) fn rfc6349(path: &Document) -> String {
    let figures = Figure::all(path);
    let shown = |key: &str| {
        let figure = figures.iter().find(|figure| figure.key == key);
        let of = |way| figure.map(|figure| figure.shown(way)).filter(|value| !value.is_empty());
        Direction::ALL.map(|way| of(way).unwrap_or("unknown".into()))
    };
    let both = |key| format!("{} down", shown(key).join(" up, "));
    let product = path.bdp_bytes.map_or("unknown".into(), |bytes| format!("{}{bytes} bytes", path.least()));
    let mut lines = vec![
        String::new(),
        "RFC 6349".into(),
        format!("1. path MTU: {}", both("path_mtu")),
        format!("2. baseline round trip: {}", shown("rtt_ms")[0]),
        format!("3. bottleneck bandwidth: {}", both("rate_mbps")),
        format!("4. bandwidth-delay product, and least window: {product}"),
        "5. TCP tests".into(),
        format!(
            "   {:<5} {:>11} {:<8} {:>14} {:>11} {:>10} {:>12}",
            "", "connections", "control", "rate", "time ratio", "efficiency", "buffer delay"
        ),
    ];
    lines.extend(path.runs.iter().filter_map(|run| {
        let (ratio, efficiency) = (run.transfer_time_ratio?, 100.0 * run.tcp_efficiency?);
        let (delay, rate) = (100.0 * run.buffer_delay?, rate(run.payload_mbps));
        let (way, count, control) = (run.direction.name(), run.connections, &run.congestion);
        Some(format!(
            "   {way:<5} {count:>11} {control:<8} {rate:>14} {ratio:>11.2} {efficiency:>8.2} % {delay:>10.1} %"
        ))
    }));
    lines.join("\n") + "\n"
}
