//! The audit for a terminal, in lines of at most 80 columns where commands allow it.

use super::change::Change;
use super::finding::{Audited, Finding};
use super::host::{Count, MAX_RANGES};
use super::migration;
use super::reader::WHOLE_SYSTEM;
use crate::first::First;
use crate::path::Path;
use crate::predict::Limit;
use crate::show::{about, command, speed, unverified, wrapped};
use longhaul_core::advice::EVERY_HOST;
use std::fmt::Write as _;

/// Returns the report: the path, the table of several hosts, and each host.
pub(super) fn text(path: &Path, first: Option<&First>, hosts: &[Audited]) -> String {
    let mut text = wrapped(&format!("Path: {path}"), "", "  ");
    text += &wrapped(&best(path), "", "");
    first.iter().for_each(|first| text += &wrapped(&first.sentences(), "", ""));
    if hosts.iter().any(Audited::has_several_costs) {
        text += &wrapped(COSTS, "", "");
    }
    if hosts.len() > 1 {
        let _ = write!(text, "\nRates in MB/s; what gains most comes first\n\n{}", migration::text(hosts));
    }
    hosts.iter().for_each(|audited| {
        let _ = write!(text, "\n{}", host(audited));
    });
    text
}

fn host(audited: &Audited) -> String {
    let mut text = title(audited) + "\n";
    facts(audited).iter().for_each(|(name, value)| text += &row(name, value));
    for (number, finding) in audited.findings.iter().enumerate() {
        text += &self::finding(number + 1, finding);
    }
    if audited.findings.iter().any(|finding| finding.change.is_some()) {
        text += &format!("\n{}{}", about("note", EVERY_HOST), about("", audited.host.system.note));
    }
    text
}

/// Returns the most that the path carries, in a sentence.
pub(super) fn best(path: &Path) -> String {
    format!("It carries {} MB/s of payload at best.", speed(path.goodput()))
}

/// Returns the name of a host, and what it is.
pub(super) fn title(audited: &Audited) -> String {
    let guess = if audited.host.is_guess { "guessed" } else { "given" };
    format!("{}: {} ({guess})", audited.host.name, audited.host.system.title)
}

/// Returns what is known of a host, as names and values.
pub(super) fn facts(audited: &Audited) -> Vec<(&'static str, String)> {
    let mut facts =
        vec![("understood", lines(&audited.host.lines)), ("window", window(audited)), ("rate now", rate_now(audited))];
    facts.extend(interfaces(audited).map(|text| ("interfaces", text)));
    facts.extend(audited.tuned.map(|rate| ("tuned", format!("{} MB/s", speed(rate)))));
    facts.extend(audited.relay.map(|rate| ("relay", format!("{} MB/s, with the host as it is", speed(rate)))));
    facts.extend(audited.doubt.as_ref().map(|doubt| {
        let paste = doubt.paste.map(|command| format!(". Paste also `{command}`")).unwrap_or_default();
        ("in doubt", format!("{}: the rates are those of the system's default{paste}", doubt.why()))
    }));
    if audited.findings.is_empty() && audited.window.is_some() && audited.doubt.is_none() {
        let is_lossy = audited.now.is_some_and(|(_, limit)| limit == Limit::Loss);
        let why =
            if is_lossy { "no setting lifts the limit of loss" } else { "nothing that is shown limits this host" };
        facts.push(("findings", format!("none: {why} on this path")));
    }
    facts
}

fn row(name: &str, text: &str) -> String {
    wrapped(&format!("{name:<10}  {text}"), "  ", &" ".repeat(14))
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
    let limits: Vec<String> = audited.lowest().map(|limit| format!("{} {}", limit.setting, at(&limit.place))).collect();
    let mut text = format!("{} bytes: {}", window.0, limits.join(", "));
    if !paste.is_empty() {
        let _ = write!(text, ". It may be another one: paste also {paste}");
    }
    text
}

/// Returns the windows of the interfaces, where they differ.
fn interfaces(audited: &Audited) -> Option<String> {
    let windows = audited.host.facts.interfaces.iter().map(|(name, window)| format!("{name} {} bytes", window.0));
    let windows = windows.collect::<Vec<_>>().join(", ");
    let more = "the lowest counts above. Take out of the paste what the path does not use";
    (!windows.is_empty()).then(|| format!("{windows}: {more}"))
}

fn rate_now(audited: &Audited) -> String {
    match audited.now {
        Some((rate, limit)) => format!("{} MB/s, limited by {}", speed(rate), limit.words()),
        None => "not known without the window".into(),
    }
}

/// Returns a finding with its commands.
fn finding(number: usize, finding: &Finding) -> String {
    let mut text = format!("\n{number}. {}\n", heading(finding));
    text += &about("what", finding.what);
    if let Some(change) = &finding.change {
        text += &about("want", &want(finding, change));
        text += &command("now", &change.set_now);
        text += &command("permanent", &change.set_permanent);
        text += &command("undo", &change.undo);
    }
    text += &about("note", finding.caveat());
    let source = finding.source().map(|(source, is_verified)| format!("{source}{}", unverified(is_verified)));
    text + &about("source", &source.unwrap_or_default())
}

/// Returns a setting with its value and its effect.
pub(super) fn heading(finding: &Finding) -> String {
    let Some(value) = &finding.value else {
        return format!("{} is not shown {}: look at it before the others", finding.setting, at(&finding.place));
    };
    let effect = match finding.effect {
        Some(effect) if effect.0 > 0 => format!("costs {} MB/s", speed(effect)),
        Some(_) if finding.is_ceiling() => "costs no rate, but has to be raised before the others".into(),
        Some(_) => "costs no rate".into(),
        None => "costs rate, by how much cannot be computed".into(),
    };
    format!("{} is {value} {}: {effect}", finding.setting, at(&finding.place))
}

/// Returns the value to set.
pub(super) fn want(finding: &Finding, change: &Change) -> String {
    if finding.value.is_none() { format!("at least {}", change.want) } else { change.want.clone() }
}

/// A sentence for a report with several costs.
pub(super) const COSTS: &str = "Each cost counts one setting alone; the costs of several do not add up.";

fn at(place: &str) -> String {
    if place == WHOLE_SYSTEM { "(whole system)".into() } else { format!("({place})") }
}
