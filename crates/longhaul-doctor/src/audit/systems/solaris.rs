//! Solaris: `ipadm show-prop` as a table and as `-c -o`, and `ndd -get /dev/tcp`.
//!
//! The window of a connection is the smallest of `send_buf`, `recv_buf` and `_cwnd_max`; `max_buf` caps both buffers. `ndd`
//! has other names for the same properties.

use super::values::{Bad, keep, system_limit};
use crate::audit::reader::{Control, Facts, Reader, Shown, WHOLE_SYSTEM, WindowLimit};
use longhaul_core::advice::System;

/// Reads the pastes of one Solaris host.
#[derive(Default)]
pub(super) struct Solaris {
    values: Vec<Shown>,
    /// What the next lines are, the next one last: some commands write values without names.
    expected: Vec<Expected>,
    /// The columns of a table, or the fields of `ipadm -c -o`.
    columns: Vec<Column>,
    /// Whether the last command was about another protocol than TCP.
    is_other: bool,
    /// Whether the last line was one of a table: a terminal, or `ipadm` itself, breaks its last column.
    is_in_table: bool,
}

/// A line without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The value of a property, by the name that `ipadm` has for it.
    Value(&'static str, &'static str),
    /// A value that is not kept.
    Other,
}

/// A column of `ipadm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Protocol,
    Property,
    Current,
    Other,
}

impl Reader for Solaris {
    fn read(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
        let expected = self.expected.pop();
        let was_in_table = std::mem::take(&mut self.is_in_table);
        if self.command(&words) || expected.is_some_and(|expected| self.expected(expected, &words)) {
            return true;
        }
        self.expected.clear();
        self.header(&words)
            || self.row(&words)
            || self.fields(line.trim())
            || self.assignment(&words)
            || was_in_table && self.rest_of_row(&words)
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts { settings: self.values.clone(), ..Facts::default() };
        for setting in WINDOWS {
            let window: Option<u64> = self.value(setting).and_then(|shown| shown.value.parse().ok());
            match window {
                Some(window) => facts.windows.push(self.limit(setting, window)),
                // Neither buffer can be set above max_buf.
                None if *setting == "max_buf" => {}
                None if self.has_only_ndd() => facts.missing.extend(ndd(setting)),
                None => facts.missing.push("ipadm show-prop -p max_buf,send_buf,recv_buf,_cwnd_max tcp"),
            }
        }
        facts.missing.dedup();
        facts.control = self.value(CONTROL).map(|shown| Control::new(CONTROL, &shown.value, WHOLE_SYSTEM));
        // ndd does not show it.
        let system = System::named("solaris").filter(|_| !self.has_only_ndd());
        facts.control_read = system.and_then(System::congestion_control).map(|row| row.read);
        for bad in BAD {
            let shown = self.value(bad.setting).filter(|shown| shown.value == bad.value);
            facts.hints.extend(shown.map(|shown| bad.hint(&shown.value, WHOLE_SYSTEM)));
        }
        facts
    }
}

impl Solaris {
    /// Whether the host is one of Solaris 10, which has no ipadm.
    fn has_only_ndd(&self) -> bool {
        self.values.iter().all(|shown| shown.from == NDD)
    }

    /// Returns the limit that a property sets.
    fn limit(&self, setting: &'static str, window: u64) -> WindowLimit {
        let place = if self.has_only_ndd() { "ndd" } else { WHOLE_SYSTEM };
        WindowLimit { place: place.into(), ..system_limit(setting, &window.to_string(), window) }
    }

    fn value(&self, name: &str) -> Option<&Shown> {
        self.values.iter().find(|shown| shown.name == name)
    }

    /// Keeps a value. Two commands may show one property: the last is in force. ndd of Solaris 11 only repeats ipadm's.
    fn keep(&mut self, name: &str, value: &str, from: &str) {
        let is_repeated = from == NDD && self.value(name).is_some_and(|known| known.from == IPADM);
        if is_repeated {
            return;
        }
        if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b',') && value.len() <= MAX_VALUE_BYTES {
            self.values.retain(|shown| shown.name != name);
            keep(&mut self.values, name, value, from);
        }
    }

    /// Reads a command, as a prompt or a script shows it.
    fn command(&mut self, words: &[&str]) -> bool {
        let program = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
        match (program, words) {
            ("ndd", [_, ..]) if words.contains(&"/dev/tcp") && !words.contains(&"-set") => {
                let after = words.windows(2).filter(|pair| pair[0] == "/dev/tcp");
                self.expected = after.map(|pair| expected(pair[1].trim_matches([';', '\\']), NDD)).rev().collect();
            }
            ("ipadm", [_, "show-prop", rest @ ..]) => self.show_prop(rest),
            _ => return false,
        }
        true
    }

    /// Reads the arguments of `ipadm show-prop`: `-p max_buf,send_buf -co property,current tcp`.
    fn show_prop(&mut self, arguments: &[&str]) {
        let behind = |options: &[&str]| {
            let at = arguments.iter().position(|argument| options.contains(argument))?;
            arguments.get(at + 1).map(|list| list.split(','))
        };
        self.columns = behind(&["-o", "-co", "-oc"]).map_or(Vec::new(), |fields| fields.map(column).collect());
        self.is_other = arguments.last().is_some_and(|last| OTHER_PROTOCOLS.contains(last));
        let is_bare = self.columns == [Column::Current];
        let properties = behind(&["-p"]).filter(|_| is_bare).into_iter().flatten();
        let is_other = self.is_other;
        let of = |property: &str| if is_other { Expected::Other } else { expected(property, IPADM) };
        self.expected = properties.map(of).rev().collect();
    }

    /// Reads a line that the last command announced.
    fn expected(&mut self, expected: Expected, words: &[&str]) -> bool {
        let [word] = words else { return false };
        match expected {
            _ if !is_value(word) => return false,
            Expected::Value(name, from) => self.keep(name, word, from),
            Expected::Other => {}
        }
        true
    }

    /// Reads `PROTO PROPERTY PERM CURRENT PERSISTENT DEFAULT POSSIBLE`, or the columns of `-o`.
    fn header(&mut self, words: &[&str]) -> bool {
        let is_header = words.contains(&"PROPERTY") && words.contains(&"CURRENT");
        if is_header {
            self.columns = words.iter().map(|word| column(&word.to_ascii_lowercase())).collect();
            self.is_in_table = true;
        }
        is_header
    }

    /// Reads a line of the table: `tcp   max_buf   rw   1048576   --   1048576   128000-1073741824`.
    fn row(&mut self, words: &[&str]) -> bool {
        let usual = [Column::Protocol, Column::Property, Column::Other, Column::Current];
        let is_usual = matches!(words, [protocol, _, "rw" | "r-" | "-w" | "--", _, ..] if is_protocol(protocol));
        let columns = if is_usual { &usual[..] } else { &self.columns[..] };
        let cell = |column: Column| columns.iter().position(|known| *known == column).and_then(|at| words.get(at));
        let (Some(property), Some(value)) = (cell(Column::Property), cell(Column::Current)) else { return false };
        let protocol = cell(Column::Protocol);
        if protocol.is_some_and(|protocol| !is_protocol(protocol)) || words.len() < columns.len().min(usual.len()) {
            return false;
        }
        let is_tcp = protocol.map_or(!self.is_other, |protocol| *protocol == "tcp");
        let known = name(property);
        let kept = known.filter(|_| is_tcp && is_value(value));
        if let Some(name) = kept {
            self.keep(name, value, IPADM);
        }
        self.is_in_table = known.is_some() || protocol.is_some();
        self.is_in_table
    }

    /// Reads a line of `ipadm -c -o`: `max_buf:1048576`, or `tcp:max_buf:1048576`.
    fn fields(&mut self, line: &str) -> bool {
        let fields: Vec<&str> = line.split(':').take(MAX_WORDS).collect();
        let at = |column: Column| self.columns.iter().position(|known| *known == column);
        let (property, value) = match (at(Column::Property), at(Column::Current)) {
            (Some(property), Some(value)) => (property, value),
            _ if fields.first() == Some(&"tcp") => (1, 2),
            _ => (0, 1),
        };
        let protocol = at(Column::Protocol).and_then(|at| fields.get(at));
        let is_tcp = protocol.map_or(!self.is_other, |protocol| *protocol == "tcp");
        let (Some(name), Some(value)) = (fields.get(property).and_then(|word| name(word)), fields.get(value)) else {
            return false;
        };
        if is_tcp && is_value(value) {
            self.keep(name, value, IPADM);
        }
        is_value(value)
    }

    /// Reads `tcp_max_buf = 1048576`, as scripts write the values of `ndd`.
    fn assignment(&mut self, words: &[&str]) -> bool {
        let (written, value) = match words {
            [written, "=", value] | [written, value] if written.starts_with("tcp_") => {
                (written.trim_end_matches(':'), value)
            }
            _ => return false,
        };
        let Some(name) = name(written).filter(|_| is_value(value)) else { return false };
        self.keep(name, value, NDD);
        true
    }

    /// Reads the rest of a table's last column.
    fn rest_of_row(&mut self, words: &[&str]) -> bool {
        let is_part = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b",-".contains(&byte));
        self.is_in_table = matches!(words, [word] if is_part(word));
        self.is_in_table
    }
}

/// Returns the command that shows a property on Solaris 10.
fn ndd(setting: &str) -> Option<&'static str> {
    Some(System::named("solaris")?.setting(setting)?.elsewhere?.read)
}

fn column(name: &str) -> Column {
    match name {
        "proto" => Column::Protocol,
        "property" => Column::Property,
        "current" => Column::Current,
        _ => Column::Other,
    }
}

fn expected(property: &str, from: &'static str) -> Expected {
    name(property).map_or(Expected::Other, |name| Expected::Value(name, from))
}

/// Returns the name of a property that is read, by any of its names.
fn name(written: &str) -> Option<&'static str> {
    NAMES.iter().find(|(_, names)| names.contains(&written)).map(|(name, _)| *name)
}

fn is_protocol(word: &str) -> bool {
    word == "tcp" || OTHER_PROTOCOLS.contains(&word)
}

/// Returns whether `word` may be a value. `--` and `?` say that there is none.
fn is_value(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_alphanumeric())
}

const NDD: &str = "ndd /dev/tcp";
const IPADM: &str = "ipadm show-prop tcp";
/// The properties that limit the window, in the order in which they are to be set.
const WINDOWS: &[&str] = &["max_buf", "_cwnd_max", "recv_buf", "send_buf"];
/// The properties that are read, with their names in `ipadm` and `ndd` (Solaris 10).
const NAMES: &[(&str, &[&str])] = &[
    ("_cwnd_max", &["_cwnd_max", "tcp_cwnd_max"]),
    ("_slow_start_after_idle", &["_slow_start_after_idle", "tcp_slow_start_after_idle"]),
    ("_slow_start_initial", &["_slow_start_initial", "tcp_slow_start_initial"]),
    ("_tstamp_always", &["_tstamp_always", "tcp_tstamp_always"]),
    ("_tstamp_if_wscale", &["_tstamp_if_wscale", "tcp_tstamp_if_wscale"]),
    ("_wscale_always", &["_wscale_always", "tcp_wscale_always"]),
    (CONTROL, &[CONTROL]),
    ("ecn", &["ecn", "tcp_ecn_permitted"]),
    ("max_buf", &["max_buf", "_max_buf", "tcp_max_buf"]),
    ("recv_buf", &["recv_buf", "tcp_recv_hiwat"]),
    ("sack", &["sack", "tcp_sack_permitted"]),
    ("send_buf", &["send_buf", "tcp_xmit_hiwat"]),
];
/// Values that hurt without a window.
const BAD: &[Bad] = &[
    bad("sack", "never", "Each lost packet of a window costs a round trip of its own."),
    bad("sack", "0", "Each lost packet of a window costs a round trip of its own."),
    bad(
        "sack",
        "passive",
        "Connections that this host opens have no SACK: a lost packet costs a round trip of its own.",
    ),
    bad("sack", "1", "Connections that this host opens have no SACK: a lost packet costs a round trip of its own."),
    bad(CONTROL, "newreno", "After a loss, a large window grows by one packet in each round trip."),
];
const OTHER_PROTOCOLS: &[&str] = &["icmp", "ip", "ipv4", "ipv6", "sctp", "udp"];
const CONTROL: &str = "cong_default";
const MAX_WORDS: usize = 32;
const MAX_VALUE_BYTES: usize = 64;

const fn bad(setting: &'static str, value: &'static str, what: &'static str) -> Bad {
    Bad { setting, value, what, costs_rate: true }
}
