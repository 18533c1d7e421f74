//! `longhaul status`: the state of a running daemon, for people, for programs and for Nagios.

use super::control::{Target, failed};
use super::{print, systemd};
use clap::Args;
use longhaul::admin::client::{Ask, NoAnswer};
use longhaul::admin::snapshot::{FlowState, FlowStateName, LegState, PhaseName, Snapshot, TunnelState};
use std::process::ExitCode;

/// The flags of `longhaul status`.
#[derive(Args)]
pub(super) struct Flags {
    #[command(flatten)]
    target: Target,
    /// Print the JSON document of /status.json
    ///
    /// docs/admin.md describes its fields.
    #[arg(long)]
    json: bool,
    /// Print one line for Nagios
    ///
    /// Exits with 0 if the daemon accepts connections, with 2 if it does not or if there is no daemon, and with 3 if that cannot
    /// be told, for example because of a missing right.
    #[arg(long, conflicts_with = "json")]
    nagios: bool,
}

/// Prints the state of the daemon.
pub(super) fn status(flags: &Flags) -> ExitCode {
    let answer = flags.target.ask(Ask::Status);
    if flags.nagios {
        let (line, code) = nagios(answer, &flags.target);
        print(&format!("longhaul {line}\n"));
        return ExitCode::from(code);
    }
    match answer {
        Ok(bytes) if flags.json => print(&String::from_utf8_lossy(&bytes)),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(snapshot) => print(&text(&snapshot)),
            Err(err) => failed(&format!("error: the daemon's answer: {err}")),
        },
        Err(err @ NoAnswer::NoDaemon(_)) => failed(&no_daemon(&err, &flags.target)),
        Err(err) => failed(&format!("error: {err}")),
    }
}

/// Returns the line for Nagios, and the exit code.
fn nagios(answer: Result<Vec<u8>, NoAnswer>, target: &Target) -> (String, u8) {
    let bytes = match answer {
        Ok(bytes) => bytes,
        Err(err @ NoAnswer::NoDaemon(_)) => return (format!("CRITICAL - {}", no_daemon(&err, target)), BROKEN),
        Err(NoAnswer::Hangs(why)) => return (format!("CRITICAL - {why}"), BROKEN),
        Err(err) => return (format!("UNKNOWN - {}", one_line(&err.to_string())), UNKNOWN),
    };
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(&bytes) else {
        return ("UNKNOWN - the daemon's answer is no status".into(), UNKNOWN);
    };
    let (flows, mut more) = (snapshot.counters.flows_now, String::new());
    if let Some(why) = &snapshot.reload_refused {
        more = format!(", reload refused: {}", one_line(why));
    }
    // The bar separates the figures that Nagios keeps.
    let more = more.replace('|', "/");
    let leaving = |how: &str| format!("CRITICAL - {how}, {} left{more} | flows={flows}", count(flows, "flow"));
    match snapshot.phase {
        PhaseName::Serving => (
            format!("OK - {}, {}{more} | flows={flows}", count(snapshot.tunnels.len(), "tunnel"), count(flows, "flow")),
            0,
        ),
        PhaseName::Draining => (leaving("draining"), BROKEN),
        PhaseName::Stopping => (leaving("stopping"), BROKEN),
    }
}

fn no_daemon(err: &NoAnswer, target: &Target) -> String {
    match target.is_the_service().then(systemd::state_of_the_unit).flatten() {
        Some(unit) => format!("{err}: {unit}"),
        None => err.to_string(),
    }
}

/// Returns the state as text: a line about the process, then a table of tunnels and one of flows.
fn text(snapshot: &Snapshot) -> String {
    let Snapshot { version, pid, tunnels, flows, .. } = snapshot;
    let phase = match snapshot.phase {
        PhaseName::Serving => "serving",
        PhaseName::Draining => "draining: `longhaul drain --undo` ends that",
        PhaseName::Stopping => "stopping: it ends with its last flow",
    };
    let up = age(snapshot.uptime_seconds);
    let mut text = format!("longhaul {version}, pid {pid}, up {up}, {phase}\n");
    if let Some(why) = &snapshot.reload_refused {
        text += &format!("the last reload was refused: {why}\n");
    }
    let head = ["tunnel", "listens on", "dials", "flows"].map(String::from).to_vec();
    text += &table(std::iter::once(head).chain(tunnels.iter().map(tunnel_line)).collect());
    if !flows.is_empty() {
        let head = ["flow", "tunnel", "client", "next hop", "state", "age", "up", "down", "accept leg", "dial leg"];
        let head = head.map(String::from).to_vec();
        text += &table(std::iter::once(head).chain(flows.iter().map(flow_line)).collect());
    }
    text
}

fn tunnel_line(tunnel: &TunnelState) -> Vec<String> {
    let listen = if tunnel.listening { tunnel.listen.clone() } else { format!("({})", tunnel.listen) };
    vec![tunnel.name.clone(), listen, tunnel.to.join(","), tunnel.flows_now.to_string()]
}

fn flow_line(flow: &FlowState) -> Vec<String> {
    let state = match flow.state {
        FlowStateName::Dialling => "dialling",
        FlowStateName::Open => "open",
        FlowStateName::AcceptHalfClosed => "client done",
        FlowStateName::DialHalfClosed => "next hop done",
        FlowStateName::Closing => "closing",
        FlowStateName::Ended => "ended",
    };
    vec![
        flow.flow.to_string(),
        flow.tunnel.clone(),
        flow.peer.clone(),
        flow.next_hop_address.map_or_else(|| "-".into(), |address| address.to_string()),
        state.into(),
        age(flow.age_seconds),
        bytes(flow.up_bytes),
        bytes(flow.down_bytes),
        flow.accept.as_ref().map_or_else(|| "-".into(), leg),
        flow.dial.as_ref().map_or_else(|| "-".into(), leg),
    ]
}

/// Returns a leg in a few words: `63.1 ms, cwnd 120, bbr`.
fn leg(leg: &LegState) -> String {
    let mut parts = Vec::new();
    parts.extend(leg.rtt_ms.map(|rtt| format!("{rtt:.1} ms")));
    parts.push(format!("cwnd {}", leg.cwnd_segments));
    if leg.retrans_bytes > 0 {
        parts.push(format!("retrans {}", bytes(leg.retrans_bytes)));
    }
    parts.extend(leg.congestion.clone());
    parts.join(", ")
}

/// Returns `rows` with aligned columns, after an empty line. The last column is not padded.
fn table(rows: Vec<Vec<String>>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::from("\n");
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Returns a number of bytes with three digits: `1.23 GB`.
fn bytes(number: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(size, _)| number as f64 >= *size) {
        Some((size, unit)) => format!("{:.2} {unit}", number as f64 / size),
        None => format!("{number} B"),
    }
}

/// Returns a time with its two largest units: `2h 3min`.
fn age(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}min {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}min"),
        _ => format!("{days}d {hours}h"),
    }
}

fn count(number: impl TryInto<u64>, what: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns `text` without line ends.
fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

/// Exit code of a Nagios check that found something broken.
const BROKEN: u8 = 2;
/// Exit code of a Nagios check that cannot tell.
const UNKNOWN: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 999, 1000, 123_456_789].map(bytes), ["0 B", "999 B", "1.00 kB", "123.46 MB"]);
        assert_eq!([0.4, 59.9, 61.0, 7380.0, 90_000.0].map(age), ["0s", "59s", "1min 1s", "2h 3min", "1d 1h"]);
        assert_eq!(age(f64::NAN), "0s");
    }

    #[test]
    fn the_text_has_a_line_for_each_tunnel_and_flow() {
        let tunnel = TunnelState {
            name: "ssh-to-b".into(),
            listen: "10.0.0.1:6000".into(),
            listening: true,
            to: vec!["b:1".into()],
            flows_now: 1,
        };
        let dial = LegState {
            rtt_ms: Some(63.2),
            cwnd_segments: 120,
            retrans_bytes: 1448,
            congestion: Some("bbr".into()),
            local: None,
        };
        let flow = FlowState {
            flow: 7,
            tunnel: "ssh-to-b".into(),
            peer: "10.0.0.9:5".into(),
            dial: Some(dial),
            ..FlowState::default()
        };
        let snapshot = Snapshot {
            version: "1.2.3".into(),
            pid: 42,
            uptime_seconds: 61.0,
            reload_refused: Some("line 7".into()),
            tunnels: vec![tunnel],
            flows: vec![flow],
            ..Snapshot::default()
        };
        let want = "longhaul 1.2.3, pid 42, up 1min 1s, serving\nthe last reload was refused: line 7\n\n\
                    tunnel    listens on     dials  flows\nssh-to-b  10.0.0.1:6000  b:1    1\n\n\
                    flow  tunnel    client      next hop  state     age  up   down  accept leg  dial leg\n\
                    7     ssh-to-b  10.0.0.9:5  -         dialling  0s   0 B  0 B   -           63.2 ms, cwnd 120, retrans 1.45 kB, bbr\n";
        assert_eq!(text(&snapshot), want);
    }
}
