//! `ip route`, `ip route get`: the routes with metrics.

use crate::audit::reader::{Facts, Lift, Shown, WindowLimit};
use crate::audit::systems::values::{Bad, number};
use longhaul_units::Bytes;

/// The routes with metrics that a paste shows.
#[derive(Default)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// The last route, whose metrics may follow in a line of their own.
    last: Option<Route>,
}

/// One route.
#[derive(Clone)]
struct Route {
    destination: String,
    is_ipv6: bool,
    device: Option<String>,
    /// Its preference among routes to the same destination.
    metric: Option<String>,
    /// Whether its interface has no carrier.
    is_down: bool,
    /// Its words, if ip(8) takes them as it shows them.
    line: Option<String>,
    /// Metrics with their values.
    metrics: Vec<(&'static str, String)>,
}

impl Routes {
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
                    self.keep(Route { metrics, line: None, ..last });
                }
                true
            }
            [destination, verb, ..] if is_destination(destination) && VERBS.contains(verb) => {
                let is_down = ["linkdown", "dead"].iter().any(|flag| words.contains(flag));
                let (destination, device, metric) = ((*destination).to_string(), behind("dev"), behind("metric"));
                let is_ipv6 = destination.contains(':')
                    || words.contains(&"pref")
                    || behind("via").is_some_and(|gateway| gateway.contains(':'));
                let line = changeable(&words);
                let route = Route { destination, is_ipv6, device, metric, is_down, line, metrics: metrics(&words) };
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
                facts.lifts.extend(route.lift(name, &place));
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
            }
        }
    }

    /// Keeps a route with metrics. The last one to a destination on a device with a preference is in force.
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
        let part = |word: &str, value: &Option<String>| value.as_ref().map(|value| format!(" {word} {value}"));
        let (device, metric) = (part("dev", &self.device), part("metric", &self.metric));
        format!("{family} {}{}{}", self.destination, device.unwrap_or_default(), metric.unwrap_or_default())
    }

    /// Returns what takes the metric called `name` off the route.
    fn lift(&self, name: &'static str, place: &str) -> Option<Lift> {
        let (word, _) = METRICS.iter().find(|(_, known)| *known == name)?;
        let line = self.line.as_ref()?;
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|known| known == word)?;
        let is_locked = words.get(at + 1) == Some(&"lock");
        let metric = words.get(at..at + 2 + usize::from(is_locked))?.join(" ");
        let ip = if self.is_ipv6 { "ip -6" } else { "ip" };
        Some(Lift { setting: name, place: place.into(), whole: format!("{ip} route change {line}"), metric })
    }
}

/// Returns the words of a route as `ip route change` takes them; `None` if it does not, or if the line may have been cut.
fn changeable(words: &[&str]) -> Option<String> {
    let is_refused = words.iter().any(|word| UNCHANGEABLE.contains(word));
    let is_cut = words.len() >= MAX_WORDS
        || words.last().is_some_and(|last| VERBS.contains(last) || METRICS.iter().any(|(metric, _)| metric == last));
    // ip(8) shows `rto_min lock 200ms`, and takes `rto_min 200ms`.
    let is_shown_only = |at: usize| at > 0 && words[at] == "lock" && words[at - 1] == "rto_min";
    let kept = words.iter().enumerate().filter(|(at, _)| !is_shown_only(*at)).map(|(_, word)| *word);
    (!is_refused && !is_cut).then(|| kept.collect::<Vec<_>>().join(" "))
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
    ("congctl", "route congctl"),
    ("cwnd", "route cwnd"),
    ("initcwnd", "route initcwnd"),
    ("initrwnd", "route initrwnd"),
    ("mtu", "route mtu"),
    ("rto_min", "route rto_min"),
    ("window", WINDOW),
];
const WINDOW: &str = "route window";
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
/// Words that ip(8) shows and does not take in a change; `from` and `uid` are those of `ip route get`.
const UNCHANGEABLE: &[&str] =
    &["from", "uid", "expires", "nexthop", "nhid", "linkdown", "dead", "offload", "trap", "rt_offload", "rt_trap"];
const MAX_ROUTES: usize = 64;
const MAX_VALUE_BYTES: usize = 32;
const MAX_WORDS: usize = 48;

const fn small(setting: &'static str) -> Bad {
    let what = "Packets are smaller than the least that IPv6 needs: more headers, and a slower recovery from loss.";
    Bad { setting, value: "", what, costs_rate: true }
}
