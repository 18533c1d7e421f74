//! Fills a [`Snapshot`].

use super::caps;
use super::health::{self, Judged};
use super::snapshot::{Snapshot, TunnelState};
use super::source::Source;
use crate::control::Status;
use crate::time::seconds_since_1970;
use longhaul_core::curve::Span;
use longhaul_core::health::{At, Phase, of_tunnel};
use longhaul_relay::{CounterValues, TunnelView, lock};
use longhaul_units::Rate;
use std::time::SystemTime;

/// Returns the tunnels that are served, by name. A daemon that stops serves none.
pub(super) fn tunnels(source: &Source, status: &Status) -> Vec<TunnelView> {
    if status.phase == Phase::Stopping {
        return Vec::new();
    }
    let mut tunnels = source.relay.tunnels.views();
    tunnels.sort_by(|one, other| one.settings.name.cmp(&other.settings.name));
    tunnels
}

/// Returns the state of the process now, with these `tunnels`, and with their curves of a span. `status` is the daemon's answer. Asks the
/// kernel about each flow.
pub(super) fn snapshot(source: &Source, status: Status, tunnels: &[TunnelView], span: Option<Span>) -> Snapshot {
    let flows = source.relay.flows();
    let counters = source.relay.tunnels.counter_values(tunnels);
    let at = At { time: SystemTime::now(), phase: status.phase };
    let (now, uptime) = (seconds_since_1970(at.time), source.began.elapsed().as_secs_f64());
    let Judged { health, problems } = health::judge(source, &status, at, tunnels);
    let tunnel = |(view, counters): (&TunnelView, CounterValues)| {
        let settings = &view.settings;
        let started = now - uptime;
        // Locked for one tunnel at a time, because the admin thread waits for them.
        let (last_incident, curve) = {
            let curves = lock(&source.curves);
            let name = &settings.name;
            (curves.last_incident(name, started), span.and_then(|span| curves.curve(name, span, started)))
        };
        let of_it = problems.iter().filter(|problem| problem.tunnel.as_ref() == Some(&settings.name));
        TunnelState {
            name: settings.name.clone(),
            listen: settings.listen.to_string(),
            listening: status.listens,
            to: settings.to.iter().map(ToString::to_string).collect(),
            health: of_tunnel(of_it.map(|problem| problem.health)),
            next_hops: health::next_hops(view, at),
            flows_now: counters.flows_now,
            counters,
            saved_hours: view.saved,
            verify_hops: settings.verify_hops,
            lowest_cap_bits_per_second: settings.lowest_cap().map(|Rate(cap)| cap),
            proxy_in: settings.proxy_in.map(|accepts| accepts.name().to_owned()),
            verify: view.probes.as_ref().map(|view| health::verify(view, at)),
            last_incident,
            curve,
            ..TunnelState::default()
        }
    };
    let mut snapshot = Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_unix_seconds: seconds_since_1970(source.started),
        uptime_seconds: uptime,
        unix_seconds: now,
        phase: status.phase,
        draining_since_unix_seconds: status.draining_since.map(seconds_since_1970),
        ready: !health.is_broken(),
        health,
        tunnels: tunnels.iter().zip(counters).map(tunnel).collect(),
        problems,
        reload_refused: status.refusal.map(|refusal| refusal.why),
        resources: source.resources.states(&flows),
        flows,
        counters: source.relay.counter_values(),
        admin: lock(&source.counters).clone(),
        ..Snapshot::default()
    };
    caps::fill(&mut snapshot, tunnels, (&source.relay.caps(), &source.relay.paths()), &source.curves);
    snapshot
}

/// Returns the health of the daemon and its problems, without the rest of the state.
pub(super) fn judged(source: &Source, status: &Status) -> Judged {
    let at = At { time: SystemTime::now(), phase: status.phase };
    health::judge(source, status, at, &tunnels(source, status))
}
