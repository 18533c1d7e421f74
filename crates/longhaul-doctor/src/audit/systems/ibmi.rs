//! IBM i: the screens of CHGTCPA (CFGTCP, option 3), NETSTAT *IFC and NETSTAT *RTE, and CHGTCPA as a command.
//!
//! A prompt has a label, a leader of dots, with F11 the keyword, and the value; a display has a colon before the value.

use crate::audit::reader::{Facts, Hint, Reader, Shown, WHOLE_SYSTEM, WindowLimit};
use longhaul_units::Bytes;

/// Reads the pastes of one IBM i.
#[derive(Default)]
pub(super) struct Ibmi {
    name: Option<String>,
    screen: Screen,
    /// The keyword of the group of values that is being read, such as `IPPATHMTU`.
    group: Option<&'static str>,
    attributes: Vec<Shown>,
    interfaces: Vec<Interface>,
    routes: Vec<Route>,
}

/// The screen that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Screen {
    #[default]
    Unknown,
    Attributes,
    Interfaces,
    Routes,
}

/// An interface, by its address.
#[derive(Default)]
struct Interface {
    address: String,
    mtu: Option<String>,
    status: Option<String>,
    is_loopback: bool,
}

impl Interface {
    fn is_counting(&self) -> bool {
        !self.is_loopback && self.status.as_ref().is_none_or(|status| status.eq_ignore_ascii_case("active"))
    }
}

/// A route, by its destination.
struct Route {
    destination: String,
    mtu: Option<String>,
}

impl Reader for Ibmi {
    fn read(&mut self, line: &str) -> bool {
        if self.title(line) || self.command(line) {
            return true;
        }
        match labelled(line) {
            Some((label, words)) => self.value(&label, &words),
            None => self.list(line),
        }
    }

    fn facts(&self) -> Facts {
        let routes = self.routes.iter().filter_map(|route| {
            let from = format!("NETSTAT *RTE, {}", route.destination);
            Some(Shown { name: ROUTE_MTU.into(), value: route.mtu.clone()?, from })
        });
        let interfaces = self.interfaces.iter().flat_map(|interface| {
            let shown = |name: &str, value: &Option<String>| {
                let from = format!("NETSTAT *IFC, {}", interface.address);
                Some(Shown { name: name.into(), value: value.clone()?, from })
            };
            [shown("interface status", &interface.status), shown(INTERFACE_MTU, &interface.mtu)].into_iter().flatten()
        });
        let mut facts = Facts {
            name: self.name.clone(),
            settings: self.attributes.iter().cloned().chain(interfaces).chain(routes).collect(),
            ..Facts::default()
        };
        self.window(&mut facts);
        self.hint(&mut facts);
        facts
    }
}

/// The lines.
impl Ibmi {
    /// Reads the title of a screen, and the name of the system beside it.
    fn title(&mut self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace().rev();
        if let (Some(name), Some("System:")) = (words.next(), words.next()) {
            self.name = Some(name.chars().take(MAX_NAME_CHARS).collect());
        }
        if !line.contains("IP") {
            return false;
        }
        let Some((_, screen)) = TITLES.iter().find(|(title, _)| line.contains(title)) else { return false };
        self.screen = *screen;
        self.group = None;
        true
    }

    /// Reads a command: `CHGTCPA TCPRCVBUF(4194304) TCPSNDBUF(4194304)`, or one that opens a screen.
    fn command(&mut self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default().to_ascii_uppercase();
        if !["NETSTAT", "WRKTCPSTS", "CHGTCPA"].contains(&first.as_str()) {
            return false;
        }
        let option = words.next().unwrap_or_default().to_ascii_uppercase();
        self.screen = match (first.as_str(), option.as_str()) {
            ("NETSTAT" | "WRKTCPSTS", "*IFC" | "OPTION(*IFC)") => Screen::Interfaces,
            ("NETSTAT" | "WRKTCPSTS", "*RTE" | "OPTION(*RTE)") => Screen::Routes,
            ("CHGTCPA", _) => Screen::Attributes,
            _ => return false,
        };
        // A value may have two words: `IPPATHMTU(*YES 10)`.
        for part in line.split_inclusive(')').take(MAX_WORDS).filter_map(|part| part.strip_suffix(')')) {
            let Some((before, values)) = part.split_once('(') else { continue };
            let keyword = before.split_ascii_whitespace().next_back().unwrap_or_default();
            let value = values.split_ascii_whitespace().next().unwrap_or_default();
            let known = ATTRIBUTES.iter().find(|(_, known)| known.eq_ignore_ascii_case(keyword));
            if let Some((_, keyword)) = known.filter(|_| is_value(value)) {
                self.keep(keyword, value);
            }
        }
        true
    }

    /// Reads a line with a label. `words` are those behind the leader.
    fn value(&mut self, label: &str, words: &[&str]) -> bool {
        let keyword = ATTRIBUTES.iter().find(|(known, _)| *known == label).map(|(_, keyword)| *keyword);
        // With F11, the keyword stands before the value.
        let words = match words {
            [first, rest @ ..] if keyword == Some(*first) => rest,
            words => words,
        };
        let value = words.first().copied().filter(|value| is_value(value));
        match (keyword, label, value) {
            (Some(keyword), _, None) => {
                // The title of a group: its values have labels such as `Enablement`.
                self.group = Some(keyword);
                words.is_empty()
            }
            (Some(keyword), _, Some(value)) => {
                self.group = None;
                self.keep(keyword, value)
            }
            (None, "enablement", Some(value)) => match self.group.take() {
                Some(keyword) => self.keep(keyword, value),
                None => false,
            },
            (None, ..) => self.detail(label, words),
        }
    }

    /// Reads a line of the details of one interface or route.
    fn detail(&mut self, label: &str, words: &[&str]) -> bool {
        let Some(value) = words.first() else { return false };
        match label {
            "internet address" if is_address(value) && self.screen == Screen::Interfaces => {
                self.interface(value).is_some()
            }
            "interface status" if self.screen == Screen::Interfaces => match self.interfaces.last_mut() {
                Some(interface) => {
                    interface.status = Some((*value).into());
                    true
                }
                None => false,
            },
            "maximum transmission unit" if is_mtu(value) => match (self.screen, self.interfaces.last_mut()) {
                (Screen::Interfaces, Some(interface)) => {
                    interface.mtu = Some((*value).into());
                    true
                }
                (Screen::Routes, _) => self.route_mtu(value),
                _ => false,
            },
            "route destination" if is_destination(value) => {
                self.screen = Screen::Routes;
                self.route(value).is_some()
            }
            "route maximum transmission unit" if is_mtu(value) => self.route_mtu(value),
            _ => false,
        }
    }

    /// Reads a line of a list of interfaces or routes. An option may stand before it.
    fn list(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
        let words = match words.as_slice() {
            [option, rest @ ..] if option.len() <= 2 && option.bytes().all(|byte| byte.is_ascii_digit()) => rest,
            words => words,
        };
        match (self.screen, words) {
            (Screen::Interfaces, [address, network, line, status, ..])
                if is_address(address) && is_address(network) =>
            {
                let Some(interface) = self.interface(address) else { return false };
                interface.is_loopback |= line.eq_ignore_ascii_case("*LOOPBACK");
                interface.status = Some((*status).into());
                true
            }
            (Screen::Routes, [destination, service, mtu, ..])
                if is_destination(destination) && SERVICES.contains(service) && is_mtu(mtu) =>
            {
                let Some(route) = self.route(destination) else { return false };
                route.mtu = Some((*mtu).into());
                true
            }
            _ => false,
        }
    }

    fn keep(&mut self, keyword: &str, value: &str) -> bool {
        let shown = Shown { name: keyword.into(), value: value.into(), from: "CHGTCPA".into() };
        match self.attributes.iter_mut().find(|known| known.name == keyword) {
            Some(known) => *known = shown,
            None => self.attributes.push(shown),
        }
        true
    }

    /// Returns the interface with this address, which becomes the last one; `None` if there are too many.
    fn interface(&mut self, address: &str) -> Option<&mut Interface> {
        let interface = match self.interfaces.iter().position(|known| known.address == address) {
            Some(at) => self.interfaces.remove(at),
            None => {
                Interface { address: address.into(), is_loopback: address.starts_with("127."), ..Interface::default() }
            }
        };
        let is_room = self.interfaces.len() < MAX_ENTRIES;
        is_room.then(|| self.interfaces.push(interface))?;
        self.interfaces.last_mut()
    }

    /// Returns the route to this destination, likewise.
    fn route(&mut self, destination: &str) -> Option<&mut Route> {
        let route = match self.routes.iter().position(|known| known.destination == destination) {
            Some(at) => self.routes.remove(at),
            None => Route { destination: destination.into(), mtu: None },
        };
        let is_room = self.routes.len() < MAX_ENTRIES;
        is_room.then(|| self.routes.push(route))?;
        self.routes.last_mut()
    }

    fn route_mtu(&mut self, value: &str) -> bool {
        let Some(route) = self.routes.last_mut() else { return false };
        route.mtu = Some(value.into());
        true
    }
}

/// What follows from them.
impl Ibmi {
    fn attribute(&self, keyword: &str) -> Option<&Shown> {
        self.attributes.iter().find(|shown| shown.name == keyword)
    }

    fn window(&self, facts: &mut Facts) {
        for setting in ["TCPRCVBUF", "TCPSNDBUF"] {
            let shown = self.attribute(setting).and_then(|shown| Some((shown, shown.value.parse().ok()?)));
            match shown {
                Some((shown, bytes)) => facts.windows.push(WindowLimit {
                    setting,
                    value: shown.value.clone(),
                    place: WHOLE_SYSTEM.into(),
                    window: Bytes(bytes),
                    what: "",
                }),
                None => facts.missing.push("CHGTCPA, then F4"),
            }
        }
        facts.missing.dedup();
    }

    fn hint(&self, facts: &mut Facts) {
        if let Some(shown) = self.attribute("IPPATHMTU").filter(|shown| shown.value == "*NO") {
            facts.hints.push(Hint {
                setting: "IPPATHMTU",
                value: shown.value.clone(),
                place: WHOLE_SYSTEM.into(),
                what: "Packets that do not fit into a tunnel are fragmented or lost.",
                costs_rate: true,
            });
        }
        let routes = self.routes.iter().map(|route| (ROUTE_MTU, &route.destination, &route.mtu));
        let counting = self.interfaces.iter().filter(|interface| interface.is_counting());
        let interfaces = counting.map(|interface| (INTERFACE_MTU, &interface.address, &interface.mtu));
        for (setting, place, mtu) in interfaces.chain(routes) {
            let is_small = |mtu: &&String| mtu.parse().is_ok_and(|mtu: u32| mtu < MIN_FAIR_MTU);
            if let Some(mtu) = mtu.as_ref().filter(is_small) {
                facts.hints.push(Hint {
                    setting,
                    value: mtu.clone(),
                    place: place.clone(),
                    what: "The packets are small: more of them for the same bytes, and slower growth after a loss. For a \
                        route, `*IFC` takes the interface's MTU.",
                    costs_rate: true,
                });
            }
        }
    }
}

/// Returns the label before a leader of dots, in small letters, and the words behind the leader. A label may end with a colon, as
/// that of a group does.
fn labelled(line: &str) -> Option<(String, Vec<&str>)> {
    let (label, rest) = match line.split_once(" . ") {
        Some(parts) => parts,
        // The title of a group, with F11 the keyword behind it.
        None => line.split_once(':').filter(|(_, rest)| {
            let rest = rest.trim();
            rest.is_empty() || ATTRIBUTES.iter().any(|(_, keyword)| *keyword == rest)
        })?,
    };
    let label = label.trim().trim_end_matches([' ', '.', ':']).to_ascii_lowercase();
    let words = rest.split_ascii_whitespace().skip_while(|word| word.chars().all(|char| ".:>".contains(char)));
    (!label.is_empty() && label.len() <= MAX_LABEL_BYTES).then(|| (label, words.take(MAX_WORDS).collect()))
}

/// Returns whether a word is a value: a number, or a word with a star.
fn is_value(word: &str) -> bool {
    let letters = word.strip_prefix('*').unwrap_or_default();
    is_number(word) || !letters.is_empty() && letters.len() <= 10 && letters.bytes().all(|b| b.is_ascii_uppercase())
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.len() <= 10 && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a word is an MTU, as a route or an interface has it.
fn is_mtu(word: &str) -> bool {
    word == "*IFC" || word == "*LIND" || word.parse().is_ok_and(|mtu: u32| (68..=65_535).contains(&mtu))
}

fn is_address(word: &str) -> bool {
    word.parse::<std::net::Ipv4Addr>().is_ok()
}

fn is_destination(word: &str) -> bool {
    word == "*DFTROUTE" || is_address(word)
}

/// The titles of the screens.
const TITLES: &[(&str, Screen)] = &[
    ("Change TCP/IP Attributes", Screen::Attributes),
    ("TCP/IP Interface Status", Screen::Interfaces),
    ("IPv4 Interface Status", Screen::Interfaces),
    ("TCP/IP Route Information", Screen::Routes),
    ("IPv4 Route Information", Screen::Routes),
    ("TCP/IP Route Details", Screen::Routes),
];
/// Labels of CHGTCPA's prompt in small letters, and their keywords (IBM, CHGTCPA, the table of parameters).
const ATTRIBUTES: &[(&str, &str)] = &[
    ("tcp receive buffer size", "TCPRCVBUF"),
    ("tcp send buffer size", "TCPSNDBUF"),
    ("tcp minimum retransmit time", "TCPMINRTM"),
    ("path mtu discovery", "IPPATHMTU"),
    ("enable ecn", "ECN"),
    ("network file cache", "NFC"),
];
/// Types of service in the list of routes.
const SERVICES: &[&str] = &["*NORMAL", "*MINDELAY", "*MAXTHRPUT", "*MAXRLB", "*MINCOST"];
const ROUTE_MTU: &str = "CHGTCPRTE MTU";
const INTERFACE_MTU: &str = "CHGTCPIFC MTU";
/// The smallest MTU that is no finding: that of IPv6 (RFC 8200 5). Routes of 576 are the usual mistake.
const MIN_FAIR_MTU: u32 = 1280;
const MAX_ENTRIES: usize = 64;
const MAX_NAME_CHARS: usize = 16;
const MAX_LABEL_BYTES: usize = 60;
const MAX_WORDS: usize = 24;
