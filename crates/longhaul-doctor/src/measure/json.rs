//! A measured path as one JSON document. docs/path.md has its fields.

use super::measured::{Ended, Found, Measured};
use super::session::{NO_ANSWER, Outcome};
use crate::first::cap_below;
use longhaul_core::advice::{End, Remedy};
use longhaul_core::path::diagnosis::Kind;
use longhaul_measure::message::Direction;
use serde_json::{Value, json};
use std::time::Duration;

/// Where a measurement came from.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// The command line that measured.
    pub(super) command: String,
    /// When it began, by the clock of this host in UTC (RFC 3339).
    pub(super) began: String,
    /// The name of this host.
    pub(super) host: String,
}

/// Returns the document.
pub(super) fn document(measured: &Measured, origin: &Origin) -> Value {
    let [up, down] = Direction::ALL;
    let both = |value: &dyn Fn(Direction) -> Value| json!({"up": value(up), "down": value(down)});
    let rate = |direction| measured.rate(direction);
    json!({
        "longhaul": "path",
        "format": 1,
        "command": origin.command,
        "version": env!("CARGO_PKG_VERSION"),
        "began": origin.began,
        "host": origin.host,
        "to": measured.to,
        "tunnel": measured.tunnel,
        "address": measured.address.map(|address| address.to_string()),
        "far": {"name": measured.name, "version": measured.version},
        "complete": measured.ended.is_none() && !measured.outcomes.is_empty(),
        "ended": ended(measured),
        "rtt_ms": {
            "min": measured.min_rtt().map(millis),
            "idle": measured.idle.iter().map(|rtt| millis(*rtt)).collect::<Vec<_>>(),
            "loaded_up": measured.loaded_rtt(up).map(millis),
            "loaded_down": measured.loaded_rtt(down).map(millis),
        },
        "idle_queue_ms": both(&|direction| json!(measured.idle_queue(direction).map(millis))),
        "connect_ms": millis(measured.connect),
        "rate_mbps": both(&|direction| json!(rate(direction).map(|(rate, _)| mbps(rate.0)))),
        "line_reached": both(&|direction| json!(rate(direction).map(|(_, is_reached)| is_reached))),
        "loss": both(&|direction| json!(measured.loss(direction))),
        "reordering": both(&|direction| json!(measured.lines[direction as usize].reordered())),
        "path_mtu": both(&|direction| json!(measured.ladder.path_mtu[direction as usize])),
        "mtu_ladder": both(&|direction| json!(measured.ladder.steps[direction as usize])),
        "fragments_arrive": both(&|direction| json!(measured.ladder.fragments[direction as usize])),
        "trains": both(&|direction| {
            let trains = measured.lines[direction as usize].trains.iter();
            json!(trains.map(|(sent, came, lost)| json!([mbps(sent.0), mbps(came.0), lost])).collect::<Vec<_>>())
        }),
        "uncut_mss": both(&|direction| json!(measured.uncut[direction as usize])),
        "mss": measured.mss,
        "bdp_bytes": measured.bandwidth_delay().map(|bytes| bytes.0),
        "findings": measured.findings().iter().map(|found| finding(measured, found)).collect::<Vec<_>>(),
        "runs": measured.outcomes.iter().map(|outcome| run(measured, outcome)).collect::<Vec<_>>(),
        "notes": measured.notes,
    })
}

fn ended(measured: &Measured) -> Value {
    match &measured.ended {
        None => Value::Null,
        Some(Ended::Interrupted) => "interrupted".into(),
        Some(Ended::Lost(why)) => why.clone().into(),
        Some(Ended::Died(_)) => NO_ANSWER.into(),
    }
}

fn finding(measured: &Measured, (direction, finding): &Found) -> Value {
    json!({
        "kind": finding.kind.name(),
        "leg": null,
        "direction": direction.name(),
        "evidence": finding.evidence,
        "what_if_mbps": finding.what_if.map(|rate| mbps(rate.0)),
        "then_limited_by": finding.then.map(|kind| kind.name()),
        "advice": advice(measured, *direction, finding.kind),
    })
}

/// Returns what to do about a limit of one direction; empty for one that is not known.
fn advice(measured: &Measured, direction: Direction, kind: Kind) -> String {
    let Some(remedy) = Remedy::of(kind) else { return String::new() };
    let is_here = (remedy.end == End::Sender) == (direction == Direction::Up);
    let host = if is_here { "this host" } else { "the far host" };
    let cap = measured.line_payload(direction).and_then(cap_below);
    let (first, relays) = remedy.sentences(host, measured.whole_mss(direction), cap);
    format!("{first} {relays}").trim_end().to_string()
}

fn run(measured: &Measured, outcome: &Outcome) -> Value {
    let Outcome { run, sender, receiver, series, .. } = outcome;
    let (last, metrics) = (sender.looks.last(), measured.metrics(outcome));
    json!({
        "transfer_time_ratio": metrics.map(|metrics| metrics.transfer_time_ratio),
        "tcp_efficiency": metrics.map(|metrics| metrics.efficiency),
        "buffer_delay": metrics.map(|metrics| metrics.buffer_delay),
        "direction": run.direction.name(),
        "connections": run.connections,
        "congestion": sender.congestion,
        "mss": sender.mss,
        "seconds": run.seconds,
        "payload_mbps": mbps(outcome.rate().0),
        "sent_bytes": sender.bytes,
        "received_bytes": receiver.bytes,
        "retransmitted_bytes": sender.retransmitted,
        "peer_window_bytes": last.map(|look| look.window),
        "cpu": sender.cpu.max(receiver.cpu),
        "throttled": sender.throttled.max(receiver.throttled),
        "peer_window": sender.looks.iter().map(|look| json!([look.at as f64 / 1e3, look.window])).collect::<Vec<_>>(),
        "series": series.iter().map(|(at, bytes)| json!([millis(*at), bytes])).collect::<Vec<_>>(),
        "rtt_ms": sender.looks.iter().map(|look| json!([look.at as f64 / 1e3, look.rtt as f64 / 1e3])).collect::<Vec<_>>(),
    })
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn mbps(bits: u64) -> f64 {
    (bits as f64 / 1e4).round() / 1e2
}
