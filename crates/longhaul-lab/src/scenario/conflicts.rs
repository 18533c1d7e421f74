//! Finds values of a scenario that conflict or have no effect, although each is valid alone. A conflict names the key and what
//! to write instead.

use crate::carrier::row::{Carrier, Role};
use crate::plan::conflict::Conflict;
use crate::plan::host::HostSpec;
use crate::plan::law::Law;
use crate::plan::place::Direction;
use crate::plan::setup::Setup;
use crate::scenario::model::{Expect, Run, Times};
use crate::traffic::row::{Heeds, Traffic};
use longhaul_config::document::KeyPlaces;
use longhaul_config::options::{self, LegOptions, Value};
use longhaul_units::Bytes;

impl Run {
    /// Returns the conflicts of the run, as far as it was read. `places` are the places of its keys.
    pub(crate) fn conflicts(&self, earlier: &[Run], places: &KeyPlaces) -> Vec<Conflict> {
        let is_told = self.carriers.iter().any(|carrier| carrier.role == Role::Longhaul);
        let nobody = "only the carrier longhaul has these options; leave them out, or add longhaul to the carriers";
        let has = |id: &str| earlier.iter().any(|run| run.id == id);
        let mut conflicts = found([
            Conflict::when(has(&self.id), "id", format!("another run has the id {:?}; write a unique id", self.id)),
            Conflict::when(!self.setup.set.is_empty() && !is_told, "set", nobody),
            Conflict::when(!self.setup.options.is_empty() && !is_told, "options", nobody),
        ]);
        conflicts.extend(self.uncarried());
        conflicts.extend(self.sent());
        conflicts.extend(self.expected());
        if !self.setup.has_wan() {
            conflicts.extend(without_wan(places));
        }
        conflicts
    }

    /// Returns the conflict of carriers that do not carry the traffic's protocol.
    fn uncarried(&self) -> Option<Conflict> {
        let kind = self.traffic.kind;
        let carrier = self.carriers.iter().find(|carrier| !carrier.carries(kind.server.protocol()))?.name;
        let why = format!(
            "{carrier} carries one port, and {} needs further ones for its data; leave {carrier} out",
            kind.name
        );
        Some(Conflict::new("carriers", why))
    }

    /// Returns the conflicts of the traffic.
    fn sent(&self) -> Vec<Conflict> {
        let Traffic { kind, connections, size, rate, direction, outside, .. } = self.traffic;
        let none = format!("{} does not have this key; leave it out", kind.name);
        let largest = match kind.max_size {
            0 => none.clone(),
            max => format!("{} takes {} at most", kind.name, Bytes(max)),
        };
        let max = format!("{} can have {} at most; write fewer", kind.name, kind.max_connections);
        found([
            Conflict::when(connections > kind.max_connections, "traffic.connections", max),
            Conflict::when(rate.is_some() && !kind.keys.contains(&Heeds::Rate), "traffic.rate", none.clone()),
            Conflict::when(
                direction == Direction::Back && !kind.keys.contains(&Heeds::Direction),
                "traffic.direction",
                none.clone(),
            ),
            Conflict::when(outside.is_some() && !kind.keys.contains(&Heeds::Outside), "traffic.outside", none.clone()),
            Conflict::when(outside.is_some() && !self.setup.has_wan(), "traffic.outside", NO_WAN),
            Conflict::when(size.is_some_and(|size| size.0 > kind.max_size), "traffic.size", largest),
        ])
    }

    /// Returns the expectations that cannot be judged.
    fn expected(&self) -> Vec<Conflict> {
        let (Expect { within, gain, cpu, figures, .. }, kind) = (&self.expect, self.traffic.kind);
        let no_law = "no computed speed to compare with; write computed = \"window\", or another law";
        let no_program = "these carriers run no program on the relays; leave it out, or add another carrier";
        let mut conflicts = found([
            Conflict::when(within.is_some() && self.computed.is_none(), "expect.within", no_law),
            Conflict::when(gain.is_some() && self.has_only(Carrier::is_direct), "expect.gain", NO_GAIN),
            Conflict::when(cpu.is_some() && self.has_only(Carrier::is_routed), "expect.cpu", no_program),
        ]);
        let names: Vec<&str> = kind.figures.iter().map(|figure| figure.name).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        for name in figures.keys().filter(|name| !names.contains(&name.as_str())) {
            let why = format!("{} has no such figure; it has {known}", kind.name);
            conflicts.push(Conflict::new(format!("expect.figures.{name}"), why));
        }
        conflicts
    }

    /// Returns the comparisons with a missing run. `earlier` contains all runs before this run.
    pub(crate) fn compared(&self, earlier: &[Run]) -> Vec<Conflict> {
        found([self.times_conflict(earlier), self.gain_conflict(earlier)])
    }

    /// Removes the comparisons with runs that are not in `earlier`, and says so in the note.
    pub(crate) fn drop_comparisons(&mut self, earlier: &[Run]) {
        let (times, gain) = (self.times_conflict(earlier).is_some(), self.gain_conflict(earlier).is_some());
        if times {
            self.expect.times = None;
        }
        if gain {
            self.expect.gain = None;
        }
        if times || gain {
            self.add_note("the run for comparison was left out, so the comparison is not judged");
        }
    }

    fn times_conflict(&self, earlier: &[Run]) -> Option<Conflict> {
        let Times { of, .. } = self.expect.times.as_ref()?;
        let why = match earlier.iter().find(|run| run.id == *of) {
            None => format!("no earlier run has the id {of:?}"),
            Some(other) if other.skip.is_some() => format!("{of:?} is skipped; name another run"),
            Some(other) if self.quick.is_some() && other.quick.is_none() => {
                format!("--quick leaves {of:?} out; write quick = true there too, or name another run")
            }
            Some(_) => return None,
        };
        Some(Conflict::new("expect.times.of", why))
    }

    fn gain_conflict(&self, earlier: &[Run]) -> Option<Conflict> {
        let is_judged = self.expect.gain.is_some() && self.skip.is_none() && !self.has_only(Carrier::is_direct);
        // Within a run, the carriers take their turns in order.
        let here = self.carriers.first().is_some_and(|carrier| carrier.is_direct());
        if !is_judged || here {
            return None;
        }
        let is_direct = |run: &&Run| {
            let same = run.traffic.kind == self.traffic.kind && run.skip.is_none();
            same && run.carriers.iter().any(|carrier| carrier.is_direct())
        };
        let direct: Vec<&Run> = earlier.iter().filter(is_direct).collect();
        let none = "no direct transfer of this traffic comes before it; write \"direct\" as the first carrier, or leave this out";
        let left_out = "--quick leaves the direct transfer out; write quick = true in its run too";
        let is_hurried = self.quick.is_some() && direct.iter().all(|run| run.quick.is_none());
        Conflict::when(is_hurried || direct.is_empty(), "expect.gain", if direct.is_empty() { none } else { left_out })
    }

    /// Returns the conflict of an expectation whose speed cannot be computed. The whole run must have been read.
    pub(crate) fn uncomputed(&self) -> Vec<Conflict> {
        let why = self.expect.within.and_then(|_| self.silent_law());
        why.map(|why| Conflict::new("expect.within", why)).into_iter().collect()
    }

    /// Returns an error that names a carrier for which the run's law gives no speed, and what the law needs. `None` if there is
    /// no law, or if it gives a speed for all carriers.
    pub(crate) fn silent_law(&self) -> Option<String> {
        let law = self.computed?;
        let is_silent = |carrier: &&&Carrier| {
            let mut setup = self.setup.clone();
            (carrier.hosts)(&mut setup.host, &setup.link);
            law.speed(&setup, self.traffic.load()).is_none()
        };
        let carrier = self.carriers.iter().find(is_silent)?.name;
        let Law { name, needs, .. } = law;
        Some(format!(
            "computed = {name:?} gives no speed for {carrier}, because it needs {needs}; write that, or another law"
        ))
    }

    fn has_only(&self, is_such: fn(&Carrier) -> bool) -> bool {
        !self.carriers.is_empty() && self.carriers.iter().all(|carrier| is_such(carrier))
    }
}

impl Setup {
    /// Returns the conflicts of the set-up.
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        // A single relay host between two cables has the hosts' MTU.
        let mtu = if self.has_wan() { self.relay.mtu } else { self.host.mtu };
        let relay = HostSpec { mtu, ..self.relay.clone() };
        let mut conflicts = Vec::new();
        for (title, host) in [("host", &self.host), ("relay", &relay)] {
            conflicts.extend(host.conflicts().into_iter().map(|conflict| conflict.below(title)));
        }
        let (mut accept, mut dial) = (LegOptions::default(), LegOptions::default());
        for text in &self.set {
            // An error of a single option was reported when it was read.
            let _ = options::set(&mut accept, &mut dial, text);
        }
        let mss = |leg: &LegOptions| match leg.find(options::key::MSS)?.value {
            Value::Number(mss) => u32::try_from(mss).ok(),
            _ => None,
        };
        let too_large = [accept, dial].iter().filter_map(mss).find_map(|mss| relay.too_large(mss));
        conflicts.extend(too_large.map(|why| Conflict::new("set", why)));
        conflicts
    }
}

/// Returns the keys that need a WAN, for a set-up without one.
pub(crate) fn without_wan(places: &KeyPlaces) -> Vec<Conflict> {
    let cables = "a one-hop topology has only the hosts' cables; write host.mtu instead";
    found([
        Conflict::when(places.find("link").is_some(), "link", NO_WAN),
        Conflict::when(places.find("relay.mtu").is_some(), "relay.mtu", cables),
    ])
}

/// Returns the conflicts that were found.
fn found<const N: usize>(checks: [Option<Conflict>; N]) -> Vec<Conflict> {
    checks.into_iter().flatten().collect()
}

const NO_WAN: &str = "a one-hop topology has no WAN; leave out this key, or topology";
const NO_GAIN: &str = "other carriers are compared with direct; leave it out, or add another carrier";
