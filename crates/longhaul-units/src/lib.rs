//! Sizes, rates and times as people write them. Units live in the type: a bare integer never leaves the function that
//! parsed it.
//!
//! [`Bytes`] and [`Rate`] are read from config files and command lines (`256KiB`, `1Gbit/s`) and printed in reports.
//! Times are [`std::time::Duration`]; [`duration`] reads them.
//! Decimal prefixes are powers of 1000, binary prefixes powers of 1024 (IEC 80000-13).

#![forbid(unsafe_code)]

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// The text does not start with a number.
    NoNumber,
    /// The unit is missing or unknown for this kind of quantity.
    UnknownUnit,
    /// The quantity is too large for 64 bits.
    TooLarge,
    /// The quantity is not a whole number of bytes.
    Fraction,
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
        match scaled(text, BYTE_UNITS)? {
            (bytes, true) => Ok(Bytes(bytes)),
            _ => Err(UnitError::Fraction),
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        scaled(text, RATE_UNITS).map(|(bits, _)| Rate(bits))
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
    scaled(text, TIME_UNITS).map(|(nanos, _)| Duration::from_nanos(nanos))
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
        f.write_str(match self {
            UnitError::NoNumber => "it does not start with a number",
            UnitError::UnknownUnit => "its unit is missing or unknown",
            UnitError::TooLarge => "it is too large",
            UnitError::Fraction => "it is not a whole number of bytes",
        })
    }
}

impl std::error::Error for UnitError {}

/// Splits `text` into a decimal number and a unit. Returns their product, rounded, and whether the product is whole.
fn scaled(text: &str, units: &[(&str, f64)]) -> Result<(u64, bool), UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let digits = text[..end].replace('_', "");
    let number: f64 = digits.parse().map_err(|_| UnitError::NoNumber)?;
    let unit = text[end..].trim();
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = factor.ok_or(UnitError::UnknownUnit)?;
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

const BYTE_UNITS: &[(&str, f64)] = &[
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
        assert_eq!("12 parsecs".parse::<Bytes>(), Err(UnitError::UnknownUnit));
        assert_eq!("99999999999999TB".parse::<Bytes>(), Err(UnitError::TooLarge));
        assert_eq!("1254.5".parse::<Bytes>(), Err(UnitError::Fraction));
        assert_eq!("1.1KiB".parse::<Bytes>(), Err(UnitError::Fraction));
        assert_eq!(duration("63"), Err(UnitError::UnknownUnit));
        assert_eq!("1Gb".parse::<Rate>(), Err(UnitError::UnknownUnit), "Gb could mean bits or bytes");
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
