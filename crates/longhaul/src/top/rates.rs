//! Rates: the bytes between two snapshots, divided by the time between them on the daemon's own clock.

use crate::admin::snapshot::{Health, Rates, Snapshot, TunnelState};
use longhaul_relay::{CounterValues, Tally};
use std::collections::HashMap;

/// Fills the rates of `snapshot` since `before`, the last snapshot of the same daemon, and sorts the tunnels: those with a problem
/// come first.
pub(super) fn fill(snapshot: &mut Snapshot, before: Option<&Snapshot>) {
    // Without time between the two, there is no rate. A daemon that started again with the same pid has gone back in time.
    let before = before.filter(|before| before.pid == snapshot.pid && before.uptime_seconds < snapshot.uptime_seconds);
    if let Some(before) = before {
        rate(snapshot, before, snapshot.uptime_seconds - before.uptime_seconds);
    }
    // The sort is stable, so tunnels with equal problems stay in the order of their names.
    snapshot.tunnels.sort_by_key(|tunnel| match (tunnel.health, tunnel.listening) {
        (Health::Broken, _) => 0,
        (_, false) => 1,
        (Health::Good | Health::Waiting, true) => 3,
        (_, true) => 2,
    });
}

fn rate(snapshot: &mut Snapshot, before: &Snapshot, seconds: f64) {
    let total = |counters: &CounterValues| Tally { up: counters.bytes_up, down: counters.bytes_down };
    snapshot.rates = Rates::between(total(&before.counters), total(&snapshot.counters), seconds);
    let flows: HashMap<u64, Tally> = before.flows.iter().map(|flow| (flow.flow, flow.tally())).collect();
    for flow in &mut snapshot.flows {
        // A flow that is new has begun between the two snapshots, with no bytes.
        let before = flows.get(&flow.flow).copied().unwrap_or_default();
        flow.rates = Rates::between(before, flow.tally(), seconds);
    }
    let tunnels: HashMap<&str, &TunnelState> =
        before.tunnels.iter().map(|tunnel| (tunnel.name.as_str(), tunnel)).collect();
    for tunnel in &mut snapshot.tunnels {
        if let Some(before) = tunnels.get(tunnel.name.as_str()) {
            tunnel.rates = Rates::between(total(&before.counters), total(&tunnel.counters), seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::FlowState;

    fn flow(number: u64, tunnel: &str, up_bytes: u64, down_bytes: u64) -> FlowState {
        FlowState { flow: number, tunnel: tunnel.into(), up_bytes, down_bytes, ..FlowState::default() }
    }

    fn snapshot(uptime_seconds: f64, flows: Vec<FlowState>) -> Snapshot {
        let tunnel = |name: &str| TunnelState {
            name: name.into(),
            listening: true,
            health: Health::Good,
            ..TunnelState::default()
        };
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

    fn filled(mut snapshot: Snapshot, before: Option<&Snapshot>) -> Snapshot {
        fill(&mut snapshot, before);
        snapshot
    }

    fn rates(up: f64, down: f64) -> Rates {
        Rates { up: Some(up), down: Some(down) }
    }

    #[test]
    fn rates_come_from_two_snapshots_of_one_daemon() {
        let first = filled(snapshot(10.0, vec![flow(1, "a", 1000, 0), flow(2, "a", 0, 0)]), None);
        assert_eq!((first.rates, first.flows[0].rates, first.tunnels[0].rates), Default::default());
        let flows = vec![flow(1, "a", 3000, 500), flow(3, "b", 250, 0)];
        let second = filled(snapshot(12.0, flows), Some(&first));
        assert_eq!(second.rates, rates(9000.0, 2000.0));
        assert_eq!(second.flows[0].rates, rates(8000.0, 2000.0));
        assert_eq!(second.flows[1].rates, rates(1000.0, 0.0), "a new flow began with no bytes");
        let of_tunnels: Vec<Rates> = second.tunnels.iter().map(|tunnel| tunnel.rates).collect();
        assert_eq!(of_tunnels, [rates(8000.0, 2000.0), rates(1000.0, 0.0)]);
        // Another daemon, or the same picture twice.
        let other = Snapshot { pid: 8, ..snapshot(13.0, vec![flow(1, "a", 1, 1)]) };
        assert_eq!(filled(other, Some(&second)).flows[0].rates, Rates::default());
        assert_eq!(filled(snapshot(12.0, Vec::new()), Some(&second)).rates, Rates::default());
        assert_eq!(filled(snapshot(1.0, Vec::new()), Some(&second)).rates, Rates::default());
    }

    #[test]
    fn tunnels_with_problems_come_first() {
        let mut state = snapshot(1.0, Vec::new());
        for (name, health) in [("c", Health::Good), ("d", Health::Broken), ("e", Health::Good)] {
            let listening = name != "c";
            state.tunnels.push(TunnelState { name: name.into(), listening, health, ..TunnelState::default() });
        }
        state.tunnels[1].health = Health::Failing;
        let snapshot = filled(state, None);
        let order: Vec<&str> = snapshot.tunnels.iter().map(|tunnel| tunnel.name.as_str()).collect();
        assert_eq!(order, ["d", "c", "b", "a", "e"]);
    }
}
