//! Numbers and times as short texts, the same in every view. No number or age has more than eight characters, so the columns
//! of the tables stay narrow.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
pub use longhaul_units::age;

/// Returns a rate in bits per second with three digits: `1.23G`.
pub fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second)
}

/// Returns a number of bytes with three digits: `1.23MB`.
pub fn bytes(number: u64) -> String {
    scaled(number as f64) + "B"
}

/// Returns a number with three digits and the prefix of its unit: `812`, `1.23k`, `45.6M`.
fn scaled(number: f64) -> String {
    if !number.is_finite() {
        return "-".into();
    }
    let mut number = number.max(0.0);
    // Below these limits, the rounded number has three digits and fits its place.
    if number < 999.5 {
        return format!("{number:.0}");
    }
    for prefix in ["k", "M", "G", "T", "P"] {
        number /= 1000.0;
        let digits = match number {
            number if number < 9.995 => 2,
            number if number < 99.95 => 1,
            number if number < 999.5 => 0,
            _ => continue,
        };
        return format!("{number:.digits$}{prefix}");
    }
    "999P+".into()
}

/// Returns a round-trip time given in milliseconds: `63.2ms`.
pub fn rtt(ms: f64) -> String {
    match ms {
        ms if !ms.is_finite() => "-".into(),
        ms if ms < 9.995 => format!("{:.2}ms", ms.max(0.0)),
        ms if ms < 99.95 => format!("{ms:.1}ms"),
        ms if ms < 9999.5 => format!("{ms:.0}ms"),
        ms if ms < 9_999_500.0 => format!("{:.0}s", ms / 1000.0),
        _ => ">9999s".into(),
    }
}

/// Returns the time of day of `unix_seconds`, in seconds since 1970, in `zone`. With the date, unless that is today.
pub fn clock(unix_seconds: f64, now_unix_seconds: f64, zone: &TimeZone) -> String {
    let zoned = |seconds: f64| -> Option<Zoned> {
        // A cast of a float saturates, so a wrong number is only a wrong time.
        Some(Timestamp::from_second(seconds as i64).ok()?.to_zoned(zone.clone()))
    };
    match (zoned(unix_seconds), zoned(now_unix_seconds)) {
        (Some(then), Some(now)) if then.date() == now.date() => then.strftime("%H:%M:%S").to_string(),
        (Some(then), _) => then.strftime("%Y-%m-%d %H:%M").to_string(),
        _ => "?".into(),
    }
}

/// Returns a number and its noun: `1 flow`, `2,000 flows`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// Returns a number with a comma after each three digits.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_stay_narrow() {
        let shown = [0.0, 1.0, 999.0, 999.6, 1234.0, 9_996.0, 45_600.0, 999_600.0, 1.23e9, 1e15, 1e30].map(rate);
        assert_eq!(shown, ["0", "1", "999", "1.00k", "1.23k", "10.0k", "45.6k", "1.00M", "1.23G", "1.00P", "999P+"]);
        assert_eq!([f64::NAN, -1.0].map(rate), ["-", "0"]);
        assert_eq!([0, 1448, u64::MAX].map(bytes), ["0B", "1.45kB", "999P+B"]);
        assert_eq!([0.05, 63.21, 9.996, 120.4, 12_000.0].map(rtt), ["0.05ms", "63.2ms", "10.0ms", "120ms", "12s"]);
        assert_eq!([0.4, 61.0, 7380.0, 90_000.0, 1e9].map(age), ["0s", "1m01s", "2h03m", "1d01h", "11574d"]);
        assert_eq!([1, 999, 2000, 1_234_567].map(thousands), ["1", "999", "2,000", "1,234,567"]);
        for number in 0..60 {
            let number = 1.5_f64.powi(number);
            assert!([rate(number), rtt(number), age(number)].iter().all(|text| text.len() <= 8), "{number}");
        }
    }

    #[test]
    fn a_time_of_another_day_has_its_date() {
        let now = 1_700_000_000.0; // 2023-11-14 22:13:20 UTC
        assert_eq!(clock(now - 60.0, now, &TimeZone::UTC), "22:12:20");
        assert_eq!(clock(now - 86_400.0, now, &TimeZone::UTC), "2023-11-13 22:13");
        assert_eq!(clock(f64::NAN, now, &TimeZone::UTC), "1970-01-01 00:00");
        assert_eq!(clock(f64::INFINITY, now, &TimeZone::UTC), "?");
    }
}
