//! The value that a sysctl is to have, given its present one and one that is wanted. No value that counts or limits something
//! is ever lowered.

use longhaul_core::advice::{Fit, LINUX, Setting};

/// What the numbers of a sysctl mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Amounts: each number is kept unless the wanted one is larger.
    Amounts,
    /// Two numbers, the first and the last of a range: the range is never narrowed.
    Range,
    /// A mode or a word: a smaller number is not less.
    Mode,
}

/// Returns `present`, changed as far as `wanted` asks for.
pub(super) fn merged(name: &str, present: &str, wanted: &str) -> String {
    let numbers = |text: &str| text.split(' ').map(|word| word.parse::<u64>().ok()).collect::<Option<Vec<u64>>>();
    let (Some(old), Some(new)) = (numbers(present), numbers(wanted)) else { return wanted.into() };
    if old.len() != new.len() {
        return wanted.into();
    }
    let kind = kind(name);
    let merge = |(place, (old, new)): (usize, (u64, u64))| match kind {
        Kind::Mode => new,
        Kind::Range if place == 0 => old.min(new),
        Kind::Amounts | Kind::Range => old.max(new),
    };
    let merged = old.into_iter().zip(new).enumerate().map(merge);
    merged.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns the words of `text` with single blanks between them, as the values of sysctls are compared here.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the settings of Linux that are set at `place`: `sysctl` or `route`.
pub(super) fn rows(place: &str) -> impl Iterator<Item = &'static Setting> {
    LINUX.settings.iter().filter(move |row| row.place == place)
}

fn kind(name: &str) -> Kind {
    match rows("sysctl").find(|row| row.name == name) {
        Some(row) if row.fit == Fit::AtLeast => Kind::Amounts,
        Some(_) => Kind::Mode,
        None if MODES.contains(&name) => Kind::Mode,
        None if name == "net.ipv4.ip_local_port_range" => Kind::Range,
        None => Kind::Amounts,
    }
}

/// Sysctls of the file of relays that are modes (ip-sysctl.rst). `tcp_tw_reuse`: 0 never, 1 always, 2, the default, on loopback.
const MODES: &[&str] = &["net.ipv4.tcp_tso_rtt_log", "net.ipv4.tcp_tw_reuse"];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_amount_is_lowered_and_a_mode_is_set() {
        let buffers = |present, wanted| merged("net.ipv4.tcp_rmem", present, wanted);
        assert_eq!(buffers("4096 131072 6291456", "4096 131072 16777216"), "4096 131072 16777216");
        assert_eq!(buffers("8192 65536 33554432", "4096 131072 16777216"), "8192 131072 33554432");
        assert_eq!(merged("net.ipv4.tcp_mtu_probing", "2", "1"), "2");
        assert_eq!(merged("net.ipv4.tcp_tw_reuse", "2", "1"), "1");
        assert_eq!(merged("net.ipv4.tcp_slow_start_after_idle", "1", "0"), "0");
        assert_eq!(merged("net.ipv4.tcp_congestion_control", "cubic", "bbr"), "bbr");
        let ports = |present| merged("net.ipv4.ip_local_port_range", present, "10240 65535");
        assert_eq!((ports("32768 60999"), ports("1024 60999")), ("10240 65535".into(), "1024 65535".into()));
    }

    proptest! {
        #[test]
        fn three_numbers_only_grow(old: [u32; 3], new: [u32; 3]) {
            let text = |numbers: [u32; 3]| numbers.map(|number| number.to_string()).join(" ");
            let got = merged("net.ipv4.tcp_wmem", &text(old), &text(new));
            let got: Vec<u32> = got.split(' ').map(|word| word.parse().unwrap()).collect();
            prop_assert_eq!(got, (0..3).map(|at| old[at].max(new[at])).collect::<Vec<_>>());
        }
    }
}
