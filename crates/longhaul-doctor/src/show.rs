//! Numbers and sentences for people.

use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// Returns a rate in MB/s with three digits: `1210`, `119`, `33.3`, `4.16`, `0.273`.
pub(crate) fn speed(rate: Rate) -> String {
    let megabytes = rate.0 as f64 / 8e6;
    match megabytes {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value if value >= 0.9995 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// Returns a size with a decimal unit where that is exact: `2TB`, and otherwise with a binary one.
pub(crate) fn size(bytes: Bytes) -> String {
    let decimal = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let exact = decimal.into_iter().find(|(_, unit)| bytes.0 > 0 && bytes.0 % unit == 0);
    exact.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes.0 / unit))
}

/// Returns a time of `seconds` in its two largest units: `5 d 13 h`, `2 min 5 s`, `1.3 s`.
pub(crate) fn time(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    // A cast from f64 saturates. No transfer takes as long as that.
    let whole = seconds.round() as u64;
    match whole {
        0..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// Returns a round trip as it is written: `63ms`, `63.2ms`, `500us`.
pub(crate) fn round_trip(rtt: Duration) -> String {
    let nanos = rtt.as_nanos();
    match nanos < 1_000_000 || nanos % 1_000_000 == 0 {
        true => longhaul_units::show_duration(rtt),
        // Whole microseconds are finer than any ping.
        false => format!("{}ms", rtt.as_micros() as f64 / 1e3),
    }
}

/// Returns `name` and `text` as indented lines; nothing for an empty text.
pub(crate) fn about(name: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { wrapped(&format!("{name:<10} {text}"), "   ", &" ".repeat(14)) }
}

/// Returns a command as indented lines behind its name; nothing for an empty one. It is not wrapped: it is to be copied.
pub(crate) fn command(name: &str, command: &str) -> String {
    command.lines().map(|line| format!("   {name:<10} {line}\n")).collect()
}

/// Returns the mark behind what was not tried; nothing for what was.
pub(crate) fn unverified(is_verified: bool) -> &'static str {
    if is_verified { "" } else { " (unverified)" }
}

/// Returns `text` in lines of at most 80 columns: the first begins with `first`, and the others with `next`. A longer word stays whole.
pub(crate) fn wrapped(text: &str, first: &str, next: &str) -> String {
    wrapped_to(WIDTH, text, first, next)
}

/// Returns the same in lines of at most `width` columns.
pub(crate) fn wrapped_to(width: usize, text: &str, first: &str, next: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_string();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            lines += line.trim_end();
            lines.push('\n');
            line = next.to_string();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines + line.trim_end() + "\n"
}

const WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let shown = [9_680_000_000, 952_000_000, 266_400_000, 33_288_127, 2_184_533, 0].map(|bits| speed(Rate(bits)));
        assert_eq!(shown, ["1210", "119", "33.3", "4.16", "0.273", "0.000"]);
    }

    #[test]
    fn a_round_trip_is_shown_in_milliseconds() {
        let shown = [63_000, 63_200, 1_234_567, 500, 60_000_000].map(|us| round_trip(Duration::from_micros(us)));
        assert_eq!(shown, ["63ms", "63.2ms", "1234.567ms", "500us", "60s"]);
    }

    #[test]
    fn sizes_are_shown_as_they_were_meant() {
        let shown = [2_000_000_000_000, 1_500_000, 262_144, 65_535, 0].map(|bytes| size(Bytes(bytes)));
        assert_eq!(shown, ["2TB", "1500kB", "256KiB", "65535B", "0B"]);
    }

    #[test]
    fn times_have_two_units() {
        let shown = [0.04, 59.9, 125.0, 7_260.0, 480_646.0, f64::INFINITY].map(time);
        assert_eq!(shown[..5], ["0.0 s", "59.9 s", "2 min 5 s", "2 h 1 min", "5 d 13 h"]);
        assert!(shown[5].ends_with(" h"));
    }

    #[test]
    fn long_lines_are_wrapped_at_blanks() {
        let text = wrapped(&"word ".repeat(30), "- ", "  ");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert_eq!(text.matches("word").count(), 30);
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(about("note", ""), "");
    }
}
