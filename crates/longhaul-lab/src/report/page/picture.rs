//! The picture of hosts, relays and the WAN between them.
//!
//! It consists of boxes in a row. A narrow screen stacks them, whereas an SVG would shrink its letters.

use crate::carrier::row::Role;
use crate::measure::sockets::Sender;
use crate::plan::setup::Topology;
use crate::report::json::Report;
use crate::report::path::PathReport;
use crate::report::run::RunReport;
use longhaul_doctor::page::Html;
use longhaul_doctor::page::table::grouped;

/// Writes the set-up of the first run as a picture, and the differences of the other runs.
pub(crate) fn draw(html: &mut Html, report: &Report) {
    let Some(first) = report.runs.first() else { return };
    row(html, report, &first.path);
    let mut others: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for run in &report.runs {
        let what = differences(&first.path, &run.path);
        let name = name(report, run);
        match others.iter_mut().find(|(other, _)| *other == what) {
            _ if what.is_empty() => {}
            Some((_, names)) if !names.contains(&name) => names.push(name),
            Some(_) => {}
            None => others.push((what, vec![name])),
        }
    }
    if others.is_empty() {
        return;
    }
    html.leaf("p", &[], "Differences of other runs:");
    html.node("ul", &[("class", "differences")], |html| {
        for (what, names) in others {
            html.node("li", &[], |html| {
                html.leaf("code", &[], &names.join(", "));
                html.text(&format!(": {}", what.join("; ")));
            });
        }
    });
}

fn row(html: &mut Html, report: &Report, path: &PathReport) {
    let is_short = path.topology == Topology::OneHop;
    let same = || report.runs.iter().filter(|run| run.path == *path);
    let host = same().find_map(|run| run.host_sender.as_ref());
    let relay = same().filter(|run| !run.is_direct()).filter_map(|run| Some((run, run.wan_sender.as_ref()?)));
    // Prefers longhaul among several carriers.
    let relay = relay.max_by_key(|(run, _)| run.has_role(Role::Longhaul));
    html.node("div", &[("class", if is_short { "path short" } else { "path" })], |html| {
        place(html, "host", "Host A", &path.hosts, host.map(in_force));
        cable(html);
        let relay = relay.map(|(run, sender)| format!("{} with {}", in_force(sender), run.carrier_name()));
        if is_short {
            place(html, "relay", "Relay", &path.relays, relay);
        } else {
            place(html, "relay", "Near relay", &path.relays, relay);
            wan(html, path);
            place(html, "relay", "Far relay", &[], Some("set as the near relay".into()));
        }
        cable(html);
        place(html, "host", "Host B", &[], Some("set as host A".into()));
    });
}

fn place(html: &mut Html, class: &str, title: &str, set: &[String], note: Option<String>) {
    html.node("div", &[("class", &format!("place {class}"))], |html| {
        html.leaf("b", &[], title);
        for line in set {
            html.leaf("div", &[], line);
        }
        if let Some(note) = note {
            html.leaf("div", &[("class", "note")], &note);
        }
    });
}

fn cable(html: &mut Html) {
    html.node("div", &[("class", "cable")], |html| html.leaf("span", &[], "LAN"));
}

fn wan(html: &mut Html, path: &PathReport) {
    html.node("div", &[("class", "place wan")], |html| {
        html.leaf("b", &[], "Emulated WAN");
        for stage in &path.wan {
            html.leaf("div", &[], stage);
        }
        for (stages, way) in [(&path.wan_out, "A → B"), (&path.wan_back, "B → A")] {
            for stage in stages {
                html.leaf("div", &[], &format!("{way}: {stage}"));
            }
        }
    });
}

/// Returns a clause about a sender's window and congestion control, from its TCP_INFO.
fn in_force(sender: &Sender) -> String {
    let window = grouped(sender.window.min(sender.allowed).0);
    format!("measured: {window} bytes in force, {}", sender.congestion)
}

/// Returns the name of the run's figure. Adds the carrier if its set-up differs from the figure's first run.
fn name(report: &Report, run: &RunReport) -> String {
    let first = report.runs.iter().find(|other| other.id == run.id);
    match first.is_some_and(|first| first.path == run.path) {
        true => run.id.clone(),
        false => format!("{} over {}", run.id, run.carrier_name()),
    }
}

/// Returns the settings that `other` has and `first` has not.
fn differences(first: &PathReport, other: &PathReport) -> Vec<String> {
    let mut what = Vec::new();
    if first.topology != other.topology {
        let hosts = match other.topology {
            Topology::OneHop => "one relay, no WAN",
            Topology::Wan => "two relays and a WAN",
        };
        what.push(hosts.to_string());
    }
    let parts = [
        ("hosts", &first.hosts, &other.hosts),
        ("relays", &first.relays, &other.relays),
        ("WAN", &first.wan, &other.wan),
        ("WAN, A → B", &first.wan_out, &other.wan_out),
        ("WAN, B → A", &first.wan_back, &other.wan_back),
    ];
    for (title, first, other) in parts {
        let mut news: Vec<String> = other.iter().filter(|line| !first.contains(line)).cloned().collect();
        let is_negative = |line: &&String| line.starts_with("no ");
        // A feature that the first run has switched off and the other has on is a difference too.
        news.extend(
            first.iter().filter(|line| !other.contains(line)).filter(is_negative).map(|line| line[3..].to_string()),
        );
        if !news.is_empty() {
            what.push(format!("{title}: {}", news.join(", ")));
        }
    }
    what
}
