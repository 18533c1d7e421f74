//! The file of a measured path: the JSON document of `longhaul path --json`.
//!
//! A value that is missing or null is unknown.

use super::limited::Limited;
use super::value::{MAX_RATE, MAX_RTT, MIN_RATE, MIN_RTT, check_mtu};
use clap::ValueEnum;
use longhaul_core::path::laws::{bandwidth_delay, packet};
use longhaul_core::text::printable;
use longhaul_units::{Bytes, Rate};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// A direction of a measured path, as `longhaul path` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Direction {
    /// From this machine to the other.
    #[default]
    Up,
    /// From the other machine to this.
    Down,
}

/// The values of one direction in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The smallest round trip.
    pub rtt: Option<Duration>,
    /// The bottleneck's rate.
    pub rate: Option<Rate>,
    /// Whether nothing reached that rate's limit: the line carries at least that.
    pub is_least: bool,
    /// The share of packets lost, from 0 to below 1.
    pub loss: Option<f64>,
    /// The path's MTU in bytes.
    pub mtu: Option<u32>,
    /// Limit of one connection.
    pub limited: Option<Limited>,
    /// Congestion control of the sender.
    pub congestion: Option<String>,
    /// The largest packet that no box cuts into fragments, if larger ones are the limit.
    pub uncut: Option<u32>,
    /// Whether it is a path of IPv6.
    pub is_ipv6: bool,
}

/// The document, as far as it is read here. serde ignores the other fields.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    rtt_ms: Option<RoundTrip>,
    #[serde(default)]
    rate_mbps: Option<Ways<f64>>,
    #[serde(default)]
    line_reached: Option<Ways<bool>>,
    #[serde(default)]
    loss: Option<Ways<f64>>,
    #[serde(default)]
    path_mtu: Option<Ways<u32>>,
    #[serde(default)]
    uncut_mss: Option<Ways<u32>>,
    #[serde(default)]
    address: Option<SocketAddr>,
    #[serde(default)]
    findings: Vec<Finding>,
    #[serde(default)]
    runs: Vec<RunOfFile>,
}

/// A finding, as far as it is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Finding {
    #[serde(flatten)]
    limited: Limited,
    then_limited_by: Option<String>,
}

/// A run, as far as it is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RunOfFile {
    direction: String,
    congestion: String,
    payload_mbps: f64,
    peer_window_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct RoundTrip {
    min: Option<f64>,
}

/// A value for each direction.
#[derive(Clone, Copy, Deserialize)]
struct Ways<T> {
    up: Option<T>,
    down: Option<T>,
}

impl Direction {
    /// Returns the direction called `name`.
    fn named(name: &str) -> Option<Direction> {
        Direction::from_str(name, false).ok()
    }

    fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

impl<T: Copy> Ways<T> {
    fn of(self, direction: Direction) -> Option<T> {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

/// Reads the measured path in the file at `path`, or in standard input for `-`, in the direction of its first finding.
///
/// # Errors
/// The file cannot be read, is no measured path, is of another version, or has a value that no path has.
pub fn read_measured(path: &Path) -> Result<Measured, String> {
    read(path, None)
}

/// Reads the file at `path`, or standard input for `-`. Without a direction, that of the first finding counts.
///
/// # Errors
/// The file cannot be read, is no measured path, is of another version, or has a value that no path has.
pub(super) fn read(path: &Path, direction: Option<Direction>) -> Result<Measured, String> {
    read_as(path, |document: Document| document.measured(direction))
}

/// Reads the file at `path`, or standard input for `-`, as far as `D` has its fields. `check` checks the values.
///
/// # Errors
/// The file cannot be read, is no measured path, is of another version, or `check` refuses it.
pub(crate) fn read_as<D: DeserializeOwned, T>(
    path: &Path,
    check: impl FnOnce(D) -> Result<T, String>,
) -> Result<T, String> {
    read_json(path, FILE, |text| parse(text).and_then(check))
}

/// Reads the file at `path`, or standard input for `-`. `name` says which file to name instead of one that cannot be read.
///
/// # Errors
/// The file cannot be read, or `parsed` refuses it.
pub(crate) fn read_json<T>(
    path: &Path,
    name: &str,
    parsed: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let text = match path.as_os_str() == "-" {
        true => bounded(io::stdin().lock()),
        false => File::open(path).and_then(bounded),
    };
    parsed(&text.map_err(|err| named(format!("{err}; {name}")))?).map_err(named)
}

/// Reads all of `source`, up to [`MAX_BYTES`].
fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("it is larger than 16 MiB")),
        false => Ok(text),
    }
}

/// Returns the document in `text`, as far as `D` has its fields.
///
/// # Errors
/// It is no measured path, or is of another version.
pub(crate) fn parse<D: DeserializeOwned>(text: &[u8]) -> Result<D, String> {
    // PowerShell writes a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|err| format!("it is no JSON ({err}); {EXPECTED}"))?;
    let kind = value.get("longhaul").and_then(serde_json::Value::as_str);
    if kind != Some("path") {
        let kind = kind.map(|kind| printable(kind).take(40).collect::<String>());
        let found = kind.map(|kind| format!("it is what `longhaul {kind} --json` wrote; ")).unwrap_or_default();
        return Err(format!("{found}{EXPECTED}"));
    }
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(FORMAT) => {}
        Some(newer) if newer > FORMAT => {
            return Err(format!(
                "its format is {newer}, and this longhaul reads {FORMAT}: use the longhaul that wrote it"
            ));
        }
        _ => return Err(format!("its format is not {FORMAT}; {EXPECTED}")),
    }
    serde_json::from_value(value).map_err(|err| format!("{err}; {EXPECTED}"))
}

impl Measured {
    /// Returns the largest packet that the path carries, and that no box cuts.
    pub(crate) fn uncut_mtu(&self) -> Option<u32> {
        self.uncut.into_iter().chain(self.mtu).min()
    }
}

impl Document {
    /// Returns the values of one direction: without one given, that of the first finding, or else up.
    ///
    /// # Errors
    /// A value is outside the range of its flag.
    fn measured(&self, direction: Option<Direction>) -> Result<Measured, String> {
        let of_first = self.findings.first().and_then(|first| Direction::named(&first.limited.direction));
        let direction = direction.or(of_first).unwrap_or_default();
        let rtt = self.rtt_ms.as_ref().and_then(|rtt| rtt.min).map(|ms| {
            let rtt = Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default();
            let is_possible = (MIN_RTT..=MAX_RTT).contains(&rtt);
            is_possible.then_some(rtt).ok_or_else(|| format!("rtt_ms.min is {ms}; a round trip is from 10us to 1min"))
        });
        let rate = self.rate_mbps.and_then(|rate| rate.of(direction)).map(|mbps| {
            let rate = Rate((mbps * 1e6).round() as u64);
            let is_possible = (MIN_RATE..=MAX_RATE).contains(&rate);
            is_possible
                .then_some(rate)
                .ok_or_else(|| format!("rate_mbps is {mbps}; a rate is from 1kbit/s to 10000Gbit/s"))
        });
        let loss = self.loss.and_then(|loss| loss.of(direction)).map(|loss| {
            let is_possible = (0.0..1.0).contains(&loss);
            is_possible.then_some(loss).ok_or_else(|| format!("loss is {loss}; it is a share from 0 to below 1"))
        });
        let mtu = self.path_mtu.and_then(|mtu| mtu.of(direction));
        let mtu = mtu.map(|mtu| check_mtu(mtu).map_err(|why| format!("path_mtu is {mtu}; {why}")));
        let (rtt, rate, loss, mtu) = (rtt.transpose()?, rate.transpose()?, loss.transpose()?, mtu.transpose()?);
        let congestion = self.first_run(direction).map(|run| run.congestion.clone());
        let (finding, is_ipv6) = (self.finding(direction), self.address.is_some_and(|address| address.is_ipv6()));
        let uncut = self.uncut_mss.and_then(|uncut| [uncut.up, uncut.down].into_iter().flatten().min());
        let is_cut = finding.is_some_and(|finding| finding.limited.kind == "fragmentation");
        let uncut = uncut.filter(|_| is_cut).map(|mss| check_mtu(mss.saturating_add(packet::headers(is_ipv6))));
        Ok(Measured {
            rtt,
            rate,
            is_least: self.line_reached.and_then(|reached| reached.of(direction)) == Some(false),
            // Losses of a queue, of a policer or of fragments are none at random.
            loss: loss.filter(|_| finding.is_none_or(Finding::is_of_loss)),
            mtu,
            limited: finding.map(|finding| self.limited(finding, direction, rtt)),
            congestion: congestion.filter(|name| !name.is_empty()),
            uncut: uncut.transpose().map_err(|why| format!("uncut_mss: {why}"))?,
            is_ipv6,
        })
    }

    fn first_run(&self, direction: Direction) -> Option<&RunOfFile> {
        self.runs.iter().find(|run| run.direction == direction.name())
    }

    /// Returns the first finding of `direction`, if its limit is known.
    fn finding(&self, direction: Direction) -> Option<&Finding> {
        let is_known = |limited: &Limited| limited.direction == direction.name() && limited.kind != "unknown";
        self.findings.iter().find(|finding| is_known(&finding.limited))
    }

    /// Returns the limit of `direction`, with what the rest of the document tells of it.
    fn limited(&self, finding: &Finding, direction: Direction, rtt: Option<Duration>) -> Limited {
        let run = self.first_run(direction);
        let in_flight = |run: &RunOfFile| Some(bandwidth_delay(Rate((run.payload_mbps * 1e6) as u64), rtt?));
        let window = match finding.limited.kind.as_str() {
            "receiver-window" => run.and_then(|run| run.peer_window_bytes).map(Bytes),
            "own-send-buffer" | "peer-send-buffer" => run.and_then(in_flight),
            _ => None,
        };
        Limited {
            window: window.filter(|bytes| bytes.0 >= 512),
            rate: run.map(|run| Rate((run.payload_mbps * 1e6) as u64)),
            far: self.address.map(|address| address.ip().to_string()).unwrap_or_default(),
            ..finding.limited.clone()
        }
    }
}

impl Finding {
    /// Whether random loss is a limit, or the next one.
    fn is_of_loss(&self) -> bool {
        self.limited.kind == "random-loss" || self.then_limited_by.as_deref() == Some("random-loss")
    }
}

/// The version of the document that is read here.
const FORMAT: u64 = 1;
const MAX_BYTES: u64 = 16 << 20;
const FILE: &str = "name a file that `longhaul path HOST:PORT --save FILE` wrote";
const EXPECTED: &str =
    "a measured path has \"longhaul\": \"path\" and \"format\": 1; `longhaul path HOST:PORT --save FILE` writes one";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAVED: &[u8] = include_bytes!("../../tests/page/path.json");

    fn parse(text: &[u8], direction: Direction) -> Result<Measured, String> {
        super::parse(text).and_then(|document: Document| document.measured(Some(direction)))
    }

    fn refused(text: &str) -> String {
        parse(text.as_bytes(), Direction::Up).expect_err(text)
    }

    #[test]
    fn each_direction_has_its_own_values() {
        let text = br#"{"longhaul": "path", "format": 1, "rtt_ms": {"min": 63.0, "loaded_up": 70}, "rate_mbps": {"up": 941.5, "down": null},
            "line_reached": {"up": false, "down": null}, "loss": {"down": 0.001}, "path_mtu": {"up": 1400, "down": 1500}, "mss": 1360, "bdp_bytes": 7875000, "findings": []}"#;
        let (rtt, rate) = (Some(Duration::from_millis(63)), Some(Rate(941_500_000)));
        let up = Measured { rtt, rate, is_least: true, mtu: Some(1400), ..Measured::default() };
        assert_eq!(parse(text, Direction::Up), Ok(up.clone()));
        let up = Measured { is_least: false, ..up };
        assert_eq!(parse(text, Direction::Down), Ok(Measured { rate: None, loss: Some(0.001), mtu: Some(1500), ..up }));
    }

    #[test]
    fn the_limit_of_a_direction_is_its_first_finding() {
        let text = br#"{"longhaul": "path", "format": 1, "findings": [
            {"kind": "receiver-window", "leg": null, "direction": "up", "evidence": "full", "what_if_mbps": 473.3,
             "then_limited_by": "link-rate", "advice": "Raise it."},
            {"kind": "unknown", "direction": "down", "evidence": "", "what_if_mbps": null, "advice": ""}],
            "runs": [{"direction": "up", "peer_window_bytes": 44032}]}"#;
        let up = parse(text, Direction::Up).unwrap().limited.unwrap();
        assert_eq!(up.window, Some(Bytes(44_032)));
        let said = "Measured: one connection up is limited by receiver-window: full. Without that limit it would carry 473.3 Mbit/s.";
        assert_eq!(up.to_string(), said);
        assert_eq!(parse(text, Direction::Down).unwrap().limited, None);
    }

    #[test]
    fn another_document_is_refused_with_what_to_write() {
        assert!(refused("").contains("it is no JSON"));
        assert!(refused("{}").contains("a measured path has"));
        assert!(refused(r#"{"longhaul": "advise", "format": 1}"#).contains("`longhaul advise --json` wrote"));
        assert!(refused(r#"{"longhaul": "\u001b[31mX", "format": 1}"#).contains("`longhaul ?[31mX --json`"));
        assert!(refused(r#"{"longhaul": "path", "format": 2}"#).contains("this longhaul reads 1"));
        assert!(refused(r#"{"longhaul": "path"}"#).contains("format is not 1"));
        let with = |field: &str| refused(&format!(r#"{{"longhaul": "path", "format": 1, {field}}}"#));
        assert!(with(r#""rtt_ms": {"min": -1}"#).contains("rtt_ms.min is -1"));
        assert!(with(r#""rtt_ms": {"min": 1e300}"#).contains("10us to 1min"));
        assert!(with(r#""rate_mbps": {"up": 0}"#).contains("rate_mbps is 0"));
        assert!(with(r#""loss": {"up": 1}"#).contains("below 1"));
        assert!(with(r#""path_mtu": {"up": 100}"#).contains("576"));
        assert!(with(r#""path_mtu": 1500"#).contains("invalid type"));
    }

    proptest! {
        #[test]
        fn no_text_panics(at in 0..SAVED.len(), byte: u8) {
            let mut text = SAVED.to_vec();
            text[at] = byte;
            let _ = parse(&text, Direction::Up);
        }
    }
}
