//! The facts of the daemon's health, and the document's part that follows from them. [`longhaul_core::health`] has the rules.
//!
//! It costs the same however many flows live and however many results of probes are kept, because load balancers ask for
//! `/readyz` several times a second.

use super::snapshot::{HopState, NameState, Problem, ResourceState, VerifyResult, VerifyState, VerifyStateName};
use super::source::Source;
use crate::control::{Refusal, Status};
use crate::time::{milliseconds, seconds_since_1970};
use longhaul_config::NextHop;
use longhaul_core::health::{
    self, At, DaemonFacts, Health, HopFacts, NameFacts, NearLimit, Noted, ProbeFacts, ProbeResult, Whereabouts,
};
use longhaul_relay::{TunnelView, VerifyView};
use std::time::{Duration, UNIX_EPOCH};

/// The health of the daemon, and its problems.
pub(super) struct Judged {
    /// How well it is.
    pub(super) health: Health,
    /// The problems, the broken ones first, then the doubtful ones.
    pub(super) problems: Vec<Problem>,
}

/// Returns the problems of the daemon, by `status` and its tunnels.
pub(super) fn problems(source: &Source, status: &Status, at: At, tunnels: &[TunnelView]) -> Vec<health::Problem> {
    let near = source.resources.near();
    let facts = DaemonFacts {
        at,
        tunnels: tunnels.iter().map(TunnelView::facts).collect(),
        near_limits: near.iter().filter_map(near_limit).collect(),
        refused_reload: status.refusal.as_ref().map(|Refusal { why, at }| (why.as_str(), *at)),
    };
    health::problems(&facts)
}

/// Returns the health of the daemon, and its problems as the snapshot has them.
pub(super) fn judge(source: &Source, status: &Status, at: At, tunnels: &[TunnelView]) -> Judged {
    let problems = problems(source, status, at, tunnels);
    let health = health::of_daemon(status.phase, problems.iter().map(|problem| problem.health));
    Judged { health, problems: problems.into_iter().map(problem).collect() }
}

fn near_limit(resource: &ResourceState) -> Option<NearLimit<'_>> {
    Some(NearLimit {
        name: &resource.name,
        warning: resource.warning.as_deref().unwrap_or("nearly used up"),
        remedy: resource.remedy.as_deref().unwrap_or("see docs/log.md"),
        since: UNIX_EPOCH + Duration::try_from_secs_f64(resource.near_since_unix_seconds?).ok()?,
    })
}

fn problem(problem: health::Problem) -> Problem {
    Problem {
        what: problem.to_string(),
        tunnel: problem.tunnel,
        health: problem.health,
        stage: problem.stage.part().into(),
        since_unix_seconds: seconds_since_1970(problem.since),
        fatal: problem.health.is_broken(),
        doubtful: problem.health.is_doubtful(),
    }
}

/// Returns the state of the next hops of a tunnel.
pub(super) fn next_hops(view: &TunnelView, at: At) -> Vec<HopState> {
    view.settings.to.iter().zip(&view.hops).map(|(next_hop, facts)| hop(next_hop, facts, at)).collect()
}

fn hop(next_hop: &NextHop, facts: &HopFacts, at: At) -> HopState {
    let HopFacts { next_hop: text, choice, last_failure, name, check_refusal, looped_for: _ } = facts;
    let why = |noted: &Option<Noted>| noted.as_ref().map(|noted| noted.why.to_string());
    let seconds = |noted: &Option<Noted>| noted.as_ref().map(|noted| noted.age.as_secs_f64());
    let since = |noted: &Option<Noted>| noted.as_ref().map(|noted| seconds_since_1970(at.before(noted.age)));
    let name_state = |NameFacts { has_address, outage, absence }: &NameFacts| NameState {
        has_address: *has_address,
        outage_since_unix_seconds: since(outage),
        outage_why: why(outage),
        absent_since_unix_seconds: since(absence),
        absent_why: why(absence),
    };
    HopState {
        next_hop: text.clone(),
        state: choice.state,
        health: health::of_hop(facts),
        state_seconds: choice.age.as_secs_f64(),
        flows_now: choice.flows.into(),
        rtt_ms: choice.rtt.map(milliseconds),
        failed_dials: choice.failures.into(),
        failing_seconds: choice.failing_for.map(|time| time.as_secs_f64()),
        failure: health::failure(facts),
        stalled_seconds: choice.stalled_for.map(|time| time.as_secs_f64()),
        last_failure: why(last_failure),
        last_failure_seconds: seconds(last_failure),
        name: name.as_ref().map(name_state),
        check_refusal: why(check_refusal),
        check_refusal_seconds: seconds(check_refusal),
        weight: next_hop.member().weight,
    }
}

/// Returns the results of a tunnel's probes.
pub(super) fn verify(view: &VerifyView, at: At) -> VerifyState {
    let VerifyView { facts, results, .. } = view;
    let ProbeFacts { since, interval, timeout, hindrance, address, last, .. } = facts;
    let elsewhere_since = match address {
        Whereabouts::Elsewhere { since } => Some(seconds_since_1970(*since)),
        Whereabouts::Here | Whereabouts::Returned => None,
    };
    let last = last.as_ref();
    let trouble = last.and_then(|last| last.trouble.as_ref());
    VerifyState {
        state: match (last, trouble) {
            (None, _) => VerifyStateName::Pending,
            (Some(_), None) => VerifyStateName::Whole,
            (Some(_), Some(_)) => VerifyStateName::Broken,
        },
        health: facts.health(at),
        since_unix_seconds: seconds_since_1970(*since),
        last_unix_seconds: last.map(|last| seconds_since_1970(last.at)),
        interval_seconds: interval.as_secs_f64(),
        timeout_seconds: timeout.as_secs_f64(),
        stage: last.and_then(ProbeResult::stage),
        cause: last.and_then(ProbeResult::cause).map(Into::into),
        why: trouble.map(|trouble| trouble.why.clone()),
        hindrance: hindrance.clone(),
        elsewhere: elsewhere_since.is_some(),
        elsewhere_since_unix_seconds: elsewhere_since,
        waited_since_unix_seconds: facts.waited_since().map(seconds_since_1970),
        overdue: facts.is_overdue(at),
        no_newer: facts.no_newer(at).map(Into::into),
        history: results.iter().map(result).collect(),
    }
}

fn result(result: &ProbeResult) -> VerifyResult {
    VerifyResult {
        unix_seconds: seconds_since_1970(result.at),
        whole: result.trouble.is_none(),
        stage: result.stage(),
        cause: result.cause().map(Into::into),
        seconds: result.took.as_secs_f64(),
        rtt_ms: result.rtt.map(milliseconds),
        goodput_bits_per_second: result.goodput.map(|goodput| (goodput * 8.0) as u64),
    }
}
