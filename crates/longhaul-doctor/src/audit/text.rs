//! The audit for a terminal, in lines of at most 80 columns where commands allow it.

use super::finding::{Audited, Finding};
use super::host::{Count, MAX_RANGES};
use super::migration;
use super::reader::WHOLE_SYSTEM;
use crate::path::Path;
use crate::show::{about, command, speed, unverified, wrapped};
use longhaul_core::advice::Effect;
use std::fmt::Write as _;

/// Returns the report: the path, the table of several hosts, and each host.
pub(super) fn text(path: &Path, hosts: &[Audited]) -> String {
    let mut text = wrapped(&format!("Path: {path}"), "", "  ");
    text += &wrapped(&format!("It carries {} MB/s of payload at best.", speed(path.goodput())), "", "");
    if hosts.len() > 1 {
        let _ = write!(text, "\n{}", migration::text(hosts));
    }
    hosts.iter().for_each(|audited| {
        let _ = write!(text, "\n{}", host(audited));
    });
    text
}

fn host(audited: &Audited) -> String {
    let host = &audited.host;
    let guess = if host.is_guess { "a guess; --os sets it" } else { "given" };
    let mut text = format!("{}: {} ({guess})\n", host.name, host.system.title);
    text += &row("understood", &lines(&host.lines));
    text += &row("window", &window(audited));
    text += &row("rate now", &rate_now(audited));
    if audited.window.is_some() {
        text += &row("tuned", &format!("{} MB/s", speed(audited.tuned)));
        text += &row("relay", &format!("{} MB/s, with the host as it is", speed(audited.relay)));
    }
    if audited.findings.is_empty() && audited.window.is_some() {
        text += &row("findings", "none: nothing that is shown limits this host on this path");
    }
    text += &order(audited);
    for (number, finding) in audited.findings.iter().enumerate() {
        text += &self::finding(number + 1, finding);
    }
    if audited.findings.iter().any(|finding| finding.change.is_some()) {
        text += &format!("\n{}", about("note", host.system.note));
    }
    text
}

fn row(name: &str, text: &str) -> String {
    wrapped(&format!("{name:<10}  {text}"), "  ", &" ".repeat(14))
}

/// Returns which change has to come before the others, where the findings are not in that order.
fn order(audited: &Audited) -> String {
    let mut changes = audited.findings.iter().filter(|finding| finding.change.is_some());
    match changes.position(|finding| finding.row.is_some_and(|row| row.effect == Effect::Ceiling)) {
        Some(1..) => row("first", "change what caps the others, although it costs less by itself: see its note"),
        _ => String::new(),
    }
}

/// Returns which lines were understood: `lines 1-4, 7 (5 lines), 30 ignored`.
fn lines(count: &Count) -> String {
    let range = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let ranges: Vec<String> = count.ranges.iter().map(range).collect();
    let more = if count.ranges.len() == MAX_RANGES { " .." } else { "" };
    let understood = if count.understood == 1 { "1 line".into() } else { format!("{} lines", count.understood) };
    format!("{understood} ({}{more}), {} ignored", ranges.join(", "), count.ignored)
}

/// Returns the window with the settings that set it, or what to paste.
fn window(audited: &Audited) -> String {
    let paste = audited.host.facts.missing.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ");
    let Some(window) = audited.window else {
        return match paste.is_empty() {
            true => "not known: this system's pastes do not show one".into(),
            false => format!("not known; paste also {paste}"),
        };
    };
    let caps: Vec<String> = audited.lowest().map(|cap| format!("{} {}", cap.setting, at(&cap.place))).collect();
    let mut text = format!("{} bytes: {}", window.0, caps.join(", "));
    if !paste.is_empty() {
        let _ = write!(text, ". It may be smaller: paste also {paste}");
    }
    text
}

fn rate_now(audited: &Audited) -> String {
    match audited.now {
        Some((rate, limit)) => format!("{} MB/s, limited by {}", speed(rate), limit.words()),
        None => "not known without the window".into(),
    }
}

/// Returns a finding with its commands.
fn finding(number: usize, finding: &Finding) -> String {
    let effect = match finding.effect {
        Some(effect) if effect.0 > 0 => format!("costs {} MB/s", speed(effect)),
        Some(_) => "costs no rate".into(),
        None => "costs rate, by how much cannot be computed".into(),
    };
    let (setting, value, place) = (finding.setting, &finding.value, at(&finding.place));
    let mut text = format!("\n{number}. {setting} is {value} {place}: {effect}\n");
    text += &about("what", finding.what);
    if let Some(change) = &finding.change {
        text += &about("want", &change.want);
        text += &command("now", &change.set_now);
        text += &command("permanent", &change.set_permanent);
        text += &command("undo", &change.undo);
    }
    let Some(row) = finding.row else { return text };
    let source = format!("{}{}", row.source, unverified(row.verified));
    text + &about("note", row.caveat) + &about("source", &source)
}

fn at(place: &str) -> String {
    if place == WHOLE_SYSTEM { "(whole system)".into() } else { format!("({place})") }
}
