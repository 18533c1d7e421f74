//! The state of the daemon with rates. A rate comes from two snapshots: the bytes between them, divided by the time between
//! them on the daemon's own clock.

use crate::admin::snapshot::{FlowState, Snapshot, TunnelState};
use crate::admin::verdict::Verdict;
use longhaul_relay::CounterValues;
use std::collections::HashMap;

/// One snapshot, with the rates since the one before it.
#[derive(Debug, Default)]
pub(super) struct Picture {
    /// The snapshot. Its tunnels and its flows were moved into the fields below.
    pub(super) rest: Snapshot,
    /// Whether the daemon is whole.
    pub(super) verdict: Verdict,
    /// Rates of the whole process.
    pub(super) rates: Rates,
    /// The tunnels. Those with a problem come first.
    pub(super) tunnels: Vec<TunnelRow>,
    /// The live flows, the oldest first.
    pub(super) flows: Vec<FlowRow>,
}

/// A tunnel with its rates.
#[derive(Debug, Default)]
pub(super) struct TunnelRow {
    /// Its state.
    pub(super) state: TunnelState,
    /// Its rates.
    pub(super) rates: Rates,
    /// Whether a problem of the tunnel is fatal. `None` without a problem.
    pub(super) problem: Option<bool>,
}

/// A live flow with its rates.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowRow {
    /// Its state.
    pub(super) state: FlowState,
    /// Its rates.
    pub(super) rates: Rates,
}

/// Rates in both directions, in bits per second. They are absent in the first picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Toward the next hops.
    pub(super) up: Option<f64>,
    /// Toward the clients.
    pub(super) down: Option<f64>,
}

impl Rates {
    fn between(before: (u64, u64), after: (u64, u64), seconds: f64) -> Rates {
        let rate = |before: u64, after: u64| Some(after.saturating_sub(before) as f64 * 8.0 / seconds);
        Rates { up: rate(before.0, after.0), down: rate(before.1, after.1) }
    }

    /// Returns the sum of both directions.
    pub(super) fn both(self) -> Option<f64> {
        Some(self.up? + self.down?)
    }
}

impl Picture {
    /// Returns the picture of `snapshot`. `before` is the last one of the same daemon.
    pub(super) fn new(mut snapshot: Snapshot, before: Option<&Picture>) -> Picture {
        let verdict = Verdict::of(&snapshot);
        let before = before.filter(|before| before.rest.pid == snapshot.pid);
        let seconds = before.map(|before| snapshot.uptime_seconds - before.rest.uptime_seconds);
        // Without time between the two, there is no rate. A daemon that started again with the same pid has gone back in time.
        let before = before.zip(seconds.filter(|seconds| *seconds > 0.0));
        let bytes_before: HashMap<u64, (u64, u64)> = match before {
            Some((before, _)) => before.flows.iter().map(|row| (row.state.flow, bytes(&row.state))).collect(),
            None => HashMap::new(),
        };
        let flow = |state: FlowState| {
            // A flow that is new has begun between the two snapshots, with no bytes.
            let rates = before.map(|(_, seconds)| {
                Rates::between(bytes_before.get(&state.flow).copied().unwrap_or_default(), bytes(&state), seconds)
            });
            FlowRow { rates: rates.unwrap_or_default(), state }
        };
        let flows: Vec<FlowRow> = std::mem::take(&mut snapshot.flows).into_iter().map(flow).collect();
        let rates = before
            .map(|(before, seconds)| Rates::between(total(&before.rest.counters), total(&snapshot.counters), seconds));
        let tunnels = tunnels(&mut snapshot, before);
        Picture { rest: snapshot, verdict, rates: rates.unwrap_or_default(), tunnels, flows }
    }
}

/// Takes the tunnels out of `snapshot`. `before` is the last picture, and the time in seconds since then.
fn tunnels(snapshot: &mut Snapshot, before: Option<(&Picture, f64)>) -> Vec<TunnelRow> {
    let bytes_before: HashMap<&str, (u64, u64)> = match before {
        Some((before, _)) => {
            before.tunnels.iter().map(|row| (row.state.name.as_str(), total(&row.state.counters))).collect()
        }
        None => HashMap::new(),
    };
    let states = std::mem::take(&mut snapshot.tunnels);
    let row = |state: TunnelState| {
        let of_it = snapshot.problems.iter().filter(|problem| problem.tunnel.as_deref() == Some(&state.name));
        let rates = before.and_then(|(_, seconds)| {
            Some(Rates::between(*bytes_before.get(state.name.as_str())?, total(&state.counters), seconds))
        });
        TunnelRow { problem: of_it.map(|problem| problem.fatal).max(), rates: rates.unwrap_or_default(), state }
    };
    let mut rows: Vec<TunnelRow> = states.into_iter().map(row).collect();
    // The sort is stable, so tunnels with equal problems stay in the order of their names.
    rows.sort_by_key(|row| match (row.problem, row.state.listening) {
        (Some(true), _) => 0,
        (_, false) => 1,
        (Some(false), _) => 2,
        (None, _) => 3,
    });
    rows
}

fn bytes(flow: &FlowState) -> (u64, u64) {
    (flow.up_bytes, flow.down_bytes)
}

fn total(counters: &CounterValues) -> (u64, u64) {
    (counters.bytes_up, counters.bytes_down)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::Problem;

    fn flow(number: u64, tunnel: &str, up_bytes: u64, down_bytes: u64) -> FlowState {
        FlowState { flow: number, tunnel: tunnel.into(), up_bytes, down_bytes, ..FlowState::default() }
    }

    fn snapshot(uptime_seconds: f64, flows: Vec<FlowState>) -> Snapshot {
        let tunnel = |name: &str| TunnelState { name: name.into(), listening: true, ..TunnelState::default() };
        let tunnels = vec![tunnel("a"), tunnel("b")];
        let mut snapshot = Snapshot { pid: 7, uptime_seconds, tunnels, ..Snapshot::default() };
        snapshot.counters.bytes_up = flows.iter().map(|flow| flow.up_bytes).sum();
        snapshot.counters.bytes_down = flows.iter().map(|flow| flow.down_bytes).sum();
        for flow in &flows {
            if let Some(tunnel) = snapshot.tunnels.iter_mut().find(|tunnel| tunnel.name == flow.tunnel) {
                tunnel.counters.bytes_up += flow.up_bytes;
                tunnel.counters.bytes_down += flow.down_bytes;
            }
        }
        snapshot.flows = flows;
        snapshot
    }

    fn rates(up: f64, down: f64) -> Rates {
        Rates { up: Some(up), down: Some(down) }
    }

    #[test]
    fn rates_come_from_two_snapshots_of_one_daemon() {
        let first = Picture::new(snapshot(10.0, vec![flow(1, "a", 1000, 0), flow(2, "a", 0, 0)]), None);
        assert_eq!((first.rates, first.flows[0].rates, first.tunnels[0].rates), Default::default());
        let flows = vec![flow(1, "a", 3000, 500), flow(3, "b", 250, 0)];
        let second = Picture::new(snapshot(12.0, flows), Some(&first));
        assert_eq!(second.rates, rates(9000.0, 2000.0));
        assert_eq!(second.flows[0].rates, rates(8000.0, 2000.0));
        assert_eq!(second.flows[1].rates, rates(1000.0, 0.0), "a new flow began with no bytes");
        let of_tunnels: Vec<Rates> = second.tunnels.iter().map(|tunnel| tunnel.rates).collect();
        assert_eq!(of_tunnels, [rates(8000.0, 2000.0), rates(1000.0, 0.0)]);
        // Another daemon, or the same picture twice.
        let other = Snapshot { pid: 8, ..snapshot(13.0, vec![flow(1, "a", 1, 1)]) };
        assert_eq!(Picture::new(other, Some(&second)).flows[0].rates, Rates::default());
        assert_eq!(Picture::new(snapshot(12.0, Vec::new()), Some(&second)).rates, Rates::default());
        assert_eq!(Picture::new(snapshot(1.0, Vec::new()), Some(&second)).rates, Rates::default());
    }

    #[test]
    fn tunnels_with_problems_come_first() {
        let mut state = snapshot(1.0, Vec::new());
        for name in ["c", "d", "e"] {
            let listening = name != "c";
            state.tunnels.push(TunnelState { name: name.into(), listening, ..TunnelState::default() });
        }
        let problem = |tunnel: &str, fatal| Problem { tunnel: Some(tunnel.into()), fatal, ..Problem::default() };
        state.problems = vec![problem("d", true), problem("d", false), problem("b", false)];
        let picture = Picture::new(state, None);
        let order: Vec<&str> = picture.tunnels.iter().map(|tunnel| tunnel.state.name.as_str()).collect();
        assert_eq!(order, ["d", "c", "b", "a", "e"]);
        assert_eq!(picture.tunnels[0].problem, Some(true));
    }
}
