//! Looks at the tunnels each second, for their curves and for the log, and for the log also when an outage begins. It runs on the admin
//! thread, so the data workers do no work for it.

use super::collect;
use super::curves::see_flows;
use super::health;
use super::source::Source;
use crate::control::Status;
use longhaul_core::caps::Bandwidth;
use longhaul_core::curve::Point;
use longhaul_core::health::{At, Health, News, NewsLine, Phase, Problem, Stage};
use longhaul_relay::{CapsNow, TunnelView, lock};
use longhaul_units::Rate;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::{info, warn};

/// Looks each second. Never ends; it may be dropped.
pub(super) async fn for_ever(source: Arc<Source>) {
    // In the middle of the seconds since the start, so that a late look is in the same second.
    let first = Instant::from_std(source.began) + Duration::from_millis(500);
    let mut ticks = interval_at(first, Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut news = News::default();
    loop {
        // Whichever is dropped comes again: the next tick has its time, and an outage is told to the next wait.
        let is_tick = tokio::select! {
            _ = ticks.tick() => true,
            () = source.relay.outage() => false,
        };
        // Nobody knows how a daemon is that does not answer.
        match source.daemon().await {
            None => {}
            Some(status) if is_tick => look(&source, &status, &mut news),
            Some(status) => drop(tell_news(&source, &status, &collect::tunnels(&source, &status), &mut news)),
        }
    }
}

fn look(source: &Source, status: &Status, news: &mut News) {
    source.relay.tunnels.end_doubts();
    let served = collect::tunnels(source, status);
    let counters = source.relay.tunnels.counter_values(&served);
    let caps = source.relay.caps();
    let uptime = source.began.elapsed().as_secs_f64();
    let (looked, from, flows) = {
        let curves = lock(&source.curves);
        (curves.looked, curves.from, curves.flows.clone())
    };
    let point = |view| Point { cap: cap(view, &caps), ..Point::default() };
    let mut points: HashMap<&str, Point> =
        served.iter().map(|view| (view.settings.name.as_str(), point(view))).collect();
    let problems = tell_news(source, status, &served, news);
    let mut incidents = HashMap::new();
    // A tunnel with a next hop that fails serves by the others. Clients that do not answer are an outage, and get no worse.
    let is_incident = |problem: &&Problem| problem.health >= Health::Stalled || problem.stage == Stage::Clients;
    // The worst problems come first, so the last one here is the worst.
    for problem in problems.iter().rev().filter(is_incident) {
        incidents.extend(problem.tunnel.as_deref().map(|tunnel| (tunnel, (problem.health, problem.stage.part()))));
    }
    let from = source.relay.look_at_wan(from, FLOWS_PER_LOOK, |tunnel, rtt| {
        let rtt = rtt.as_secs_f32() * 1e3;
        points.get_mut(tunnel).into_iter().for_each(|point| point.rtt_ms = point.rtt_ms.max(rtt));
    });
    let seen = |name: &str| (points.get(name).copied().unwrap_or_default(), incidents.get(name).copied());
    let elapsed = looked.map(|before| uptime - before).filter(|elapsed| *elapsed > 0.0);
    let flows = see_flows(flows, &source.relay, &caps, &points, elapsed);
    let mut curves = lock(&source.curves);
    curves.flows = flows;
    curves.see_tunnels(served.iter().zip(counters), seen, (uptime, elapsed));
    (curves.looked, curves.from) = (Some(uptime), from);
}

/// Writes the lines of the log about the problems of the tunnels `served`. Returns all problems.
fn tell_news(source: &Source, status: &Status, served: &[TunnelView], news: &mut News) -> Vec<Problem> {
    let at = At { time: SystemTime::now(), phase: status.phase };
    let problems = health::problems(source, status, at, served);
    // A daemon that stops serves no tunnel, so no problem is seen to end.
    if status.phase != Phase::Stopping {
        news.look(&problems, at, Instant::now().into_std()).into_iter().for_each(tell);
    }
    problems
}

/// Returns the lower one of the caps of a tunnel and of the daemon, in bits per second. 0 without one.
fn cap(view: &TunnelView, caps: &CapsNow) -> f32 {
    let at = |bandwidth: &Bandwidth| bandwidth.at(caps.day, caps.minute);
    let lower = [at(&view.settings.bandwidth), at(&caps.all)].into_iter().flatten().min();
    lower.map_or(0.0, |Rate(cap)| cap as f32)
}

fn tell(line: NewsLine) {
    match line {
        NewsLine::Found(problem, over) => {
            let seconds = over.map(|lasted| lasted.as_secs());
            warn!(tunnel = problem.tunnel, stage = problem.stage.part(), why = %problem, seconds, "problem found");
        }
        NewsLine::Ended(Problem { tunnel, stage, evidence, .. }, lasted) => {
            // The evidence is of the time when it was found.
            info!(tunnel, stage = stage.part(), was = evidence, seconds = lasted.as_secs(), "problem ended");
        }
    }
}

/// Number of flows whose round-trip times one look asks for: two system calls each. The next look goes on with the others.
const FLOWS_PER_LOOK: usize = 500;
