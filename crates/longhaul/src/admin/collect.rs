//! Fills a [`Snapshot`].

use super::health::{self, Judged};
use super::snapshot::{AdminCounters, Snapshot, TunnelState};
use super::source::Source;
use crate::control::Status;
use crate::time::seconds_since_1970;
use longhaul_config::Tunnel;
use longhaul_core::health::{At, of_tunnel};
use longhaul_relay::{CounterValues, GroupView, HopsView};
use longhaul_units::Rate;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// Returns the state of the process now. `status` is the daemon's answer. Asks the kernel about each flow.
pub(super) fn snapshot(source: &Source, status: Status) -> Snapshot {
    let flows = source.relay.flows();
    let groups = source.relay.tunnels.groups();
    let groups: HashMap<&str, &GroupView> =
        groups.iter().map(|group| (group.hops.tunnel.name.as_str(), group)).collect();
    let hops = groups.iter().map(|(name, group)| (*name, &group.hops)).collect();
    let verified = source.relay.tunnels.verified();
    let at = At { time: SystemTime::now(), phase: status.phase };
    let Judged { health, problems } = health::judge(source, &status, at, &hops, &verified);
    let tunnel = |tunnel: &Arc<Tunnel>| {
        let of_it = problems.iter().filter(|problem| problem.tunnel.as_ref() == Some(&tunnel.name));
        let group = groups.get(tunnel.name.as_str());
        let counters = group.map_or_else(CounterValues::default, |group| group.counters.clone());
        TunnelState {
            name: tunnel.name.clone(),
            listen: tunnel.listen.to_string(),
            listening: status.listens,
            to: tunnel.to.iter().map(ToString::to_string).collect(),
            health: of_tunnel(of_it.map(|problem| problem.health)),
            next_hops: group.map(|group| health::next_hops(&group.hops, at)).unwrap_or_default(),
            flows_now: counters.flows_now,
            counters,
            verify_hops: tunnel.verify_hops,
            lowest_cap_bits_per_second: tunnel.lowest_cap().map(|Rate(cap)| cap),
            proxy_in: tunnel.proxy_in.map(|accepts| accepts.name().to_owned()),
            verify: verified.get(&tunnel.name).map(|view| health::verify(view, at)),
            ..TunnelState::default()
        }
    };
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_unix_seconds: seconds_since_1970(source.started),
        uptime_seconds: source.began.elapsed().as_secs_f64(),
        phase: status.phase,
        draining_since_unix_seconds: status.draining_since.map(seconds_since_1970),
        ready: !health.is_broken(),
        health,
        tunnels: status.tunnels.iter().map(tunnel).collect(),
        problems,
        reload_refused: status.refusal.map(|refusal| refusal.why),
        resources: source.resources.states(&flows),
        flows,
        counters: source.relay.counter_values(),
        admin: admin(source),
        ..Snapshot::default()
    }
}

/// Returns the health of the daemon and its problems, without the rest of the state.
pub(super) fn judged(source: &Source, status: &Status) -> Judged {
    let hops = source.relay.tunnels.next_hops();
    let hops: HashMap<&str, &HopsView> = hops.iter().map(|view| (view.tunnel.name.as_str(), view)).collect();
    let at = At { time: SystemTime::now(), phase: status.phase };
    health::judge(source, status, at, &hops, &source.relay.tunnels.verified())
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
