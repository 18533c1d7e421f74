//! The JSON document of a measured path, as far as pages and comparisons show it. docs/path.md has its fields.
//!
//! A value that is missing or null is unknown. A document may be of another host or another program: its texts are printable here, and
//! its numbers are within their ranges.

use crate::path::read_as;
use longhaul_core::path::diagnosis::Kind;
use longhaul_core::text::printable;
use longhaul_measure::message::Direction;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// A measured path. Rates are in 10^6 bit/s, times in ms, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Document {
    /// The far end as it was named.
    pub(super) to: String,
    /// The tunnel through which it was measured.
    pub(super) tunnel: Option<String>,
    /// The command and the version that measured.
    pub(super) command: Option<String>,
    pub(super) version: Option<String>,
    /// When it began, in UTC (RFC 3339), and the name of the host that measured.
    pub(super) began: Option<String>,
    pub(super) host: Option<String>,
    pub(super) far: Far,
    /// Whether the measurement came to its end, with a run at least.
    pub(super) complete: bool,
    /// Why not, if the measurement ended before its time.
    pub(super) ended: Option<String>,
    pub(super) rtt_ms: RoundTrips,
    /// Time for which a small message waited before the first run.
    pub(super) idle_queue_ms: Ways<f64>,
    pub(super) rate_mbps: Ways<f64>,
    /// Whether `rate_mbps` is the rate of the line. Otherwise the line has at least that.
    pub(super) line_reached: Ways<bool>,
    /// Share of the bytes that were lost.
    pub(super) loss: Ways<f64>,
    /// Share of datagrams that came after one that was sent later.
    pub(super) reordering: Ways<f64>,
    pub(super) path_mtu: Ways<u32>,
    /// Sizes that were tried, and whether they arrived.
    pub(super) mtu_ladder: Ways<Vec<(u32, bool)>>,
    /// Share of the datagrams in fragments that arrived.
    pub(super) fragments_arrive: Ways<f64>,
    /// Time that the connection took.
    pub(super) connect_ms: Option<f64>,
    pub(super) mss: Option<u32>,
    pub(super) bdp_bytes: Option<u64>,
    /// The limits of the path, first the one that is worth most to lift.
    pub(super) findings: Vec<Finding>,
    pub(super) runs: Vec<Run>,
    pub(super) notes: Vec<String>,
}

/// The far host; both are empty if it does not answer to us.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Far {
    pub(super) name: String,
    pub(super) version: String,
}

/// Round trips in ms.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RoundTrips {
    pub(super) min: Option<f64>,
    /// Each of the small messages.
    pub(super) idle: Vec<f64>,
    pub(super) loaded_up: Option<f64>,
    pub(super) loaded_down: Option<f64>,
}

/// A value for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Ways<T> {
    pub(super) up: Option<T>,
    pub(super) down: Option<T>,
}

impl Document {
    /// Returns what stands before a number that grows with the rate of the line: words if no run and no train has reached that.
    pub(super) fn least(&self) -> &'static str {
        let is_reached = Direction::ALL.iter().any(|way| self.line_reached.of(*way) == Some(&true));
        if is_reached { "" } else { "at least " }
    }
}

/// The limit of one direction.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Finding {
    /// The name of a [`Kind`], or of one that a later longhaul has.
    pub(super) kind: String,
    pub(super) direction: Direction,
    #[serde(default)]
    pub(super) evidence: String,
    #[serde(default)]
    pub(super) what_if_mbps: Option<f64>,
    #[serde(default)]
    pub(super) then_limited_by: Option<String>,
    #[serde(default)]
    pub(super) advice: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Run {
    pub(super) direction: Direction,
    pub(super) connections: u32,
    /// The sender's congestion control.
    #[serde(default)]
    pub(super) congestion: String,
    #[serde(default)]
    pub(super) mss: u32,
    /// Time of sending in seconds.
    #[serde(default)]
    pub(super) seconds: f64,
    /// Rate of payload over its second half.
    pub(super) payload_mbps: f64,
    /// The metrics of RFC 6349, as ratios.
    #[serde(default)]
    pub(super) transfer_time_ratio: Option<f64>,
    #[serde(default)]
    pub(super) tcp_efficiency: Option<f64>,
    #[serde(default)]
    pub(super) buffer_delay: Option<f64>,
    /// Time in ms, and bytes that had arrived by then.
    #[serde(default)]
    pub(super) series: Vec<(f64, u64)>,
    /// Time in ms, and round trip in ms.
    #[serde(default)]
    pub(super) rtt_ms: Vec<(f64, f64)>,
}

impl<T> Ways<T> {
    /// Returns the value of `direction`.
    pub(super) fn of(&self, direction: Direction) -> Option<&T> {
        match direction {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }
}

impl Document {
    /// Returns the document in the file at `path`, or on standard input for `-`.
    ///
    /// # Errors
    /// The file cannot be read, is no measured path, is of another version, or has a value that no path has.
    pub(super) fn read(path: &Path) -> Result<Document, String> {
        read_as(path, Document::checked)
    }

    /// Returns the document in `value`.
    ///
    /// # Errors
    /// A field is of another type, or has a value that no path has.
    pub(super) fn of(value: Value) -> Result<Document, String> {
        serde_json::from_value(value).map_err(|err| err.to_string()).and_then(Document::checked)
    }

    /// Returns the first run in `direction`: one connection with what both hosts choose.
    pub(super) fn first(&self, direction: Direction) -> Option<&Run> {
        self.runs.iter().find(|run| run.direction == direction)
    }

    /// Returns the finding of `direction` whose removal gains most.
    pub(super) fn finding(&self, direction: Direction) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.direction == direction)
    }

    /// Returns the round trip under load in `direction`.
    pub(super) fn loaded_rtt(&self, direction: Direction) -> Option<f64> {
        match direction {
            Direction::Up => self.rtt_ms.loaded_up,
            Direction::Down => self.rtt_ms.loaded_down,
        }
    }

    /// Returns the document with printable texts.
    ///
    /// # Errors
    /// A number is outside its range.
    pub(super) fn checked(mut self) -> Result<Document, String> {
        self.check_numbers()?;
        let Document { to, tunnel, command, version, began, host, far, ended, findings, runs, notes, .. } = &mut self;
        let texts = [
            Some(to),
            tunnel.as_mut(),
            command.as_mut(),
            version.as_mut(),
            began.as_mut(),
            host.as_mut(),
            Some(&mut far.name),
            Some(&mut far.version),
            ended.as_mut(),
        ];
        let findings = findings.iter_mut().flat_map(|finding| {
            let Finding { kind, evidence, then_limited_by, advice, .. } = finding;
            [Some(kind), Some(evidence), then_limited_by.as_mut(), Some(advice)]
        });
        let runs = runs.iter_mut().map(|run| Some(&mut run.congestion));
        for text in texts.into_iter().chain(findings).chain(runs).chain(notes.iter_mut().map(Some)).flatten() {
            *text = printable(text).collect();
        }
        Ok(self)
    }

    /// # Errors
    /// A number is outside its range.
    fn check_numbers(&self) -> Result<(), String> {
        for direction in Direction::ALL {
            check("rate_mbps", self.rate_mbps.of(direction).copied(), MAX_MBPS)?;
            check("idle_queue_ms", self.idle_queue_ms.of(direction).copied(), MAX_MS)?;
            check("reordering", self.reordering.of(direction).copied(), 1.0)?;
            check("loss", self.loss.of(direction).copied(), 1.0)?;
            // A path may deliver a datagram twice.
            check("fragments_arrive", self.fragments_arrive.of(direction).copied(), 2.0)?;
            check("rtt_ms.loaded", self.loaded_rtt(direction), MAX_MS)?;
        }
        check("rtt_ms.min", self.rtt_ms.min, MAX_MS)?;
        check("connect_ms", self.connect_ms, MAX_MS)?;
        check("rtt_ms.idle", self.rtt_ms.idle.iter().copied(), MAX_MS)?;
        check("what_if_mbps", self.findings.iter().filter_map(|finding| finding.what_if_mbps), MAX_MBPS)?;
        for run in &self.runs {
            check("payload_mbps", [run.payload_mbps], MAX_MBPS)?;
            check("seconds", [run.seconds], MAX_MS / 1e3)?;
            check("the time of series", run.series.iter().map(|(at, _)| *at), MAX_MS)?;
            check("rtt_ms of a run", run.rtt_ms.iter().flat_map(|(at, rtt)| [*at, *rtt]), MAX_MS)?;
        }
        Ok(())
    }
}

impl Finding {
    /// Whether it says nothing.
    pub(super) fn is_unknown(&self) -> bool {
        self.kind == Kind::Unknown.name()
    }
}

/// # Errors
/// One of `values` is not from 0 to `max`.
pub(super) fn check(name: &str, values: impl IntoIterator<Item = f64>, max: f64) -> Result<(), String> {
    match values.into_iter().find(|value| !(0.0..=max).contains(value)) {
        None => Ok(()),
        Some(value) => Err(format!(
            "{name} is {value}, and no path has that: it is from 0 to {max}; measure again with `longhaul path HOST:PORT --save FILE`"
        )),
    }
}

/// 10 Tbit/s.
const MAX_MBPS: f64 = 1e7;
/// An hour: more than any session and any round trip lasts.
const MAX_MS: f64 = 3.6e6;
