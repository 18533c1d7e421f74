//! Fills a [`Snapshot`].

use super::problems::problems;
use super::snapshot::{AdminCounters, FlowState, FlowStateName, HopState, LegState, PhaseName, Snapshot, TunnelState};
use super::source::Source;
use super::time::{milliseconds, now, seconds_since_1970};
use super::verified;
use crate::daemon::control::Status;
use crate::relay::{CounterValues, FlowView, GroupView, LegView, State};
use longhaul_config::options::Leg;
use longhaul_core::next_hop::HopView;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the state of the process now. `status` is the daemon's answer. Asks the kernel about each flow.
pub(super) fn snapshot(source: &Source, status: Status) -> Snapshot {
    with_flows(source, status, &source.relay.flows())
}

/// Returns the state of the process now without its flows, which is cheap however many there are.
pub(super) fn overview(source: &Source, status: Status) -> Snapshot {
    with_flows(source, status, &[])
}

fn with_flows(source: &Source, status: Status, flows: &[FlowView]) -> Snapshot {
    let groups = source.relay.groups();
    let groups: HashMap<&str, &GroupView> = groups.iter().map(|group| (group.tunnel.name.as_str(), group)).collect();
    let verified = source.relay.verified();
    let tunnel = |tunnel: &longhaul_config::Tunnel| {
        let group = groups.get(tunnel.name.as_str()).copied();
        let counters = group.map_or_else(CounterValues::default, |group| group.counters.clone());
        TunnelState {
            name: tunnel.name.clone(),
            listen: tunnel.listen.to_string(),
            listening: status.listens,
            to: tunnel.to.iter().map(ToString::to_string).collect(),
            next_hops: group.map(next_hops).unwrap_or_default(),
            flows_now: counters.flows_now,
            counters,
            verify_hops: tunnel.verify_hops,
            proxy_in: tunnel.proxy_in.map(|accepts| accepts.name().to_owned()),
            verify: verified.get(&tunnel.name).map(verified::state),
        }
    };
    let mut snapshot = Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_unix_seconds: seconds_since_1970(source.started),
        uptime_seconds: source.began.elapsed().as_secs_f64(),
        phase: status.phase,
        reload_refused: status.refusal,
        ready: false,
        problems: Vec::new(),
        tunnels: status.tunnels.iter().map(|served| tunnel(served)).collect(),
        flows: flows.iter().map(flow).collect(),
        counters: source.relay.counter_values(),
        resources: source.resources.states(flows),
        admin: admin(source),
    };
    snapshot.problems = problems(&snapshot, now());
    snapshot.ready = snapshot.phase == PhaseName::Serving && !snapshot.problems.iter().any(|problem| problem.fatal);
    snapshot
}

fn next_hops(group: &GroupView) -> Vec<HopState> {
    let hop = |(next_hop, view): (&longhaul_config::NextHop, &HopView)| HopState {
        next_hop: next_hop.to_string(),
        state: view.state,
        state_seconds: view.age.as_secs_f64(),
        flows_now: view.flows.into(),
        rtt_ms: view.rtt.map(milliseconds),
        failed_dials: view.failures.into(),
        failing_seconds: view.failing_for.map(|time| time.as_secs_f64()),
        weight: next_hop.member().weight,
    };
    group.tunnel.to.iter().zip(&group.hops).map(hop).collect()
}

fn flow(view: &FlowView) -> FlowState {
    FlowState {
        flow: view.number,
        tunnel: view.tunnel.name.clone(),
        peer: view.peer.to_string(),
        proxy: view.proxy.map(|proxy| proxy.to_string()),
        next_hop: view.next_hop.as_ref().map(ToString::to_string),
        next_hop_address: view.next_hop_address,
        state: match view.state {
            State::Dialling => FlowStateName::Dialling,
            State::Open => FlowStateName::Open,
            State::HalfOpen(Leg::Accept) => FlowStateName::AcceptHalfClosed,
            State::HalfOpen(Leg::Dial) => FlowStateName::DialHalfClosed,
            State::Closing => FlowStateName::Closing,
            State::Ended(_) => FlowStateName::Ended,
        },
        age_seconds: view.began.elapsed().as_secs_f64(),
        up_bytes: view.tally.up,
        down_bytes: view.tally.down,
        accept: view.accept.as_ref().map(leg),
        dial: view.dial.as_ref().map(leg),
    }
}

fn leg(view: &LegView) -> LegState {
    let rtt = view.info.rtt;
    LegState {
        local: view.local,
        rtt_ms: (!rtt.is_zero()).then(|| milliseconds(rtt)),
        cwnd_segments: view.info.snd_cwnd,
        retrans_bytes: view.info.bytes_retrans,
        delivery_bits_per_second: (view.info.delivery_rate > 0).then(|| view.info.delivery_rate.saturating_mul(8)),
        limit: view.limit.map(|limit| limit.to_string()),
        congestion: view.congestion.clone(),
    }
}

fn admin(source: &Source) -> AdminCounters {
    let counters = &source.counters;
    AdminCounters {
        requests: counters.requests.load(Relaxed),
        refused: counters.refused.load(Relaxed),
        malformed: counters.malformed.load(Relaxed),
        displaced: counters.displaced.load(Relaxed),
    }
}
