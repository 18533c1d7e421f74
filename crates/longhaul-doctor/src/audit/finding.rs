//! What limits a host on a path, and what lifts each limit.

use super::change::{self, Change, is_plain};
use super::host::Host;
use super::reader::{Control, Hint, WHOLE_SYSTEM, WindowLimit};
use crate::path::{Limited, Path};
use crate::predict::{Hosts, Limit};
use longhaul_core::advice::{Effect, Elsewhere, Fill, Goal, Setting};
use longhaul_core::path::laws;
use longhaul_units::{Bytes, Rate};

/// A host on a path.
pub(super) struct Audited {
    /// The host.
    pub(super) host: Host,
    /// Why its rates are those of the system's default congestion control, although it may have another one.
    pub(super) doubt: Option<Doubt>,
    /// Its effective window: the smallest that its paste shows. `None` if the paste shows none.
    pub(super) window: Option<Bytes>,
    /// The rate that the window allows, and what limits it; `None` without a window.
    pub(super) now: Option<(Rate, Limit)>,
    /// The rate with the largest window that the path needs and the system has; `None` for a system without windows of its own.
    pub(super) tuned: Option<Rate>,
    /// The rate through relays, with the host as it is; likewise.
    pub(super) relay: Option<Rate>,
    /// The findings in the order in which to make the changes: ceilings first, then the largest effect, and equal ones in the order of
    /// the system's rows.
    pub(super) findings: Vec<Finding>,
}

/// The congestion control limits a rate, and what it does with loss is not known.
pub(super) struct Doubt {
    /// Name of the setting.
    pub(super) setting: &'static str,
    /// Its value, without a law; `None` if the paste does not show it.
    pub(super) value: Option<String>,
    /// The command that shows it, if the paste does not and the host has one.
    pub(super) paste: Option<&'static str>,
}

impl Doubt {
    /// Returns the reason in half a sentence.
    pub(super) fn why(&self) -> String {
        match &self.value {
            Some(value) => format!("how {value} answers loss is not known"),
            None => "the congestion control is not shown".into(),
        }
    }
}

/// One setting that limits a host, or hurts.
pub(super) struct Finding {
    /// Name of the setting.
    pub(super) setting: &'static str,
    /// Its value, as the paste shows it; `None` if it does not: then it is to be looked at before it is changed.
    pub(super) value: Option<String>,
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

    /// Returns what to know before the change; empty without one.
    pub(super) fn caveat(&self) -> &str {
        self.change.as_ref().map_or("", |change| &change.caveat)
    }

    fn has_effect(&self, effects: &[Effect]) -> bool {
        self.row.is_some_and(|row| effects.contains(&row.effect))
    }

    /// Returns where its facts are from, and whether its commands were tried on such a host; `None` of what is only counted.
    pub(super) fn source(&self) -> Option<(&'static str, bool)> {
        let of_route = self.change.is_some().then_some(("ip-route(8)", true));
        self.row.map(|row| (row.source, row.verified)).or(of_route)
    }

    /// Whether it caps other settings, and is to be changed.
    pub(super) fn is_ceiling(&self) -> bool {
        self.change.is_some() && self.has_effect(&[Effect::Ceiling])
    }
}

impl Audited {
    /// Returns what `path` makes of `host`.
    pub(super) fn new(mut host: Host, path: &Path) -> Audited {
        let goal = path.goal(host.system);
        let named = host.facts.control.as_ref().and_then(|control| control.response);
        let response = named.unwrap_or(host.system.response);
        let tuned_response = host.system.tuned_response(response, &goal);
        let bounds = std::mem::take(&mut host.facts.bounds);
        let is_low = |limit: &WindowLimit| laws::window_rate(limit.window, path.rtt) < path.goodput();
        host.facts.windows.extend(bounds.into_iter().filter(is_low));
        let with = |window| Hosts { window, response, application: None, lan_rtt: None };
        let window = host.facts.windows.iter().map(|limit| limit.window).min();
        let now = window.map(|window| with(window).alone(path, 1)).map(|now| (now.rate, now.limit));
        // A control that is not shown is the default, and is not to be changed without a look at it. Another one may have no command.
        let is_settable =
            |control: &Control| control.setting == change::CONTROL || host.system.setting(control.setting).is_some();
        let is_changed = named.is_some() && host.facts.control.as_ref().is_some_and(is_settable);
        let best_response = if is_changed { tuned_response } else { response };
        // The limit of the system itself is no setting: it may leave the tuned rate below the path's.
        let tuned = Hosts { response: best_response, ..with(window.unwrap_or_default().max(goal.window)) };
        let has_window = host.system.has_window();
        let tuned = has_window.then(|| tuned.alone(path, 1));
        let relay = has_window.then(|| with(goal.window).with_relay(path).rate);
        let best = |response| {
            laws::loss_rate(response, path.mss_clamp(), path.rtt, path.loss)
                .unwrap_or(path.goodput())
                .min(path.goodput())
        };
        let standard = Standard {
            path,
            goal,
            best: best(best_response),
            by_control: best(response),
            is_control_known: named.is_some(),
        };
        let findings = standard.findings(&host);
        let limits = [now.map(|(_, limit)| limit), tuned.map(|tuned| tuned.limit)];
        let is_in_doubt = limits.contains(&Some(Limit::Loss)) && named.is_none();
        let doubt = host.system.congestion_control().filter(|_| is_in_doubt).map(|row| match &host.facts.control {
            Some(control) => Doubt { setting: control.setting, value: Some(control.value.clone()), paste: None },
            None => Doubt { setting: row.name, value: None, paste: host.facts.control_read },
        });
        let tuned = tuned.map(|tuned| tuned.rate);
        Audited { window, now, tuned, relay, findings, doubt, host }
    }

    /// Puts the findings first whose change lifts the measured limit.
    pub(super) fn begin_with(&mut self, limited: &Limited, path: &Path) {
        let system = self.host.system;
        let lifts = |finding: &Finding| finding.row.is_some_and(|row| limited.is_lifted_by(row, system, path));
        self.findings.sort_by_key(|finding| !lifts(finding));
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

    /// Returns the change to make first. `None` if no command lifts what costs most: without that, no other change gains rate.
    pub(super) fn first(&self) -> Option<(&Finding, &Change)> {
        let is_limited = self.findings.iter().any(Finding::costs);
        if self.fixed().is_some() {
            return None;
        }
        let mut matter = self.findings.iter().filter(|finding| !is_limited || finding.costs() || finding.is_ceiling());
        matter.find_map(|finding| Some((finding, finding.change.as_ref()?)))
    }

    /// Returns the finding that costs most and has no command, if there is one.
    pub(super) fn fixed(&self) -> Option<&Finding> {
        let most = self.findings.iter().filter(|finding| finding.costs()).filter_map(|finding| finding.effect).max()?;
        self.findings.iter().find(|finding| finding.effect == Some(most) && finding.change.is_none())
    }
}

/// What a setting is compared with.
struct Standard<'p> {
    path: &'p Path,
    goal: Goal,
    /// The rate of the path for this host, without any limit that can be lifted.
    best: Rate,
    /// The rate that its congestion control allows.
    by_control: Rate,
    /// Whether the paste shows a control with a law.
    is_control_known: bool,
}

impl Standard<'_> {
    fn findings(&self, host: &Host) -> Vec<Finding> {
        let limits = host.facts.windows.iter().map(|limit| self.limit(host, limit));
        let (mut findings, others): (Vec<Finding>, Vec<Finding>) = limits.partition(Finding::costs);
        // A ceiling above the path's need still refuses the larger value of another setting.
        let is_raised = findings.iter().any(|finding| finding.change.is_some() && finding.has_effect(&WINDOWS));
        findings.extend(others.into_iter().filter(|finding| is_raised && finding.is_ceiling()));
        let unseen = self.unseen_ceilings(host, &findings);
        findings.extend(unseen.into_iter().filter(|_| is_raised));
        let control = host.facts.control.as_ref().and_then(|control| self.control(host, control));
        // With loss, the law of the control says what it costs, which may be nothing.
        let is_known = self.goal.has_loss && self.is_control_known;
        let hints = host.facts.hints.iter().filter(|hint| !(is_known && host.facts.is_control(hint.setting)));
        findings.extend(hints.filter_map(|hint| self.hint(host, hint)));
        findings.extend(control);
        self.change_routes(&mut findings);
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

    /// Returns the settings that cap those to be raised, where the paste does not show them.
    fn unseen_ceilings(&self, host: &Host, findings: &[Finding]) -> Vec<Finding> {
        let is_shown = |row: &Setting| host.facts.settings.iter().any(|shown| shown.name == row.name);
        // A row with a number caps others by its size. A switch does not.
        let is_size = |row: &Setting| (row.want)(&self.goal).is_some_and(|want| want.parse::<u64>().is_ok());
        let ceilings = host.system.settings.iter().filter(|row| row.effect == Effect::Ceiling);
        let unseen = ceilings.filter(|row| is_size(row) && !is_shown(row));
        // The tool that shows the others shows it, too.
        let has_place = |place: &&str| findings.iter().any(|finding| finding.place == *place);
        let place_of = |row: &Setting| row.elsewhere.map(|elsewhere| elsewhere.place).filter(has_place);
        let finding = |row: &'static Setting, place: &str| Finding {
            setting: row.name,
            value: None,
            place: place.into(),
            what: "It caps those below. Leave it if it is as large.",
            effect: Some(Rate(0)),
            row: Some(row),
            change: self.change(host, row.name, None, place),
        };
        unseen.map(|row| finding(row, place_of(row).unwrap_or(WHOLE_SYSTEM))).collect()
    }

    /// Returns what a limit costs: nothing if the path is no faster.
    fn limit(&self, host: &Host, limit: &WindowLimit) -> Finding {
        let alone = laws::window_rate(limit.window, self.path.rtt);
        Finding {
            setting: limit.setting,
            value: Some(limit.value.clone()),
            place: limit.place.clone(),
            what: limit.what,
            effect: Some(Rate(self.best.0.saturating_sub(alone.0))),
            row: host.system.setting(limit.setting),
            change: self.change(host, limit.setting, Some(&limit.value), &limit.place),
        }
    }

    /// Returns the finding of the congestion control; `None` if another one is no faster.
    fn control(&self, host: &Host, control: &Control) -> Option<Finding> {
        let effect = Rate(self.best.0.saturating_sub(self.by_control.0));
        (effect.0 > 0).then(|| Finding {
            setting: control.setting,
            value: Some(control.value.clone()),
            place: control.place.clone(),
            what: "It takes each lost packet for congestion, and the path loses packets at random.",
            effect: Some(effect),
            row: host.system.setting(control.setting),
            change: self.change(host, control.setting, Some(&control.value), &control.place),
        })
    }

    /// Returns the finding of a hint; `None` if the value serves the path.
    fn hint(&self, host: &Host, hint: &Hint) -> Option<Finding> {
        if change::is_whole_packet(hint, &self.goal) {
            return None;
        }
        let change = self.change(host, hint.setting, Some(&hint.value), &hint.place);
        let row = host.system.setting(hint.setting);
        // Without loss any congestion control serves the path, unless it wants another one. Other values always hurt.
        let is_of_loss = host.facts.is_control(hint.setting)
            || row.is_some_and(|row| [Effect::Recovery, Effect::CongestionControl].contains(&row.effect));
        let is_fine = row.is_some_and(|row| (row.want)(&self.goal).is_some()) || is_of_loss && !self.goal.has_loss;
        let is_of_route = hint.setting.starts_with(change::METRIC);
        (change.is_some() || is_of_route || !is_fine).then(|| Finding {
            setting: hint.setting,
            value: Some(hint.value.clone()),
            place: hint.place.clone(),
            what: hint.what,
            effect: (!hint.costs_rate).then_some(Rate(0)),
            row,
            change,
        })
    }

    /// Gives the findings of each route their change.
    fn change_routes(&self, findings: &mut [Finding]) {
        let of_routes = findings.iter().filter(|finding| finding.setting.starts_with(change::METRIC));
        let all: Vec<(String, &str)> = of_routes.map(|finding| (finding.place.clone(), finding.setting)).collect();
        for finding in findings.iter_mut().filter(|finding| finding.setting.starts_with(change::METRIC)) {
            let settings = all.iter().filter(|(place, _)| *place == finding.place).map(|(_, setting)| *setting);
            finding.change = Some(change::of_route(&finding.place, settings.collect(), &self.goal));
        }
    }

    /// Returns the change of a setting; `value` is `None` if the paste does not show it.
    fn change(&self, host: &Host, setting: &str, value: Option<&str>, place: &str) -> Option<Change> {
        let row = host.system.setting(setting).filter(|_| !setting.starts_with(change::METRIC))?;
        // A connection shows what a sysctl does to it, and not the sysctl's three numbers.
        let is_shown = row.place != "sysctl" || place == WHOLE_SYSTEM;
        let want = row.change(value.unwrap_or_default(), &self.goal).filter(|_| is_shown)?;
        // A command is to be copied into a shell of root: no text of a paste gets into it that a shell could read as more.
        let old = value.filter(|value| is_plain(value)).unwrap_or("OLD");
        // Of Windows the place is a template: `template Internet`.
        let named = place.strip_prefix("template ").unwrap_or(place);
        let is_name = is_plain(named) && !named.contains('*') && !named.starts_with('-');
        let name_or = |word| if place != WHOLE_SYSTEM && is_name { named } else { word };
        let is_template = row.place.starts_with("TCP setting");
        let interface = name_or(if is_template { "TEMPLATE" } else { "INTERFACE" });
        let network = name_or("NETWORK");
        let fill = Fill { value: &want, old, route: "ROUTE", interface, network, gateway: "GATEWAY" };
        let command = |text| fill.into_command(text);
        let elsewhere = row.elsewhere.filter(|elsewhere| elsewhere.place == place);
        let caveat = format!("{} {}", row.caveat, elsewhere.map_or("", |elsewhere| elsewhere.caveat)).trim().into();
        let (now, permanent, undo) = match elsewhere {
            Some(Elsewhere { set_now, set_permanent, .. }) => {
                let back = if set_permanent.is_empty() { set_now } else { set_permanent };
                (set_now, set_permanent, Fill { value: old, ..fill }.into_command(back))
            }
            None => (row.set_now, row.set_permanent, command(row.undo)),
        };
        Some(Change { set_now: command(now), set_permanent: command(permanent), undo, want, caveat })
    }
}

/// The effects of settings that set a window.
const WINDOWS: [Effect; 2] = [Effect::ReceiveWindow, Effect::SendWindow];

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns what a path of 63 ms and 1 Gbit/s with the share `loss` of lost packets makes of a paste.
    pub(crate) fn audited(paste: &str, loss: f64) -> Audited {
        let host = crate::audit::host::read(paste.as_bytes(), "paste", None).unwrap().unwrap();
        Audited::new(host, &Path { loss, ..Path::new(Duration::from_millis(63), Rate(1_000_000_000)) })
    }

    pub(crate) fn megabits(rate: Option<Rate>) -> f64 {
        (rate.unwrap().0 as f64 / 1e4).round() / 1e2
    }

    pub(crate) const BUFFERS: &str =
        "net.ipv4.tcp_rmem = 4096 131072 33554432\nnet.ipv4.tcp_wmem = 4096 16384 33554432\n";
    const LINE: f64 = 973.33;

    #[test]
    fn on_a_path_with_loss_the_congestion_control_is_a_limit() {
        let host = audited(&format!("{BUFFERS}net.ipv4.tcp_congestion_control = cubic\n"), 0.001);
        let [now, tuned, relay] = host.rates().map(megabits);
        // CUBIC's law with 1460 bytes, 63 ms and 0.1 %.
        assert_eq!((now, tuned, relay), (7.04, 972.36, 972.36));
        let [finding] = &host.findings[..] else { panic!("{}", host.findings.len()) };
        assert_eq!((finding.setting, megabits(finding.effect)), ("net.ipv4.tcp_congestion_control", 965.32));
        assert_eq!(finding.change.as_ref().unwrap().want, "bbr");
        // Without loss, and with BBR, nothing is wrong.
        for (control, loss) in [("cubic", 0.0), ("bbr", 0.001)] {
            let host = audited(&format!("{BUFFERS}net.ipv4.tcp_congestion_control = {control}\n"), loss);
            assert!(host.findings.is_empty(), "{control}");
        }
        // A control that is not shown is the default, and no finding.
        let host = audited(BUFFERS, 0.001);
        assert_eq!((megabits(host.rates()[0]), host.findings.len()), (7.04, 0));
    }

    #[test]
    fn the_control_in_force_counts_and_not_that_of_a_file_or_of_another_template() {
        let file = "$ cat /etc/sysctl.conf\nnet.ipv4.tcp_congestion_control=reno\n";
        let host = audited(&format!("{BUFFERS}net.ipv4.tcp_congestion_control = bbr\n{file}"), 0.01);
        assert!(megabits(host.rates()[0]) > 900.0);
        let template = |name: &str, control: &str| {
            format!("SettingName : {name}\nAutoTuningLevelLocal : Normal\nCongestionProvider : {control}\n\n")
        };
        let of = |first: &str, second: &str| {
            audited(
                &format!("PS> Get-NetTCPSetting\n{}{}", template("Internet", first), template("Compat", second)),
                1e-5,
            )
        };
        let [cubic, reno] = [of("CUBIC", "NewReno"), of("NewReno", "CUBIC")];
        assert!(megabits(cubic.rates()[0]) > megabits(reno.rates()[0]));
        assert!(cubic.findings.is_empty());
        let change = reno.findings[0].change.as_ref().unwrap();
        assert_eq!(change.set_permanent, "Set-NetTCPSetting -SettingName Internet -CongestionProvider CUBIC");
        assert_eq!(change.undo, "Set-NetTCPSetting -SettingName Internet -CongestionProvider NewReno");
        // A release without templates, and without a control added, has NewReno.
        let netsh = "Receive Window Auto-Tuning Level : normal\nAdd-On Congestion Control Provider : none\n";
        let host = audited(netsh, 1e-5);
        assert_eq!((host.rates()[0], host.doubt.is_none()), (reno.rates()[0], true));
        assert_eq!((host.tuned, host.findings.len()), (host.rates()[0], 0), "no command changes it");
        // Where there are templates, they have it.
        let templates = "PS> Get-NetTCPSetting\nSettingName : Internet\nAutoTuningLevelLocal : Normal\n";
        assert!(audited(&format!("{netsh}{templates}"), 1e-5).doubt.is_some());
    }

    /// The command that a doubt names is one that the host has.
    #[test]
    fn a_doubt_names_a_command_of_the_host() {
        let paste_of = |paste: &str| audited(paste, 1e-4).doubt.unwrap().paste;
        assert_eq!(paste_of(BUFFERS), Some("sysctl net.ipv4.tcp_congestion_control"));
        let ndd = "# ndd -get /dev/tcp tcp_xmit_hiwat\n33554432\n# ndd -get /dev/tcp tcp_recv_hiwat\n33554432\n";
        assert_eq!(paste_of(ndd), None);
        let netsh = "Receive Window Auto-Tuning Level : experimental\n";
        assert_eq!(paste_of(netsh), Some("netsh interface tcp show supplemental"));
        let control = audited(&format!("{BUFFERS}net.ipv4.tcp_congestion_control = htcp\n"), 1e-4).doubt.unwrap();
        assert_eq!((control.value.as_deref(), control.paste), (Some("htcp"), None));
    }

    /// Once each value wanted is in force, nothing limits the host any more.
    #[test]
    fn the_changes_lift_every_limit() {
        for (system, paste) in [
            ("aix", "sb_max = 1048576\ntcp_sendspace = 16384\ntcp_recvspace = 16384\nrfc1323 = 0\nuse_isno = 0\n"),
            ("ibmi", "CHGTCPA TCPRCVBUF(65535) TCPSNDBUF(8192) IPPATHMTU(*NO)\n"),
            (
                "linux",
                "net.ipv4.tcp_rmem = 4096 16384 65536\nnet.ipv4.tcp_wmem = 4096 16384 65536\nnet.ipv4.tcp_window_scaling = 0\n\
                 net.ipv4.tcp_adv_win_scale = -3\nnet.ipv4.tcp_moderate_rcvbuf = 0\nnet.ipv4.tcp_sack = 0\n\
                 net.ipv4.tcp_congestion_control = reno\n",
            ),
            (
                "solaris",
                "tcp max_buf rw 1048576 -- 1048576 1-2\ntcp _cwnd_max rw 1048576 -- 1048576 1-2\n\
                 tcp recv_buf rw 49152 -- 128000 1-2\ntcp send_buf rw 49152 -- 49152 1-2\ntcp cong_default rw newreno -- x y\n",
            ),
            ("windows", "Receive Window Auto-Tuning Level : restricted\nWindow Scaling heuristics : enabled\n"),
        ] {
            let host = audited(paste, 1e-6);
            assert_eq!(host.host.system.name, system, "{paste}");
            assert!(host.first().is_some() && megabits(host.rates()[0]) < LINE, "{system}");
            let mut again = paste.to_string();
            for finding in &host.findings {
                let want = &finding.change.as_ref().unwrap_or_else(|| panic!("{system}: {}", finding.setting)).want;
                // The last value that a paste shows is in force.
                again += &match system {
                    "ibmi" => format!("CHGTCPA {}({want})\n", finding.setting),
                    "solaris" => format!("tcp {} rw {want} -- x y\n", finding.setting),
                    "windows" if finding.setting == "heuristics" => format!("Window Scaling heuristics : {want}\n"),
                    "windows" => format!("Receive Window Auto-Tuning Level : {want}\n"),
                    _ => format!("{} = {want}\n", finding.setting),
                };
            }
            let changed = audited(&again, 1e-6);
            let left: Vec<&str> = changed.findings.iter().map(|finding| finding.setting).collect();
            assert_eq!(left, [""; 0], "{system}: {again}");
            assert_eq!(changed.rates()[0], changed.tuned, "{system}");
        }
    }

    #[test]
    fn a_change_below_the_lowest_limit_is_not_the_first() {
        let peer = "$ ss -tim\nESTAB 0 0 10.0.0.1:5000 10.0.0.2:6000\n\t cubic wscale:7,7 rtt:63/1 rwnd_limited:9000ms(98.0%) \
            snd_wnd:65536\n";
        let host = audited(&format!("net.ipv4.tcp_rmem = 4096 131072 6291456\n{peer}"), 0.0);
        assert_eq!(host.window, Some(Bytes(65_536)));
        assert!(host.findings.iter().any(|finding| finding.change.is_some()) && host.first().is_none());
    }
}
