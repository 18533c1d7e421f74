//! `ip route`, `ip route get`: the routes with metrics.

use crate::audit::reader::{Control, Facts, Shown, WindowLimit};
use crate::audit::systems::values::{Bad, number};
use longhaul_core::advice::LINUX;
use longhaul_units::Bytes;

/// The routes with metrics that a paste shows.
#[derive(Default)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// The last route, whose metrics may follow in a line of their own.
    last: Option<Route>,
    /// The table, VRF or network namespace that the last command named: ` table 100`. Its lines do not repeat it.
    scope: String,
}

/// One route.
#[derive(Clone)]
struct Route {
    destination: String,
    is_ipv6: bool,
    device: Option<String>,
    /// The words that distinguish it from other routes to the same destination: ` dev eth0 table 100 metric 50`.
    others: String,
    /// Whether its interface has no carrier.
    is_down: bool,
    /// Metrics with their values.
    metrics: Vec<(&'static str, String)>,
}

impl Routes {
    /// Notes a command: the words behind `ip`.
    pub(super) fn begin(&mut self, words: &[&str]) {
        let behind = |names: &[&str]| words.windows(2).find(|pair| names.contains(&pair[0])).map(|pair| pair[1]);
        let scopes = [
            ("netns", behind(&["exec", "-n", "-netns"])),
            ("vrf", behind(&["vrf"])),
            ("table", behind(&["table", "t"])),
        ];
        let told = scopes.iter().filter_map(|(name, value)| {
            Some((*name, value.filter(|value| value.len() <= MAX_VALUE_BYTES && !WHOLE.contains(value))?))
        });
        self.scope = told.map(|(name, value)| format!(" {name} {value}")).collect();
        self.last = None;
    }

    /// Reads `default via 10.0.0.1 dev eth0 proto static mtu lock 1400 window 262144`, or the line `cache ..` below a route.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
        let behind =
            |word: &str| words.iter().skip_while(|known| **known != word).nth(1).map(|next| (*next).to_string());
        match words.as_slice() {
            ["nexthop", "via" | "dev", ..] => true,
            [kind, destination, ..] if OTHER_TYPES.contains(kind) && is_destination(destination) => true,
            ["cache", ..] => {
                let metrics = metrics(&words);
                let Some(last) = self.last.take() else { return false };
                if !metrics.is_empty() {
                    self.keep(Route { metrics, ..last });
                }
                true
            }
            [destination, verb, ..] if is_destination(destination) && VERBS.contains(verb) => {
                let is_down = ["linkdown", "dead"].iter().any(|flag| words.contains(flag));
                let (destination, device) = ((*destination).to_string(), behind("dev"));
                let others = ["dev", "table", "tos", "metric"].map(|word| (word, behind(word)));
                let others = others.into_iter().filter_map(|(word, value)| Some(format!(" {word} {}", value?)));
                let others = others.chain([self.scope.clone()]).collect();
                let is_ipv6 = destination.contains(':')
                    || words.contains(&"pref")
                    || behind("via").is_some_and(|gateway| gateway.contains(':'));
                let route = Route { destination, is_ipv6, device, others, is_down, metrics: metrics(&words) };
                self.last = Some(route.clone());
                self.keep(route);
                true
            }
            _ => false,
        }
    }

    /// Adds the metrics, the limits of the window, and the findings. `is_counting`: whether an interface counts.
    pub(super) fn add_to(&self, facts: &mut Facts, is_counting: impl Fn(&str) -> bool) {
        for route in &self.routes {
            let place = route.place();
            let shown = |(name, value): &(&'static str, String)| Shown {
                name: (*name).into(),
                value: value.clone(),
                from: format!("ip {place}"),
            };
            facts.settings.extend(route.metrics.iter().map(shown));
            let is_up = !route.is_down && route.device.as_deref().is_none_or(&is_counting);
            for (name, value) in route.metrics.iter().filter(|_| is_up) {
                let figure = number(value);
                // ip-route(8): the largest window that is offered to these destinations.
                if let (WINDOW, Some(window @ 1..)) = (*name, figure) {
                    let (value, place) = (value.clone(), place.clone());
                    let what = "The route limits the window that this host offers.";
                    facts.windows.push(WindowLimit { setting: WINDOW, value, place, window: Bytes(window), what });
                }
                let bad = BAD
                    .iter()
                    .find(|(bad, below)| bad.setting == *name && figure.is_some_and(|figure| figure < *below));
                facts.hints.extend(bad.map(|(bad, _)| bad.hint(value, &place)));
                if *name == CONTROL {
                    let control = Control::new(CONTROL, value, &place);
                    facts.control = slower(facts.control.take(), control);
                }
            }
        }
    }

    /// Keeps a route with metrics. Of two lines about one route, the last is in force.
    fn keep(&mut self, route: Route) {
        let is_same = |known: &&mut Route| known.place() == route.place();
        if let Some(known) = self.routes.iter_mut().find(is_same) {
            *known = route;
        } else if !route.metrics.is_empty() && self.routes.len() < MAX_ROUTES {
            self.routes.push(route);
        }
    }
}

impl Route {
    /// Returns the words that tell it from all other routes: `route default dev eth0 metric 100`.
    fn place(&self) -> String {
        let family = if self.is_ipv6 && !self.destination.contains(':') { "IPv6 route" } else { "route" };
        format!("{family} {}{}", self.destination, self.others)
    }
}

/// Returns the control that is slower after a loss. One without a law may be any; one that is not shown is the default.
fn slower(known: Option<Control>, other: Control) -> Option<Control> {
    let response = known.as_ref().map_or(Some(LINUX.response), |control| control.response);
    if other.response < response { Some(other) } else { known }
}

/// Returns the metrics in a line.
fn metrics(words: &[&str]) -> Vec<(&'static str, String)> {
    let mut metrics = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some((_, name)) = METRICS.iter().find(|(metric, _)| metric == word) else { continue };
        let is_locked = words.get(at + 1) == Some(&"lock");
        let value = words.get(at + 1 + usize::from(is_locked)).filter(|value| value.len() <= MAX_VALUE_BYTES);
        // ip-route(8): the clamp of the congestion window is ignored without `lock`.
        let is_in_force = *word != "cwnd" || is_locked;
        metrics.extend(value.filter(|_| is_in_force).map(|value| (*name, (*value).to_string())));
    }
    metrics
}

/// Returns whether `word` is the destination of a route: `default`, an address, or a network.
fn is_destination(word: &str) -> bool {
    let (address, bits) = word.split_once('/').unwrap_or((word, "0"));
    word == "default" || address.parse::<std::net::IpAddr>().is_ok() && number(bits).is_some()
}

/// The words that may follow a destination.
const VERBS: &[&str] = &["dev", "from", "metric", "nhid", "proto", "scope", "src", "via"];
/// The types of routes that carry nothing to other hosts.
const OTHER_TYPES: &[&str] =
    &["anycast", "blackhole", "broadcast", "local", "multicast", "prohibit", "throw", "unreachable"];
/// The metrics that are read, and the names that they have here.
const METRICS: &[(&str, &str)] = &[
    ("advmss", "route advmss"),
    ("congctl", CONTROL),
    ("cwnd", "route cwnd"),
    ("initcwnd", "route initcwnd"),
    ("initrwnd", "route initrwnd"),
    ("mtu", "route mtu"),
    ("rto_min", "route rto_min"),
    ("window", WINDOW),
];
const WINDOW: &str = "route window";
const CONTROL: &str = "route congctl";
/// Metrics that hurt below a value.
const BAD: &[(Bad, u64)] = &[
    (small("route mtu"), MIN_MTU),
    (small("route advmss"), MIN_MTU - HEADERS),
    (
        Bad {
            setting: "route cwnd",
            value: "",
            what: "The route clamps the congestion window to this number of packets.",
            costs_rate: true,
        },
        u64::MAX,
    ),
];
/// RFC 8200 5.
const MIN_MTU: u64 = 1280;
/// IPv6 and TCP without options.
const HEADERS: u64 = 60;
/// Tables that a command names without leaving their names out of the lines.
const WHOLE: &[&str] = &["all", "main", "254"];
const MAX_ROUTES: usize = 64;
const MAX_VALUE_BYTES: usize = 32;
const MAX_WORDS: usize = 48;

const fn small(setting: &'static str) -> Bad {
    let what = "Packets are smaller than the least that IPv6 needs: more headers, and a slower recovery from loss.";
    Bad { setting, value: "", what, costs_rate: true }
}
