//! Fills a [`Snapshot`].

use super::problems::{Facts, TunnelHealth, problems};
use super::snapshot::{AdminCounters, HopState, NameState, Problem, ResourceState, Snapshot, TunnelState, VerifyState};
use super::source::Source;
use super::verified;
use crate::control::{Phase, Status};
use crate::time::{milliseconds, now, seconds_since_1970};
use longhaul_config::{NextHop, Tunnel};
use longhaul_relay::{CounterValues, GroupView, HopsView, NameView, NextHopView, VerifyView};
use longhaul_units::Rate;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the state of the process now. `status` is the daemon's answer. Asks the kernel about each flow.
pub(super) fn snapshot(source: &Source, status: Status) -> Snapshot {
    let flows = source.relay.flows();
    let groups = source.relay.groups();
    let groups: HashMap<&str, &GroupView> =
        groups.iter().map(|group| (group.hops.tunnel.name.as_str(), group)).collect();
    let verified = source.relay.verified();
    let (phase, now) = (status.phase, now());
    let of = |tunnel: &Arc<Tunnel>| {
        let hops = groups.get(tunnel.name.as_str()).map(|group| &group.hops);
        health(source, tunnel, hops, verified.get(&tunnel.name), phase, now)
    };
    let healths: Vec<TunnelHealth> = status.tunnels.iter().map(of).collect();
    let Readiness { ready, problems, .. } = judge(&status, &healths, &source.resources.near());
    let tunnel = |(tunnel, TunnelHealth { next_hops, verify, .. }): (&Arc<Tunnel>, TunnelHealth)| {
        let (group, view) = (groups.get(tunnel.name.as_str()), verified.get(&tunnel.name));
        let counters = group.map_or_else(CounterValues::default, |group| group.counters.clone());
        TunnelState {
            name: tunnel.name.clone(),
            listen: tunnel.listen.to_string(),
            listening: status.listens,
            to: tunnel.to.iter().map(ToString::to_string).collect(),
            next_hops,
            flows_now: counters.flows_now,
            counters,
            verify_hops: tunnel.verify_hops,
            lowest_cap_bits_per_second: tunnel.lowest_cap().map(|Rate(cap)| cap),
            proxy_in: tunnel.proxy_in.map(|accepts| accepts.name().to_owned()),
            verify: verify.zip(view).map(|(verify, view)| VerifyState { history: verified::history(view), ..verify }),
            ..TunnelState::default()
        }
    };
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_unix_seconds: seconds_since_1970(source.started),
        uptime_seconds: source.began.elapsed().as_secs_f64(),
        phase,
        draining_since_unix_seconds: status.draining_since.map(seconds_since_1970),
        ready,
        problems,
        tunnels: status.tunnels.iter().zip(healths).map(tunnel).collect(),
        reload_refused: status.refusal.map(|refusal| refusal.why),
        resources: source.resources.states(&flows),
        flows,
        counters: source.relay.counter_values(),
        admin: admin(source),
        ..Snapshot::default()
    }
}

/// The part of the state that `/readyz` tells.
pub(super) struct Readiness {
    /// Phase of the process.
    pub(super) phase: Phase,
    /// Whether it wants new connections.
    pub(super) ready: bool,
    /// The problems, the fatal ones first.
    pub(super) problems: Vec<Problem>,
}

/// Returns the phase and the problems. It costs the same however many flows live and however many results of probes are kept,
/// because load balancers ask several times a second.
pub(super) fn readiness(source: &Source, status: &Status) -> Readiness {
    let hops = source.relay.next_hops();
    let hops: HashMap<&str, &HopsView> = hops.iter().map(|view| (view.tunnel.name.as_str(), view)).collect();
    let verified = source.relay.verified();
    let now = now();
    let of = |tunnel: &Arc<Tunnel>| {
        let hops = hops.get(tunnel.name.as_str()).copied();
        health(source, tunnel, hops, verified.get(&tunnel.name), status.phase, now)
    };
    let tunnels: Vec<TunnelHealth> = status.tunnels.iter().map(of).collect();
    judge(status, &tunnels, &source.resources.near())
}

fn judge(status: &Status, tunnels: &[TunnelHealth], near: &[ResourceState]) -> Readiness {
    let (phase, refusal) = (status.phase, status.refusal.as_ref());
    let problems = problems(&Facts { phase, tunnels, resources: near, refusal }, now());
    let ready = phase == Phase::Serving && !problems.iter().any(|problem| problem.fatal);
    Readiness { phase, ready, problems }
}

/// Returns the state from which the problems of `tunnel` follow. `now` is in seconds since 1970 (UTC).
fn health(
    source: &Source,
    tunnel: &Tunnel,
    hops: Option<&HopsView>,
    view: Option<&VerifyView>,
    phase: Phase,
    now: f64,
) -> TunnelHealth {
    TunnelHealth {
        name: tunnel.name.clone(),
        gone_address: source.relay.gone_address(&tunnel.name),
        next_hops: hops.map(next_hops).unwrap_or_default(),
        waiting: hops.and_then(|hops| hops.waiting),
        data_problem: hops.and_then(|hops| hops.data_problem.clone()),
        verify: view.map(|view| verified::summary(view, phase, now)),
    }
}

fn next_hops(view: &HopsView) -> Vec<HopState> {
    let now = now();
    let hop =
        |(next_hop, NextHopView { choice, last_failure, name, check_refusal }): (&NextHop, &NextHopView)| HopState {
            next_hop: next_hop.to_string(),
            state: choice.state,
            state_seconds: choice.age.as_secs_f64(),
            flows_now: choice.flows.into(),
            rtt_ms: choice.rtt.map(milliseconds),
            failed_dials: choice.failures.into(),
            failing_seconds: choice.failing_for.map(|time| time.as_secs_f64()),
            last_failure: last_failure.as_ref().map(|failure| failure.what.to_string()),
            last_failure_seconds: last_failure.as_ref().map(|failure| failure.age.as_secs_f64()),
            name: name.as_ref().map(|NameView { has_address, outage, absence }| NameState {
                has_address: *has_address,
                outage_since_unix_seconds: outage.as_ref().map(|outage| now - outage.since.elapsed().as_secs_f64()),
                outage_why: outage.as_ref().map(|outage| outage.why.clone()),
                absent_since_unix_seconds: absence.as_ref().map(|absence| now - absence.since.elapsed().as_secs_f64()),
                absent_why: absence.as_ref().map(|absence| absence.why.clone()),
            }),
            check_refusal: check_refusal.as_ref().map(|refusal| refusal.why.clone()),
            check_refusal_seconds: check_refusal.as_ref().map(|refusal| refusal.since.elapsed().as_secs_f64()),
            weight: next_hop.member().weight,
        };
    view.tunnel.to.iter().zip(&view.hops).map(hop).collect()
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
