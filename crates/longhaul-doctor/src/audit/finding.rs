//! What limits a host on a path, and what lifts each limit.

use super::host::Host;
use super::reader::{Cap, Hint, WHOLE_SYSTEM};
use crate::path::Path;
use crate::predict::{Hosts, Limit};
use longhaul_core::advice::{Effect, Fill, Goal, Setting, System};
use longhaul_core::path::laws::{self, LossResponse};
use longhaul_units::{Bytes, Rate};

/// A host on a path.
pub(super) struct Audited {
    /// The host.
    pub(super) host: Host,
    /// Its effective window: the smallest that its paste shows. `None` if the paste shows none.
    pub(super) window: Option<Bytes>,
    /// The rate that the window allows, and what limits it; `None` without a window.
    pub(super) now: Option<(Rate, Limit)>,
    /// The rate with the largest window that the path needs and the system has; `None` for a system without windows of its own.
    pub(super) tuned: Option<Rate>,
    /// The rate through relays, with the host as it is; likewise.
    pub(super) relay: Option<Rate>,
    /// What limits it: the largest effect first, and of equal ones in the order in which they are to be changed.
    pub(super) findings: Vec<Finding>,
}

/// One setting that limits a host, or hurts.
pub(super) struct Finding {
    /// Name of the setting.
    pub(super) setting: &'static str,
    /// Its value, as the paste shows it.
    pub(super) value: String,
    /// Where it stands: the interface, or `whole system`.
    pub(super) place: String,
    /// What it does, in a sentence; may be empty for a limit of the window.
    pub(super) what: &'static str,
    /// The rate that it takes away on its own: the path's rate minus the rate with only this limit left. `None` if that cannot
    /// be computed.
    pub(super) effect: Option<Rate>,
    /// The row of the setting, if the system has one.
    pub(super) row: Option<&'static Setting>,
    /// What to change.
    pub(super) change: Option<Change>,
}

/// A change of a setting, with its commands.
pub(super) struct Change {
    /// The value to set.
    pub(super) want: String,
    /// Command that sets the value until the next boot; empty if there is none.
    pub(super) set_now: String,
    /// Command that makes it permanent; empty if there is none.
    pub(super) set_permanent: String,
    /// Command that undoes both; empty if there is none.
    pub(super) undo: String,
}

impl Audited {
    /// Returns what `path` makes of `host`.
    pub(super) fn new(mut host: Host, path: &Path) -> Audited {
        let response = response(&host);
        let bounds = std::mem::take(&mut host.facts.bounds);
        let is_low = |cap: &Cap| laws::window_rate(cap.window, path.rtt) < path.goodput();
        host.facts.caps.extend(bounds.into_iter().filter(is_low));
        let goal = path.goal(host.system);
        let with = |window| Hosts { window, response, application: None, lan_rtt: None };
        let window = host.facts.caps.iter().map(|cap| cap.window).min();
        let now = window.map(|window| with(window).alone(path, 1)).map(|now| (now.rate, now.limit));
        // The limit of the system itself is no setting: it may leave the tuned rate below the path's.
        let tuned_response = if response == LossResponse::Ignores { response } else { host.system.tuned_response };
        let tuned = Hosts { response: tuned_response, ..with(window.unwrap_or_default().max(goal.window)) };
        let has_window = host.system.settings.iter().any(|row| WINDOWS.contains(&row.effect));
        let tuned = has_window.then(|| tuned.alone(path, 1).rate);
        let relay = has_window.then(|| with(goal.window).with_relay(path).rate);
        let best = laws::loss_rate(response, path.mss_clamp(), path.rtt, path.loss).unwrap_or(path.goodput());
        let limits = Limits { path, goal, best: best.min(path.goodput()) };
        let findings = limits.findings(&host);
        Audited { window, now, tuned, relay, findings, host }
    }

    /// Returns the rate that the host gains at most, by tuning or by a relay; `None` if its rate is unknown.
    pub(super) fn gain(&self) -> Option<Rate> {
        let [now, tuned, relay] = self.rates();
        Some(Rate(tuned.max(relay)?.0.saturating_sub(now?.0)))
    }

    /// Returns the rate now, that of the tuned host, and that through relays, as far as they are known.
    pub(super) fn rates(&self) -> [Option<Rate>; 3] {
        [self.now.map(|(rate, _)| rate), self.tuned, self.relay]
    }

    /// Returns the limits that set the window: the smallest ones.
    pub(super) fn lowest(&self) -> impl Iterator<Item = &Cap> {
        self.host.facts.caps.iter().filter(|cap| Some(cap.window) == self.window)
    }

    /// Returns the change to make first: one that caps the others, else the one that gains most.
    pub(super) fn first(&self) -> Option<(&Finding, &Change)> {
        let changes = || self.findings.iter().filter_map(|finding| Some((finding, finding.change.as_ref()?)));
        let is_ceiling = |(finding, _): &(&Finding, _)| finding.row.is_some_and(|row| row.effect == Effect::Ceiling);
        changes().find(is_ceiling).or_else(|| changes().next())
    }
}

/// What a setting is compared with.
struct Limits<'p> {
    path: &'p Path,
    goal: Goal,
    /// The rate of the path for this host, without any limit of a window.
    best: Rate,
}

impl Limits<'_> {
    fn findings(&self, host: &Host) -> Vec<Finding> {
        let caps = host.facts.caps.iter().filter_map(|cap| self.cap(host.system, cap));
        let hints = host.facts.hints.iter().filter_map(|hint| self.hint(host.system, hint));
        let mut findings: Vec<Finding> = caps.chain(hints).collect();
        let order = |setting: &str| host.system.settings.iter().position(|row| row.name == setting);
        // What cannot be computed comes after what can, and what costs nothing comes last.
        let effect = |finding: &Finding| match finding.effect {
            Some(Rate(0)) => (2, 0),
            Some(Rate(bits)) => (0, u64::MAX - bits),
            None => (1, 0),
        };
        findings.sort_by_key(|finding| (effect(finding), order(finding.setting).unwrap_or(usize::MAX)));
        findings
    }

    /// Returns the finding of a limit; `None` if the path is no faster.
    fn cap(&self, system: &System, cap: &Cap) -> Option<Finding> {
        let alone = laws::window_rate(cap.window, self.path.rtt);
        let effect = Rate(self.best.0.saturating_sub(alone.0));
        let change = self.change(system, cap.setting, &cap.value, &cap.place);
        (effect.0 > 0).then(|| Finding {
            setting: cap.setting,
            value: cap.value.clone(),
            place: cap.place.clone(),
            what: cap.what,
            effect: Some(effect),
            row: system.setting(cap.setting),
            change,
        })
    }

    /// Returns the finding of a hint; `None` if the value serves the path.
    fn hint(&self, system: &System, hint: &Hint) -> Option<Finding> {
        let change = self.change(system, hint.setting, &hint.value, &hint.place);
        let row = system.setting(hint.setting);
        // Without loss any congestion control serves the path, unless it wants another one. Other values always hurt.
        let is_fine = row.is_some_and(|row| {
            (row.want)(&self.goal).is_some() || row.effect == Effect::Recovery && !self.goal.has_loss
        });
        (change.is_some() || !is_fine).then(|| Finding {
            setting: hint.setting,
            value: hint.value.clone(),
            place: hint.place.clone(),
            what: hint.what,
            effect: (!hint.costs_rate).then_some(Rate(0)),
            row,
            change,
        })
    }

    fn change(&self, system: &System, setting: &str, value: &str, place: &str) -> Option<Change> {
        let row = system.setting(setting)?;
        let want = row.change(value, &self.goal)?;
        // A command is to be copied into a shell of root: no text of a paste gets into it that a shell could read as more.
        let old = if is_plain(value) { value } else { "OLD" };
        // Of Windows the place is a template: `template Internet`.
        let named = place.strip_prefix("template ").unwrap_or(place);
        let interface = if place != WHOLE_SYSTEM && is_plain(named) { named } else { "INTERFACE" };
        let network = if row.place == "route" { interface } else { "NETWORK" };
        let fill = Fill { value: &want, old, interface, network, gateway: "GATEWAY" };
        let command = |text| fill.into_command(text);
        let of_all = row.for_all.filter(|_| place == WHOLE_SYSTEM);
        let [now, permanent] = of_all.unwrap_or([row.set_now, row.set_permanent]);
        let (set_now, set_permanent) = (command(now), command(permanent));
        // Some undo by the default, which is not what the host has.
        let undoes = of_all.is_none() && (row.undo.contains("{old}") || value == row.default || old != value);
        let undo = if undoes { command(row.undo) } else { Fill { value: old, ..fill }.into_command(permanent) };
        Some(Change { set_now, set_permanent, undo, want })
    }
}

/// Returns whether a text has only characters that mean nothing to a shell, or are what values have: `4096 131072 6291456`, `*IFC`.
fn is_plain(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_alphanumeric() || " ._-+:/,=%*@".contains(char))
}

/// Returns the response to loss of the congestion control that the paste shows, else of the system's own.
fn response(host: &Host) -> LossResponse {
    let named = |name: &str| CONTROLS.iter().any(|control| name.ends_with(control));
    let shown = host.facts.settings.iter().rev().find(|shown| named(&shown.name));
    let control = shown.map(|shown| shown.value.to_ascii_lowercase());
    // Solaris and Windows call it NewReno.
    let response = control.and_then(|control| LossResponse::of(control.strip_prefix("new").unwrap_or(&control)));
    response.unwrap_or(host.system.response)
}

/// The effects of settings that set a window. A system without one, such as VIOS, has no windows of its own.
const WINDOWS: [Effect; 3] = [Effect::ReceiveWindow, Effect::SendWindow, Effect::Window];
/// The settings that name the congestion control in force, of Linux, Solaris and Windows.
const CONTROLS: [&str; 3] = ["tcp_congestion_control", "cong_default", "CongestionProvider"];
