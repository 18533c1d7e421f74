//! A row of the table: a kind of traffic, and what goes into it and comes out of it.

use crate::carrier::{PORT, Running};
use crate::error::LabError;
use crate::plan::law::{
    Law, Load, Subject, {self},
};
use crate::plan::place::{Direction, Host};
use crate::plan::setup::Setup;
use crate::world::requirement::Requirement;
use crate::world::user::User;
use crate::world::wan::Wan;
use longhaul_link::Ledger;
use longhaul_units::Bytes;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// The program or generator.
    pub(crate) kind: &'static Kind,
    /// Number of connections, or copies, at once.
    pub(crate) connections: u32,
    /// Approximate duration: a copy is as large as the expected speed makes of this.
    pub(crate) time: Duration,
    /// The size of a copy, or of a message.
    pub(crate) size: Option<Bytes>,
    /// Messages a second.
    pub(crate) rate: Option<f64>,
    /// The way that the bytes go.
    pub(crate) direction: Direction,
}

/// One kind of traffic.
pub(crate) struct Kind {
    /// Its name in scenarios and results.
    pub(crate) name: &'static str,
    /// Its description, in a few words.
    pub(crate) what: &'static str,
    /// A transfer of it as the subject of a sentence, such as "this scp copy".
    pub(crate) subject: &'static str,
    /// The programs and files without which it cannot run.
    pub(crate) needs: &'static [Requirement],
    /// The laws that limit it besides those of the WAN: from them follows how much to send.
    pub(crate) laws: &'static [Law],
    /// Which of its results count.
    pub(crate) counts: Counts,
    /// The optional keys of `traffic` that it heeds.
    pub(crate) keys: &'static [Heeds],
    /// The server on host B that answers it.
    pub(crate) server: ServedBy,
    /// The largest `size` that it takes, in bytes; 0 when it has none.
    pub(crate) max_size: u64,
    /// Its further figures.
    pub(crate) figures: &'static [Figure],
    /// Maximum number of connections at once.
    pub(crate) max_connections: u32,
    /// Makes it from its servers and files to its last byte.
    pub(crate) run: fn(&Drive<'_>) -> Result<Measured, LabError>,
}

/// A key of `traffic` that not every kind heeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heeds {
    /// `rate`, messages a second.
    Rate,
    /// `direction`.
    Direction,
}

/// The server on host B that answers a kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// sshd.
    Sshd,
    /// A program of its own, or the lab itself.
    Own,
}

/// A further figure of a kind of traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Its name in scenarios and results.
    pub(crate) name: &'static str,
    /// The effect of a disturbance on it.
    pub(crate) effect: Effect,
}

/// The effect on a figure when other programs disturb the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
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

/// The results that the report explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// The speed.
    Speed,
    /// The figures.
    Figures,
    /// Both.
    Both,
}

/// Everything that a kind of traffic needs.
pub(crate) struct Drive<'a> {
    /// The lab.
    pub(crate) wan: &'a Wan,
    /// The carrier at work.
    pub(crate) running: &'a Running,
    /// The traffic that the scenario asks for.
    pub(crate) traffic: Traffic,
    /// The link, and the settings of hosts and relays.
    pub(crate) setup: &'a Setup,
    /// The congestion control of who sends over the WAN.
    pub(crate) congestion: &'a str,
    /// The user who runs the lab, for sshd.
    pub(crate) user: &'a User,
    /// To be called when the traffic begins and its connections exist: from there on the engine samples.
    pub(crate) began: &'a dyn Fn(),
}

/// The error of the operating system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// Connections that had not ended long after their time and were cut off.
    pub(crate) cut: usize,
    /// Whether every byte was compared with what was sent. A difference is a [`LabError`], or is in `wrong`.
    pub(crate) checked: bool,
    /// Flows whose bytes or endings were wrong, each with what its ends saw.
    pub(crate) wrong: Vec<String>,
    /// Bytes a second, once it was under way.
    pub(crate) speed: f64,
    /// The time over which the speed was measured; zero where there is none.
    pub(crate) over: Duration,
    /// Further figures by name, such as `p99_us`.
    pub(crate) figures: Vec<(&'static str, f64)>,
}

impl Traffic {
    /// Returns the facts about it that the laws need.
    pub(crate) fn load(&self) -> Load {
        Load { connections: self.connections, direction: self.direction }
    }
}

impl Kind {
    /// Returns how a disturbance changes the figure of that name.
    pub(crate) fn effect(&self, name: &str) -> Effect {
        // A figure that nobody declared is excused by nothing.
        self.figures.iter().find(|figure| figure.name == name).map_or(Effect::Stays, |figure| figure.effect)
    }
}

/// A figure that a disturbance makes larger.
pub(crate) const fn grows(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Grows }
}

/// A figure that a disturbance makes smaller.
pub(crate) const fn shrinks(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Shrinks }
}

/// A figure that a disturbance makes larger or smaller.
pub(crate) const fn varies(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Varies }
}

/// A figure that no disturbance changes.
pub(crate) const fn stays(name: &'static str) -> Figure {
    Figure { name, effect: Effect::Stays }
}

impl Drive<'_> {
    /// Returns the address of B's server.
    pub(crate) fn server(&self) -> SocketAddr {
        SocketAddr::new(Host::B.lan(), PORT)
    }

    /// Returns the bytes to copy so that it takes about the time that the scenario asks for.
    pub(crate) fn copy_size(&self) -> u64 {
        // A host's window counts where the host itself sends over the WAN.
        let by_itself = self.running.programs.is_empty();
        let counts = |law: &&Law| by_itself || law.row().subject != Subject::Hosts;
        let laws: Vec<Law> = self.traffic.kind.laws.iter().filter(counts).chain(&[Law::Line]).copied().collect();
        let loss = self.setup.link.loss_law(self.congestion, self.setup.link.rtt).unwrap_or(f64::INFINITY);
        let by_loss = loss * f64::from(self.traffic.connections);
        let speed = law::slowest(self.setup, self.traffic.load(), &laws).min(by_loss).min(FASTEST_COPY);
        let bytes = speed / f64::from(self.traffic.connections) * self.traffic.time.as_secs_f64();
        self.traffic.size.map_or(bytes as u64, |size| size.0).clamp(1, LARGEST_COPY)
    }
}

/// Returns the time after which the speed of a transfer is measured: before it, slow start sets the speed.
pub(crate) fn warm_up(setup: &Setup, time: Duration) -> Duration {
    // Twelve doublings fill any path of the library; half of a short run is all there is.
    (setup.link.rtt * 12).max(time / 4).min(time / 2)
}

impl Measured {
    /// The speed of `bytes` bytes between two moments.
    pub(crate) fn between(bytes: u64, from: Instant, to: Instant) -> Measured {
        let over = to.saturating_duration_since(from);
        Measured { bytes, speed: bytes as f64 / over.as_secs_f64().max(1e-9), over, ..Measured::default() }
    }

    /// The same with a speed that is no higher than the link delivered payload in any time as long.
    ///
    /// A receiver may read more than that for a while: what waited behind a lost segment, or in a relay, before the clock began
    /// arrives after it. A login that took longer than the one of the copy makes the copy's own time too short.
    pub(crate) fn at_most(self, link: &Ledger) -> Measured {
        let speed = link.fastest(self.over).map_or(self.speed, |fastest| self.speed.min(fastest));
        Measured { speed, ..self }
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A connection is two threads, or a process: more of them measure this machine's scheduler.
pub(crate) const THREADED: u32 = 1000;
/// A stream is made as it is sent.
pub(crate) const LARGEST_STREAM: u64 = 1 << 40;
/// The lab's files are in memory, once at either end.
pub(crate) const LARGEST_COPY: u64 = 2 << 30;
/// A message is in memory, several times.
pub(crate) const LARGEST_MESSAGE: u64 = 16 << 20;
/// A connection is a descriptor at either end.
pub(crate) const MANY: u32 = 100_000;

/// Faster than this no copy gets on any machine, and its file must fit into memory twice.
pub(crate) const FASTEST_COPY: f64 = 120e6;
