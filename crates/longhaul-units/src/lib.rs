//! Sizes, rates and times as people write them. Units live in the type: a bare integer never leaves the function that
//! parsed it.
//!
//! [`Bytes`] and [`Rate`] are read from config files and command lines (`256KiB`, `1Gbit/s`) and printed in reports.
//! Times are [`std::time::Duration`]; [`duration`] reads them.
//! Decimal prefixes are powers of 1000, binary prefixes powers of 1024 (IEC 80000-13).

#![forbid(unsafe_code)]

mod meant;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A count of bytes. Written `1500`, `64KiB`, `2MB`; printed with the largest binary prefix that is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A rate in bits per second, as links are sold. Written `1Gbit/s` or `1Gbit`, and in bytes as `120MB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(pub u64);

/// Reason why a quantity cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// The text does not start with a number.
    NoNumber,
    /// The number has no unit.
    NoUnit,
    /// This kind of quantity has no such unit.
    UnknownUnit {
        /// The unit as it is written, at most 20 characters of it.
        unit: String,
        /// The quantity that was probably meant, such as `5min` for `5m`; `None` if that is not clear.
        meant: Option<String>,
    },
    /// The quantity is too large for 64 bits.
    TooLarge,
    /// The quantity is not a whole number of bytes.
    Fraction,
    /// The text is no percentage such as `0.1%`, between 0 and 100 %.
    NoPercentage,
}

impl Rate {
    /// Returns the rate in bytes per second, rounded down.
    pub fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        match scaled(text, &SIZE)? {
            (bytes, true) => Ok(Bytes(bytes)),
            _ => Err(UnitError::Fraction),
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        scaled(text, &RATE).map(|(bits, _)| Rate(bits))
    }
}

/// Reads a time such as `63ms`, `1.5s`, `2min`, `1h`, `250us`. `0` needs no unit; any other number does.
///
/// # Errors
/// [`UnitError`] if there is no number, if the unit is unknown or missing, or if the time is 292 years or more.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    scaled(text, &TIME).map(|(nanos, _)| Duration::from_nanos(nanos))
}

/// Reads `0.1%` as 0.001, and `0` as 0. Any other number needs its `%`, because 0.1 could mean 10 %.
///
/// # Errors
/// [`UnitError::NoPercentage`] for anything else.
pub fn percentage(text: &str) -> Result<f64, UnitError> {
    let text = text.trim();
    if text == "0" {
        return Ok(0.0);
    }
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    number.filter(|number| (0.0..=100.0).contains(number)).map(|number| number / 100.0).ok_or(UnitError::NoPercentage)
}

/// Formats `time` with the largest unit in which it is a whole number: `63ms`, `90s`, `2h`. [`duration`] reads it back.
pub fn show_duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    for (unit, size) in [("d", 86_400_000_000_000u128), ("h", 3_600_000_000_000), ("min", 60_000_000_000)] {
        // Exactly one of a unit is written in the smaller unit, as in the kernel's tables: 60s, not 1min.
        if nanos > size && nanos % size == 0 {
            return format!("{}{unit}", nanos / size);
        }
    }
    for (unit, size) in [("s", 1_000_000_000u128), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos % size == 0 {
            return format!("{}{unit}", nanos / size);
        }
    }
    format!("{nanos}ns")
}

/// Returns a time in seconds with its two largest units: `2h03m`.
pub fn age(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, ..) => format!("{hours}h{minutes:02}m"),
        (1000.., ..) => format!("{days}d"),
        _ => format!("{days}d{hours:02}h"),
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size && self.0 % size == 0 {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)] {
            if self.0 as f64 >= size {
                let text = format!("{:.3}", self.0 as f64 / size);
                return write!(f, "{}{unit}", text.trim_end_matches('0').trim_end_matches('.'));
            }
        }
        write!(f, "{}bit/s", self.0)
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::NoNumber => f.write_str("it does not start with a number"),
            UnitError::NoUnit => f.write_str("it has no unit"),
            // The debug form escapes control characters.
            UnitError::UnknownUnit { unit, meant: None } => write!(f, "unknown unit {unit:?}"),
            UnitError::UnknownUnit { unit, meant: Some(meant) } => {
                write!(f, "unknown unit {unit:?} (did you mean {meant}?)")
            }
            UnitError::TooLarge => f.write_str("it is too large"),
            UnitError::Fraction => f.write_str("it is not a whole number of bytes"),
            UnitError::NoPercentage => f.write_str("not a percentage from 0% to 100%, such as 0.1%"),
        }
    }
}

impl std::error::Error for UnitError {}

/// A kind of quantity.
struct Kind {
    /// Its units, each with its size in the smallest unit.
    units: &'static [(&'static str, f64)],
    /// Returns the unit that an unknown unit means.
    meant: fn(&str) -> Option<&'static str>,
}

/// Splits `text` into a decimal number and a unit. Returns their product, rounded, and whether the product is whole.
fn scaled(text: &str, kind: &Kind) -> Result<(u64, bool), UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let digits = text[..end].replace('_', "");
    let number: f64 = digits.parse().map_err(|_| UnitError::NoNumber)?;
    let unit = text[end..].trim();
    let factor = kind.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = factor.ok_or_else(|| unknown(&text[..end], unit, kind))?;
    if let Ok(whole) = digits.parse::<u64>() {
        // Integers, because an f64 would round a product above 2^53. Every factor is a whole number.
        let value = whole.checked_mul(factor as u64).filter(|value| *value < 1 << 63);
        return value.map(|value| (value, true)).ok_or(UnitError::TooLarge);
    }
    let value = number * factor;
    // Above 2^63 an f64 has steps of more than 1,000. No real quantity is that large.
    if value >= 9.2e18 {
        return Err(UnitError::TooLarge);
    }
    // 2.3MB is whole, but 2.3 has no exact f64, so the last bits of the product may differ.
    let is_whole = (value - value.round()).abs() <= 2.0 * f64::EPSILON * value;
    Ok((value.round() as u64, is_whole))
}

/// Returns the error of a `number` whose `unit` is missing or unknown.
fn unknown(number: &str, unit: &str, kind: &Kind) -> UnitError {
    if unit.is_empty() {
        return UnitError::NoUnit;
    }
    let is_short = number.len() <= SHOWN_MAX && unit.len() <= SHOWN_MAX;
    let meant = if is_short { (kind.meant)(unit) } else { None };
    let meant = meant.map(|unit| format!("{number}{unit}"));
    UnitError::UnknownUnit { unit: unit.chars().take(SHOWN_MAX).collect(), meant }
}

/// Maximum length of a number or unit that an error repeats.
const SHOWN_MAX: usize = 20;

const SIZE: Kind = Kind { units: SIZE_UNITS, meant: meant::size };
const RATE: Kind = Kind { units: RATE_UNITS, meant: meant::rate };
const TIME: Kind = Kind { units: TIME_UNITS, meant: meant::time };

const SIZE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
];

const RATE_UNITS: &[(&str, f64)] = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("Mbit", 1e6),
    ("Gbit", 1e9),
    ("B/s", 8.0),
    ("kB/s", 8e3),
    ("MB/s", 8e6),
    ("GB/s", 8e9),
];

const TIME_UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9), ("d", 86400e9)];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!("256KiB".parse(), Ok(Bytes(262144)));
        assert_eq!("2 MB".parse(), Ok(Bytes(2_000_000)));
        assert_eq!("1.5KiB".parse(), Ok(Bytes(1536)));
        assert_eq!("2.3MB".parse(), Ok(Bytes(2_300_000)));
        assert_eq!("1Gbit/s".parse(), Ok(Rate(1_000_000_000)));
        assert_eq!("2.5Gbit".parse(), Ok(Rate(2_500_000_000)));
        assert_eq!("120MB/s".parse(), Ok(Rate(960_000_000)));
        assert_eq!(duration("63ms"), Ok(Duration::from_millis(63)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
    }

    #[test]
    fn wrong_quantities_are_refused() {
        assert_eq!("KiB".parse::<Bytes>(), Err(UnitError::NoNumber));
        assert_eq!("12 parsecs".parse::<Bytes>(), Err(unknown_unit("parsecs", None)));
        assert_eq!("99999999999999TB".parse::<Bytes>(), Err(UnitError::TooLarge));
        assert_eq!("1254.5".parse::<Bytes>(), Err(UnitError::Fraction));
        assert_eq!("1.1KiB".parse::<Bytes>(), Err(UnitError::Fraction));
        assert_eq!(duration("63"), Err(UnitError::NoUnit));
        assert_eq!("190".parse::<Rate>(), Err(UnitError::NoUnit));
        assert_eq!("1Gb".parse::<Rate>(), Err(unknown_unit("Gb", None)), "Gb could mean bits or bytes");
        assert_eq!(duration(&format!("1{}", "x".repeat(1000))), Err(unknown_unit(&"x".repeat(20), None)));
    }

    #[test]
    fn an_unknown_unit_with_one_meaning_gets_a_suggestion() {
        let times = [
            ("60 seconds", "60s"),
            ("5 sec", "5s"),
            ("2 Minutes", "2min"),
            ("100\u{b5}s", "100us"),
            ("1.5 hours", "1.5h"),
        ];
        for (text, meant) in times {
            assert_eq!(meant_by(duration(text)).as_deref(), Some(meant), "{text}");
        }
        let sizes = [
            ("4M", "4MiB"),
            ("128K", "128KiB"),
            ("128k", "128KiB"),
            ("2mib", "2MiB"),
            ("4mb", "4MB"),
            ("64KB", "64kB"),
            ("1254 bytes", "1254B"),
        ];
        for (text, meant) in sizes {
            assert_eq!(meant_by(text.parse::<Bytes>()).as_deref(), Some(meant), "{text}");
        }
        let rates = [("190mbit/s", "190Mbit/s"), ("100Mbps", "100Mbit/s"), ("1 Gb/s", "1Gbit/s"), ("60MBps", "60MB/s")];
        for (text, meant) in rates {
            assert_eq!(meant_by(text.parse::<Rate>()).as_deref(), Some(meant), "{text}");
        }
    }

    #[test]
    fn an_ambiguous_unit_gets_no_suggestion() {
        for text in ["5M", "5m", "5w", "5,5s", "5 s s"] {
            assert_eq!(meant_by(duration(text)), None, "{text}");
        }
        for text in ["4Mb", "4Mib", "4b", "4 Mbit"] {
            assert_eq!(meant_by(text.parse::<Bytes>()), None, "{text}");
        }
        for text in ["190M", "100mbps", "100mb/s", "1Gb", "1GB", "5MiB/s"] {
            assert_eq!(meant_by(text.parse::<Rate>()), None, "{text}");
        }
    }

    #[test]
    fn every_suggestion_is_accepted() {
        for unit in ["M", "k", "Kib", "bytes", "sec", "MINUTES", "Mbps", "KB/s", "bits"] {
            let text = format!("3{unit}");
            let accepted = [
                meant_by(duration(&text)).is_none_or(|meant| duration(&meant).is_ok()),
                meant_by(text.parse::<Bytes>()).is_none_or(|meant| meant.parse::<Bytes>().is_ok()),
                meant_by(text.parse::<Rate>()).is_none_or(|meant| meant.parse::<Rate>().is_ok()),
            ];
            assert_eq!(accepted, [true; 3], "{text}");
        }
    }

    #[test]
    fn the_manual_lists_every_unit() {
        let manual = include_str!("../../../docs/configuration.md");
        let format = manual.split("\n## ").find(|section| section.starts_with("Format")).expect("a section Format");
        let line = |kind: &str, units: &[(&str, f64)]| {
            let names: Vec<String> = units
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| !name.is_empty())
                .map(|name| format!("`{name}`"))
                .collect();
            format!("| {kind} | {} |", names.join(", "))
        };
        for line in [line("size", SIZE_UNITS), line("time", TIME_UNITS), line("rate", RATE_UNITS)] {
            assert!(format.contains(&line), "docs/configuration.md lacks: {line}");
        }
    }

    fn unknown_unit(unit: &str, meant: Option<&str>) -> UnitError {
        UnitError::UnknownUnit { unit: unit.into(), meant: meant.map(Into::into) }
    }

    /// Returns the suggestion in the error of `read`.
    fn meant_by<T>(read: Result<T, UnitError>) -> Option<String> {
        match read {
            Err(UnitError::UnknownUnit { meant, .. }) => meant,
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn printed_bytes_are_read_back(n in 0u64..1 << 50) {
            prop_assert_eq!(Bytes(n).to_string().parse(), Ok(Bytes(n)));
        }

        #[test]
        fn shown_times_are_read_back(millis in 0u64..1 << 40) {
            let time = Duration::from_millis(millis);
            prop_assert_eq!(duration(&show_duration(time)), Ok(time));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Rate>();
            let _ = duration(&text);
        }
    }
}
