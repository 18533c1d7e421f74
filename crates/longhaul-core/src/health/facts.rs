//! The facts that the rules read: plain values, each with its time or its age.

use super::stage::Trouble;
use crate::loops::Doubtful;
use crate::next_hop::HopView;
use crate::permits::Full;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// Facts of the daemon at one moment.
#[derive(Clone, Debug)]
pub struct DaemonFacts<'a> {
    /// The moment.
    pub at: At,
    /// Its tunnels.
    pub tunnels: Vec<TunnelFacts<'a>>,
    /// The resources that are nearly used up.
    pub near_limits: Vec<NearLimit<'a>>,
    /// Why and when the last reload was refused. `None` after a successful one.
    pub refused_reload: Option<(&'a str, SystemTime)>,
}

/// The moment for which a health is asked.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The time of day.
    pub time: SystemTime,
    /// Phase of the daemon.
    pub phase: Phase,
}

impl At {
    /// Returns the time `age` before.
    pub fn before(self, age: Duration) -> SystemTime {
        self.time.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns the time since `then`, or zero if the clock was set back.
    pub(super) fn since(self, then: SystemTime) -> Duration {
        self.time.duration_since(then).unwrap_or_default()
    }
}

/// Phase of the daemon's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It accepts connections.
    #[default]
    Serving,
    /// A command drains it: new connections are to go elsewhere. The process stays, and the drain can be undone.
    Draining,
    /// It waits for its flows to end, and then ends.
    Stopping,
}

impl Phase {
    /// Returns the phase as every view writes it.
    pub fn text(self) -> &'static str {
        match self {
            Phase::Serving => "serving",
            Phase::Draining => "draining",
            Phase::Stopping => "stopping",
        }
    }
}

/// A resource that is nearly used up.
#[derive(Clone, Copy, Debug)]
pub struct NearLimit<'a> {
    /// Name of the resource.
    pub name: &'a str,
    /// The part in use.
    pub warning: &'a str,
    /// The remedy, with its command.
    pub remedy: &'a str,
    /// Time since which it is nearly used up.
    pub since: SystemTime,
}

/// Facts of a tunnel.
#[derive(Clone, Debug, Default)]
pub struct TunnelFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// The address that its listener needs and that is not of this host any more. `None` while it is here.
    pub gone_address: Option<GoneAddress>,
    /// Its next hops.
    pub hops: &'a [HopFacts],
    /// The client whose flows may be the tunnel's own, come back through another relay. `None` without one.
    pub looped: Option<Doubtful>,
    /// The wait of its clients in the listen queue. `None` while none waits.
    pub waiting: Option<Wait>,
    /// Its clients whose flows carry bytes, if all of them owe an answer. `None` otherwise.
    pub stalled_clients: Option<StalledClients>,
    /// The latest problem of its FTP data connections. `None` if there was none lately.
    pub data_problem: Option<&'a DataFacts>,
    /// Time in which active checks find that a next hop is down. `None` without `check`.
    pub checked_within: Option<Duration>,
    /// The daemon's own probes of it. `None` without `verify`.
    pub probes: Option<&'a ProbeFacts>,
}

impl TunnelFacts<'_> {
    /// Returns the time in which its checks or its probes find that its path is broken. Zero without either.
    pub(super) fn found_within(&self) -> Duration {
        let probed = self.probes.map(|probes| probes.interval + probes.timeout);
        probed.max(self.checked_within).unwrap_or_default().min(MAX_FOUND_WITHIN)
    }
}

/// Maximum time for which the log leaves a problem to checks and probes.
const MAX_FOUND_WITHIN: Duration = Duration::from_secs(60);

/// An address of a listener that is not of this host any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoneAddress {
    /// The address.
    pub ip: IpAddr,
    /// Time of the first look that did not find it.
    pub since: SystemTime,
}

/// The clients of a tunnel that do not answer, or the relays through which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledClients {
    /// The lowest of their addresses.
    pub first: IpAddr,
    /// Number of the others.
    pub more: usize,
    /// Time of the last answer of one of them.
    pub since: SystemTime,
}

/// The wait of a tunnel's clients for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Why the tunnel may not have another flow.
    pub full: Full,
    /// Time when the wait began.
    pub since: SystemTime,
}

/// The latest problem of a tunnel's FTP data connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFacts {
    /// Describes the last data connection that was refused or did not come.
    pub what: String,
    /// Time of the first one. Between it and the last one, there was at least one every ten minutes.
    pub since: SystemTime,
    /// Time of the last one.
    pub last: SystemTime,
}

/// Facts of a next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopFacts {
    /// The next hop, as configured.
    pub next_hop: String,
    /// How the choice among next hops sees it.
    pub choice: HopView,
    /// The kind of its last failed dial or check, such as `refused`. `None` if none has failed since the tunnel has the hop.
    pub last_failure: Option<Noted>,
    /// The last answer for its name. `None` if the hop is an address.
    pub name: Option<NameFacts>,
    /// The relay that refuses the probes of its checks, and why, so that they see only the connection. `None` if they see all
    /// that they should.
    pub check_refusal: Option<Noted>,
    /// Time for which its flows seem to come back. `None` if they do not, or if it is not known by which hop they do.
    pub looped_for: Option<Duration>,
}

/// A reason in a few words, and the time since it was first given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The reason.
    pub why: Cow<'static, str>,
    /// Time since then.
    pub age: Duration,
}

/// The last answer for the name of a next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFacts {
    /// Whether it has an address, by the last good answer.
    pub has_address: bool,
    /// Why no resolver answers for it. `None` while one does.
    pub outage: Option<Noted>,
    /// Whether it does not exist or has no address, by the last answer of a resolver. `None` if it has one.
    pub absence: Option<Noted>,
}

/// The daemon's own probes of a tunnel.
#[derive(Clone, Debug)]
pub struct ProbeFacts {
    /// Time since which the tunnel is whole, or broken at the same stage with the same cause. Before the first result, the
    /// time when its probes began.
    pub since: SystemTime,
    /// Time between two probes.
    pub interval: Duration,
    /// Maximum time of a probe.
    pub timeout: Duration,
    /// Why no probe can be made now, or why the last one has no result. `None` if it has one.
    pub hindrance: Option<String>,
    /// Where the tunnel's address is, as far as its probes have noticed.
    pub address: Whereabouts,
    /// Time when it came back to this host, until the next result.
    pub returned_at: Option<SystemTime>,
    /// The last result. `None` before the first one.
    pub last: Option<ProbeResult>,
}

/// Result of one probe.
#[derive(Clone, Debug)]
pub struct ProbeResult {
    /// Time when the probe ended.
    pub at: SystemTime,
    /// Number of relays after the first. A reload may change it, and the stage's name depends on it.
    pub hops: u8,
    /// Where the tunnel is broken. `None` if it is whole.
    pub trouble: Option<Trouble>,
    /// Time that the probe took.
    pub took: Duration,
    /// Round-trip time of a small message over the whole path.
    pub rtt: Option<Duration>,
    /// Bytes per second, there and back at the same time.
    pub goodput: Option<f64>,
}

impl ProbeResult {
    /// Returns the name of the broken stage, such as `WAN`. `None` if the tunnel is whole.
    pub fn stage(&self) -> Option<String> {
        self.trouble.as_ref().map(|trouble| trouble.stage.name(self.hops))
    }

    /// Returns how the broken stage shows: `refused`, `no answer` or `failed`. `None` if the tunnel is whole.
    pub fn cause(&self) -> Option<&'static str> {
        self.trouble.as_ref().map(|trouble| trouble.cause.name())
    }
}

/// Where the address of a tunnel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// On this host.
    Here,
    /// On this host again. No probe has had a result since, so the last one says nothing.
    Returned,
    /// On another host, as on a backup relay.
    Elsewhere {
        /// Time since which it is there.
        since: SystemTime,
    },
}
