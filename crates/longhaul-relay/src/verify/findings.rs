//! The stages of a tunnel's path as a probe found them.

use longhaul_core::health::{Cause, Stage, Trouble};
use longhaul_core::wire::answer::{Next, Report};
use std::net::SocketAddr;
use std::time::Duration;

/// The stages that answered, and the one that did not.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Time until the tunnel's listener accepted.
    pub connected: Option<Duration>,
    /// The address of the prober, which the tunnel's `allow` must contain.
    pub prober: Option<SocketAddr>,
    /// The relays that reported, the near one first.
    pub relays: Vec<Relay>,
    /// The payload that came back.
    pub echo: Option<Echo>,
    /// The tunnel's own address, if a relay has connected to it for this probe: the tunnels lead in a loop.
    pub came_back: Option<SocketAddr>,
    /// Whether a relay has asked for a proof, and the prober has no key.
    pub lacks_key: bool,
    /// Where the path ends. `None` if it is whole.
    pub trouble: Option<Trouble>,
}

impl Findings {
    /// Whether the listener connected and nobody behind it did anything: no report came, and no end of the connection.
    pub fn is_silent(&self) -> bool {
        let is_unanswered = |trouble: &Trouble| trouble.stage == Stage::Relay(0) && trouble.cause == Cause::NoAnswer;
        self.connected.is_some() && self.trouble.as_ref().is_some_and(is_unanswered)
    }

    /// Whether the last relay that reported has ended the probe by its report: its dial failed, or it refuses the probe.
    pub(super) fn has_last_report(&self) -> bool {
        self.relays.last().is_some_and(|relay| !matches!(relay.report.next, Next::Echo | Next::PassedOn))
    }

    /// Whether a relay had answered too many probes to answer this one.
    pub fn is_busy(&self) -> bool {
        self.relays.last().is_some_and(|relay| relay.report.next == Next::Busy)
    }

    /// Returns the trouble that the payload took too long, while bytes still came. Flows may well be served.
    pub fn lateness(&self) -> Option<&Trouble> {
        self.trouble.as_ref().filter(|trouble| !trouble.is_certain && trouble.stage == Stage::Data)
    }

    /// Returns the trouble that a relay which works does not answer this probe: another key, another version, no `verify_hops`,
    /// too many probes. Flows may well be served. Silence is another thing: a relay that hangs is silent.
    pub fn refusal(&self) -> Option<&Trouble> {
        self.trouble.as_ref().filter(|trouble| !trouble.is_certain && trouble.cause == Cause::Failed)
    }
}

/// A relay that reported.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Its report.
    pub report: Report,
    /// Time from the preface to its report.
    pub after: Duration,
    /// Its clock minus the prober's when the report came, in µs. It does not consider that the report was on its way.
    pub clock_ahead_us: i64,
}

/// The payload that came back whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echo {
    /// Number of bytes.
    pub bytes: u32,
    /// Least round-trip time of a small message over the whole path.
    pub rtt: Duration,
    /// Number of those bytes that were sent without a pause, and the time until they were back.
    pub bulk_bytes: u32,
    /// See `bulk_bytes`.
    pub bulk_time: Duration,
    /// CRC-32C of all bytes.
    pub checksum: u32,
}

impl Echo {
    /// Returns the goodput in bytes per second, there and back at the same time.
    pub fn goodput(&self) -> f64 {
        f64::from(self.bulk_bytes) / self.bulk_time.as_secs_f64().max(1e-6)
    }
}
