//! Everything that `longhaul advise` says, computed once.

use super::profile::Profile;
use super::relays::{self, Addresses, RelayFiles};
use crate::first::First;
use crate::path::{Limited, Path};
use crate::predict::{Hosts, Limit, Prediction};
use crate::show::speed;
use longhaul_core::advice::{Application, Effect, Fill, Goal, LINUX, Setting, System};
use longhaul_core::path::diagnosis::Kind;
use longhaul_core::path::laws::packet::mss;
use longhaul_core::path::laws::{self, LossResponse};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// What was asked: the flags, read.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) path: Path,
    /// Limit of one connection on the path, if it was measured.
    pub(super) limited: Option<Limited>,
    /// Whether the hosts are those that measured the path.
    pub(super) has_measured_hosts: bool,
    pub(super) os: Vec<&'static System>,
    pub(super) application: Option<&'static Application>,
    /// Window of the hosts as they are; `None` for that of the systems.
    pub(super) window: Option<Bytes>,
    pub(super) bytes: Option<Bytes>,
    pub(super) connections: Option<u32>,
    pub(super) lan_rtt: Option<Duration>,
    pub(super) addresses: Addresses,
    pub(super) profile: Option<&'static Profile>,
}

/// The answer.
#[derive(Debug)]
pub(super) struct Advice {
    pub(super) question: Question,
    /// The change that lifts the measured limit; `None` if none was measured.
    pub(super) first: Option<First>,
    /// The hosts as they are.
    pub(super) hosts: Hosts,
    /// The hosts with the window to set.
    pub(super) tuned: Hosts,
    /// Where the window of the hosts comes from.
    pub(super) window_from: String,
    /// The window to set: twice the bandwidth-delay product, up to the limit of the systems.
    pub(super) window: Bytes,
    /// The rows of the table.
    pub(super) rows: Vec<PredictionRow>,
    /// Number of connections that fill the line if the window must stay.
    pub(super) connections: u64,
    /// What to type, for each system.
    pub(super) systems: Vec<Typed>,
    /// What both relays need.
    pub(super) relays: RelayFiles,
}

/// One way to use the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The hosts as they are.
    Hosts,
    /// Both hosts tuned.
    HostsTuned,
    /// A relay at each site, and the hosts as they are.
    Relay,
    /// A relay at each site, and both hosts tuned.
    RelayAndTuned,
    /// Several connections of the hosts as they are.
    Connections,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct PredictionRow {
    pub(super) what: What,
    pub(super) prediction: Prediction,
    /// Time for the bytes asked for, with slow start.
    pub(super) seconds: Option<f64>,
}

/// What to type on one system.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) system: &'static System,
    pub(super) settings: Vec<SettingChange>,
}

/// One setting to change, with its commands.
#[derive(Debug)]
pub(super) struct SettingChange {
    pub(super) setting: &'static Setting,
    pub(super) value: String,
    pub(super) read: String,
    pub(super) set_now: String,
    pub(super) set_permanent: String,
    pub(super) undo: String,
    /// Whether it lifts the measured limit.
    pub(super) is_first: bool,
}

impl Advice {
    /// Computes the answer.
    ///
    /// # Errors
    /// The addresses cannot be used in a configuration file.
    pub(super) fn new(question: Question) -> Result<Advice, String> {
        let path = question.path;
        let (window, window_from) = present_window(&question);
        let hosts = Hosts {
            window,
            response: slowest(question.os.iter().map(|system| system.response)),
            application: question.application.and_then(|application| application.window),
            lan_rtt: question.lan_rtt,
        };
        let window = wanted_window(&path, &question.os);
        // A host that has more already keeps it.
        let tuned = |system: &&'static System| system.tuned_response(system.response, &path.goal(system));
        let response = slowest(question.os.iter().map(tuned));
        let tuned = Hosts { window: window.max(hosts.window), response, ..hosts };
        let each = hosts.alone(&path, 1).rate;
        let connections = laws::connections(path.goodput(), each);
        let row = |what, prediction: Prediction| {
            let seconds = question.bytes.and_then(|bytes| prediction.seconds(&path, bytes));
            PredictionRow { what, prediction, seconds }
        };
        let rows = vec![
            row(What::Hosts, hosts.alone(&path, 1)),
            row(What::HostsTuned, tuned.alone(&path, 1)),
            row(What::Relay, hosts.with_relay(&path)),
            row(What::RelayAndTuned, tuned.with_relay(&path)),
            row(What::Connections, hosts.alone(&path, question.connections.map_or(connections, u64::from))),
        ];
        let systems = question.os.iter().map(|system| Typed::new(system, &question)).collect();
        let cap = question.limited.as_ref().and_then(|limited| limited.cap(&path));
        let relays = relays::files(&path, cap, &question.addresses)?;
        let first = question.limited.as_ref().and_then(|limited| limited.first(&path));
        Ok(Advice { first, hosts, tuned, window_from, window, rows, connections, systems, relays, question })
    }

    /// Returns the row of `what`.
    pub(super) fn rate(&self, what: What) -> Rate {
        // Each of them is in the table.
        self.rows.iter().find(|row| row.what == what).map(|row| row.prediction.rate).unwrap_or_default()
    }

    /// Returns the measured rate of one connection, and its limit; `None` without a measurement.
    pub(super) fn measured(&self) -> Option<(Rate, &str)> {
        let limited = self.question.limited.as_ref()?;
        Some((limited.rate?, Kind::named(&limited.kind)?.name()))
    }

    /// Returns the rate of the hosts as they are: the measured one of these hosts, else the computed one.
    pub(super) fn present(&self) -> Rate {
        let measured = self.measured().filter(|_| self.question.has_measured_hosts);
        measured.map_or(self.rate(What::Hosts), |(rate, _)| rate)
    }

    /// Returns the numbers behind the table: name and value.
    pub(super) fn numbers(&self) -> Vec<(&'static str, String)> {
        let path = &self.question.path;
        let mut rows = vec![
            ("bandwidth-delay product", format!("{} bytes", path.bandwidth_delay().0)),
            ("window and buffers to set", format!("{} bytes{}", self.window.0, self.smallest_system())),
            ("window scale", laws::window_scale(self.window).to_string()),
            ("MTU of the link", path.mtu.to_string()),
        ];
        if let Some(encapsulation) = path.encapsulation {
            rows.push(("largest packet inside it", format!("{} bytes ({})", path.packet(), encapsulation.title)));
        }
        rows.extend([
            ("MSS of the hosts", host_mss(path).to_string()),
            ("MSS that fits (clamp)", path.mss_clamp().to_string()),
            ("payload that the line carries", format!("{} MB/s", speed(path.goodput()))),
            ("connections to fill it as it is", self.connections.to_string()),
        ]);
        rows
    }

    /// Returns the system whose limit is the window, where the others can have a larger one.
    fn smallest_system(&self) -> String {
        let (path, systems) = (&self.question.path, &self.question.os);
        let smallest = systems.iter().min_by_key(|system| system.max_window);
        let has_larger = systems.iter().any(|system| path.goal(system).window > self.window);
        let named =
            smallest.filter(|_| has_larger).map(|system| format!(" ({}'s largest; others: below)", system.title));
        named.unwrap_or_default()
    }

    /// Returns the sentences that say whether a relay is needed, and what else would help.
    pub(super) fn verdict(&self) -> Vec<String> {
        let sentences = [
            self.first_verdict(),
            Some(self.relay_verdict()),
            self.tuning_verdict(),
            self.ibm_advice(),
            self.application_verdict(),
            self.packet_verdict(),
            self.loss_verdict(),
        ];
        sentences.into_iter().flatten().collect()
    }

    /// Returns the sentence on systems without a setting that lifts the measured limit.
    fn first_verdict(&self) -> Option<String> {
        self.first.as_ref().filter(|first| first.host.is_some())?;
        let without = self.systems.iter().filter(|typed| !typed.settings.iter().any(|change| change.is_first));
        let names: Vec<&str> = without.map(|typed| typed.system.title).collect();
        (!names.is_empty())
            .then(|| format!("No setting of {} is known here that lifts the measured limit.", names.join(" and ")))
    }

    /// Returns the sentence on IBM's own advice for AIX: windows of 1 MiB, without a relay.
    fn ibm_advice(&self) -> Option<String> {
        let path = &self.question.path;
        let is_aix = self.question.os.iter().any(|system| system.name == "aix");
        let advised = Hosts { window: IBM_WINDOW, ..self.hosts }.alone(path, 1).rate;
        let is_gain = advised > self.rate(What::Hosts) && self.window > IBM_WINDOW;
        (is_aix && self.hosts.window < IBM_WINDOW && is_gain).then(|| {
            format!(
                "IBM's advice for AIX on a WAN, windows of 1 MiB (ibm.com/support/pages/node/6410510), gives {} MB/s without a relay.",
                speed(advised)
            )
        })
    }

    /// Returns the sentence on tuned hosts, where larger windows gain nothing or take much memory.
    fn tuning_verdict(&self) -> Option<String> {
        if self.hosts.window < self.window && self.rate(What::HostsTuned) <= self.rate(What::Hosts) {
            return Some("Larger windows of the hosts alone gain nothing here.".into());
        }
        (self.window > LARGE_WINDOW && !self.systems.is_empty()).then(|| {
            format!(
                "A connection may take {} MB for each buffer of the size below: see that the hosts have it.",
                self.window.0 / 1_000_000
            )
        })
    }

    /// Returns the sentence on packets that do not fit into the encapsulation.
    fn packet_verdict(&self) -> Option<String> {
        let path = &self.question.path;
        let mut text = format!(
            "Set the MSS to {} first: larger segments are cut into fragments or lost, and all rates above are then lower.",
            path.mss_clamp()
        );
        let sets = |row: &Setting, goal: &Goal| row.effect == Effect::PacketSize && (row.want)(goal).is_some();
        let without = |system: &&&System| !system.settings.iter().any(|row| sets(row, &path.goal(system)));
        for system in self.question.os.iter().filter(without) {
            text +=
                &format!(" Of {} no setting for it is known here: let a router or the relays clamp it.", system.title);
        }
        (path.mss_clamp() < host_mss(path)).then_some(text)
    }

    /// Returns the sentence on a loss for which no rate was ever compared with a measurement.
    fn loss_verdict(&self) -> Option<String> {
        (self.question.path.loss > MAX_TRIED_LOSS).then(|| {
            "Above 1 % of loss no rate here was compared with a measurement, and BBR gives way at about 20 %: repair the line first."
                .into()
        })
    }

    /// Returns the sentence on the application's window, if it limits even a relay.
    fn application_verdict(&self) -> Option<String> {
        let relay = self.rows.iter().find(|row| row.what == What::Relay)?;
        let application = self.question.application.filter(|_| relay.prediction.limit == Limit::Application)?;
        Some(format!("With a relay, the application limits. {}", application.remedy))
    }

    /// Returns the sentence on relays: whether they are worth it.
    fn relay_verdict(&self) -> String {
        let (hosts, tuned, relay) = (self.rate(What::Hosts), self.rate(What::HostsTuned), self.rate(What::Relay));
        let near = |rate: Rate| rate.0 as f64 >= NEAR * relay.max(tuned).0 as f64;
        let gain = |rate: Rate| relay.0 as f64 / rate.0.max(1) as f64;
        let present = self.present();
        let or_more = if self.question.path.is_least { ", or more: nothing reached the line's limit" } else { "" };
        if let Some(doubt) = self.doubt(near(hosts)) {
            return doubt;
        }
        match () {
            () if near(hosts) || near(present) => {
                "No relay is needed: the hosts as they are reach what relays would give.".into()
            }
            () if near(tuned) => format!(
                "No relay is needed if both hosts can be tuned: they reach what relays give. A relay gives {:.1} times the \
                 present rate without a change on the hosts{or_more}.",
                gain(present)
            ),
            () => format!(
                "A relay gives {:.1} times the rate of the hosts as they are, and {:.1} times that of tuned hosts{or_more}.",
                gain(present),
                gain(tuned)
            ),
        }
    }

    /// Returns the sentence on relays where the measured path tells more than the computed rates do. `is_near`: relays gain nothing by those.
    fn doubt(&self, is_near: bool) -> Option<String> {
        let Question { path, limited, has_measured_hosts, .. } = &self.question;
        if is_near && path.is_least {
            return Some(format!("The line carries {} or more: {UNREACHED}", path.rate));
        }
        let Some(first) = &self.first else { return has_measured_hosts.then(|| NO_LIMIT.into()) };
        // Other hosts meet the limits of the path, too, and have windows of their own.
        if !has_measured_hosts && !Kind::named(first.kind).is_some_and(Kind::is_of_path) {
            return None;
        }
        let passes_nothing = limited.as_ref().is_some_and(|limited| limited.rate == Some(Rate(0)));
        match &first.relays {
            _ if first.kind == Kind::LinkRate.name() => None,
            None => Some("Relays do not lift the measured limit. Lift that one first.".into()),
            Some(_) => (is_near || passes_nothing)
                .then(|| "Relays lift the measured limit, which the computed rates do not count.".into()),
        }
    }
}

/// Title of the measured rate, for people.
pub(super) const MEASURED: &str = "measured, 1 connection";

impl What {
    /// Returns the name in JSON documents.
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Hosts => "hosts",
            What::HostsTuned => "hosts-tuned",
            What::Relay => "relay",
            What::RelayAndTuned => "relay-and-tuned",
            What::Connections => "connections",
        }
    }
}

impl PredictionRow {
    /// Returns what the row is, for people.
    pub(super) fn title(&self) -> String {
        match self.what {
            What::Hosts => "hosts as they are".into(),
            What::HostsTuned => "hosts tuned".into(),
            What::Relay => "relay, hosts untouched".into(),
            What::RelayAndTuned => "relay, hosts tuned".into(),
            What::Connections if self.prediction.connections == 1 => "1 connection".into(),
            What::Connections => format!("{} connections", self.prediction.connections),
        }
    }
}

impl Typed {
    /// Returns the changes on hosts of `system`, first those that lift the measured limit.
    fn new(system: &'static System, question: &Question) -> Typed {
        let (path, present) = (&question.path, question.window);
        let goal = path.goal(system);
        let suffices = present.is_some_and(|present| present >= goal.window);
        let is_small = present.is_some_and(|present| present < system.default_window);
        let lifts =
            |setting| question.limited.as_ref().is_some_and(|limited| limited.is_lifted_by(setting, system, path));
        let changes = system.settings.iter().filter_map(|setting| {
            let (is_of_window, is_first) = (WINDOW_EFFECTS.contains(&setting.effect), lifts(setting));
            if is_of_window && suffices && !is_first {
                return None;
            }
            // Without scaling the rest is in vain, so it is made certain where some hosts lack it. A window below the default, or a
            // limit that was measured, shows that some value is not the default.
            let is_doubtful = setting.effect == Effect::Scaling && !setting.other_defaults.is_empty();
            let certain = (setting.want)(&goal).filter(|_| is_first || is_doubtful || is_of_window && is_small);
            let value = setting.change(setting.default, &goal).or(certain)?;
            Some(SettingChange { is_first, ..SettingChange::new(system, setting, value) })
        });
        let mut settings: Vec<SettingChange> = changes.collect();
        settings.sort_by_key(|change| !change.is_first);
        Typed { system, settings }
    }
}

impl SettingChange {
    fn new(system: &System, setting: &'static Setting, value: String) -> SettingChange {
        let (interface, network, gateway) = (system.interface, "NETWORK", "GATEWAY");
        let fill = Fill { value: &value, old: "OLD", route: "ROUTE", interface, network, gateway };
        let command = |text| fill.into_command(text);
        SettingChange {
            setting,
            read: command(setting.read),
            set_now: command(setting.set_now),
            set_permanent: command(setting.set_permanent),
            undo: command(setting.undo),
            value,
            is_first: false,
        }
    }
}

/// Returns the MSS of a host on this link: `mtu - 40`.
pub(super) fn host_mss(path: &Path) -> u32 {
    mss(path.mtu)
}

/// Returns the window that all of `systems` can have.
fn wanted_window(path: &Path, systems: &[&System]) -> Bytes {
    systems.iter().map(|system| system.max_window).fold(path.window(), Bytes::min)
}

/// Returns the window of the hosts as they are, and where it comes from.
fn present_window(question: &Question) -> (Bytes, String) {
    if let Some(window) = question.window {
        let from = match question.profile {
            Some(profile) if window == profile.window => format!("published in {}", profile.name),
            _ => "given".into(),
        };
        return (window, from);
    }
    if let Some(window) = question.limited.as_ref().and_then(|limited| limited.window) {
        return (window, "measured".into());
    }
    let smallest = question.os.iter().min_by_key(|system| system.default_window);
    match smallest {
        Some(system) => {
            let mark = if system.name == LINUX.name { "" } else { "; unverified" };
            (system.default_window, format!("default of {}: {}{mark}", system.title, system.default_source))
        }
        None => (LINUX.default_window, "default of Linux, because neither --os nor --window was given".into()),
    }
}

/// Returns the response to loss that costs most of `responses`; CUBIC's without one, as Linux has.
fn slowest(responses: impl Iterator<Item = LossResponse> + Clone) -> LossResponse {
    let order = [LossResponse::Reno, LossResponse::Cubic, LossResponse::Ignores];
    order.into_iter().find(|one| responses.clone().any(|other| other == *one)).unwrap_or(LossResponse::Cubic)
}

/// Share of the relay's rate from which on a relay is not worth it.
const NEAR: f64 = 0.9;
/// Windows whose memory is worth a sentence.
const LARGE_WINDOW: Bytes = Bytes(32 << 20);
/// Largest share of loss in docs/laws.md.
const MAX_TRIED_LOSS: f64 = 0.01;
/// What limits a window.
const WINDOW_EFFECTS: [Effect; 4] = [Effect::ReceiveWindow, Effect::SendWindow, Effect::Ceiling, Effect::Scaling];
const NO_LIMIT: &str = "The file names no limit of one connection, so it is not known whether relays help: measure again, with more --seconds.";
const UNREACHED: &str =
    "nothing reached its limit, so it is not known whether relays help. Give its rate, from the contract, with --rate.";
/// Windows that IBM advises for AIX on a WAN.
const IBM_WINDOW: Bytes = Bytes(1 << 20);
