//! Finds the problems that a [`Snapshot`] shows. Every view tells them, and `/readyz` is 503 while one of them is fatal.

use super::snapshot::{HopState, HopStateName, Problem, ResourceState, Snapshot, TunnelState, VerifyStateName};
use longhaul_core::next_hop::EJECT_AFTER;

/// Returns the problems of `snapshot`, the fatal ones first. `now` is the time in seconds since 1970 (UTC).
pub(super) fn problems(snapshot: &Snapshot, now: f64) -> Vec<Problem> {
    let of_tunnel = |tunnel| of_next_hops(tunnel, now).into_iter().chain(of_verify(tunnel));
    let mut problems: Vec<Problem> = snapshot.tunnels.iter().flat_map(of_tunnel).collect();
    problems.extend(snapshot.resources.iter().filter_map(of_resource));
    problems.sort_by_key(|problem| !problem.fatal);
    problems
}

/// Returns the problems of a tunnel's next hops. Only active checks make a fatal one. A hop that merely failed dials is
/// dialled again. If the daemon were not ready until then, no client would come whose dial could find that the hop answers.
fn of_next_hops(tunnel: &TunnelState, now: f64) -> Vec<Problem> {
    let problem = |what: String, seconds: f64| Problem {
        tunnel: Some(tunnel.name.clone()),
        stage: "next hop".into(),
        what,
        since_unix_seconds: now - seconds,
        fatal: false,
    };
    let hops = &tunnel.next_hops;
    if !hops.is_empty() && hops.iter().all(|hop| hop.state == HopStateName::Down) {
        let names: Vec<&str> = hops.iter().map(|hop| hop.next_hop.as_str()).collect();
        let since_last = hops.iter().map(|hop| hop.state_seconds).fold(f64::INFINITY, f64::min);
        let what = format!("every next hop is down by its checks: {}", names.join(", "));
        return vec![Problem { fatal: true, ..problem(what, since_last) }];
    }
    let of_hop = |hop: &HopState| {
        let (next_hop, failed) = (&hop.next_hop, hop.failed_dials);
        let failing = hop.failing_seconds.unwrap_or(hop.state_seconds);
        match hop.state {
            HopStateName::Down => Some(problem(format!("{next_hop} is down by its checks"), hop.state_seconds)),
            HopStateName::Ejected => {
                Some(problem(format!("{next_hop} is ejected: its last {failed} dials failed"), failing))
            }
            HopStateName::Up | HopStateName::SlowStart if failed >= EJECT_AFTER.into() => {
                Some(problem(format!("{next_hop}: its last {failed} dials failed"), failing))
            }
            HopStateName::Up | HopStateName::SlowStart => None,
        }
    };
    hops.iter().filter_map(of_hop).collect()
}

/// Returns the problem that the daemon's own probes found. It is fatal, because a probe goes the way of a new flow.
fn of_verify(tunnel: &TunnelState) -> Option<Problem> {
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
        what: format!("{at}{cause}{why}"),
        since_unix_seconds: verify.since_unix_seconds,
        fatal: true,
    })
}

/// Returns the problem of a resource that is nearly used up. A limit that is merely low is no problem: flows are served.
fn of_resource(resource: &ResourceState) -> Option<Problem> {
    let ResourceState { name, warning, remedy, .. } = resource;
    let since_unix_seconds = resource.near_since_unix_seconds?;
    let (warning, remedy) =
        (warning.as_deref().unwrap_or("nearly used up"), remedy.as_deref().unwrap_or("see docs/log.md"));
    let what = format!("{name}: {warning}; {remedy}");
    Some(Problem { tunnel: None, stage: "resources".into(), what, since_unix_seconds, fatal: false })
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::VerifyState;
    use super::*;

    fn hop(next_hop: &str, state: HopStateName, failed_dials: u64) -> HopState {
        let failing_seconds = (failed_dials > 0).then_some(5.0);
        HopState {
            next_hop: next_hop.into(),
            state,
            state_seconds: 60.0,
            failed_dials,
            failing_seconds,
            ..Default::default()
        }
    }

    fn snapshot(next_hops: Vec<HopState>) -> Snapshot {
        let tunnel = TunnelState { name: "t".into(), next_hops, ..TunnelState::default() };
        Snapshot { tunnels: vec![tunnel], ..Snapshot::default() }
    }

    #[test]
    fn a_tunnel_is_broken_when_every_next_hop_is_down() {
        let (a, b) = (hop("a:1", HopStateName::Down, 0), hop("b:1", HopStateName::Down, 0));
        let all = problems(&snapshot(vec![a.clone(), HopState { state_seconds: 2.0, ..b }]), 1000.0);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].what.as_str(), all[0].fatal), ("every next hop is down by its checks: a:1, b:1", true));
        assert_eq!((all[0].since_unix_seconds, all[0].tunnel.as_deref()), (998.0, Some("t")));
        let one = problems(&snapshot(vec![a, hop("b:1", HopStateName::Up, 0)]), 1000.0);
        assert_eq!((one[0].what.as_str(), one[0].fatal), ("a:1 is down by its checks", false));
        assert_eq!(problems(&snapshot(Vec::new()), 1000.0), []);
    }

    #[test]
    fn a_broken_stage_is_fatal_and_a_first_result_to_come_is_not() {
        let found = |state, stage: &str| {
            let stage = Some(stage.to_owned()).filter(|stage| !stage.is_empty());
            let verify = VerifyState {
                state,
                since_unix_seconds: 7.0,
                stage,
                cause: Some("refused".into()),
                why: Some("connect: ECONNREFUSED".into()),
                ..VerifyState::default()
            };
            let tunnel = TunnelState { name: "t".into(), verify: Some(verify), ..TunnelState::default() };
            problems(&Snapshot { tunnels: vec![tunnel], ..Snapshot::default() }, 1000.0)
        };
        assert_eq!(found(VerifyStateName::Pending, ""), []);
        assert_eq!(found(VerifyStateName::Whole, ""), []);
        let stages = ["WAN", "relay", "relay 2", "link 2"].map(|stage| {
            let problem = found(VerifyStateName::Broken, stage).pop().unwrap();
            assert!(problem.fatal && problem.since_unix_seconds == 7.0);
            (problem.stage, problem.what)
        });
        let plain = "refused (connect: ECONNREFUSED)";
        let want = [("WAN", ""), ("near relay", ""), ("far relay", "relay 2: "), ("WAN", "link 2: ")];
        assert_eq!(stages, want.map(|(stage, at)| (stage.into(), format!("{at}{plain}"))));
    }

    #[test]
    fn failed_dials_are_a_problem_but_not_fatal() {
        let hops = vec![
            hop("a:1", HopStateName::Up, 2),
            hop("b:1", HopStateName::Up, 3),
            hop("c:1", HopStateName::Ejected, 7),
        ];
        let found = problems(&snapshot(hops), 1000.0);
        let whats: Vec<&str> = found.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(whats, ["b:1: its last 3 dials failed", "c:1 is ejected: its last 7 dials failed"]);
        assert!(found.iter().all(|problem| !problem.fatal && problem.since_unix_seconds == 995.0));
    }

    #[test]
    fn a_resource_that_is_nearly_used_up_is_a_problem_and_a_low_limit_is_none() {
        let low = ResourceState {
            name: "flows".into(),
            warning: Some("82 % in use".into()),
            remedy: Some("raise it".into()),
            ..ResourceState::default()
        };
        let near = ResourceState { near_since_unix_seconds: Some(7.0), ..low.clone() };
        let found = problems(&Snapshot { resources: vec![low, near], ..Snapshot::default() }, 1000.0);
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["resources: flows: 82 % in use; raise it"]);
        assert_eq!((found[0].since_unix_seconds, found[0].fatal), (7.0, false));
    }
}
