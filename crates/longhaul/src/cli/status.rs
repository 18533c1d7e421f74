//! `longhaul status`: the state of a running daemon, for people, for programs and for Nagios.

use super::control::{Target, failed};
use super::{BROKEN, DOUBTFUL, UNKNOWN, print, systemd};
use clap::Args;
use longhaul::admin::client::{Ask, NoAnswer};
use longhaul::admin::figures::{FLOWS, Figure, HOPS, StatusColumn, TUNNELS, verify_state};
use longhaul::admin::snapshot::{
    FlowState, Health, LegState, Problem, ResourceState, Snapshot, TunnelState, VerifyState, VerifyStateName,
};
use longhaul::admin::verdict::{Verdict, Words};
use longhaul::control::Phase;
use longhaul::figures::{age, bytes, count, rtt};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// The flags of `longhaul status`.
#[derive(Args)]
pub(super) struct StatusFlags {
    #[command(flatten)]
    target: Target,
    /// Print the JSON document of /status.json
    ///
    /// docs/admin.md describes its fields.
    #[arg(long)]
    json: bool,
    /// Print one line for Nagios
    ///
    /// Exit codes: 0 OK, the daemon is ready. 1 WARNING, it is ready, but a tunnel may not serve new flows. 2 CRITICAL, there is no daemon,
    /// it does not accept connections, or a tunnel cannot serve new flows. 3 UNKNOWN, for example because of a missing right.
    #[arg(long, conflicts_with = "json")]
    nagios: bool,
}

/// Prints the state of the daemon.
pub(super) fn status(flags: &StatusFlags) -> ExitCode {
    let answer = flags.target.ask(Ask::Status);
    if flags.nagios {
        let (line, code) = nagios(answer, &flags.target);
        print(&format!("longhaul {line}\n"));
        return ExitCode::from(code);
    }
    match answer {
        Ok(bytes) if flags.json => print(&String::from_utf8_lossy(&bytes)),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(snapshot) => {
                print(&text(&snapshot, if io::stdout().is_terminal() { FLOWS_ON_A_TERMINAL } else { usize::MAX }))
            }
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
    let (flows, mut more) = (snapshot.counters.flows_now as usize, String::new());
    for problem in &snapshot.problems {
        more += &format!("; {}", one_line(&problem_line(problem, &snapshot)));
    }
    // The bar separates the figures that Nagios keeps.
    let more = more.replace('|', "/");
    match snapshot.phase {
        Phase::Serving => {
            let (word, code) = match Verdict::of(&snapshot).health {
                Health::Broken => ("CRITICAL", BROKEN),
                Health::Doubtful | Health::Stalled => ("WARNING", DOUBTFUL),
                Health::Good | Health::Waiting | Health::Unknown | Health::Failing => ("OK", 0),
            };
            let tunnels = count(snapshot.tunnels.len(), "tunnel");
            (format!("{word} - {tunnels}, {}{more} | flows={flows}", count(flows, "flow")), code)
        }
        phase @ (Phase::Draining | Phase::Stopping) => {
            let line = format!("CRITICAL - {}, {} left{more} | flows={flows}", phase.text(), count(flows, "flow"));
            (line, BROKEN)
        }
    }
}

fn no_daemon(err: &NoAnswer, target: &Target) -> String {
    match target.is_the_service().then(systemd::state_of_the_unit).flatten() {
        Some(unit) => format!("{err}: {unit}"),
        None => err.to_string(),
    }
}

/// Returns the state as text: whether it is whole, the problems, a line about the process, then tables of tunnels, next hops,
/// resources and flows. At most `shown` flows, the oldest.
fn text(snapshot: &Snapshot, shown: usize) -> String {
    let Snapshot { version, pid, tunnels, flows, .. } = snapshot;
    let phase = match snapshot.phase {
        Phase::Serving => "serving",
        Phase::Draining => "draining: `longhaul drain --undo` ends that",
        Phase::Stopping => "stopping: it ends with its last flow",
    };
    let up = age(snapshot.uptime_seconds);
    let lasting = |since| format!("for {}", age(snapshot.unix_seconds - since));
    let mut text = format!("{}\n", Verdict::of(snapshot).line(lasting));
    for problem in &snapshot.problems {
        text += &format!("{}: {}\n", Words::of(problem.health).problem, problem_line(problem, snapshot));
    }
    text += &format!("longhaul {version}, pid {pid}, up {up}, {phase}\n");
    text.extend(snapshot.cap.iter().map(|cap| format!("all tunnels: {cap}\n")));
    text.extend(snapshot.path_lines().iter().map(|line| format!("{line}\n")));
    text += &table(tunnel_lines(snapshot));
    text += &table(hop_lines(tunnels));
    text += &resources(&snapshot.resources);
    if !flows.is_empty() {
        text += &table(flow_lines(&flows[..shown.min(flows.len())]));
    }
    if flows.len() > shown {
        let rest = count(flows.len() - shown, "flow");
        text += &format!("not shown: {rest}; see longhaul top, or longhaul status | less\n");
    }
    text
}

/// Returns the headings and the cells that `figures` have for `rows`. A column that may be left out is so while every cell of it is
/// empty.
fn lines<T>(figures: &'static [Figure<T>], rows: &[T]) -> Vec<Vec<String>> {
    let column = |figure: &'static Figure<T>| {
        let column = figure.status.as_ref()?;
        let is_shown = column.max_chars.is_none() || rows.iter().any(|row| figure.cell(row).is_some());
        is_shown.then_some((figure, column))
    };
    let columns: Vec<_> = figures.iter().filter_map(column).collect();
    let head = columns.iter().map(|(_, column)| column.heading.to_owned()).collect();
    let cell = |(figure, column): &(&Figure<T>, &StatusColumn), row| short(&figure.cell_or_dash(row), column.max_chars);
    let line = |row| columns.iter().map(|column| cell(column, row)).collect();
    std::iter::once(head).chain(rows.iter().map(line)).collect()
}

/// Returns the lines of tunnels, with the results of the daemon's own probes if there are any.
fn tunnel_lines(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let mut lines = lines(&TUNNELS, &snapshot.tunnels);
    if snapshot.tunnels.iter().any(|tunnel| tunnel.verify.is_some()) {
        let cell =
            |tunnel: &TunnelState| tunnel.verify.as_ref().map_or("-".into(), |verify| verified(verify, snapshot));
        let cells = std::iter::once("verified".into()).chain(snapshot.tunnels.iter().map(cell));
        lines.iter_mut().zip(cells).for_each(|(line, cell)| line.push(cell));
    }
    lines
}

/// Returns the lines of next hops, each with the name of its tunnel.
fn hop_lines(tunnels: &[TunnelState]) -> Vec<Vec<String>> {
    let of = |tunnel: &TunnelState| {
        let with_name = |line: Vec<String>| [vec![tunnel.name.clone()], line].concat();
        lines(&HOPS, &tunnel.next_hops).into_iter().skip(1).map(with_name).collect::<Vec<_>>()
    };
    let head = lines(&HOPS, &[]).into_iter().map(|head| [vec!["tunnel".into()], head].concat());
    head.chain(tunnels.iter().flat_map(of)).collect()
}

/// Returns the state by the daemon's own probes and its age, and why there is no newer result: `BROKEN at the WAN: no answer,
/// for 2m05s`.
fn verified(verify: &VerifyState, snapshot: &Snapshot) -> String {
    let now = snapshot.unix_seconds;
    let since = age(now - verify.since_unix_seconds);
    let late = verify.lateness(now);
    match verify.state {
        VerifyStateName::Pending => format!("no result yet{late}"),
        VerifyStateName::Whole => format!("whole, for {since}{late}"),
        VerifyStateName::Broken => {
            let [stage, cause] = [&verify.stage, &verify.cause].map(|text| text.as_deref().unwrap_or_default());
            format!("{} at the {stage}: {cause}, for {since}{late}", verify_state(verify))
        }
    }
}

/// Returns the table of resources, and below it the limits that are low. A resource that is nearly used up is among the
/// problems.
fn resources(resources: &[ResourceState]) -> String {
    if resources.is_empty() {
        return String::new();
    }
    let head = ["resource", "in use", "limit", ""].map(String::from).to_vec();
    let mut text = table(std::iter::once(head).chain(resources.iter().map(resource_line)).collect());
    for state in resources.iter().filter(|state| state.near_since_unix_seconds.is_none()) {
        if let (Some(warning), Some(remedy)) = (&state.warning, &state.remedy) {
            text += &format!("{}: {warning}; {remedy}\n", state.name);
        }
    }
    text
}

fn resource_line(resource: &ResourceState) -> Vec<String> {
    let ResourceState { name, used, limit, unit, detail, .. } = resource;
    let amount = |number: &f64| match unit.as_str() {
        "bytes" => bytes(*number as u64),
        "CPUs" => format!("{number:.2} CPUs"),
        unit => format!("{number:.0} {unit}"),
    };
    let share = match (used, limit) {
        (Some(used), Some(limit)) if *limit > 0.0 => Some(format!("{:.0} %", 100.0 * used / limit)),
        (None, None) => detail.clone(),
        _ => None,
    };
    let cell = |number: &Option<f64>| number.as_ref().map_or_else(|| "-".into(), amount);
    vec![name.clone(), cell(used), cell(limit), share.unwrap_or_default()]
}

/// Returns a problem and its age: `tunnel t, next hop, for 2m05s: b:1 is down by its checks`.
fn problem_line(problem: &Problem, snapshot: &Snapshot) -> String {
    let age = age(snapshot.unix_seconds - problem.since_unix_seconds);
    format!("{}, for {age}: {}", problem.place(), problem.what)
}

/// Returns the lines of flows, each with a few words about its legs.
fn flow_lines(flows: &[FlowState]) -> Vec<Vec<String>> {
    let mut lines = lines(&FLOWS, flows);
    let cell = |of: &Option<LegState>| of.as_ref().map_or_else(|| "-".into(), leg);
    let cells = flows.iter().map(|flow| [cell(&flow.accept), cell(&flow.dial)]);
    let cells = std::iter::once(["accept leg", "dial leg"].map(String::from)).chain(cells);
    lines.iter_mut().zip(cells).for_each(|(line, cells)| line.extend(cells));
    lines
}

/// Returns a leg in a few words: `63.1ms, cwnd 120, bbr`.
fn leg(leg: &LegState) -> String {
    let mut parts = Vec::new();
    parts.extend(leg.rtt_ms.map(rtt));
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

/// Returns `text` without line ends.
fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a text with more than `max_chars` characters. The JSON has all of it.
fn short(text: &str, max_chars: Option<usize>) -> String {
    match max_chars.and_then(|max| text.char_indices().nth(max)) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into(),
    }
}

/// Number of flows that fit a terminal together with the lines above them. More would scroll the first line away.
const FLOWS_ON_A_TERMINAL: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::admin::snapshot::{Health, HopState};

    #[test]
    fn the_text_has_a_line_for_each_tunnel_and_flow() {
        let tunnel = TunnelState {
            name: "ssh-to-b".into(),
            listen: "10.0.0.1:6000".into(),
            listening: true,
            next_hops: vec![HopState {
                next_hop: "b:1".into(),
                rtt_ms: Some(63.04),
                state_seconds: 61.0,
                ..HopState::default()
            }],
            flows_now: 1,
            verify: Some(VerifyState {
                state: VerifyStateName::Broken,
                health: Health::Broken,
                since_unix_seconds: 31.0,
                stage: Some("WAN".into()),
                cause: Some("no answer".into()),
                ..VerifyState::default()
            }),
            ..TunnelState::default()
        };
        let problem = Problem {
            tunnel: Some("ssh-to-b".into()),
            stage: "next hop".into(),
            what: "b:1 is down".into(),
            since_unix_seconds: 1.0,
            health: Health::Broken,
            ..Problem::default()
        };
        let flow = FlowState {
            flow: 7,
            tunnel: "ssh-to-b".into(),
            peer: "10.0.0.9:5".into(),
            dial: Some(LegState {
                rtt_ms: Some(63.2),
                cwnd_segments: 120,
                retrans_bytes: 1448,
                congestion: Some("bbr".into()),
                ..LegState::default()
            }),
            ..FlowState::default()
        };
        let snapshot = Snapshot {
            version: "1.2.3".into(),
            uptime_seconds: 61.0,
            unix_seconds: 61.0,
            problems: vec![problem],
            tunnels: vec![tunnel],
            flows: vec![flow],
            ..Snapshot::default()
        };
        let want = "NOT WHOLE for 1m00s: tunnel ssh-to-b, next hop\n\
                    BROKEN: tunnel ssh-to-b, next hop, for 1m00s: b:1 is down\n\
                    longhaul 1.2.3, pid 0, up 1m01s, serving\n\n\
                    tunnel    listens on     flows  refused  verified\nssh-to-b  10.0.0.1:6000  1      0        BROKEN at the WAN: no answer, for 30s\n\n\
                    tunnel    next hop  state  state age  flows  handshake  failed dials  failing\n\
                    ssh-to-b  b:1       up     1m01s      0      63.0ms     0             -\n\n\
                    flow  tunnel    client      next hop  state     age  up  down  limited by  accept leg  dial leg\n\
                    7     ssh-to-b  10.0.0.9:5  -         dialling  0s   0B  0B    -           -           63.2ms, cwnd 120, retrans 1.45kB, bbr\n";
        assert_eq!(text(&snapshot, 1), want);
    }

    #[test]
    fn the_command_of_an_ftp_data_connection_has_a_column_if_a_flow_has_one() {
        let flow = |transfer: Option<&str>| FlowState { transfer: transfer.map(Into::into), ..FlowState::default() };
        let cells = |flows: &[FlowState]| -> Vec<Vec<String>> {
            flow_lines(flows).into_iter().map(|line| line[3..6].to_vec()).collect()
        };
        let flows = [flow(None), flow(Some("RETR a.iso"))];
        assert_eq!(
            cells(&flows),
            [["next hop", "ftp", "state"], ["-", "-", "dialling"], ["-", "RETR a.iso", "dialling"]]
        );
        let long = flow(Some(&format!("STOR {}", "ä".repeat(200))));
        assert_eq!(cells(&[long])[1][1], format!("STOR {}..", "ä".repeat(27)));
        assert_eq!(cells(&flows[..1]), [["next hop", "state", "age"], ["-", "dialling", "0s"]]);
    }

    #[test]
    fn a_tunnel_without_a_newer_result_says_why_and_the_age_of_the_last() {
        let snapshot = Snapshot { unix_seconds: 1000.0, ..Snapshot::default() };
        let whole = VerifyState {
            state: VerifyStateName::Whole,
            since_unix_seconds: 100.0,
            last_unix_seconds: Some(990.0),
            ..VerifyState::default()
        };
        let hindered = VerifyState { no_newer: Some("no flow is free".into()), ..whole.clone() };
        let why = Some("the next probe is overdue".into());
        let overdue = VerifyState { last_unix_seconds: Some(900.0), no_newer: why, ..whole.clone() };
        let pending = VerifyState { state: VerifyStateName::Pending, last_unix_seconds: None, ..hindered.clone() };
        let (stage, cause) = (Some("WAN".into()), Some("refused".into()));
        let broken = VerifyState { state: VerifyStateName::Broken, stage, cause, ..hindered.clone() };
        let said = [whole, hindered, overdue, pending, broken].map(|verify| verified(&verify, &snapshot));
        let want = [
            "whole, for 15m00s",
            "whole, for 15m00s; last result 10s ago, no newer one: no flow is free",
            "whole, for 15m00s; last result 1m40s ago, no newer one: the next probe is overdue",
            "no result yet: no flow is free",
            "broken at the WAN: refused, for 15m00s; last result 10s ago, no newer one: no flow is free",
        ];
        assert_eq!(said, want);
    }

    #[test]
    fn a_terminal_gets_the_oldest_flows_and_the_number_of_the_others() {
        let flow = |flow| FlowState { flow, peer: format!("10.0.0.9:{flow}"), ..FlowState::default() };
        let text = text(&Snapshot { flows: vec![flow(1), flow(2), flow(3)], ..Snapshot::default() }, 1);
        assert!(text.contains("10.0.0.9:1") && !text.contains("10.0.0.9:2"), "{text}");
        assert!(text.ends_with("\nnot shown: 2 flows; see longhaul top, or longhaul status | less\n"), "{text}");
    }

    #[test]
    fn resources_are_a_table_and_low_limits_are_told_below() {
        let resource = |name: &str, used, limit, unit: &str| ResourceState {
            name: name.into(),
            used,
            limit,
            unit: unit.into(),
            ..ResourceState::default()
        };
        let controls =
            ResourceState { detail: Some("reno cubic".into()), ..resource("congestion controls", None, None, "") };
        let wmem = ResourceState {
            warning: Some("too small".into()),
            remedy: Some("sysctl".into()),
            ..resource("tcp_wmem", None, Some(4_194_304.0), "bytes")
        };
        let near = ResourceState { near_since_unix_seconds: Some(1.0), ..wmem.clone() };
        let all = [
            resource("descriptors", Some(210.0), Some(256.0), "descriptors"),
            resource("cpu", Some(0.125), Some(2.0), "CPUs"),
            resource("pipe pages", Some(16.0), None, "pages"),
            controls,
            ResourceState { warning: None, ..near },
            wmem,
        ];
        let want = "\n\
            resource             in use           limit\n\
            descriptors          210 descriptors  256 descriptors  82 %\n\
            cpu                  0.12 CPUs        2.00 CPUs        6 %\n\
            pipe pages           16 pages         -\n\
            congestion controls  -                -                reno cubic\n\
            tcp_wmem             -                4.19MB\n\
            tcp_wmem             -                4.19MB\n\
            tcp_wmem: too small; sysctl\n";
        assert_eq!(resources(&all), want);
        assert_eq!(resources(&[]), "");
    }
}
