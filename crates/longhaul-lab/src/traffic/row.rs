//! A row of the table: a kind of traffic, its inputs and its results.

use crate::carrier::row::{PORT, Protocol, Running};
use crate::error::LabError;
use crate::plan::law::{self, Law, Load, Subject};
use crate::plan::outside::Outside;
use crate::plan::place::{Direction, Host};
use crate::plan::setup::Setup;
use crate::traffic::beside::Beside;
use crate::world::requirement::Requirement;
use crate::world::user::User;
use crate::world::wan::Wan;
use longhaul_link::Ledger;
use longhaul_units::Bytes;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The traffic of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// The program or generator.
    pub(crate) kind: &'static Kind,
    /// Number of connections, or copies, at once.
    pub(crate) connections: u32,
    /// Approximate duration. The size of a copy follows from it and the expected speed.
    pub(crate) time: Duration,
    /// The size of a copy, or of a message.
    pub(crate) size: Option<Bytes>,
    /// Messages per second.
    pub(crate) rate: Option<f64>,
    /// The direction of the bytes.
    pub(crate) direction: Direction,
    /// Another program's flows on the same WAN.
    pub(crate) outside: Option<Outside>,
}

/// One kind of traffic.
pub(crate) struct Kind {
    /// Its name in scenarios and results.
    pub(crate) name: &'static str,
    /// Its description, in a few words.
    pub(crate) what: &'static str,
    /// The subject of a sentence about a transfer, such as "this scp copy".
    pub(crate) subject: &'static str,
    /// The programs and files without which it cannot run.
    pub(crate) needs: &'static [Requirement],
    /// The laws that limit it, besides those of the WAN. They determine how much to send.
    pub(crate) laws: &'static [Law],
    /// The results that the report explains.
    pub(crate) counts: Counts,
    /// The optional keys of `traffic` that it heeds.
    pub(crate) keys: &'static [Heeds],
    /// The server on host B.
    pub(crate) server: ServedBy,
    /// The largest permitted `size` in bytes; 0 if the kind has no `size`.
    pub(crate) max_size: u64,
    /// Its further figures.
    pub(crate) figures: &'static [Figure],
    /// Maximum number of connections at once.
    pub(crate) max_connections: u32,
    /// Starts servers, creates files, and sends the traffic to its last byte.
    pub(crate) run: fn(&Drive<'_>) -> Result<Measured, LabError>,
}

/// A key of `traffic` that not every kind heeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heeds {
    /// `rate`, messages per second.
    Rate,
    /// `direction`.
    Direction,
    /// `outside`.
    Outside,
}

/// The server on host B that answers a kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// sshd.
    Sshd,
    /// An FTP server. Only carriers of [`Protocol::Ftp`] lead to its data connections.
    Ftpd,
    /// A program of its own, or the lab itself.
    Own,
}

/// A further figure of a kind of traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Its name in scenarios and results.
    pub(crate) name: &'static str,
    /// Whether it counts errors, or resources of a flow, which other programs do not change.
    pub(crate) is_exact: bool,
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

/// The input of a kind of traffic.
pub(crate) struct Drive<'a> {
    /// The lab.
    pub(crate) wan: &'a Wan,
    /// The running carrier.
    pub(crate) running: &'a Running,
    /// The traffic that the scenario asks for.
    pub(crate) traffic: Traffic,
    /// The link, and the settings of hosts and relays.
    pub(crate) setup: &'a Setup,
    /// The congestion control of the sender over the WAN.
    pub(crate) congestion: &'a str,
    /// The user who runs the lab, for sshd.
    pub(crate) user: &'a User,
    /// Told by the traffic while it flows.
    pub(crate) beside: &'a Arc<Beside>,
    /// Must be called when the traffic begins and its connections exist. The engine then begins to sample.
    pub(crate) began: &'a (dyn Fn() + Sync),
}

/// The result of a kind of traffic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// Number of connections that were cut off because they had not ended long after their time.
    pub(crate) cut: usize,
    /// Whether every byte was compared with the sent byte. A difference is a [`LabError`], or is in `wrong`.
    pub(crate) checked: bool,
    /// Flows with wrong bytes or endings, each with the observations of its ends.
    pub(crate) wrong: Vec<String>,
    /// Bytes per second after the start.
    pub(crate) speed: f64,
    /// The time over which the speed was measured; zero if none was measured.
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

impl ServedBy {
    /// Returns the protocol that a carrier must know to lead to this server.
    pub(crate) fn protocol(self) -> Protocol {
        match self {
            ServedBy::Ftpd => Protocol::Ftp,
            ServedBy::Sshd | ServedBy::Own => Protocol::Tcp,
        }
    }
}

impl Kind {
    /// The base of the rows. The lab itself is the server, and the results are figures.
    pub(crate) const BASE: Kind = Kind {
        name: "",
        what: "",
        subject: "",
        needs: &[],
        laws: &[],
        counts: Counts::Figures,
        keys: &[],
        server: ServedBy::Own,
        max_size: 0,
        figures: &[],
        max_connections: THREADED,
        run: |_| Err(LabError::Lacking("this kind of traffic names no program".into())),
    };

    /// Whether no disturbance changes the figure of that name.
    pub(crate) fn is_exact(&self, name: &str) -> bool {
        self.figures.iter().any(|figure| figure.name == name && figure.is_exact)
    }
}

/// Returns a figure that other programs change: a time, a rate, or a count of work done.
pub(crate) const fn varies(name: &'static str) -> Figure {
    Figure { name, is_exact: false }
}

/// Returns a figure that other programs do not change.
pub(crate) const fn exact(name: &'static str) -> Figure {
    Figure { name, is_exact: true }
}

impl Drive<'_> {
    /// Returns the address of the server on host B.
    pub(crate) fn server(&self) -> SocketAddr {
        SocketAddr::new(Host::B.lan(), PORT)
    }

    /// Returns the number of bytes that take about the scenario's time to copy, or the scenario's size.
    pub(crate) fn copy_size(&self) -> u64 {
        // A host's window is a limit only where the host itself sends over the WAN.
        let by_itself = self.running.programs.is_empty();
        let counts = |law: &&Law| by_itself || law.subject != Subject::Hosts;
        let laws: Vec<Law> = self.traffic.kind.laws.iter().filter(counts).chain(&[law::LINE]).copied().collect();
        let loss = law::loss(&self.setup.link, self.congestion, self.setup.link.rtt).unwrap_or(f64::INFINITY);
        let by_loss = loss * f64::from(self.traffic.connections);
        let speed = law::slowest(self.setup, self.traffic.load(), &laws).min(by_loss).min(FASTEST_COPY);
        let bytes = speed / f64::from(self.traffic.connections) * self.traffic.time.as_secs_f64();
        self.traffic.size.map_or(bytes as u64, |size| size.0).clamp(1, LARGEST_COPY)
    }
}

/// Returns the time after which the speed of a transfer is measured. Before it, slow start limits the speed.
pub(crate) fn warm_up(setup: &Setup, time: Duration) -> Duration {
    // Twelve doublings fill any path of the library. A short run is limited to half its time.
    (setup.link.rtt * 12).max(time / 4).min(time / 2)
}

impl Measured {
    /// Returns the speed of `bytes` bytes between two moments.
    pub(crate) fn between(bytes: u64, from: Instant, to: Instant) -> Measured {
        let over = to.saturating_duration_since(from);
        Measured { bytes, speed: bytes as f64 / over.as_secs_f64().max(1e-9), over, ..Measured::default() }
    }

    /// Returns the result with its speed limited to the highest rate at which the link delivered payload in any period of that
    /// length.
    ///
    /// A receiver may read faster for a while, because bytes that waited behind a lost segment or in a relay before the clock
    /// started arrive after it. The time of a copy is too short if its own login was faster than the measured login.
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

/// Maximum of connections that take two threads or a process each. With more, the scheduler of this machine is measured.
pub(crate) const THREADED: u32 = 1000;
/// Maximum `size` of a stream in bytes. It is generated while it is sent.
pub(crate) const LARGEST_STREAM: u64 = 1 << 40;
/// Maximum `size` of a copied file in bytes. It is in memory once at each end.
pub(crate) const LARGEST_COPY: u64 = 2 << 30;
/// Maximum `size` of a message in bytes. It is in memory several times.
pub(crate) const LARGEST_MESSAGE: u64 = 16 << 20;
/// Maximum of connections that take only a descriptor at each end.
pub(crate) const MANY: u32 = 100_000;

/// Maximum speed assumed for a copy, in bytes per second. No machine copies faster, and the file must fit into memory twice.
pub(crate) const FASTEST_COPY: f64 = 120e6;
