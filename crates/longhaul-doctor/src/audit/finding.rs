//! What limits a host on a path, and what lifts each limit.

use super::host::Host;
use super::reader::{Hint, WHOLE_SYSTEM, WindowLimit};
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
    /// What limits it: what caps other settings first, because it has to change before them; then the largest effect first, and of
    /// equal ones in the order of the system's rows.
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

impl Finding {
    /// Whether it costs rate by an amount that is computed.
    fn costs(&self) -> bool {
        self.effect.is_some_and(|effect| effect.0 > 0)
    }

    fn has_effect(&self, effects: &[Effect]) -> bool {
        self.row.is_some_and(|row| effects.contains(&row.effect))
    }

    /// Whether it caps other settings, and is to be changed.
    pub(super) fn is_ceiling(&self) -> bool {
        self.change.is_some() && self.has_effect(&[Effect::Ceiling])
    }
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
        let is_low = |limit: &WindowLimit| laws::window_rate(limit.window, path.rtt) < path.goodput();
        host.facts.windows.extend(bounds.into_iter().filter(is_low));
        let goal = path.goal(host.system);
        let with = |window| Hosts { window, response, application: None, lan_rtt: None };
        let window = host.facts.windows.iter().map(|limit| limit.window).min();
        let now = window.map(|window| with(window).alone(path, 1)).map(|now| (now.rate, now.limit));
        // The limit of the system itself is no setting: it may leave the tuned rate below the path's.
        let tuned_response = if response == LossResponse::Ignores { response } else { host.system.tuned_response };
        let tuned = Hosts { response: tuned_response, ..with(window.unwrap_or_default().max(goal.window)) };
        let has_window = host.system.settings.iter().any(|row| WINDOWS.contains(&row.effect));
        let tuned = has_window.then(|| tuned.alone(path, 1).rate);
        let relay = has_window.then(|| with(goal.window).with_relay(path).rate);
        let best = laws::loss_rate(response, path.mss_clamp(), path.rtt, path.loss).unwrap_or(path.goodput());
        let standard = Standard { path, goal, best: best.min(path.goodput()) };
        let findings = standard.findings(&host);
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
    pub(super) fn lowest(&self) -> impl Iterator<Item = &WindowLimit> {
        self.host.facts.windows.iter().filter(|limit| Some(limit.window) == self.window)
    }

    /// Whether several findings have an effect that is computed.
    pub(super) fn has_several_costs(&self) -> bool {
        self.findings.iter().filter(|finding| finding.costs()).count() > 1
    }

    /// Returns the change to make first. `None` if no command lifts the limits: what only hurts does not come before them.
    pub(super) fn first(&self) -> Option<(&Finding, &Change)> {
        let is_limited = self.findings.iter().any(Finding::costs);
        let mut matter = self.findings.iter().filter(|finding| !is_limited || finding.costs() || finding.is_ceiling());
        matter.find_map(|finding| Some((finding, finding.change.as_ref()?)))
    }
}

/// What a setting is compared with.
struct Standard<'p> {
    path: &'p Path,
    goal: Goal,
    /// The rate of the path for this host, without any limit of a window.
    best: Rate,
}

impl Standard<'_> {
    fn findings(&self, host: &Host) -> Vec<Finding> {
        let limits = host.facts.windows.iter().map(|limit| self.limit(host.system, limit));
        let (mut findings, others): (Vec<Finding>, Vec<Finding>) = limits.partition(Finding::costs);
        // A ceiling above the path's need still refuses the larger value of another setting.
        let is_raised = findings.iter().any(|finding| finding.change.is_some() && finding.has_effect(&WINDOWS));
        findings.extend(others.into_iter().filter(|finding| is_raised && finding.is_ceiling()));
        findings.extend(host.facts.hints.iter().filter_map(|hint| self.hint(host.system, hint)));
        let order = |setting: &str| host.system.settings.iter().position(|row| row.name == setting);
        // What cannot be computed comes after what can, and what costs nothing comes last.
        let effect = |finding: &Finding| match finding.effect {
            Some(Rate(0)) => (2, 0),
            Some(Rate(bits)) => (0, u64::MAX - bits),
            None => (1, 0),
        };
        findings.sort_by_key(|finding| {
            (!finding.is_ceiling(), effect(finding), order(finding.setting).unwrap_or(usize::MAX))
        });
        findings
    }

    /// Returns what a limit costs: nothing if the path is no faster.
    fn limit(&self, system: &System, limit: &WindowLimit) -> Finding {
        let alone = laws::window_rate(limit.window, self.path.rtt);
        Finding {
            setting: limit.setting,
            value: limit.value.clone(),
            place: limit.place.clone(),
            what: limit.what,
            effect: Some(Rate(self.best.0.saturating_sub(alone.0))),
            row: system.setting(limit.setting),
            change: self.change(system, limit.setting, &limit.value, &limit.place),
        }
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
        let (now, permanent, undo) = match row.for_all.filter(|_| place == WHOLE_SYSTEM) {
            Some([now, permanent]) => (now, permanent, Fill { value: old, ..fill }.into_command(permanent)),
            None => (row.set_now, row.set_permanent, command(row.undo)),
        };
        Some(Change { set_now: command(now), set_permanent: command(permanent), undo, want })
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
