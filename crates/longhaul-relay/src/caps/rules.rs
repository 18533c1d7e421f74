//! The caps as configured: the daemon's, and those of each tunnel that is served or still has flows.

use super::clock::WeekTime;
use longhaul_config::Tunnel;
use longhaul_core::caps::{Bandwidth, Caps};
use longhaul_units::Rate;
use std::collections::HashMap;
use std::sync::Arc;

/// The configured caps.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    all: Bandwidth,
    rules: Vec<Rule>,
    /// Indices of the rules by the tunnels' names.
    names: HashMap<String, usize>,
    /// The part of a tunnel's cap, and of the daemon's, that a measurement has: its flows share the rest.
    aside: Option<Aside>,
}

/// The tunnel that is measured, by its name, and the rate that the measurement sends at most.
pub(super) type Aside = (String, Rate);

/// The caps of one tunnel.
#[derive(Clone, Debug)]
struct Rule {
    name: String,
    bandwidth: Bandwidth,
    flow: Option<Rate>,
    is_background: bool,
}

impl Rules {
    /// Returns the caps of the daemon and of the served `tunnels`, and beside them the last caps in `self` of `alive`:
    /// the tunnels that have flows, by name. A tunnel without a rule in `self` has the caps with which its flows began.
    pub(super) fn next(&self, all: Bandwidth, tunnels: &[Arc<Tunnel>], alive: &HashMap<String, Arc<Tunnel>>) -> Rules {
        let mut next = Rules { all, rules: Vec::new(), names: HashMap::new(), aside: self.aside.clone() };
        tunnels.iter().for_each(|tunnel| next.add(Rule::of(tunnel)));
        for (name, tunnel) in alive {
            let last = self.names.get(name).and_then(|rule| self.rules.get(*rule));
            next.add(last.cloned().unwrap_or_else(|| Rule::of(tunnel)));
        }
        next
    }

    /// Returns these rules with another part for a measurement.
    pub(super) fn with_aside(&self, aside: Option<Aside>) -> Rules {
        Rules { aside, ..self.clone() }
    }

    /// Whether a measurement has a part.
    pub(super) fn has_aside(&self) -> bool {
        self.aside.is_some()
    }

    fn add(&mut self, rule: Rule) {
        if !self.names.contains_key(&rule.name) {
            self.names.insert(rule.name.clone(), self.rules.len());
            self.rules.push(rule);
        }
    }

    /// Returns the cap of the daemon.
    pub(super) fn all(&self) -> &Bandwidth {
        &self.all
    }

    /// Whether any flow may be below a cap at some time.
    pub(super) fn is_capped(&self) -> bool {
        self.is_auto()
            || self.all.is_capped()
            || self.rules.iter().any(|rule| rule.flow.is_some() || rule.bandwidth.is_capped())
    }

    /// Returns the index of the rule of tunnel `name`; `None` if its flows are never below a cap.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let rule = *self.names.get(name)?;
        (self.needs_looks(rule) || self.flow_cap(rule).is_some()).then_some(rule)
    }

    /// Whether the limits of the flows change with what they and others send.
    pub(super) fn needs_looks(&self, rule: usize) -> bool {
        self.is_auto() || self.all.is_capped() || self.rules.get(rule).is_some_and(|rule| rule.bandwidth.is_capped())
    }

    /// Whether paths have caps that are found by themselves, at some time of the week.
    pub(super) fn is_auto(&self) -> bool {
        self.all.may_be_auto()
    }

    /// Whether they have them now.
    pub(super) fn is_auto_now(&self, clock: fn() -> WeekTime) -> bool {
        let now = self.has_schedule().then(clock);
        now.map_or(self.all.is_auto, |now| self.all.is_auto_at(now.day, now.minute))
    }

    /// Whether the flows of a tunnel take what others leave.
    pub(super) fn is_background(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.is_background)
    }

    /// Returns the cap of each flow.
    pub(super) fn flow_cap(&self, rule: usize) -> Option<Rate> {
        self.rules.get(rule)?.flow
    }

    /// Whether the caps depend on the time.
    pub(super) fn has_schedule(&self) -> bool {
        let has = |bandwidth: &Bandwidth| !bandwidth.schedule.is_empty();
        has(&self.all) || self.rules.iter().any(|rule| has(&rule.bandwidth))
    }

    /// Returns the caps that hold now, by the indices of the rules. Reads `clock` only if there is a schedule.
    pub(super) fn caps(&self, clock: fn() -> WeekTime) -> Caps {
        let now = self.has_schedule().then(clock);
        let at = |bandwidth: &Bandwidth| now.map_or(bandwidth.rate, |now| bandwidth.at(now.day, now.minute));
        let mut caps =
            Caps { all: at(&self.all), tunnels: self.rules.iter().map(|rule| at(&rule.bandwidth)).collect() };
        if let Some((name, aside)) = &self.aside {
            let of_tunnel = self.names.get(name).and_then(|rule| caps.tunnels.get_mut(*rule));
            for cap in [&mut caps.all].into_iter().chain(of_tunnel).flatten() {
                // A cap that was lowered since leaves the flows some.
                *cap = Rate(cap.0.saturating_sub(aside.0)).max(Rate(cap.0 / 4));
            }
        }
        caps
    }
}

impl Rule {
    fn of(tunnel: &Tunnel) -> Rule {
        let Tunnel { name, bandwidth, flow_bandwidth, is_background, .. } = tunnel;
        Rule { name: name.clone(), bandwidth: bandwidth.clone(), flow: *flow_bandwidth, is_background: *is_background }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::caps::{Weekday, Window};

    fn tunnel(name: &str, mbit: u64) -> Arc<Tunnel> {
        let mut tunnel = Tunnel::new(name, "127.0.0.1:1".parse().unwrap(), Vec::new());
        tunnel.bandwidth.rate = (mbit > 0).then_some(Rate(mbit * 1_000_000));
        Arc::new(tunnel)
    }

    #[test]
    fn a_removed_tunnel_with_flows_keeps_its_last_caps() {
        let (none, no_flows) = (Bandwidth::default(), HashMap::new());
        let first = Rules::default().next(none.clone(), &[tunnel("a", 1), tunnel("b", 2), tunnel("c", 0)], &no_flows);
        assert!(first.is_capped() && first.find("c").is_none() && first.find("d").is_none());
        let alive = HashMap::from([("a".to_string(), tunnel("a", 7)), ("e".to_string(), tunnel("e", 8))]);
        let next = first.next(none.clone(), &[tunnel("b", 3)], &alive);
        let cap = |name| next.caps(|| panic!("there is no schedule")).tunnels[next.find(name).unwrap()];
        assert_eq!(
            [cap("a"), cap("b"), cap("e")],
            [Some(Rate(1_000_000)), Some(Rate(3_000_000)), Some(Rate(8_000_000))]
        );
        assert!(!next.next(none, &[tunnel("c", 0)], &no_flows).is_capped());
    }

    #[test]
    fn the_part_of_a_measurement_is_taken_from_the_caps_above_it() {
        let all = Bandwidth { rate: Some(Rate(100_000_000)), ..Bandwidth::default() };
        let (tunnels, no_flows) = ([tunnel("a", 20), tunnel("b", 20), tunnel("c", 0)], HashMap::new());
        let caps = |name: &str, mbit: u64| {
            let rules = Rules::default().next(all.clone(), &tunnels, &no_flows);
            let rules = rules.with_aside(Some((name.into(), Rate(mbit * 1_000_000))));
            // A reload keeps it.
            let caps = rules.next(all.clone(), &tunnels, &no_flows).caps(|| panic!("there is no schedule"));
            let mbit = |cap: Option<Rate>| cap.map(|cap| cap.0 / 1_000_000);
            (mbit(caps.all), caps.tunnels.into_iter().map(mbit).collect::<Vec<_>>())
        };
        assert_eq!(caps("a", 10), (Some(90), vec![Some(10), Some(20), None]));
        assert_eq!(caps("c", 50), (Some(50), vec![Some(20), Some(20), None]));
        assert_eq!(caps("gone", 10), (Some(90), vec![Some(20), Some(20), None]));
        assert_eq!(caps("b", 50).1, [Some(20), Some(5), None], "the flows keep some");
    }

    #[test]
    fn the_daemon_s_cap_holds_for_every_tunnel() {
        let (first, last) = (Weekday::Mon, Weekday::Mon);
        let window = Window { first, last, from: 60, until: 120, rate: None, is_auto: false };
        let all = Bandwidth { rate: Some(Rate(9)), schedule: vec![window], ..Bandwidth::default() };
        let rules = Rules::default().next(all, &[tunnel("a", 0)], &HashMap::new());
        assert!(rules.needs_looks(rules.find("a").unwrap()) && rules.has_schedule());
        assert_eq!(rules.caps(|| WeekTime { day: Weekday::Mon, minute: 60 }).all, None);
        assert_eq!(rules.caps(|| WeekTime { day: Weekday::Mon, minute: 120 }).all, Some(Rate(9)));
    }
}
