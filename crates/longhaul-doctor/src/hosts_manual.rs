//! The parts of docs/hosts.md that come from the laws and the tables of advice.

use crate::page::table::grouped;
use crate::show::{speed, wrapped_to};
use longhaul_core::advice::{APPLICATIONS, Application, EVERY_HOST, Fill, Goal, SYSTEMS, Setting, System};
use longhaul_core::path::laws::packet::mss;
use longhaul_core::path::laws::{LossResponse, loss_rate, window_rate};
use longhaul_units::Bytes;
use std::time::Duration;

const DOCUMENT: &str = include_str!("../../../docs/hosts.md");

#[test]
fn docs_hosts_md_matches_the_tables() {
    let mut document = DOCUMENT.to_string();
    let systems = SYSTEMS.iter().map(|system| (system.name, section(system)));
    let others = [("rates", rates()), ("loss", losses()), ("programs", programs()), ("change", paragraph(EVERY_HOST))];
    for (name, text) in systems.chain(others) {
        let (begin, end) = (format!("<!-- begin of {name} -->\n"), format!("<!-- end of {name} -->"));
        let before = document.split_once(&begin).unwrap_or_else(|| panic!("{begin} is missing")).0;
        let after = document.split_once(&end).unwrap_or_else(|| panic!("{end} is missing")).1;
        document = format!("{before}{begin}\n{text}\n{end}{after}");
    }
    if std::env::var_os("UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hosts.md");
        return std::fs::write(file, document).unwrap();
    }
    assert!(document == DOCUMENT, "run UPDATE=1 cargo test -p longhaul-doctor --lib docs_hosts_md; read the diff");
}

/// Returns the rates that windows give: those of untouched hosts, and a few others.
fn rates() -> String {
    let systems = SYSTEMS.iter().filter(|system| system.has_window());
    let mut windows: Vec<(Bytes, String)> =
        systems.map(|system| (system.default_window, format!("{}, default", system.title))).collect();
    windows.push((Bytes(16 << 10), "AIX without values of the interface".into()));
    windows.push((Bytes(1 << 20), "AIX, as IBM advises for a WAN".into()));
    windows.extend(Application::named("ssh").and_then(|ssh| Some((ssh.window?, ssh.title.into()))));
    windows.sort();
    let line = |(window, who): &(Bytes, String)| {
        let cells = ROUND_TRIPS.map(|rtt| speed(window_rate(*window, rtt)));
        format!("| {} | {who} | {} |\n", grouped(window.0), cells.join(" | "))
    };
    let head = ROUND_TRIPS.map(longhaul_units::show_duration).join(" | ");
    let align = "---: | ".repeat(ROUND_TRIPS.len());
    let lines: String = windows.iter().map(line).collect();
    format!("| window in bytes | who has it | {head} |\n| ---: | --- | {}\n{lines}", align.trim_end())
}

/// Returns the rates that random loss allows over the round trip of the examples.
fn losses() -> String {
    let rate = |response, loss| loss_rate(response, mss(1500), RTT, loss).map(speed).unwrap_or_default();
    let line = |loss: f64| {
        let (reno, cubic) = (rate(LossResponse::Reno, loss), rate(LossResponse::Cubic, loss));
        format!("| {} % | {reno} | {cubic} |\n", loss * 100.0)
    };
    let lines: String = [0.0001, 0.001, 0.01].into_iter().map(line).collect();
    let who = |response| {
        let systems = SYSTEMS.iter().filter(|system| system.has_window() && system.response == response);
        systems.map(|system| system.title).collect::<Vec<_>>().join(", ")
    };
    let (reno, cubic) = (who(LossResponse::Reno), who(LossResponse::Cubic));
    format!("| random loss | Reno: {reno} | CUBIC: {cubic} |\n| ---: | ---: | ---: |\n{lines}")
}

/// Returns the programs with a window of their own, and those that were looked at and have none.
fn programs() -> String {
    let line = |program: &Application| {
        let (window, rate) = match program.window {
            Some(window) => (format!("{} bytes", grouped(window.0)), speed(window_rate(window, RTT))),
            None => ("that of TCP".into(), String::new()),
        };
        let mark = if program.verified { "" } else { " Unverified." };
        let what = format!("{} {}", program.what, program.remedy);
        format!("| {} | {window} | {rate} | {}{mark} |\n", program.title, what.trim_end())
    };
    let lines: String = APPLICATIONS.iter().map(line).collect();
    format!("| program | its window | MB/s at 63 ms | what to know, what to do |\n| --- | --- | ---: | --- |\n{lines}")
}

/// Returns what there is to know of one system, and how to read its settings.
fn section(system: &System) -> String {
    let is_tried = system.settings.iter().all(|row| row.verified);
    let mark = if is_tried { "" } else { "Unverified: nothing here was tried on such a host. " };
    let window = match system.has_window() {
        true => format!(
            "An untouched host has a window of {} bytes ({}). Its congestion control is {}. ",
            grouped(system.default_window.0),
            system.default_source,
            system.congestion
        ),
        false => String::new(),
    };
    let about = format!("{mark}{window}{}", system.note);
    let (wanted, left): (Vec<&Setting>, Vec<&Setting>) =
        system.settings.iter().partition(|row| GOALS.iter().any(|goal| (row.want)(goal).is_some()));
    let lines: String = wanted.into_iter().map(|row| line(system, row)).collect();
    let left: Vec<String> = left.into_iter().map(|row| format!("`{}`", row.name)).collect();
    let left = match left.is_empty() {
        true => String::new(),
        false => "\n".to_string() + &paragraph(&format!("Leave as they are: {}.", left.join(", "))),
    };
    let head = "| setting | default | read it with | what to know |\n| --- | --- | --- | --- |";
    format!("{}\n{head}\n{lines}{left}", paragraph(&about))
}

fn line(system: &System, row: &Setting) -> String {
    let (interface, network, gateway) = (system.interface, "NETWORK", "GATEWAY");
    let fill = Fill { value: "VALUE", old: "OLD", route: "ROUTE", interface, network, gateway };
    let read: Vec<String> = fill.into_command(row.read).split("; ").map(|command| format!("`{command}`")).collect();
    let other = if row.other_defaults.is_empty() { String::new() } else { format!("; {}", row.other_defaults) };
    let default = format!("`{}`{other}", row.default);
    let cells = [format!("`{}`", row.name), default, read.join(", "), row.caveat.to_string()];
    // A bar ends a cell, also inside a command.
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn paragraph(text: &str) -> String {
    wrapped_to(WIDTH, text, "", "")
}

/// The round trips of the table of rates: a LAN's, and those of long paths.
const ROUND_TRIPS: [Duration; 6] = [
    Duration::from_micros(500),
    Duration::from_millis(10),
    Duration::from_millis(30),
    RTT,
    Duration::from_millis(100),
    Duration::from_millis(200),
];
/// The round trip of the examples.
const RTT: Duration = Duration::from_millis(63);
/// A row that neither of these paths cares for is left out of the table.
const GOALS: [Goal; 2] = [
    Goal { window: Bytes(15_750_000), packet: 1500, is_packet_short: false, has_loss: false },
    Goal { window: Bytes(15_750_000), packet: 1294, is_packet_short: true, has_loss: true },
];
/// Columns of the prose of the manual.
const WIDTH: usize = 130;
