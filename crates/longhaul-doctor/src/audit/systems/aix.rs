//! AIX: `no -a`, `no -F -a`, `no -L`, `no -o X`, `ifconfig -a`, `lsattr -El en0`, `netstat -s` and `netstat -p tcp`.
//!
//! The values of an interface go before those of `no` unless `use_isno` is 0 (IBM, Interface-specific network options). Of an
//! interface, the running values of `ifconfig` go before those that `lsattr` reads from the device database.

use crate::audit::reader::{Facts, Hint, Reader, Shown, WHOLE_SYSTEM, WindowLimit};
use longhaul_core::path::laws::MAX_UNSCALED_WINDOW;
use longhaul_units::Bytes;

/// Reads the pastes of one AIX host.
#[derive(Default)]
pub(super) struct Aix {
    output: Output,
    options: Vec<Shown>,
    interfaces: Vec<Interface>,
    counters: Counters,
}

/// The command whose output is being read.
#[derive(Default)]
enum Output {
    #[default]
    Unknown,
    /// `no`, as it was typed.
    No(String),
    /// `ifconfig`: the place of an interface in [`Aix::interfaces`].
    Ifconfig(usize),
    /// `lsattr` of an interface: likewise.
    Lsattr(usize),
    /// The part `tcp` of `netstat -s`.
    NetstatTcp,
}

/// What is known of one interface.
struct Interface {
    name: String,
    /// `None` until a paste shows it.
    is_up: Option<bool>,
    is_loopback: bool,
    /// Values of `ifconfig`, then of `lsattr`.
    running: Vec<Shown>,
    stored: Vec<Shown>,
}

/// Counters of TCP since the host started: packets with data.
#[derive(Default)]
struct Counters {
    sent: Option<u64>,
    retransmitted: Option<u64>,
}

impl Reader for Aix {
    fn read(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
        match words.as_slice() {
            [] => false,
            [first, rest @ ..] => {
                self.command(first, rest)
                    || self.flags(first, line)
                    || self.no_list(&words)
                    || self.no_set(&words)
                    || self.no_table(&words)
                    || self.interface_options(&words)
                    || self.attribute(&words)
                    || self.counter(&words)
            }
        }
    }

    fn facts(&self) -> Facts {
        let settings = self.options.iter().chain(self.interfaces.iter().flat_map(Interface::shown)).cloned();
        let mut facts = Facts { settings: settings.chain(self.counters.shown()).collect(), ..Facts::default() };
        self.window(&mut facts);
        self.hint(&mut facts);
        facts
    }
}

/// The lines.
impl Aix {
    /// Reads a command, as a prompt or a script shows it.
    fn command(&mut self, first: &str, rest: &[&str]) -> bool {
        let name = first.rsplit('/').next().unwrap_or_default();
        let end = rest.iter().position(|word| ["|", ">", ";", "&&"].contains(word)).unwrap_or(rest.len());
        let rest = &rest[..end];
        match (name, rest) {
            ("no", [flag, ..]) if is_flag(flag) => {
                self.output = Output::No(format!("no {}", rest.join(" ")));
            }
            ("ifconfig", [flag]) if is_flag(flag) => self.output = Output::Unknown,
            ("ifconfig", [interface]) if is_interface(interface) => {
                self.output = self.interface(interface).map_or(Output::Unknown, Output::Ifconfig);
            }
            ("lsattr", [flag, ..]) if is_flag(flag) => {
                let words = rest.iter().map(|word| word.trim_start_matches("-El").trim_start_matches("-l"));
                let interface = words.into_iter().find(|word| is_interface(word));
                let at = interface.and_then(|interface| self.interface(interface));
                self.output = at.map_or(Output::Unknown, Output::Lsattr);
            }
            ("netstat", [flag, ..]) if is_flag(flag) => self.output = Output::Unknown,
            (part, []) if part.ends_with(':') => {
                let is_tcp = part == "tcp:";
                self.output = if is_tcp { Output::NetstatTcp } else { Output::Unknown };
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Reads the line of `ifconfig` with an interface's flags: `en0: flags=1e084863,814c0<UP,BROADCAST,..>`, since 7.2 with
    /// ` metric 1` behind them. Other systems write the MTU there.
    fn flags(&mut self, first: &str, line: &str) -> bool {
        let Some(name) = first.strip_suffix(':').filter(|name| is_interface(name)) else { return false };
        self.output = Output::Unknown;
        let Some((hex, flags)) = line.split_once("flags=").and_then(|(_, rest)| rest.split_once('<')) else {
            return false;
        };
        let is_whole = flags.contains('>');
        let (flags, behind) = flags.split_once('>').unwrap_or((flags, ""));
        let is_bare = behind.trim().is_empty() || behind.trim().starts_with("metric ");
        if !hex.chars().all(|char| char.is_ascii_hexdigit() || char == ',') || !is_bare {
            return false;
        }
        let Some(at) = self.interface(name) else { return false };
        let has = |flag: &str| flags.split(',').any(|known| known == flag);
        let interface = &mut self.interfaces[at];
        interface.is_up = Some(has("UP"));
        interface.is_loopback |= has("LOOPBACK");
        if is_whole && !interface.is_loopback {
            let value = if has("LARGESEND") { "on" } else { "off" };
            let from = format!("ifconfig {name}");
            keep(&mut interface.running, Shown { name: "mtu_bypass".into(), value: value.into(), from });
        }
        self.output = Output::Ifconfig(at);
        true
    }

    /// Reads a line of `no -a` or `no -o`: `tcp_sendspace = 16384`, one or more in a line.
    fn no_list(&mut self, words: &[&str]) -> bool {
        let lists = words.chunks(3).filter_map(|words| match words {
            [name, "=", value] => option(name, value),
            _ => None,
        });
        let found: Vec<(&str, &str)> = lists.collect();
        let from = match &self.output {
            Output::No(command) => command.clone(),
            _ => "no".into(),
        };
        for (name, value) in &found {
            keep(&mut self.options, Shown { name: (*name).into(), value: (*value).into(), from: from.clone() });
        }
        !found.is_empty()
    }

    /// Reads what `no -o tcp_sendspace=262144` answers: `Setting tcp_sendspace to 262144`.
    fn no_set(&mut self, words: &[&str]) -> bool {
        let ["Setting", name, "to", value, ..] = words else { return false };
        let Some((name, value)) = option(name, value) else { return false };
        keep(&mut self.options, Shown { name: name.into(), value: value.into(), from: "no -o".into() });
        true
    }

    /// Reads a line of `no -L`: name, current value, default, value at boot, and more.
    fn no_table(&mut self, words: &[&str]) -> bool {
        let [name, current, default, boot, _, ..] = words else { return false };
        let Some((name, current)) = option(name, current) else { return false };
        if bytes(default).is_none() || bytes(boot).is_none() {
            return false;
        }
        keep(&mut self.options, Shown { name: name.into(), value: current.into(), from: "no -L".into() });
        true
    }

    /// Reads the line of `ifconfig` with an interface's own values: `tcp_sendspace 262144 tcp_recvspace 262144 rfc1323 1`.
    fn interface_options(&mut self, words: &[&str]) -> bool {
        let pairs: Option<Vec<Option<(&str, &str)>>> = words
            .chunks(2)
            .map(|pair| match pair {
                [name, value] if ISNO.contains(name) && is_number(value) => Some(Some((*name, *value))),
                // The value was cut off.
                [name] if ISNO.contains(name) && words.len() > 1 => Some(None),
                _ => None,
            })
            .collect();
        let at = match self.output {
            Output::Ifconfig(at) if pairs.is_some() => Some(at),
            // The line with the flags is not in the paste.
            _ if pairs.is_some() => self.only_interface(),
            _ => None,
        };
        let (Some(pairs), Some(at)) = (pairs, at) else { return false };
        let interface = &mut self.interfaces[at];
        for (name, value) in pairs.into_iter().flatten() {
            let from = format!("ifconfig {}", interface.name);
            keep(&mut interface.running, Shown { name: name.into(), value: value.into(), from });
        }
        true
    }

    /// Reads a line of `lsattr -El en0`: `tcp_sendspace 262144 Set Socket Buffer Space for Sending True`. An attribute without a
    /// value has its description there.
    fn attribute(&mut self, words: &[&str]) -> bool {
        let [name, value, .., last] = words else { return false };
        let is_known = ISNO.contains(name) || ATTRIBUTES.contains(name);
        let is_in_lsattr = matches!(self.output, Output::Lsattr(_));
        if !is_known || !(is_in_lsattr || ["True", "False", "true", "false"].contains(last)) {
            return false;
        }
        let at = match self.output {
            Output::Lsattr(at) => Some(at),
            _ => self.only_interface(),
        };
        let Some(at) = at else { return false };
        self.output = Output::Lsattr(at);
        let interface = &mut self.interfaces[at];
        let from = format!("lsattr {}", interface.name);
        match (*name, *value) {
            ("state", "up") => interface.is_up = interface.is_up.or(Some(true)),
            ("state", "down" | "detach") => interface.is_up = interface.is_up.or(Some(false)),
            ("mtu_bypass", "on" | "off") | ("mtu_bypass", "plso") => {}
            (_, value) if is_number(value) => {}
            _ => return true,
        }
        keep(&mut interface.stored, Shown { name: (*name).into(), value: (*value).into(), from });
        true
    }

    /// Reads a counter of `netstat -s`.
    fn counter(&mut self, words: &[&str]) -> bool {
        if !matches!(self.output, Output::NetstatTcp) {
            return false;
        }
        // The counters of bytes have 32 bits and are soon full. Those of packets last longer.
        match words {
            [packets, "data", "packets", _, "bytes)"] if is_number(packets) => {
                self.counters.sent = packets.parse().ok();
                true
            }
            [packets, "data", "packets", _, "bytes)", "retransmitted"] if is_number(packets) => {
                self.counters.retransmitted = packets.parse().ok();
                true
            }
            _ => false,
        }
    }

    /// Returns the place of the interface that values without a name belong to: the only one, or one without a name. `None` if
    /// there are too many.
    fn only_interface(&mut self) -> Option<usize> {
        let mut places = (0..self.interfaces.len()).filter(|at| !self.interfaces[*at].is_loopback);
        match (places.next(), places.next()) {
            (Some(only), None) => Some(only),
            _ => self.interface(UNNAMED),
        }
    }

    /// Returns the place of the interface called `name`, which is new the first time. `None` if there are too many.
    fn interface(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.interfaces.iter().position(|known| known.name == name) {
            return Some(at);
        }
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let is_loopback = name.starts_with("lo");
        let interface = Interface { name, is_up: None, is_loopback, running: Vec::new(), stored: Vec::new() };
        let is_room = self.interfaces.len() < MAX_INTERFACES;
        is_room.then(|| self.interfaces.push(interface)).map(|()| self.interfaces.len() - 1)
    }
}

/// What follows from them.
impl Aix {
    fn option(&self, name: &str) -> Option<&Shown> {
        self.options.iter().find(|shown| shown.name == name)
    }

    /// Returns the interfaces that count: neither loopback nor down.
    fn counting(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.iter().filter(|interface| !interface.is_loopback && interface.is_up != Some(false))
    }

    fn has_isno(&self) -> bool {
        self.option("use_isno").is_none_or(|shown| shown.value != "0")
    }

    /// Adds the limits of the window, and what else to paste.
    fn window(&self, facts: &mut Facts) {
        for name in ["tcp_sendspace", "tcp_recvspace", "rfc1323"] {
            // Without a value of its own, an interface has that of `no`.
            let of_all = (WHOLE_SYSTEM, self.option(name));
            let own = |interface: &'_ Interface| interface.option(name).filter(|_| self.has_isno()).cloned();
            let owned: Vec<(&str, Option<Shown>)> =
                self.counting().map(|interface| (interface.name.as_str(), own(interface))).collect();
            let mut places: Vec<(&str, Option<&Shown>)> =
                owned.iter().filter(|(_, own)| own.is_some()).map(|(place, own)| (*place, own.as_ref())).collect();
            if places.len() < owned.len() || owned.is_empty() {
                places.push(of_all);
            }
            facts.windows.extend(places.iter().filter_map(|(place, shown)| limit((*shown)?, place)));
            if places.iter().any(|(_, shown)| shown.is_none()) {
                facts.missing.push("no -a");
            }
        }
        match self.option("sb_max") {
            Some(shown) => facts.windows.extend(limit(shown, WHOLE_SYSTEM)),
            None if facts.missing.is_empty() => facts.missing.push("no -o sb_max"),
            None => {}
        }
        if self.has_isno() && self.counting().next().is_none() {
            facts.missing.push("ifconfig -a");
        }
        facts.missing.dedup();
        let windows = |interface: &Interface| Some((interface.name.clone(), self.window_of(interface)?));
        facts.interfaces = self.counting().filter_map(windows).collect();
        let first = facts.interfaces.first().map(|(_, window)| *window);
        if facts.interfaces.iter().all(|(_, window)| Some(*window) == first) {
            facts.interfaces.clear();
        }
    }

    /// Returns the window of an interface, from its own values, if they count, and those of `no`; `None` if none is shown.
    fn window_of(&self, interface: &Interface) -> Option<Bytes> {
        let own = |name| interface.option(name).filter(|_| self.has_isno()).or(self.option(name));
        let values = ["tcp_sendspace", "tcp_recvspace", "rfc1323"].into_iter().filter_map(own);
        let limits = values.chain(self.option("sb_max")).filter_map(|shown| limit(shown, &interface.name));
        limits.map(|limit| limit.window).min()
    }

    /// Adds the findings without a window.
    fn hint(&self, facts: &mut Facts) {
        for (setting, bad, what) in SYSTEM_HINTS {
            let shown = self.option(setting).filter(|shown| shown.value == *bad);
            facts.hints.extend(shown.map(|shown| hint(shown, setting, WHOLE_SYSTEM, what)));
        }
        for interface in self.counting() {
            let shown = interface.option("mtu_bypass").filter(|shown| shown.value == "off");
            let what = "TCP cuts each segment itself, which costs processor time and speed on the LAN.";
            facts.hints.extend(shown.map(|shown| hint(shown, "mtu_bypass", &interface.name, what)));
        }
        if let Some(share) = self.counters.share().filter(|share| *share >= MIN_RETRANSMITTED) {
            facts.hints.push(Hint {
                setting: "retransmitted",
                value: format!("{:.2}%", share * 100.0),
                place: WHOLE_SYSTEM.into(),
                what: "Share of the packets that TCP sent again since the host started, on all paths: packets get lost.",
                costs_rate: true,
            });
        }
    }
}

impl Interface {
    /// Returns the value called `name` that is in force.
    fn option(&self, name: &str) -> Option<&Shown> {
        self.running.iter().chain(&self.stored).find(|shown| shown.name == name)
    }

    fn shown(&self) -> impl Iterator<Item = &Shown> {
        self.running.iter().chain(&self.stored)
    }
}

impl Counters {
    fn share(&self) -> Option<f64> {
        let (sent, again) = (self.sent?, self.retransmitted?);
        // More were retransmitted than sent: a counter is full.
        (again <= sent && sent > 0).then(|| again as f64 / sent as f64)
    }

    fn shown(&self) -> impl Iterator<Item = Shown> {
        let shown = |name: &str, value: Option<u64>| {
            value.map(|value| Shown { name: name.into(), value: value.to_string(), from: "netstat".into() })
        };
        [shown("data packets sent", self.sent), shown("data packets retransmitted", self.retransmitted)]
            .into_iter()
            .flatten()
    }
}

/// Returns the limit that a value sets.
fn limit(shown: &Shown, place: &str) -> Option<WindowLimit> {
    let (setting, window) = match shown.name.as_str() {
        "tcp_sendspace" => ("tcp_sendspace", bytes(&shown.value)?),
        "tcp_recvspace" => ("tcp_recvspace", bytes(&shown.value)?),
        "sb_max" => ("sb_max", bytes(&shown.value)?),
        "rfc1323" if shown.value == "0" => ("rfc1323", MAX_UNSCALED_WINDOW),
        _ => return None,
    };
    // `no -L` shortens 262144 to 256K. Commands take the number.
    let value = bytes(&shown.value)?.0.to_string();
    Some(WindowLimit { setting, value, place: place.into(), window, what: "" })
}

fn hint(shown: &Shown, setting: &'static str, place: &str, what: &'static str) -> Hint {
    Hint { setting, value: shown.value.clone(), place: place.into(), what, costs_rate: true }
}

/// Keeps a value. The last one shown is in force: a paste may show the host before and after a change.
fn keep(values: &mut Vec<Shown>, shown: Shown) {
    match values.iter_mut().find(|known| known.name == shown.name) {
        Some(known) => *known = shown,
        None => values.push(shown),
    }
}

/// Returns the option of `no` with its value, if it is one of those that are read and the value is a number.
fn option<'w>(name: &'w str, value: &'w str) -> Option<(&'w str, &'w str)> {
    (OPTIONS.contains(&name) && bytes(value).is_some()).then_some((name, value))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the bytes of a number as `no` writes it: `no -L` shortens 262144 to 256K.
fn bytes(text: &str) -> Option<Bytes> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    is_number(digits).then(|| digits.parse::<u64>().ok()?.checked_mul(factor)).flatten().map(Bytes)
}

/// Returns whether a word is a flag of a command: a dash and letters.
fn is_flag(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    (1..=4).contains(&letters.len()) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns whether a word names a network interface: letters and a number, such as `en0`.
fn is_interface(word: &str) -> bool {
    let letters = word.trim_end_matches(|char: char| char.is_ascii_digit());
    let is_named = ["en", "et", "lo", "ib", "tr", "vi", "ml", "sl"].contains(&letters);
    is_named && letters.len() < word.len() && word.len() <= MAX_NAME_CHARS
}

/// The options of `no` that are read.
const OPTIONS: &[&str] = &[
    "delayack", "fasttimo", "hstcp", "limited_ss", "rfc1323", "rfc2414", "sack", "sb_max", "tcp_cwnd_modified",
    "tcp_ecn", "tcp_init_window", "tcp_mssdflt", "tcp_newreno", "tcp_nodelayack", "tcp_pmtu_discover", "tcp_recvspace",
    "tcp_sendspace", "use_isno",
];
/// The options that an interface may have of its own.
const ISNO: &[&str] = &["rfc1323", "tcp_mssdflt", "tcp_nodelay", "tcp_recvspace", "tcp_sendspace"];
/// The attributes of an interface that are read besides.
const ATTRIBUTES: &[&str] = &["mtu", "mtu_bypass", "netaddr", "remmtu", "state"];
/// Options of `no` that hurt with this value, and how.
const SYSTEM_HINTS: &[(&str, &str, &str)] = &[
    ("sack", "0", "Each lost packet of a window costs a round trip of its own."),
    ("tcp_newreno", "0", "A second lost packet in a window waits for a timeout."),
    ("tcp_pmtu_discover", "0", "Packets to other networks have the size of remmtu, or do not fit into a tunnel."),
];
/// The name of an interface whose line with the name is not in the paste.
const UNNAMED: &str = "INTERFACE";
/// Share of retransmitted packets from which it is a finding: a tenth of the 1 % that NDT calls excessive.
const MIN_RETRANSMITTED: f64 = 0.001;
const MAX_INTERFACES: usize = 64;
const MAX_NAME_CHARS: usize = 16;
const MAX_DIGITS: usize = 19;
/// More words than a line of any of these commands has.
const MAX_WORDS: usize = 32;
