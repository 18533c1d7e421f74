//! The operating systems, a file each.

mod aix;
mod ibmi;
mod linux;
mod row;
mod solaris;
mod vios;
mod windows;

pub use linux::LINUX;

use super::system::System;

impl System {
    /// Returns the row called `name`.
    pub fn named(name: &str) -> Option<&'static System> {
        SYSTEMS.iter().copied().find(|system| system.name == name)
    }
}

/// All systems.
pub const SYSTEMS: &[&System] = &[&aix::AIX, &ibmi::IBMI, &vios::VIOS, &LINUX, &solaris::SOLARIS, &windows::WINDOWS];

#[cfg(test)]
mod tests {
    use crate::advice::{Effect, Fill, Fit, Goal, SYSTEMS, Setting, System};
    use crate::path::laws::{LossResponse, MAX_WINDOW};
    use longhaul_units::Bytes;
    use std::collections::HashSet;

    fn rows() -> impl Iterator<Item = (&'static System, &'static Setting)> {
        SYSTEMS.iter().flat_map(|system| system.settings.iter().map(|row| (*system, row)))
    }

    fn commands(row: &Setting) -> Vec<&'static str> {
        let elsewhere =
            row.elsewhere.iter().flat_map(|elsewhere| [elsewhere.read, elsewhere.set_now, elsewhere.set_permanent]);
        [row.read, row.set_now, row.set_permanent, row.undo].into_iter().chain(elsewhere).collect()
    }

    /// Goals of short and long paths, within what the system can.
    fn goals(system: &System) -> Vec<Goal> {
        let windows = [1460, 65_535, 65_536, 262_144, 524_289, 15_750_000, MAX_WINDOW.0];
        let goal = |window: u64, packet, has_loss| Goal {
            window: Bytes(window.min(system.max_window.0)),
            packet,
            is_packet_short: packet < 1500,
            has_loss,
        };
        windows.into_iter().flat_map(|window| [goal(window, 1500, false), goal(window, 1294, true)]).collect()
    }

    #[test]
    fn a_row_is_complete() {
        for (system, row) in rows() {
            let name = format!("{}: {}", system.name, row.name);
            for text in [row.name, row.place, row.unit, row.read, row.source] {
                assert!(!text.is_empty(), "{name}");
            }
            let is_settable = !(row.set_now.is_empty() && row.set_permanent.is_empty());
            assert_eq!(is_settable, !row.undo.is_empty(), "{name}: what can be set can be undone");
            let is_wanted = goals(system).iter().any(|goal| (row.want)(goal).is_some());
            assert!(is_settable || !is_wanted, "{name}: a value without a command that sets it");
            assert_eq!(row.verified, system.name == "linux", "{name}: no other host was tried");
            for set in [row.set_now, row.set_permanent] {
                assert!(set.is_empty() || set.contains("{value}"), "{name}: {set}");
            }
            let has_old = ["{old}", "{route}"].iter().any(|word| row.undo.contains(word));
            let is_the_only_other = ["maxseg", "heuristics"].contains(&row.name);
            assert!(!row.undo.contains("{value}"), "{name}: {}", row.undo);
            assert!(row.undo.is_empty() || has_old != is_the_only_other, "{name}: {}", row.undo);
        }
        for system in SYSTEMS {
            let names: HashSet<_> = system.settings.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), system.settings.len(), "{}: a name twice", system.name);
            assert!(!system.settings.is_empty(), "{}", system.name);
        }
    }

    #[test]
    fn a_command_has_only_words_that_are_filled_in() {
        let (network, gateway) = ("192.0.2.0/24", "198.51.100.1");
        let fill = Fill { value: "7", old: "3", route: "default dev en0", interface: "en0", network, gateway };
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        for (system, row) in rows() {
            for command in commands(row) {
                let filled = fill.into_command(command);
                let left = filled.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
                assert!(left.into_iter().all(|word| !is_word(word)), "{}: {filled}", system.name);
                assert!(!command.contains('\n') && !command.contains("  "), "{}: {command:?}", system.name);
            }
        }
    }

    /// A value has the form of the default, as many numbers, and lies within the row's range.
    #[test]
    fn what_a_path_needs_is_within_the_limits() {
        for (system, row) in rows() {
            let range = row.limits.split_once(" to ").map(|(least, most)| (least.parse(), most.parse()));
            for goal in goals(system) {
                let Some(value) = (row.want)(&goal) else { continue };
                let numbers: Vec<u64> = value.split(' ').filter_map(|word| word.parse().ok()).collect();
                let name = format!("{}: {}={value}", system.name, row.name);
                if let Some((Ok(least), Ok(most))) = range {
                    assert!(numbers.iter().all(|number| (least..=most).contains(number)), "{name}");
                }
                if row.fit == Fit::AtLeast || row.fit == Fit::AtMost {
                    let words = value.split(' ').count();
                    assert_eq!(numbers.len(), words, "{name}: not all numbers");
                    let default = row.default.split_whitespace().map(|word| word.parse::<u64>());
                    let is_numeric = default.clone().next().is_some() && default.clone().all(|number| number.is_ok());
                    assert!(!is_numeric || default.count() == words, "{name}: the default has another form");
                }
                // The systems keep sizes in 32 bits with a sign.
                assert!(numbers.iter().all(|number| *number <= i32::MAX as u64), "{name}");
                assert_eq!(row.change(&value, &goal), None, "{name} serves");
            }
        }
    }

    /// A host that nobody tuned has the window that the system's row says: the smallest of its defaults.
    #[test]
    fn the_defaults_of_the_rows_give_the_window_of_the_system() {
        for system in SYSTEMS.iter().filter(|system| system.has_window()) {
            // Linux counts a buffer, half of which is window.
            let half = if system.name == "linux" { 2 } else { 1 };
            let windows = system.settings.iter().filter_map(|row| {
                let most: u64 = row.default.split(' ').next_back()?.parse().ok()?;
                match row.effect {
                    Effect::ReceiveWindow => Some(most / half),
                    Effect::SendWindow => Some(most),
                    _ => None,
                }
            });
            // The levels of Windows are words.
            let is_in_words = system.name == "windows";
            assert_eq!(windows.min(), (!is_in_words).then_some(system.default_window.0), "{}", system.name);
        }
    }

    /// The limits and laws behind every prediction of a tuned host.
    #[test]
    fn the_most_that_a_system_can_have() {
        use LossResponse::{Cubic, Ignores, Reno};
        for (system, window, response, tuned) in [
            ("aix", MAX_WINDOW.0, Reno, Reno),
            ("ibmi", 8_388_608, Reno, Reno),
            ("vios", MAX_WINDOW.0, Reno, Reno),
            ("linux", MAX_WINDOW.0, Cubic, Ignores),
            ("solaris", MAX_WINDOW.0, Reno, Cubic),
            // A scale of 8.
            ("windows", 65_535 << 8, Cubic, Cubic),
        ] {
            let system = System::named(system).unwrap();
            let goal = Goal { window: Bytes(65_535), packet: 1500, is_packet_short: false, has_loss: true };
            assert_eq!((system.max_window.0, system.response), (window, response), "{}", system.name);
            assert_eq!(system.tuned_response(system.response, &goal), tuned, "{}", system.name);
            assert_eq!(system.tuned_response(Ignores, &goal), Ignores, "{}: it keeps a better one", system.name);
        }
    }

    #[test]
    fn what_caps_others_comes_before_them() {
        for (system, first) in [("aix", "sb_max"), ("solaris", "max_buf"), ("vios", "largesend")] {
            assert_eq!(System::named(system).unwrap().settings[0].name, first);
        }
        for system in SYSTEMS {
            let is_ceiling: Vec<bool> = system.settings.iter().map(|row| row.effect == Effect::Ceiling).collect();
            assert!(is_ceiling.is_sorted_by(|before, after| before >= after), "{}", system.name);
        }
    }

    #[test]
    fn the_values_of_a_path() {
        let goal = Goal { window: Bytes(15_750_000), packet: 1294, is_packet_short: true, has_loss: true };
        let value =
            |system: &str, setting: &str| (System::named(system).unwrap().setting(setting).unwrap().want)(&goal);
        for (system, setting, wanted) in [
            ("aix", "sb_max", "31500000"),
            ("aix", "tcp_sendspace", "15750000"),
            ("aix", "rfc1323", "1"),
            ("aix", "mtu", "1294"),
            ("linux", "net.ipv4.tcp_rmem", "4096 131072 31500000"),
            ("linux", "net.ipv4.tcp_wmem", "4096 16384 15750000"),
            ("linux", "route mtu", "mtu lock 1294 advmss 1254"),
            ("linux", "maxseg", "1254"),
            ("solaris", "cong_default", "cubic"),
            ("windows", "heuristics", "disabled"),
            ("windows", "autotuninglevel", "normal"),
            ("windows", "AutoTuningLevelLocal", "Normal"),
            ("windows", "CongestionProvider", "CUBIC"),
            ("ibmi", "TCPRCVBUF", "15750000"),
            ("ibmi", "CHGTCPRTE MTU", "1294"),
        ] {
            assert_eq!(value(system, setting).as_deref(), Some(wanted), "{setting}");
        }
        let small = Goal { window: Bytes(65_535), packet: 1500, is_packet_short: false, has_loss: false };
        let route = System::named("ibmi").unwrap().setting("CHGTCPRTE MTU").unwrap();
        assert_eq!(route.change("576", &small).as_deref(), Some("*IFC"), "small packets where larger ones fit");
        // The defaults serve it.
        for name in ["sb_max", "tcp_sendspace", "tcp_recvspace", "rfc1323", "mtu"] {
            let row = System::named("aix").unwrap().setting(name).unwrap();
            assert_eq!(row.change(row.default, &small), None, "{name}");
        }
    }
}
