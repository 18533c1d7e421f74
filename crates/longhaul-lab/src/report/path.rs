//! Describes hosts, relays and link of a run in phrases, so that a reader of the report does not need the scenario.

use crate::plan::host::HostSpec;
use crate::plan::link::LinkSpec;
use crate::plan::place::Direction;
use crate::plan::setup::{Setup, Topology};
use longhaul_link::{Common, Limit, Traits};
use serde::Serialize;
use std::time::Duration;

/// The hosts and the link of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PathReport {
    /// The order of hosts and cables. JSON has `true` for one hop.
    #[serde(rename = "one_hop", serialize_with = "is_one_hop")]
    pub(crate) topology: Topology,
    /// The settings of hosts A and B.
    pub(crate) hosts: Vec<String>,
    /// The settings of the relay hosts.
    pub(crate) relays: Vec<String>,
    /// The WAN: its round trip, and the stages of both directions.
    pub(crate) wan: Vec<String>,
    /// The stages that only the direction from A to B has.
    pub(crate) wan_out: Vec<String>,
    /// The stages that only the direction from B to A has.
    pub(crate) wan_back: Vec<String>,
}

impl PathReport {
    /// Describes `setup`.
    pub(crate) fn of(setup: &Setup) -> PathReport {
        let hosts = host(&setup.host);
        let relays = host(&setup.relay_spec());
        let mut path = PathReport { topology: setup.topology, hosts, relays, ..PathReport::default() };
        path.relays.extend(setup.set.iter().map(|option| format!("longhaul --set {option}")));
        path.relays.extend((!setup.options.is_empty()).then(|| format!("longhaul {}", setup.options.join(" "))));
        if !setup.has_wan() {
            return path;
        }
        let [out, back] = Direction::BOTH.map(|direction| stages(&setup.link, direction));
        path.wan_out = out.iter().filter(|stage| !back.contains(stage)).cloned().collect();
        path.wan_back = back.into_iter().filter(|stage| !out.contains(stage)).collect();
        path.wan = vec![format!("{} round trip", millis(setup.link.rtt))];
        path.wan.extend(out.into_iter().filter(|stage| !path.wan_out.contains(stage)));
        path
    }
}

fn host(spec: &HostSpec) -> Vec<String> {
    let mut said = vec![match (spec.window, spec.buffers) {
        (Some(window), _) => format!("{} window", spaced(&window.to_string())),
        (None, Some(max)) => format!("autotuned window, buffers up to {}", spaced(&max.to_string())),
        (None, None) => "autotuned window".to_string(),
    }];
    said.push(format!("congestion control {}", spec.congestion));
    let oddities = [(!spec.sack, "no SACK"), (!spec.scaling, "no window scaling"), (!spec.offload, "no large send")];
    said.extend(oddities.iter().filter(|(is, _)| *is).map(|(_, what)| (*what).to_string()));
    if spec.mtu != ETHERNET {
        said.push(format!("MTU {}", spec.mtu));
    }
    said.extend(spec.mss.map(|mss| format!("MSS {mss}")));
    said
}

/// Returns the stages of one direction and its schedule. Leaves out a delay of half the round trip, because the round trip is
/// listed as a whole.
fn stages(link: &LinkSpec, direction: Direction) -> Vec<String> {
    let plain_delay = format!("{}ns", link.rtt.as_nanos() / 2);
    let mut said = Vec::new();
    for stage in link.settings(direction) {
        match (&stage.row().traits, stage.rate()) {
            (Traits { common: Some(Common::Rtt), .. }, _) if stage.value() == plain_delay => {}
            _ if stage.is_idle() => {}
            (Traits { limit: Limit::Line, .. }, Some(rate)) => {
                said.push(spaced(&rate.to_string()));
                said.extend(stage.value().split_once("queue ").map(|(_, queue)| format!("{} queue", size(queue))));
            }
            _ => said.push(stage.to_string()),
        }
    }
    said.extend(link.schedule(direction).iter().map(ToString::to_string));
    said
}

/// Returns a size in bytes as MB or kB. Other text stays as it is, with a space before the unit.
fn size(text: &str) -> String {
    match text.trim_end_matches('B').parse::<f64>() {
        Ok(bytes) if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        Ok(bytes) => format!("{:.0} kB", bytes / 1e3),
        Err(_) => spaced(text),
    }
}

/// Returns `256KiB` as `256 KiB`.
fn spaced(text: &str) -> String {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..end], &text[end..]).trim_end().to_string()
}

fn is_one_hop<S: serde::Serializer>(topology: &Topology, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*topology == Topology::OneHop)
}

fn millis(time: Duration) -> String {
    format!("{} ms", (time.as_secs_f64() * 1e5).round() / 1e2)
}

const ETHERNET: u32 = 1500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::host::HostSpec;
    use longhaul_link::{Change, Setting};
    use longhaul_units::{Bytes, Rate};

    #[test]
    fn phrases_are_those_of_the_scenario() {
        let mut link = LinkSpec::new(Duration::from_millis(63), Some(Rate(1_000_000_000)));
        link.set(&[Direction::Out], &Setting::read("loss", "0.1%").unwrap());
        link.set_schedule(&Direction::BOTH, &[Change::read("at 10s down for 20s").unwrap()]);
        let host = HostSpec { window: Some(Bytes(262_144)), sack: false, mss: Some(1254), ..HostSpec::default() };
        let (relay, set, options) = (HostSpec::default(), Vec::new(), Vec::new());
        let setup = Setup { topology: Topology::Wan, link, host, relay, set, options };
        let path = PathReport::of(&setup);
        let cubic = "congestion control cubic";
        assert_eq!(path.hosts, ["256 KiB window", cubic, "no SACK", "MSS 1254"]);
        assert_eq!(path.relays, ["autotuned window, buffers up to 32 MiB", cubic]);
        assert_eq!(path.wan, ["63 ms round trip", "1 Gbit/s", "7.9 MB queue", "at 10s down for 20s"]);
        assert_eq!((path.wan_out, path.wan_back), (vec!["loss 0.1%".to_string()], Vec::new()));
        assert_eq!(PathReport::of(&Setup { topology: Topology::OneHop, ..setup }).wan, Vec::<String>::new());
    }
}
