//! A path: round trip, rate, loss and MTU, from flags or from the file of a measured path.

mod file;
mod limited;
mod value;

#[cfg(test)]
pub(crate) use file::parse;
pub use file::{Measured, read_measured};
pub(crate) use file::{read_as, read_json};
pub use limited::Limited;
pub(crate) use value::{help, read_rate, read_rtt, read_system, unknown};

use crate::show::round_trip;
use clap::Args;
use file::Direction;
use longhaul_core::advice::{ENCAPSULATIONS, Encapsulation, Goal, System};
use longhaul_core::path::laws::{self, MAX_WINDOW, packet};
use longhaul_units::{Bytes, Rate};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use value::{read_encapsulation, read_loss, read_mtu};

/// The flags of a path. A value that the file of `--from` lacks comes from its flag, and a flag replaces the file's value.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PathFlags {
    /// Round trip of the path
    ///
    /// From 10us to 1min. Take the smallest value of ping.
    #[arg(long, value_name = "TIME", value_parser = read_rtt, allow_hyphen_values = true)]
    rtt: Option<Duration>,
    /// Rate of the path
    ///
    /// From 1kbit/s to 10000Gbit/s. It counts IP bytes, as routers do. Take it from the contract.
    #[arg(long, value_parser = read_rate, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// Share of packets lost at random [default: 0]
    ///
    /// A percentage below 100%, such as 0.01%.
    #[arg(long, value_name = "SHARE", value_parser = read_loss, allow_hyphen_values = true)]
    loss: Option<f64>,
    /// MTU of the link in bytes [default: 1500]
    ///
    /// That of the line itself, outside the encapsulation. From 576 to 65535.
    #[arg(long, value_name = "BYTES", value_parser = read_mtu)]
    mtu: Option<u32>,
    #[arg(long, value_name = "KIND", value_parser = read_encapsulation, help = ENCAP, long_help = encap())]
    encap: Option<&'static Encapsulation>,
    /// File that `longhaul path --json` wrote
    ///
    /// `-` is standard input. A flag replaces the file's value.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Direction of the file's path: up or down
    ///
    /// The path may differ in the two directions. Up is from the machine that measured to the other. By default that of the file's
    /// first finding.
    #[arg(long, value_name = "WAY", requires = "from", hide_possible_values = true)]
    direction: Option<Direction>,
}

/// A path for which everything can be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The round trip.
    pub(crate) rtt: Duration,
    /// The rate of the line, in IP bits.
    pub(crate) rate: Rate,
    /// Whether the line carries at least that, as nothing reached its limit.
    pub(crate) is_least: bool,
    /// The share of packets lost at random, from 0 to below 1.
    pub(crate) loss: f64,
    /// The MTU of the link in bytes, outside the encapsulation.
    pub(crate) mtu: u32,
    /// The encapsulation on the path.
    pub(crate) encapsulation: Option<&'static Encapsulation>,
    /// Whether its packets are of IPv6.
    pub(crate) is_ipv6: bool,
}

impl PathFlags {
    /// Whether the path comes from a file.
    pub(crate) fn has_from(&self) -> bool {
        self.from.is_some()
    }

    /// Returns the path, and what limited one connection there if the file tells. What neither a flag nor the file tells comes from
    /// `fallback`.
    ///
    /// # Errors
    /// Round trip or rate is missing, or the file cannot be used: a sentence that says what to write.
    pub(crate) fn read(&self, fallback: Option<Path>) -> Result<(Path, Option<Limited>), String> {
        let measured = match &self.from {
            Some(file) => file::read(file, self.direction)?,
            None => Measured::default(),
        };
        let rtt = self.rtt.or(measured.rtt).or(fallback.map(|path| path.rtt));
        let rate = self.rate.or(measured.rate).or(fallback.map(|path| path.rate));
        let (Some(rtt), Some(rate)) = (rtt, rate) else {
            let (missing, flags) = match (rtt, rate) {
                (None, None) => ("--rtt and --rate are", "--rtt 63ms --rate 1Gbit/s"),
                (None, _) => ("--rtt is", "--rtt 63ms"),
                _ => ("--rate is", "--rate 1Gbit/s"),
            };
            return Err(match &self.from {
                Some(file) => format!("{} does not have it: {missing} missing; add {flags}", file.display()),
                None => format!("{missing} missing: add {flags}, or name a measured path with --from FILE"),
            });
        };
        let path = Path {
            rtt,
            rate,
            is_least: self.rate.is_none() && measured.is_least,
            loss: self.loss.or(measured.loss).unwrap_or(0.0),
            mtu: self.mtu.or(measured.uncut_mtu()).or(fallback.map(|path| path.mtu)).unwrap_or(ETHERNET_MTU),
            // A measured MTU is what fits inside. `--encap` with it subtracts once more, as it says.
            encapsulation: self
                .encap
                .or(fallback.filter(|_| measured.mtu.is_none()).and_then(|path| path.encapsulation)),
            is_ipv6: measured.is_ipv6,
        };
        Ok((path, measured.limited))
    }
}

impl Path {
    /// Returns a path of Ethernet without loss and without an encapsulation.
    pub(crate) fn new(rtt: Duration, rate: Rate) -> Path {
        Path { rtt, rate, is_least: false, loss: 0.0, mtu: ETHERNET_MTU, encapsulation: None, is_ipv6: false }
    }

    /// Returns the bandwidth-delay product.
    pub(crate) fn bandwidth_delay(&self) -> Bytes {
        laws::bandwidth_delay(self.rate, self.rtt)
    }

    /// Returns twice the bandwidth-delay product: a window of the product alone falls below the rate after each loss.
    pub(crate) fn window(&self) -> Bytes {
        Bytes(self.bandwidth_delay().0.saturating_mul(2)).min(MAX_WINDOW)
    }

    /// Returns what the path needs of a host with this system.
    pub(crate) fn goal(&self, system: &System) -> Goal {
        Goal {
            window: self.window().min(system.max_window),
            packet: self.packet(),
            is_packet_short: self.is_packet_short(),
            has_loss: self.loss > 0.0,
        }
    }

    /// Returns the largest IP packet of a host that fits into the path, in bytes.
    pub(crate) fn packet(&self) -> u32 {
        // Every encapsulation of the table fits into the smallest MTU.
        self.encapsulation.and_then(|encapsulation| encapsulation.overhead.max_inner(self.mtu)).unwrap_or(self.mtu)
    }

    /// Whether that is smaller than the packets that a host on Ethernet sends.
    pub(crate) fn is_packet_short(&self) -> bool {
        self.packet() < ETHERNET_MTU
    }

    /// Returns the largest MSS that fits into the path.
    pub(crate) fn mss_clamp(&self) -> u32 {
        self.packet().saturating_sub(packet::headers(self.is_ipv6))
    }

    /// Returns the payload that the line carries in full segments that fit.
    pub(crate) fn line(&self) -> Rate {
        let on_line =
            self.encapsulation.map_or(self.packet(), |encapsulation| encapsulation.overhead.outer_bytes(self.packet()));
        laws::line_rate(self.rate, self.mss_clamp(), on_line)
    }

    /// Returns the payload that arrives over the line at best: lost packets take their share of it.
    pub(crate) fn goodput(&self) -> Rate {
        Rate((self.line().0 as f64 * (1.0 - self.loss)) as u64)
    }
}

impl fmt::Display for Path {
    /// Writes the path for people: `63ms, 1Gbit/s, 0.07 % loss, MTU 1500, esp-gcm`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_more = if self.is_least { " or more" } else { "" };
        write!(f, "{}, {}{or_more}, ", round_trip(self.rtt), self.rate)?;
        match self.loss > 0.0 {
            // As f32, because 0.07 % would be 0.07000000000000001 %.
            true => write!(f, "{} % loss", (self.loss * 100.0) as f32)?,
            false => write!(f, "no loss")?,
        }
        write!(f, ", MTU {}", self.mtu)?;
        self.encapsulation.map_or(Ok(()), |encapsulation| write!(f, ", {}", encapsulation.name))
    }
}

fn encap() -> String {
    help(ENCAP, ENCAPSULATIONS.iter().map(|encapsulation| encapsulation.name), "")
}

const ENCAP: &str = "Encapsulation on the path";
/// MTU of Ethernet.
const ETHERNET_MTU: u32 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_it_was_written() {
        let path = Path::new(Duration::from_millis(63), Rate(1_000_000_000));
        assert_eq!(path.to_string(), "63ms, 1Gbit/s, no loss, MTU 1500");
        assert_eq!(Path { is_least: true, ..path }.to_string(), "63ms, 1Gbit/s or more, no loss, MTU 1500");
        let path = Path { loss: 0.07 / 100.0, encapsulation: Encapsulation::named("esp-gcm"), ..path };
        assert_eq!(path.to_string(), "63ms, 1Gbit/s, 0.07 % loss, MTU 1500, esp-gcm");
    }
}
