//! The values of a path on the command line, each with its range.

use longhaul_core::advice::{ENCAPSULATIONS, Encapsulation, SYSTEMS, System};
use longhaul_core::path::laws::packet;
use longhaul_units::Rate;
use std::time::Duration;

/// Reads a round trip.
///
/// # Errors
/// It is not a time from 10 us to 1 min.
pub(crate) fn read_rtt(text: &str) -> Result<Duration, String> {
    without_comma(text)?;
    let rtt = longhaul_units::duration(text).map_err(|err| format!("{err}; write for example 63ms"))?;
    match (MIN_RTT..=MAX_RTT).contains(&rtt) {
        true => Ok(rtt),
        false => Err("a round trip is from 10us to 1min; write for example 63ms".into()),
    }
}

/// Reads a rate.
///
/// # Errors
/// It is not a rate from 1 kbit/s to 10 Tbit/s.
pub(crate) fn read_rate(text: &str) -> Result<Rate, String> {
    without_comma(text)?;
    let rate: Rate = text.parse().map_err(|err| format!("{err}; write for example 1Gbit/s"))?;
    match (MIN_RATE..=MAX_RATE).contains(&rate) {
        true => Ok(rate),
        false => Err("a rate is from 1kbit/s to 10000Gbit/s; write for example 1Gbit/s".into()),
    }
}

/// Reads a share of lost packets.
///
/// # Errors
/// It is not a percentage below 100 %.
pub(super) fn read_loss(text: &str) -> Result<f64, String> {
    without_comma(text)?;
    let loss = longhaul_units::percentage(text).map_err(|err| format!("{err}"))?;
    if loss < 1.0 { Ok(loss) } else { Err("with a loss of 100% nothing gets through; write for example 0.1%".into()) }
}

/// # Errors
/// A number has a decimal comma.
fn without_comma(text: &str) -> Result<(), String> {
    let Some((_, behind)) = text.split_once(',') else { return Ok(()) };
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    // 1,000 may be meant as either.
    let is_either = digits == 3 && !text.starts_with('0');
    let (whole, point) = (text.replace(',', ""), text.replace(',', "."));
    let write = match text.matches([',', '.']).count() {
        1 if is_either => format!("{whole} or {point}"),
        1 => point,
        // Only the last of several can be the decimal one.
        _ if text.contains('.') => "digits with at most one point, and nothing between thousands".into(),
        _ => whole,
    };
    Err(format!("a number has a point, and no comma; write {write}"))
}

/// Reads an MTU in bytes.
///
/// # Errors
/// As [`check_mtu`].
pub(super) fn read_mtu(text: &str) -> Result<u32, String> {
    let mtu: u32 =
        text.strip_suffix('B').unwrap_or(text).parse().map_err(|_| "it is not a number of bytes such as 1500")?;
    check_mtu(mtu)
}

/// Returns an MTU in bytes that a line can have.
///
/// # Errors
/// It is not from 576 to 65,535.
pub(super) fn check_mtu(mtu: u32) -> Result<u32, String> {
    match (packet::MIN_MTU..=packet::MAX_MTU).contains(&mtu) {
        true => Ok(mtu),
        false => {
            Err(format!("an MTU is from {} to {} bytes; write for example 1500", packet::MIN_MTU, packet::MAX_MTU))
        }
    }
}

/// Returns the encapsulation called `text`.
///
/// # Errors
/// There is none; the message has the nearest name.
pub(super) fn read_encapsulation(text: &str) -> Result<&'static Encapsulation, String> {
    Encapsulation::named(text)
        .ok_or_else(|| unknown(text, ENCAPSULATIONS.iter().map(|encapsulation| encapsulation.name)))
}

/// Returns the system called `text`.
///
/// # Errors
/// There is none; the message has the nearest name.
pub(crate) fn read_system(text: &str) -> Result<&'static System, String> {
    System::named(text.trim()).ok_or_else(|| unknown(text.trim(), SYSTEMS.iter().map(|system| system.name)))
}

/// Returns the long help of a flag that takes one of `names`: the line of its short help, the names, and `more`.
pub(crate) fn help<'k>(short: &str, names: impl Iterator<Item = &'k str>, more: &str) -> String {
    let mut names: Vec<&str> = names.collect();
    let last = names.pop().unwrap_or_default();
    format!("{short}\n\n{} or {last}. {more}", names.join(", ")).trim_end().to_string()
}

/// Returns the message for a word that is none of `known`: the nearest one, and all of them.
pub(crate) fn unknown<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let other = OTHER_NAMES.iter().find(|(other, _)| other.eq_ignore_ascii_case(word)).map(|(_, name)| *name);
    let meant = other.filter(|name| known.clone().any(|known| known == *name)).unwrap_or(word);
    let near = longhaul_config::suggest::nearest(meant, known.clone()).map(|near| format!("did you mean {near}? "));
    format!("{}write one of {}", near.unwrap_or_default(), known.collect::<Vec<_>>().join(", "))
}

pub(super) const MIN_RTT: Duration = Duration::from_micros(10);
pub(super) const MAX_RTT: Duration = Duration::from_secs(60);
pub(super) const MIN_RATE: Rate = Rate(1_000);
pub(super) const MAX_RATE: Rate = Rate(10_000_000_000_000);
/// What people write for the name of a system or an application, and that name.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("as400", "ibmi"),
    ("i5os", "ibmi"),
    ("iseries", "ibmi"),
    ("os400", "ibmi"),
    ("centos", "linux"),
    ("debian", "linux"),
    ("rhel", "linux"),
    ("sles", "linux"),
    ("ubuntu", "linux"),
    ("scp", "ssh"),
    ("sunos", "solaris"),
    ("win", "windows"),
];
