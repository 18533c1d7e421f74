//! Fills a [`Snapshot`].

use super::snapshot::{AdminCounters, FlowState, FlowStateName, LegState, PhaseName, Snapshot, TunnelState};
use super::source::Source;
use crate::daemon::control::{Phase, Status};
use crate::relay::{FlowView, LegView, State};
use longhaul_config::options::Leg;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::UNIX_EPOCH;

/// Returns the state of the process now. `status` is the daemon's answer. Asks the kernel about each flow.
pub(super) fn snapshot(source: &Source, status: Status) -> Snapshot {
    let flows = source.relay.flows();
    let mut of_tunnel: HashMap<&str, u64> = HashMap::new();
    flows.iter().for_each(|flow| *of_tunnel.entry(&flow.tunnel.name).or_default() += 1);
    let tunnel = |tunnel: &longhaul_config::Tunnel| TunnelState {
        name: tunnel.name.clone(),
        listen: tunnel.listen.to_string(),
        listening: status.listens,
        to: tunnel.to.iter().map(ToString::to_string).collect(),
        flows_now: of_tunnel.get(tunnel.name.as_str()).copied().unwrap_or(0),
    };
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_unix_seconds: source.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        uptime_seconds: source.began.elapsed().as_secs_f64(),
        phase: match status.phase {
            Phase::Serving => PhaseName::Serving,
            Phase::Draining => PhaseName::Draining,
            Phase::Stopping => PhaseName::Stopping,
        },
        reload_refused: status.refusal,
        tunnels: status.tunnels.iter().map(|served| tunnel(served)).collect(),
        flows: flows.iter().map(flow).collect(),
        counters: source.relay.counter_values(),
        admin: admin(source),
    }
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
        rtt_ms: (!rtt.is_zero()).then(|| rtt.as_micros() as f64 / 1e3),
        cwnd_segments: view.info.snd_cwnd,
        retrans_bytes: view.info.bytes_retrans,
        congestion: view.congestion.clone(),
    }
}

fn admin(source: &Source) -> AdminCounters {
    let counters = &source.counters;
    AdminCounters {
        requests: now(&counters.requests),
        refused: now(&counters.refused),
        malformed: now(&counters.malformed),
        displaced: now(&counters.displaced),
    }
}

fn now(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}
