//! Finds the problems. Every view tells them, and `/readyz` is 503 while one of them is fatal.
//!
//! Rules read [`Facts`] alone, so that `/readyz`, which collects nothing else, finds the same problems as `/status.json`.

use super::snapshot::{HopState, HopStateName, NameState, Problem, ResourceState, VerifyState, VerifyStateName};
use crate::control::{Phase, Refusal};
use crate::figures::age;
use crate::time::seconds_since_1970;
use longhaul_core::next_hop::EJECT_AFTER;
use longhaul_core::permits::Full;
use longhaul_relay::{DataProblemView, GoneAddress, WaitView};

/// The state of a tunnel from which its problems follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TunnelHealth {
    /// Name of the tunnel.
    pub(super) name: String,
    /// The address that its listener needs and that is not of this host any more. Absent while it is here.
    pub(super) gone_address: Option<GoneAddress>,
    /// The state of its next hops.
    pub(super) next_hops: Vec<HopState>,
    /// The wait of its clients in the listen queue. Absent while none waits.
    pub(super) waiting: Option<WaitView>,
    /// The latest problem of its FTP data connections. Absent if there was none lately.
    pub(super) data_problem: Option<DataProblemView>,
    /// Results of the daemon's own probes, without the history. Absent without `verify`.
    pub(super) verify: Option<VerifyState>,
}

/// The state from which the problems follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts<'a> {
    /// Phase of the process.
    pub(super) phase: Phase,
    /// The tunnels.
    pub(super) tunnels: &'a [TunnelHealth],
    /// The resources that are nearly used up.
    pub(super) resources: &'a [ResourceState],
    /// The refusal of the last reload. Absent after a successful one.
    pub(super) refusal: Option<&'a Refusal>,
}

/// Returns the problems of `facts`, the fatal ones first, then the doubtful ones. `now` is the time in seconds since 1970 (UTC).
pub(super) fn problems(facts: &Facts<'_>, now: f64) -> Vec<Problem> {
    let Facts { phase, tunnels, resources, refusal } = *facts;
    let of_tunnel = |tunnel| {
        let of_next_hops = of_next_hops(tunnel, now).into_iter();
        let of_listener = of_listener(tunnel).into_iter();
        of_listener
            .chain(of_next_hops)
            .chain(of_check_refusals(tunnel, now))
            .chain(of_names(tunnel))
            .chain(of_absent_names(tunnel))
            .chain(of_queue(tunnel))
            .chain(of_data(tunnel, now))
            .chain(of_verify(tunnel, now))
            .chain(of_no_result(tunnel, phase, now))
    };
    let mut problems: Vec<Problem> = tunnels.iter().flat_map(of_tunnel).collect();
    problems.extend(refusal.map(of_refusal));
    problems.extend(resources.iter().filter_map(of_resource));
    problems.sort_by_key(|problem| (!problem.fatal, !problem.doubtful));
    problems
}

/// Returns the problem of a listener whose address is gone: no client reaches it.
fn of_listener(tunnel: &TunnelHealth) -> Option<Problem> {
    let GoneAddress { ip, since } = tunnel.gone_address?;
    let remedy = "add it again, or write accept = { freebind = true } if keepalived moves it";
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "listener".into(),
        what: format!("{ip} is not an address of this host any more: {remedy}"),
        since_unix_seconds: seconds_since_1970(since),
        fatal: true,
        doubtful: false,
    })
}

/// Returns the problems of a tunnel's next hops. Only active checks make a fatal one. A hop that merely failed dials is
/// dialled again. If the daemon were not ready until then, no client would come whose dial could find that the hop answers.
/// So without another next hop the problem is doubtful, and not fatal. It is a warning if the failure is
/// [old and the address elsewhere](VerifyState::is_old_and_elsewhere), because no client comes then. Without `verify`, it is not
/// known where the address is.
fn of_next_hops(tunnel: &TunnelHealth, now: f64) -> Vec<Problem> {
    let hops = &tunnel.next_hops;
    let since_a_failure = hops.iter().filter_map(|hop| hop.last_failure_seconds).fold(f64::INFINITY, f64::min);
    let is_old = tunnel.verify.as_ref().is_some_and(|verify| verify.is_old_and_elsewhere(since_a_failure));
    let problem = |what: String, seconds: f64| Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "next hop".into(),
        what,
        since_unix_seconds: now - seconds,
        fatal: false,
        doubtful: hops.iter().all(is_failing) && !is_old,
    };
    if !hops.is_empty() && hops.iter().all(|hop| hop.state == HopStateName::Down) {
        let since_last = hops.iter().map(|hop| hop.state_seconds).fold(f64::INFINITY, f64::min);
        let names = some_of(hops.iter().map(|hop| format!("{}{}", hop.next_hop, last_failure(hop))));
        let what = format!("every next hop is down by its checks: {names}");
        return vec![Problem { fatal: true, doubtful: false, ..problem(what, since_last) }];
    }
    let of_hop = |hop: &HopState| {
        let (next_hop, failed, last) = (&hop.next_hop, hop.failed_dials, last_failure(hop));
        let failing = hop.failing_seconds.unwrap_or(hop.state_seconds);
        match hop.state {
            HopStateName::Down => Some(problem(format!("{next_hop} is down by its checks{last}"), hop.state_seconds)),
            HopStateName::Ejected => {
                Some(problem(format!("{next_hop} is ejected: its last {failed} dials failed{last}"), failing))
            }
            HopStateName::Up | HopStateName::SlowStart if is_failing(hop) => {
                Some(problem(format!("{next_hop}: its last {failed} dials failed{last}"), failing))
            }
            HopStateName::Up | HopStateName::SlowStart => None,
        }
    };
    hops.iter().filter_map(of_hop).collect()
}

/// Returns the problem of next hops whose checks do not see what is behind them, because a relay refuses their probes. A hop
/// that is down has a worse one.
fn of_check_refusals(tunnel: &TunnelHealth, now: f64) -> Option<Problem> {
    let refused = |hop: &HopState| {
        let refusal = hop.check_refusal.as_ref().filter(|_| hop.state != HopStateName::Down)?;
        Some((hop.check_refusal_seconds?, format!("{} ({refusal})", hop.next_hop)))
    };
    let refused: Vec<(f64, String)> = tunnel.next_hops.iter().filter_map(refused).collect();
    let longest = refused.iter().map(|(seconds, _)| *seconds).reduce(f64::max)?;
    let hops = some_of(refused.into_iter().map(|(_, hop)| hop));
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "next hop".into(),
        what: format!("checks see only the connection, because their probes are refused: {hops}"),
        since_unix_seconds: now - longest,
        ..Problem::default()
    })
}

/// Returns whether `hop` is down by its checks, or its last dials failed.
fn is_failing(hop: &HopState) -> bool {
    matches!(hop.state, HopStateName::Down | HopStateName::Ejected) || hop.failed_dials >= EJECT_AFTER.into()
}

/// Returns why the last dial or check of `hop` failed, and its age, after a blank: ` (refused 3s ago)`. Empty if none has.
fn last_failure(hop: &HopState) -> String {
    let what_and_age = hop.last_failure.as_ref().zip(hop.last_failure_seconds);
    what_and_age.map(|(what, seconds)| format!(" ({what} {} ago)", age(seconds))).unwrap_or_default()
}

/// Returns the first of `names` and the number of the others: `a, b, c and 4 more`.
fn some_of(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    let named = names.join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Returns the problem of next hops whose names no resolver answers for. It is fatal if no next hop has an address. Names are
/// asked for again without a flow, so the problem also ends without one. A name that was absent before the outage has its
/// problem already: the outage makes it no worse.
fn of_names(tunnel: &TunnelHealth) -> Option<Problem> {
    let of_hop = |hop: &HopState| Some((hop.next_hop.clone(), hop.name.clone()?));
    let outages: Vec<(String, NameState)> = tunnel
        .next_hops
        .iter()
        .filter_map(of_hop)
        .filter(|(_, name)| name.outage_since_unix_seconds.is_some() && name.absent_since_unix_seconds.is_none())
        .collect();
    let (_, first) = outages.first()?;
    let why = first.outage_why.as_deref().unwrap_or("no answer");
    let names = some_of(outages.iter().map(|(hop, _)| hop.clone()));
    let without: Vec<&String> = outages.iter().filter(|(_, name)| !name.has_address).map(|(hop, _)| hop).collect();
    let fatal = tunnel.next_hops.iter().all(|hop| hop.name.as_ref().is_some_and(|name| !name.has_address));
    let effect = match without.is_empty() {
        _ if fatal => "no next hop has an address".into(),
        true => "the last good answer serves".into(),
        false => format!("without an address: {}", some_of(without.into_iter().cloned())),
    };
    let since = outages.iter().filter_map(|(_, name)| name.outage_since_unix_seconds).fold(f64::INFINITY, f64::min);
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "next hop".into(),
        what: format!("no resolver answers for {names} ({why}); {effect}"),
        since_unix_seconds: since,
        fatal,
        doubtful: false,
    })
}

/// Returns the problem of next hops whose names do not exist, or have no address. Names are asked for again without a flow, so the
/// problem also ends without one.
fn of_absent_names(tunnel: &TunnelHealth) -> Option<Problem> {
    let absent = |hop: &HopState| {
        let name = hop.name.as_ref()?;
        let why = name.absent_why.as_deref().unwrap_or("the name has no address");
        let outage = name.outage_since_unix_seconds.map(|_| name.outage_why.as_deref().unwrap_or("no answer"));
        let outage = outage.map(|why| format!(" by the last answer, and no resolver answers now ({why})"));
        Some((name.absent_since_unix_seconds?, format!("{}: {why}{}", hop.next_hop, outage.unwrap_or_default())))
    };
    let absent: Vec<(f64, String)> = tunnel.next_hops.iter().filter_map(absent).collect();
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "next hop".into(),
        since_unix_seconds: absent.iter().map(|(since, _)| *since).reduce(f64::min)?,
        fatal: false,
        doubtful: absent.len() == tunnel.next_hops.len(),
        what: some_of(absent.into_iter().map(|(_, what)| what)),
    })
}

/// Returns the problem of clients that wait, because the tunnel may not have another flow. They are served when a flow ends.
fn of_queue(tunnel: &TunnelHealth) -> Option<Problem> {
    let WaitView { full, since } = tunnel.waiting?;
    let (limit, remedy) = match full {
        Full::MaxFlows => ("the tunnel has its `max_flows`", "raise it"),
        Full::AllFlows => ("all tunnels together have the `max_flows` of the process", "raise it"),
        Full::Permits => ("no descriptors are left for another flow", "raise LimitNOFILE="),
    };
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "resources".into(),
        what: format!("connections wait in the listen queue: {limit}; {remedy}, or wait until flows end"),
        since_unix_seconds: seconds_since_1970(since),
        fatal: false,
        doubtful: true,
    })
}

/// Returns the problem of FTP data connections, which probes and checks do not see. `now` is in seconds since 1970.
fn of_data(tunnel: &TunnelHealth, now: f64) -> Option<Problem> {
    let DataProblemView { what, since, last } = tunnel.data_problem.as_ref()?;
    let last = age(now - seconds_since_1970(*last));
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "FTP data".into(),
        what: format!(
            "data connections are refused or do not come, the last one {last} ago: {what}; docs/ftp.md says more"
        ),
        since_unix_seconds: seconds_since_1970(*since),
        ..Problem::default()
    })
}

/// Returns the problem that the daemon's own probes found. It is fatal, because a probe goes the way of a new flow. If newer
/// probes have no result, nobody knows whether the stage is still broken, so the problem is doubtful. It is a warning if the
/// result is [old and the address elsewhere](VerifyState::is_old_and_elsewhere): that host tells how the tunnel is.
fn of_verify(tunnel: &TunnelHealth, now: f64) -> Option<Problem> {
    let verify = tunnel.verify.as_ref().filter(|verify| verify.state == VerifyStateName::Broken)?;
    let stage = verify.stage.as_deref().unwrap_or_default();
    let cause = verify.cause.as_deref().unwrap_or("failed");
    // A relay that hears from no other names its stages as `longhaul verify` does.
    let (stage, at) = match stage {
        "relay" => ("near relay", String::new()),
        "data" => ("final host", "the payload did not come back whole: ".into()),
        _ if stage.starts_with("relay ") => ("far relay", format!("{stage}: ")),
        _ if stage.starts_with("link ") => ("WAN", format!("{stage}: ")),
        _ => (stage, String::new()),
    };
    let why = verify.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: stage.into(),
        what: format!("{at}{cause}{why}{}", verify.lateness(now)),
        since_unix_seconds: verify.since_unix_seconds,
        fatal: verify.is_current(),
        doubtful: !verify.is_current() && !verify.is_old_and_elsewhere(verify.age(now)),
    })
}

/// Returns the problem of a tunnel whose probes have no newer result. A broken one has its problem already. A daemon that drains
/// makes no probes, and a backup relay has made none of an address that another host has, or had until now.
fn of_no_result(tunnel: &TunnelHealth, phase: Phase, now: f64) -> Option<Problem> {
    let verify = tunnel.verify.as_ref().filter(|verify| verify.state != VerifyStateName::Broken)?;
    let why = verify.no_newer.as_ref().filter(|_| phase == Phase::Serving && !verify.was_elsewhere())?;
    let since_unix_seconds = verify.waited_since().unwrap_or(verify.since_unix_seconds);
    Some(Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "verify".into(),
        what: format!("no result for {}: {why}", age(now - since_unix_seconds)),
        since_unix_seconds,
        ..Problem::default()
    })
}

/// Returns the problem of a reload that was refused. The daemon serves by the old configuration.
fn of_refusal(Refusal { why, at }: &Refusal) -> Problem {
    let why = why.lines().collect::<Vec<_>>().join(" ");
    Problem {
        stage: "process".into(),
        what: format!("the last reload was refused, and the old configuration stays: {why}"),
        since_unix_seconds: seconds_since_1970(*at),
        ..Problem::default()
    }
}

/// Returns the problem of a resource that is nearly used up. A limit that is merely low is no problem: flows are served.
fn of_resource(resource: &ResourceState) -> Option<Problem> {
    let ResourceState { name, warning, remedy, .. } = resource;
    let since_unix_seconds = resource.near_since_unix_seconds?;
    let (warning, remedy) =
        (warning.as_deref().unwrap_or("nearly used up"), remedy.as_deref().unwrap_or("see docs/log.md"));
    let what = format!("{name}: {warning}; {remedy}");
    Some(Problem { stage: "resources".into(), what, since_unix_seconds, ..Problem::default() })
}

/// Number of next hops that a problem names, so that it stays one readable line.
const MAX_NAMES: usize = 3;

#[cfg(test)]
mod tests;
