//! The one document of the process's state. `/status.json` serves it, and every view reads it: docs/admin.md describes
//! the fields.
//!
//! Later versions add fields; docs/compatibility.md says what they keep. A reader ignores fields that it does not know, and a field that an older
//! daemon does not send has its empty value.

use crate::control::Phase;
pub use crate::resources::ResourceState;
pub use longhaul_core::health::Health;
use longhaul_core::health::lateness;
pub use longhaul_core::next_hop::Availability as HopStateName;
use longhaul_relay::CounterValues;
pub use longhaul_relay::{FindingState, FlowState, FlowStateName, GainState, LegState, Rates, SavedHours};
use serde::{Deserialize, Serialize};
use std::fmt;

/// State of the process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Time of the start, in seconds since 1970 (UTC).
    pub started_unix_seconds: f64,
    /// Time since the start, in seconds.
    pub uptime_seconds: f64,
    /// Time of the snapshot, in seconds since 1970 (UTC). Not the sum of both above if the host's clock was set since the start.
    pub unix_seconds: f64,
    /// Phase of the process.
    #[serde(with = "PhaseInJson")]
    pub phase: Phase,
    /// Time when the drain began, in seconds since 1970 (UTC). Absent in other phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draining_since_unix_seconds: Option<f64>,
    /// Why the last reload was refused. Absent after a successful one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_refused: Option<String>,
    /// Whether it wants new connections: it is not broken.
    pub ready: bool,
    /// How well it is.
    #[serde(with = "HealthInJson")]
    pub health: Health,
    /// The problems that it knows of, the broken ones first, then the doubtful ones.
    pub problems: Vec<Problem>,
    /// The tunnels, by name. Empty while the process stops.
    pub tunnels: Vec<TunnelState>,
    /// The live flows, the oldest first.
    pub flows: Vec<FlowState>,
    /// The cap of the daemon, in a sentence. Absent if there is none at any time of the week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// The same as a number, in bits per second. Absent while no cap is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bits_per_second: Option<u64>,
    /// The paths whose caps are found by themselves. Absent without `bandwidth = "auto"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathOfWan>>,
    /// Counters since the start, except those whose names end in "now".
    pub counters: CounterValues,
    /// The resources of the process and of the host. Those that the system does not show are left out.
    pub resources: Vec<ResourceState>,
    /// Events of the control socket and of the HTTP listener.
    pub admin: AdminCounters,
    /// Rates of the process since an earlier snapshot. Only in a view that keeps that one; not in the JSON.
    #[serde(skip)]
    pub rates: Rates,
}

/// The WAN legs that send to one address, with a cap of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathOfWan {
    /// The address at the other end.
    pub address: String,
    /// The way of the flows whose bytes it carries: `up` or `down`.
    pub way: String,
    /// `searching`, `short queue`, `sharing` or `background`.
    pub state: String,
    /// Time since which it has this state, in seconds since 1970 (UTC).
    pub since_unix_seconds: f64,
    /// The cap in force, in bits per second. Absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bits_per_second: Option<u64>,
    /// The payload of the last second, in bits per second.
    pub bits_per_second: u64,
    /// Time that a packet waits in the queue now, in milliseconds. Absent without a measurement in the last second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<f64>,
    /// The round-trip time without a queue, in milliseconds. Absent without a measurement in the last second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_rtt_ms: Option<f64>,
    /// Number of its flows.
    pub flows_now: u64,
    /// The same in a sentence, as views write it.
    pub says: String,
}

impl Snapshot {
    /// Returns a line for each path whose cap is found by itself, or one that there is none.
    pub fn path_lines(&self) -> Vec<String> {
        match self.paths.as_deref() {
            None => Vec::new(),
            Some([]) => {
                vec!["bandwidth auto: no WAN path (no flow has a leg with a round trip of 5 ms or more)".into()]
            }
            Some(paths) => paths.iter().map(|path| path.says.clone()).collect(),
        }
    }
}

/// Something that does not work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// Name of the tunnel. Absent if it is none of a tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<String>,
    /// The health of the tunnel, or of the process, because of it.
    #[serde(with = "HealthInJson")]
    pub health: Health,
    /// The part that does not work, such as `next hop`.
    pub stage: String,
    /// Describes the problem.
    pub what: String,
    /// Time when it began, in seconds since 1970 (UTC).
    pub since_unix_seconds: f64,
    /// Whether `health` is broken. For programs that know no health.
    pub fatal: bool,
    /// Whether `health` is doubtful or stalled. For the same.
    pub doubtful: bool,
}

impl Problem {
    /// Returns the tunnel and the stage: `tunnel ssh, WAN`.
    pub fn place(&self) -> String {
        let tunnel = self.tunnel.as_ref().map(|tunnel| format!("tunnel {tunnel}, ")).unwrap_or_default();
        tunnel + &self.stage
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.what)
    }
}

/// A tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunnelState {
    /// Its name.
    pub name: String,
    /// Address and port that it listens on.
    pub listen: String,
    /// Whether it accepts connections.
    pub listening: bool,
    /// How well it is, by its problems.
    #[serde(with = "HealthInJson")]
    pub health: Health,
    /// Its next hops, as configured.
    pub to: Vec<String>,
    /// The state of each of them, in the same order.
    pub next_hops: Vec<HopState>,
    /// Number of its live flows. Always the same as `counters.flows_now`.
    pub flows_now: u64,
    /// The counters of the tunnel. Its bytes grow while a flow lives.
    pub counters: CounterValues,
    /// The time that the relays have saved its flows, live and ended.
    pub saved_hours: SavedHours,
    /// Number of relays after this one. Absent if the configuration does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_hops: Option<u8>,
    /// Lowest bandwidth cap of a flow at any time of the week, by the keys of the tunnel. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowest_cap_bits_per_second: Option<u64>,
    /// The cap of the tunnel, in a sentence. Absent if it has none at any time of the week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// The same as a number, in bits per second. Absent while no cap is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bits_per_second: Option<u64>,
    /// Cap of each of its flows by `flow_bandwidth`, in bits per second. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_cap_bits_per_second: Option<u64>,
    /// Versions of the PROXY header with which each connection must begin: `v1`, `v2` or `any`. Absent without `proxy_in`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_in: Option<String>,
    /// Results of the daemon's own probes of it. Absent without `verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyState>,
    /// The last time in which it was not well. Absent if the daemon has seen none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_incident: Option<IncidentState>,
    /// Its figures over time. Absent unless the request asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<CurveState>,
    /// Rates of its flows since an earlier snapshot. Only in a view that keeps that one; not in the JSON.
    #[serde(skip)]
    pub rates: Rates,
}

/// Results of the daemon's own probes of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyState {
    /// By the last probe.
    pub state: VerifyStateName,
    /// How well the tunnel is by the last probe, if there is no newer result although one is due.
    #[serde(with = "HealthInJson")]
    pub health: Health,
    /// Time since which it has this state, and the same stage and cause, in seconds since 1970 (UTC).
    pub since_unix_seconds: f64,
    /// Time of the last result, in seconds since 1970 (UTC). Absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_unix_seconds: Option<f64>,
    /// Time between two probes, in seconds.
    pub interval_seconds: f64,
    /// Maximum time of a probe, in seconds.
    pub timeout_seconds: f64,
    /// The broken stage, such as `WAN`. Absent while the tunnel is not broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How it shows: `refused`, `no answer` or `failed`. Absent while the tunnel is not broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Details about the broken stage. Absent while the tunnel is not broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Why no probe can be made now, or why the last one has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hindrance: Option<String>,
    /// Whether another host has the tunnel's address, as on a backup relay.
    pub elsewhere: bool,
    /// Time since which another host has the address, in seconds since 1970 (UTC). Only for the metrics.
    #[serde(skip)]
    pub elsewhere_since_unix_seconds: Option<f64>,
    /// Time from which a newer result is waited for, in seconds since 1970 (UTC). Absent before the first result. Only for the
    /// metrics.
    #[serde(skip)]
    pub waited_since_unix_seconds: Option<f64>,
    /// Whether no result has come for longer than the interval and a probe's maximum time.
    pub overdue: bool,
    /// Why there is no newer result. Absent if none is overdue and a probe can be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_newer: Option<String>,
    /// The last 100 results, the newest last.
    pub history: Vec<VerifyResult>,
}

impl VerifyState {
    /// Returns the age of the last result and why there is no newer one, as views write it after the state. `now` is in seconds
    /// since 1970 (UTC).
    pub fn lateness(&self, now: f64) -> String {
        lateness(self.no_newer.as_deref(), self.last_unix_seconds.map(|last| now - last))
    }
}

/// State of a tunnel by the daemon's own probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyStateName {
    /// No probe has had a result.
    #[default]
    Pending,
    /// Every stage answered, and the payload came back whole.
    Whole,
    /// A stage is broken.
    Broken,
}

/// Result of one of the daemon's own probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyResult {
    /// Time when the probe ended, in seconds since 1970 (UTC).
    pub unix_seconds: f64,
    /// Whether the tunnel was whole.
    pub whole: bool,
    /// The broken stage. Absent if the tunnel was whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How it showed: `refused`, `no answer` or `failed`. Absent if the tunnel was whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Time that the probe took, in seconds.
    pub seconds: f64,
    /// Round-trip time of a small message over the whole path, in milliseconds. Absent if none came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Payload in each direction, in bits per second. Absent if none came back. A probe is too short to fill a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bits_per_second: Option<u64>,
}

/// The figures of a tunnel over time. Each list has an entry for each interval, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurveState {
    /// Begin of the first interval, in seconds since 1970 (UTC).
    pub from_unix_seconds: f64,
    /// Length of an interval, in seconds.
    pub interval_seconds: u64,
    /// Mean rate from the clients to the next hops, in bits per second. None where nobody looked.
    pub up_bits_per_second: Vec<Option<f64>>,
    /// The same in the other direction.
    pub down_bits_per_second: Vec<Option<f64>>,
    /// Largest number of live flows.
    pub flows: Vec<u32>,
    /// Number of flows whose dial no next hop answered.
    pub failed_dials: Vec<u32>,
    /// Largest round-trip time of the WAN legs, in milliseconds. None if no leg has sent anything lately.
    pub wan_rtt_ms: Vec<Option<f64>>,
    /// Number of the daemon's own probes that found the tunnel whole.
    pub verify_whole: Vec<u8>,
    /// Number of those that found a broken stage.
    pub verify_broken: Vec<u8>,
    /// The lower one of the caps of the tunnel and of the daemon, in bits per second. None without one.
    pub cap_bits_per_second: Vec<Option<f64>>,
    /// The times in which the tunnel was not well, the oldest first.
    pub incidents: Vec<IncidentState>,
}

/// A time in which a tunnel was stalled, doubtful or broken, or its clients did not answer: one outage, with all of its stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentState {
    /// Its begin, in seconds since 1970 (UTC).
    pub from_unix_seconds: f64,
    /// Its end, in seconds since 1970 (UTC).
    pub until_unix_seconds: f64,
    /// Whether the last look has seen it. Then its end is the time of that look.
    pub goes_on: bool,
    /// The worst health of the tunnel in this time.
    #[serde(with = "HealthInJson")]
    pub health: Health,
    /// The part that did not work then, such as `WAN`.
    pub stage: String,
}

/// A next hop of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HopState {
    /// The next hop, as configured.
    pub next_hop: String,
    /// Whether it may be dialled.
    #[serde(with = "HopStateInJson")]
    pub state: HopStateName,
    /// How well it is.
    #[serde(with = "HealthInJson")]
    pub health: Health,
    /// Time since it last changed its state, in seconds.
    pub state_seconds: f64,
    /// Number of flows to it, with those that are being dialled.
    pub flows_now: u64,
    /// Smoothed time of its handshakes, in milliseconds. Absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Number of failed dials since it last answered, or passed `rise` checks in a row.
    pub failed_dials: u64,
    /// Time since the first of them, in seconds. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_seconds: Option<f64>,
    /// How and when its last dial or check failed, as views write it: `refused 2s ago, failing for 12s`. Or for how long its flows
    /// have had no answer. Absent if none of it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Time since any flow to it had an answer, in seconds, if all that carry bytes wait for one. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_seconds: Option<f64>,
    /// Why the last dial or check failed that did: `refused`, `no answer`, `reset`, `unreachable`, `cannot be resolved`,
    /// `failed`, or the broken stage of a check by `verify` with the same words. Absent if none has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Time since then, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_seconds: Option<f64>,
    /// The last answer for its name. Absent if the hop is an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<NameState>,
    /// Why a relay refuses the probes of its checks, so that they see only the connection. Absent if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_refusal: Option<String>,
    /// Time since the first check that was refused, in seconds. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_refusal_seconds: Option<f64>,
    /// Its weight.
    pub weight: u32,
}

/// The last answer of the resolvers for the name of a next hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameState {
    /// Whether it has an address, by the last good answer of a resolver.
    pub has_address: bool,
    /// Time since which no resolver answers for it, in seconds since 1970 (UTC). Absent while one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_since_unix_seconds: Option<f64>,
    /// Why the last query had no answer. Absent while resolvers answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_why: Option<String>,
    /// Time since which resolvers say that it does not exist, or has no address, in seconds since 1970 (UTC). In an outage,
    /// that was their last answer. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_since_unix_seconds: Option<f64>,
    /// Which of the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_why: Option<String>,
}

/// Names of the states in JSON. They are here, and not in longhaul-core, because that crate knows no JSON. Code uses
/// [`HopStateName`], [`Phase`] and [`Health`]; serde refuses to compile if the variants differ.
#[derive(Serialize, Deserialize)]
#[serde(remote = "HopStateName", rename_all = "kebab-case")]
enum HopStateInJson {
    Up,
    SlowStart,
    Ejected,
    Down,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Phase", rename_all = "kebab-case")]
enum PhaseInJson {
    Serving,
    Draining,
    Stopping,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Health", rename_all = "kebab-case")]
enum HealthInJson {
    Good,
    Waiting,
    Unknown,
    Failing,
    Stalled,
    Doubtful,
    Broken,
}

/// Events of the control socket and of the HTTP listener, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdminCounters {
    /// Requests that were answered, also with an error.
    pub requests: u64,
    /// Connections to the control socket by another user than root and the daemon's.
    pub refused: u64,
    /// Connections that ended because of bytes that are no HTTP request, or of a first request that did not come in time.
    pub malformed: u64,
    /// Connections that were closed because a newer one needed their place.
    pub displaced: u64,
}
