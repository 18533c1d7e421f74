//! What is sent between the hosts: a table, one file and one row a kind of traffic.

mod connections;
mod copies;
mod exchange;
mod idle;
mod iperf3;
mod mix;
mod raw;
mod request;
mod resets;
mod rsync;
mod scp;
mod sftp;

use super::carrier::{PORT, Running};
use super::problem::Problem;
use super::scenario::{Setup, Traffic};
use super::spec::Host;
use super::user::User;
use super::wan::Wan;
use longhaul_link::Ledger;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub(super) use copies::make_file;
pub use raw::{Outcome, transfer};

/// Every kind there is.
pub(super) const ROWS: &[Kind] = &[
    raw::RAW,
    scp::SCP,
    sftp::SFTP,
    rsync::RSYNC,
    iperf3::IPERF3,
    request::REQUEST,
    mix::MIX,
    connections::CONNECTIONS,
    idle::IDLE,
    resets::RESETS,
];

/// One kind of traffic.
pub(super) struct Kind {
    /// Its name in scenarios and results.
    pub(super) name: &'static str,
    /// What it is, in a few words.
    pub(super) what: &'static str,
    /// The laws that limit it besides the line, by name: from them follows how much to send.
    pub(super) laws: &'static [&'static str],
    /// What of it counts.
    pub(super) counts: Counts,
    /// Which of the keys `rate` and `direction` it heeds.
    pub(super) keys: &'static [&'static str],
    /// The largest `size` that it takes, in bytes; 0 when it has none.
    pub(super) largest: u64,
    /// Its further figures.
    pub(super) figures: &'static [Figure],
    /// How many connections it can have at once.
    pub(super) most: u32,
    /// Makes it from its servers and files to its last byte.
    pub(super) run: fn(&Drive<'_>) -> Result<Measured, Problem>,
}

/// A further figure of a kind of traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// Its name in scenarios and results.
    pub(super) name: &'static str,
    /// How a disturbance changes it.
    pub(super) effect: Effect,
}

/// How a figure changes when other programs disturb the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It grows: a time, or a count of events that took too long.
    Grows,
    /// It grows, but what the figure of this name counts is no doing of a disturbance.
    GrowsFrom(&'static str),
    /// It shrinks: a rate, or a count of work done.
    Shrinks,
    /// It may do either.
    Varies,
    /// It stays: errors, and what a flow holds. No disturbance explains a miss.
    Stays,
}

/// What the report gives reasons for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// The speed.
    Speed,
    /// The figures.
    Figures,
    /// Both.
    Both,
}

/// Everything that a kind of traffic needs.
pub(super) struct Drive<'a> {
    /// The lab.
    pub(super) wan: &'a Wan,
    /// The carrier at work.
    pub(super) running: &'a Running,
    /// What the scenario asks for.
    pub(super) traffic: Traffic,
    /// What stands between the hosts.
    pub(super) setup: &'a Setup,
    /// The congestion control of who sends over the WAN.
    pub(super) congestion: &'a str,
    /// Who runs the lab, for sshd.
    pub(super) user: &'a User,
    /// To be called when the traffic begins and its connections exist: from there on the engine samples.
    pub(super) began: &'a dyn Fn(),
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Bytes that arrived.
    pub(super) bytes: u64,
    /// Connections that had not ended long after their time and were cut off.
    pub(super) cut: usize,
    /// Whether every byte was compared with what was sent. A difference is a [`Problem`], or is in `wrong`.
    pub(super) checked: bool,
    /// Flows whose bytes or endings were wrong, each with what its ends saw.
    pub(super) wrong: Vec<String>,
    /// Bytes a second, once it was under way.
    pub(super) speed: f64,
    /// The time over which the speed was measured; zero where there is none.
    pub(super) over: Duration,
    /// Further figures by name, such as `p99_us`.
    pub(super) figures: Vec<(&'static str, f64)>,
}

impl Kind {
    /// Returns how a disturbance changes the figure of that name.
    pub(super) fn effect(&self, name: &str) -> Effect {
        // A figure that nobody declared is excused by nothing.
        self.figures.iter().find(|figure| figure.name == name).map_or(Effect::Stays, |figure| figure.effect)
    }
}

/// A figure that a disturbance makes larger.
const fn grows(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Grows }
}

/// A figure that a disturbance makes smaller.
const fn shrinks(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Shrinks }
}

/// A figure that a disturbance makes larger or smaller.
const fn varies(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Varies }
}

/// A figure that no disturbance changes.
const fn stays(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Stays }
}

impl Drive<'_> {
    /// Where B's server listens.
    pub(super) fn server(&self) -> SocketAddr {
        SocketAddr::new(Host::B.lan(), PORT)
    }

    /// How many bytes to copy so that it takes about the time that the scenario asks for.
    pub(super) fn copy_size(&self) -> u64 {
        // A host's window counts where the host itself sends over the WAN.
        let by_itself = self.running.programs.is_empty();
        let counts = |law: &&&str| by_itself || **law != "window";
        let laws: Vec<&str> = self.traffic.kind.laws.iter().filter(counts).chain(&["line"]).copied().collect();
        let loss = self.setup.link.loss_law(self.congestion, self.setup.link.rtt).unwrap_or(f64::INFINITY);
        let by_loss = loss * f64::from(self.traffic.connections);
        let speed = super::law::least(self.setup, &self.traffic, &laws).min(by_loss).min(FASTEST_COPY);
        let bytes = speed / f64::from(self.traffic.connections) * self.traffic.time.as_secs_f64();
        self.traffic.size.map_or(bytes as u64, |size| size.0).clamp(1, LARGEST_COPY)
    }
}

/// When a transfer is under way: its start is slow start's, and not what is asked for.
pub(super) fn warm_up(setup: &Setup, time: Duration) -> Duration {
    // Twelve doublings fill any path of the library; half of a short run is all there is.
    (setup.link.rtt * 12).max(time / 4).min(time / 2)
}

impl Measured {
    /// The speed of `bytes` bytes between two moments.
    fn between(bytes: u64, from: Instant, to: Instant) -> Measured {
        let over = to.saturating_duration_since(from);
        Measured { bytes, speed: bytes as f64 / over.as_secs_f64().max(1e-9), over, ..Measured::default() }
    }

    /// The same with a speed that is no higher than the link delivered payload in any time as long.
    ///
    /// A receiver may read more than that for a while: what waited behind a lost segment, or in a relay, before the clock began
    /// arrives after it. A login that took longer than the one of the copy makes the copy's own time too short.
    pub(super) fn at_most(self, link: &Ledger) -> Measured {
        let speed = link.fastest(self.over).map_or(self.speed, |fastest| self.speed.min(fastest));
        Measured { speed, ..self }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The kind of traffic of that name.
///
/// # Errors
/// There is none.
pub(super) fn find(name: &str) -> Result<&'static Kind, String> {
    let names = || ROWS.iter().map(|kind| kind.name);
    ROWS.iter().find(|kind| kind.name == name).ok_or_else(|| match longhaul_config::suggest::nearest(name, names()) {
        Some(near) => format!("there is no such traffic; did you mean {near}?"),
        None => format!("there is no such traffic; there is {}", names().collect::<Vec<_>>().join(", ")),
    })
}

/// A connection is two threads, or a process: more of them measure this machine's scheduler.
const THREADED: u32 = 1000;
/// A stream is made as it is sent.
const LARGEST_STREAM: u64 = 1 << 40;
/// The lab's files are in memory, once at either end.
const LARGEST_COPY: u64 = 2 << 30;
/// A message is in memory, several times.
const LARGEST_MESSAGE: u64 = 16 << 20;
/// A connection is a descriptor at either end.
const MANY: u32 = 100_000;

/// Faster than this no copy gets on any machine, and its file must fit into memory twice.
const FASTEST_COPY: f64 = 120e6;
