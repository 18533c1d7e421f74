//! `sysctl -a`, `sysctl NAME`, `sysctl -n NAME`, files of /etc/sysctl.d, and files of /proc/sys as `cat` and `grep` show them.

use crate::audit::reader::{Control, Facts, Shown, WHOLE_SYSTEM};
use crate::audit::systems::values::{Bad, keep, number};

/// The sysctls that a paste shows.
#[derive(Default)]
pub(super) struct Sysctls {
    /// The values in force.
    live: Vec<Shown>,
    /// The values of files. They count where no value in force is shown.
    stored: Vec<Shown>,
    /// The sysctls whose values follow without their names, the next one last.
    expected: Vec<String>,
}

impl Sysctls {
    /// Reads the arguments of a command that shows values without names: names, or paths in /proc/sys.
    pub(super) fn expect(&mut self, arguments: &[&str]) {
        let names = arguments.iter().map(|argument| argument.trim_start_matches("/proc/sys/").replace('/', "."));
        self.expected = names.filter(|name| is_sysctl(name)).collect();
        self.expected.reverse();
    }

    /// Reads `net.ipv4.tcp_rmem = 4096 131072 6291456`, also without blanks, with slashes, or as `/proc/sys/.. :`. `is_file`:
    /// the line is known to come from a file of settings.
    pub(super) fn read(&mut self, line: &str, is_file: bool) -> bool {
        let line = line.trim();
        let path = line.strip_prefix("/proc/sys/");
        let Some((name, value)) = path.map_or_else(|| line.split_once('='), |path| path.split_once(':')) else {
            return self.read_expected(line);
        };
        self.expected.clear();
        // sysctl writes a blank on both sides. A dash in a file says that an error does not matter (sysctl.d(5)).
        let is_file = path.is_none() && (is_file || !name.ends_with(' ') || name.starts_with('-'));
        let name = name.trim().trim_start_matches('-').replace('/', ".");
        let is_known = is_sysctl(&name);
        if is_known {
            self.keep(&name, value, is_file);
        }
        is_known
    }

    /// Reads a value without its name.
    fn read_expected(&mut self, line: &str) -> bool {
        let is_value = line.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '-');
        let Some(name) = self.expected.pop().filter(|_| is_value) else { return false };
        self.keep(&name, line, false);
        true
    }

    fn keep(&mut self, name: &str, value: &str, is_file: bool) {
        let value = value.split_ascii_whitespace().take(MAX_VALUE_WORDS).collect::<Vec<_>>().join(" ");
        if NAMES.contains(&name) && !value.is_empty() && value.len() <= MAX_VALUE_BYTES {
            let (values, from) =
                if is_file { (&mut self.stored, "file of sysctls") } else { (&mut self.live, "sysctl") };
            keep(values, name, &value, from);
        }
    }

    /// Returns the value of the sysctl `name`.
    pub(super) fn shown(&self, name: &str) -> Option<&Shown> {
        self.live.iter().chain(&self.stored).find(|shown| shown.name == name)
    }

    /// Returns the three numbers of the sysctl `name`.
    pub(super) fn triple(&self, name: &str) -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = self.shown(name)?.value.split(' ').map(number).collect();
        numbers?.try_into().ok()
    }

    /// Adds the values, and the findings without a window.
    pub(super) fn add_to(&self, facts: &mut Facts) {
        facts.settings.extend(self.live.iter().chain(&self.stored).cloned());
        facts.control = self.shown(CONTROL).map(|shown| Control::new(CONTROL, &shown.value, WHOLE_SYSTEM));
        facts.control_read = Some("sysctl net.ipv4.tcp_congestion_control");
        for bad in BAD {
            let shown = self.shown(bad.setting).filter(|shown| shown.value == bad.value);
            facts.hints.extend(shown.map(|shown| bad.hint(&shown.value, WHOLE_SYSTEM)));
        }
    }
}

/// Returns whether `name` is the name of a sysctl.
fn is_sysctl(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_rooted = name.split_once('.').is_some_and(|(root, rest)| ROOTS.contains(&root) && !rest.is_empty());
    is_rooted && name.bytes().all(is_word)
}

/// The sysctls that are kept.
const NAMES: &[&str] = &[
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_available_congestion_control",
    CONTROL,
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];
/// Values that hurt without a window.
const BAD: &[Bad] = &[
    Bad {
        setting: "net.ipv4.tcp_sack",
        value: "0",
        what: "Each lost packet of a window costs a round trip of its own.",
        costs_rate: true,
    },
    Bad {
        setting: "net.ipv4.tcp_timestamps",
        value: "0",
        // RFC 7323 4.1 and 5.
        what: "The host measures the round trip once per window, and cannot tell old segments from new ones after 4 GiB.",
        costs_rate: true,
    },
    Bad {
        setting: CONTROL,
        value: "reno",
        what: "After a loss, a large window grows by one packet in each round trip.",
        costs_rate: true,
    },
    Bad {
        setting: "net.ipv4.tcp_slow_start_after_idle",
        value: "1",
        what: "A connection that pauses starts slowly again; a steady transfer loses nothing.",
        costs_rate: false,
    },
];
/// First part of every sysctl's name.
const CONTROL: &str = "net.ipv4.tcp_congestion_control";
const ROOTS: &[&str] = &["abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"];
const MAX_VALUE_WORDS: usize = 16;
const MAX_VALUE_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = include_str!("../../collect/linux.sh");

    #[test]
    fn the_script_shows_each_sysctl_that_is_read() {
        let shown: Vec<&str> = SCRIPT.split_ascii_whitespace().map(|word| word.trim_end_matches(';')).collect();
        for name in NAMES {
            assert!(shown.contains(&name.trim_start_matches("net.").replace('.', "/").as_str()), "{name}");
        }
    }

    #[test]
    fn a_value_in_force_goes_before_that_of_a_file() {
        let mut sysctls = Sysctls::default();
        for (line, is_file) in
            [("net.ipv4.tcp_sack = 1", false), ("net.ipv4.tcp_sack=0", false), ("net.ipv4.tcp_sack = 0", true)]
        {
            assert!(sysctls.read(line, is_file));
            assert_eq!(sysctls.shown("net.ipv4.tcp_sack").map(|shown| shown.value.as_str()), Some("1"), "{line}");
        }
        assert!(!sysctls.read("# net.ipv4.tcp_sack = 0", false) && !sysctls.read("tcp_sendspace = 16384", false));
    }

    #[test]
    fn values_without_names_belong_to_the_names_of_the_command() {
        let mut sysctls = Sysctls::default();
        sysctls.expect(&["-n", "net.ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_sack"]);
        assert!(sysctls.read("4096\t131072\t6291456", false) && sysctls.read("1", false) && !sysctls.read("1", false));
        assert_eq!(sysctls.triple("net.ipv4.tcp_rmem"), Some([4096, 131_072, 6_291_456]));
        assert!(sysctls.shown("net.ipv4.tcp_sack").is_some());
    }
}
