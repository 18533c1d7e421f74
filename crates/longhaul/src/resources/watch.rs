//! Which resources are nearly used up: from 80 % of the limit on, until less than 70 % is in use.

use super::row::{ROWS, Reading, ResourceRow};
use super::sample::ResourceSample;
use super::state::ResourceState;
use std::collections::BTreeMap;

/// The resources that are nearly used up, and since when.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// By name, with the time in seconds since 1970.
    near: BTreeMap<String, f64>,
}

/// A resource that has crossed one of the two marks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Crossing {
    /// The resource now. One that is not shown any more has only its name.
    pub(super) state: ResourceState,
    /// Whether it is nearly used up now.
    pub(super) is_near: bool,
}

impl Watch {
    /// Returns the state of every resource of `sample`, and those that have crossed a mark since the last call. `now` is in
    /// seconds since 1970.
    pub(super) fn look(&mut self, sample: &ResourceSample, now: f64) -> (Vec<ResourceState>, Vec<Crossing>) {
        let (mut states, mut crossings, mut near) = (Vec::new(), Vec::new(), BTreeMap::new());
        for row in ROWS {
            for reading in (row.read)(sample) {
                let before = self.near.remove(&reading.name(row));
                let mark = if before.is_some() { FREE_SHARE } else { NEAR_SHARE };
                let since = (share(reading.used, reading.limit) >= mark).then(|| before.unwrap_or(now));
                let state = reading.state(row, since);
                if since.is_some() != before.is_some() {
                    crossings.push(Crossing { state: state.clone(), is_near: since.is_some() });
                }
                near.extend(since.map(|since| (state.name.clone(), since)));
                states.push(state);
            }
        }
        let gone = std::mem::replace(&mut self.near, near).into_keys();
        crossings.extend(
            gone.map(|name| Crossing { state: ResourceState { name, ..ResourceState::default() }, is_near: false }),
        );
        (states, crossings)
    }
}

/// Notes in the state of a buffer that a connection needs `bytes` of it.
pub(super) fn need(states: &mut [ResourceState], name: &str, bytes: u64) {
    let row = ROWS.iter().find(|row| row.name == name);
    let state = states.iter_mut().find(|state| state.name == name);
    let (Some(row), Some(state), 1..) = (row, state, bytes) else { return };
    state.used = Some(bytes as f64);
    if share(state.used, state.limit) >= NEAR_SHARE {
        let limit = state.limit.unwrap_or_default();
        state.warning = Some(format!("a connection needs {bytes} of at most {limit} bytes: twice rate x RTT"));
        state.remedy = Some((row.remedy)(state));
    }
}

fn share(used: Option<f64>, limit: Option<f64>) -> f64 {
    match (used, limit) {
        (Some(used), Some(limit)) if limit > 0.0 => used / limit,
        _ => 0.0,
    }
}

impl Reading {
    /// Returns the name of the resource that `row` has read.
    fn name(&self, row: &ResourceRow) -> String {
        format!("{}{}", row.name, self.suffix)
    }

    /// Returns the state of the resource that `row` has read. `since`: the time since which it is nearly used up, in seconds since
    /// 1970.
    pub(super) fn state(self, row: &ResourceRow, since: Option<f64>) -> ResourceState {
        let name = self.name(row);
        let Reading { is_of_address, used, limit, detail, low, .. } = self;
        let near = since.map(|_| {
            let (percent, unit) = (100.0 * share(used, limit), row.unit);
            let [used, limit] = [used, limit].map(|number| figure(number.unwrap_or_default()));
            format!("{percent:.0} % in use: {used} of {limit} {unit}")
        });
        let mut state = ResourceState {
            kind: if is_of_address { row.name.into() } else { name.clone() },
            name,
            used,
            limit,
            unit: row.unit.into(),
            detail,
            warning: near.or(low),
            remedy: None,
            near_since_unix_seconds: since,
        };
        state.remedy = state.warning.is_some().then(|| (row.remedy)(&state));
        state
    }
}

/// Returns a number without a fraction, or with two digits of it.
fn figure(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}

/// Share of a limit from which on a resource is nearly used up.
const NEAR_SHARE: f64 = 0.8;
/// Share below which it is free again.
const FREE_SHARE: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_relay::{AddressLoad, Load};

    fn with_flows(flows: u64) -> ResourceSample {
        ResourceSample { load: Load { flows, max_flows: 100, ..Load::default() }, ..ResourceSample::default() }
    }

    #[test]
    fn a_crossing_is_told_once_each_way() {
        let mut watch = Watch::default();
        let mut told = Vec::new();
        for (now, flows) in [79, 80, 99, 75, 70, 69, 75, 79, 80].into_iter().enumerate() {
            let (states, crossings) = watch.look(&with_flows(flows), now as f64);
            let state = states.iter().find(|state| state.name == "flows").unwrap();
            assert_eq!(state.warning.is_some(), state.near_since_unix_seconds.is_some());
            told.extend(crossings.into_iter().map(|crossing| (now, crossing.is_near, state.near_since_unix_seconds)));
        }
        assert_eq!(told, [(1, true, Some(1.0)), (5, false, None), (8, true, Some(8.0))]);
    }

    #[test]
    fn the_warning_names_the_value_and_the_remedy_the_command() {
        let (states, _) =
            Watch::default().look(&ResourceSample { descriptors: Some(210), nofile: Some(256), ..with_flows(0) }, 0.0);
        assert_eq!(states[0].warning.as_deref(), Some("82 % in use: 210 of 256 descriptors"));
        let want = "now: prlimit --pid PID --nofile=512, then longhaul reload; to keep it: LimitNOFILE=512 (systemctl edit longhaul)";
        assert_eq!(states[0].remedy.as_deref(), Some(want));
    }

    #[test]
    fn what_is_not_shown_any_more_is_free() {
        let dialled = AddressLoad { source: None, address: "192.0.2.1:22".parse().unwrap(), flows: 9 };
        let load = Load { dialled: vec![dialled], ..Load::default() };
        let mut watch = Watch::default();
        let (_, near) = watch.look(&ResourceSample { ports: Some(10), load, ..ResourceSample::default() }, 0.0);
        assert_eq!((near.len(), near[0].is_near), (1, true));
        assert_eq!(near[0].state.kind, "ephemeral ports");
        let (_, free) = watch.look(&ResourceSample { ports: Some(10), ..ResourceSample::default() }, 1.0);
        assert_eq!((free.len(), free[0].is_near), (1, false));
        assert_eq!(free[0].state.name, "ephemeral ports to 192.0.2.1:22");
        assert!(watch.look(&ResourceSample::default(), 2.0).1.is_empty());
    }

    #[test]
    fn a_limit_of_zero_or_none_is_never_near() {
        let none = ResourceSample { load: Load { pipe_pages: 9, ..Load::default() }, ..ResourceSample::default() };
        assert!(Watch::default().look(&none, 0.0).1.is_empty());
    }

    #[test]
    fn a_buffer_that_a_connection_needs_warns() {
        let sample = ResourceSample { tcp_wmem: Some([1, 2, 268_435_456]), ..ResourceSample::default() };
        let (mut states, _) = Watch::default().look(&sample, 0.0);
        need(&mut states, "tcp_wmem", 0);
        need(&mut states, "none", 1);
        let of_wmem = |states: &[ResourceState]| states.iter().find(|state| state.name == "tcp_wmem").unwrap().clone();
        assert_eq!((of_wmem(&states).used, of_wmem(&states).warning), (None, None));
        need(&mut states, "tcp_wmem", 200_000_000);
        assert_eq!((of_wmem(&states).used, of_wmem(&states).warning), (Some(2e8), None));
        need(&mut states, "tcp_wmem", 230_000_000);
        let want = "a connection needs 230000000 of at most 268435456 bytes: twice rate x RTT";
        assert_eq!(of_wmem(&states).warning.as_deref(), Some(want));
        assert!(of_wmem(&states).remedy.unwrap().starts_with("sysctl -w net.ipv4.tcp_wmem='1 2 536870912'"));
    }
}
