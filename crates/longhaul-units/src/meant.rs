//! Guesses which unit an unknown unit means: `min` for `minutes`, `MiB` for `M` and `mib`. A unit with two meanings in
//! use has no guess.

/// Returns the unit of times that `unit` means.
pub(super) fn time(unit: &str) -> Option<&'static str> {
    listed(TIMES, &unit.to_lowercase())
}

/// Returns the unit of sizes that `unit` means.
pub(super) fn size(unit: &str) -> Option<&'static str> {
    // A small b after a capital letter means bits.
    if unit.ends_with('b') && unit.contains(char::is_uppercase) {
        return None;
    }
    listed(SIZES, &unit.to_lowercase())
}

/// Returns the unit of rates that `unit` means.
pub(super) fn rate(unit: &str) -> Option<&'static str> {
    // `mbps` is megabits for most, and megabytes for tc(8).
    listed(EXACT_RATES, unit).or_else(|| listed(RATES, &unit.to_lowercase()))
}

/// Returns the unit that `names` has for `name`.
fn listed(names: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    names.iter().find(|(known, _)| known.contains(&name)).map(|(_, unit)| *unit)
}

/// Names of the units of times, in lower case. `m` is not among them: it may mean minutes, milliseconds or months.
const TIMES: &[(&[&str], &str)] = &[
    (&["ns", "nsec", "nsecs", "nanosecond", "nanoseconds"], "ns"),
    // U+00B5 is the micro sign; U+03BC is the Greek letter.
    (&["us", "\u{b5}s", "\u{3bc}s", "usec", "usecs", "microsecond", "microseconds"], "us"),
    (&["ms", "msec", "msecs", "millisecond", "milliseconds"], "ms"),
    (&["s", "sec", "secs", "second", "seconds"], "s"),
    (&["min", "mins", "minute", "minutes"], "min"),
    (&["h", "hr", "hrs", "hour", "hours"], "h"),
    (&["d", "day", "days"], "d"),
];

/// Names of the units of sizes, in lower case. A letter alone is a power of 1024, as in nginx, HAProxy and socat.
const SIZES: &[(&[&str], &str)] = &[
    (&["byte", "bytes"], "B"),
    (&["kb", "kilobyte", "kilobytes"], "kB"),
    (&["mb", "megabyte", "megabytes"], "MB"),
    (&["gb", "gigabyte", "gigabytes"], "GB"),
    (&["tb", "terabyte", "terabytes"], "TB"),
    (&["k", "ki", "kib", "kibibyte", "kibibytes"], "KiB"),
    (&["m", "mi", "mib", "mebibyte", "mebibytes"], "MiB"),
    (&["g", "gi", "gib", "gibibyte", "gibibytes"], "GiB"),
    (&["t", "ti", "tib", "tebibyte", "tebibytes"], "TiB"),
];

/// Names of units of rates in which capital letters distinguish bits from bytes.
const EXACT_RATES: &[(&[&str], &str)] = &[
    (&["Kb/s", "Kbps"], "kbit/s"),
    (&["Mb/s", "Mbps"], "Mbit/s"),
    (&["Gb/s", "Gbps"], "Gbit/s"),
    (&["KB/s", "kBps", "KBps"], "kB/s"),
    (&["MBps"], "MB/s"),
    (&["GBps"], "GB/s"),
];

/// Names of the units of rates, in lower case. A letter alone is not among them: it is bytes for curl and rsync.
const RATES: &[(&[&str], &str)] = &[
    (&["bit/s", "bit", "bits", "bits/s"], "bit/s"),
    (&["kbit/s", "kbit", "kbits", "kbits/s"], "kbit/s"),
    (&["mbit/s", "mbit", "mbits", "mbits/s"], "Mbit/s"),
    (&["gbit/s", "gbit", "gbits", "gbits/s"], "Gbit/s"),
];
