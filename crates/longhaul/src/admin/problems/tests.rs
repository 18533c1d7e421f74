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

/// Returns the problems of a tunnel, at 1000 s.
fn of_one(tunnel: TunnelHealth) -> Vec<Problem> {
    problems(&Facts { tunnels: &[tunnel], ..Facts::default() }, 1000.0)
}

/// Returns the problems of a tunnel with these next hops, at 1000 s.
fn of(next_hops: Vec<HopState>) -> Vec<Problem> {
    of_one(TunnelHealth { name: "t".into(), next_hops, ..TunnelHealth::default() })
}

#[test]
fn a_tunnel_is_broken_when_every_next_hop_is_down() {
    let (a, b) = (hop("a:1", HopStateName::Down, 0), hop("b:1", HopStateName::Down, 0));
    let all = of(vec![a.clone(), HopState { state_seconds: 2.0, ..b }]);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].what.as_str(), all[0].fatal), ("every next hop is down by its checks: a:1, b:1", true));
    assert_eq!((all[0].since_unix_seconds, all[0].tunnel.as_deref()), (998.0, Some("t")));
    let one = of(vec![a, hop("b:1", HopStateName::Up, 0)]);
    assert_eq!((one[0].what.as_str(), one[0].fatal), ("a:1 is down by its checks", false));
    assert_eq!(of(Vec::new()), []);
}

#[test]
fn a_problem_says_why_each_hop_failed_and_names_three_hops_at_most() {
    let failed = |name: &str, what: &str, seconds| HopState {
        last_failure: Some(what.into()),
        last_failure_seconds: Some(seconds),
        ..hop(name, HopStateName::Down, 0)
    };
    let (a, b) = (failed("a:1", "refused", 3.2), failed("b:1", "final host: no answer", 125.0));
    let what = |hops: Vec<HopState>| of(hops)[0].what.clone();
    let of_two = "every next hop is down by its checks: a:1 (refused 3s ago), b:1 (final host: no answer 2m05s ago)";
    assert_eq!(what(vec![a.clone(), b.clone()]), of_two);
    let many: Vec<HopState> =
        [a.clone(), b].into_iter().chain((3..=50).map(|at| failed(&format!("h{at}:1"), "reset", 0.0))).collect();
    assert_eq!(what(many), format!("{of_two}, h3:1 (reset 0s ago) and 47 more"));
    let ejected = HopState { state: HopStateName::Ejected, failed_dials: 7, ..a.clone() };
    let up = HopState { state: HopStateName::Up, ..a.clone() };
    assert_eq!(what(vec![a, up.clone()]), "a:1 is down by its checks (refused 3s ago)");
    assert_eq!(what(vec![ejected, up]), "a:1 is ejected: its last 7 dials failed (refused 3s ago)");
}

#[test]
fn checks_that_see_only_the_connection_are_a_warning() {
    let refused = |next_hop: &str, state, seconds| HopState {
        check_refusal: Some("far relay: it refuses the key".into()),
        check_refusal_seconds: Some(seconds),
        ..hop(next_hop, state, 0)
    };
    let (a, b) = (refused("a:1", HopStateName::Up, 3.0), refused("b:1", HopStateName::SlowStart, 9.0));
    let found = of(vec![a.clone(), b, hop("c:1", HopStateName::Up, 0), refused("d:1", HopStateName::Down, 0.0)]);
    let reason = "far relay: it refuses the key";
    let what =
        format!("checks see only the connection, because their probes are refused: a:1 ({reason}), b:1 ({reason})");
    assert_eq!((found[1].what.as_str(), found[1].since_unix_seconds), (what.as_str(), 991.0));
    assert!(found.len() == 2 && !found.iter().any(|problem| problem.fatal || problem.doubtful), "{found:?}");
    assert_eq!(of(vec![refused("d:1", HopStateName::Down, 0.0), a])[0].what, "d:1 is down by its checks");
}

#[test]
fn an_outage_of_the_resolver_is_fatal_only_without_any_address() {
    let named = |next_hop: &str, has_address, since| HopState {
        name: Some(NameState {
            has_address,
            outage_since_unix_seconds: since,
            outage_why: since.map(|_| "no answer".into()),
            ..NameState::default()
        }),
        ..hop(next_hop, HopStateName::Up, 0)
    };
    let found = |hops: &[&HopState]| {
        let found = of(hops.iter().copied().cloned().collect());
        assert!(found.len() < 2, "{found:?}");
        found.into_iter().next().map(|problem| (problem.what, problem.fatal, problem.since_unix_seconds))
    };
    let (good, address) = (named("a:1", true, None), hop("192.0.2.1:1", HopStateName::Up, 0));
    let (stale, empty) = (named("b:1", true, Some(900.0)), named("c:1", false, Some(800.0)));
    let absent = named("d:1", false, None);
    assert_eq!((found(&[&good]), found(&[&good, &address]), found(&[&absent])), (None, None, None));
    let said = |text: &str, fatal, since| Some((format!("no resolver answers for {text}"), fatal, since));
    let serves = said("b:1 (no answer); the last good answer serves", false, 900.0);
    assert_eq!((found(&[&stale]), found(&[&good, &stale])), (serves.clone(), serves));
    let none = said("c:1 (no answer); no next hop has an address", true, 800.0);
    assert_eq!((found(&[&empty]), found(&[&absent, &empty])), (none.clone(), none));
    assert_eq!(found(&[&empty, &address]), said("c:1 (no answer); without an address: c:1", false, 800.0));
    let both = said("b:1, c:1 (no answer); without an address: c:1", false, 800.0);
    assert_eq!(found(&[&stale, &empty]), both);
    let many = said("b:1, b:1, b:1 and 1 more (no answer); the last good answer serves", false, 900.0);
    assert_eq!(found(&[&stale; 4]), many);
}

#[test]
fn a_name_that_does_not_exist_is_doubtful_without_another_next_hop() {
    let absent = |next_hop: &str, since| HopState {
        name: Some(NameState {
            absent_since_unix_seconds: Some(since),
            absent_why: Some("the name does not exist".into()),
            ..NameState::default()
        }),
        ..hop(next_hop, HopStateName::Up, 0)
    };
    let found = |hops: &[HopState]| {
        let problem = of(hops.to_vec()).pop().unwrap();
        assert!(!problem.fatal);
        (problem.what, problem.doubtful, problem.since_unix_seconds)
    };
    let (a, b) = (absent("a:1", 9.0), absent("b:1", 7.0));
    assert_eq!(found(std::slice::from_ref(&a)), ("a:1: the name does not exist".into(), true, 9.0));
    let both = "a:1: the name does not exist, b:1: the name does not exist";
    assert_eq!(found(&[a.clone(), b]), (both.into(), true, 7.0));
    assert!(!found(&[a, hop("192.0.2.1:1", HopStateName::Up, 0)]).1, "the other next hop serves");
}

#[test]
fn a_name_that_did_not_exist_is_no_more_fatal_when_the_resolvers_fail() {
    let named = |next_hop: &str, absent| HopState {
        name: Some(NameState {
            outage_since_unix_seconds: Some(900.0),
            outage_why: Some("timeout".into()),
            absent_since_unix_seconds: absent,
            absent_why: absent.map(|_| "the name does not exist".into()),
            ..NameState::default()
        }),
        ..hop(next_hop, HopStateName::Up, 0)
    };
    let (typo, unknown) = (named("typo:1", Some(7.0)), named("c:1", None));
    let found = of(vec![typo.clone()]);
    let what = "typo:1: the name does not exist by the last answer, and no resolver answers now (timeout)";
    assert!(found.len() == 1 && found[0].doubtful && !found[0].fatal, "{found:?}");
    assert_eq!((found[0].what.as_str(), found[0].since_unix_seconds), (what, 7.0));
    // The other name had no answer at all: nobody knows whether it is a mistake.
    let found = of(vec![typo, unknown]);
    let said: Vec<(&str, bool)> = found.iter().map(|problem| (problem.what.as_str(), problem.fatal)).collect();
    assert_eq!(said, [("no resolver answers for c:1 (timeout); no next hop has an address", true), (what, false)]);
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
        of_one(TunnelHealth { name: "t".into(), verify: Some(verify), ..TunnelHealth::default() })
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
fn a_broken_result_is_doubtful_without_a_newer_one_and_a_warning_when_the_address_has_left() {
    let found_at = |last: f64, no_newer: Option<&str>, elsewhere| {
        let verify = VerifyState {
            state: VerifyStateName::Broken,
            since_unix_seconds: 800.0,
            last_unix_seconds: Some(last),
            stage: Some("far relay".into()),
            cause: Some("refused".into()),
            no_newer: no_newer.map(Into::into),
            elsewhere,
            ..VerifyState::default()
        };
        let found = of_one(TunnelHealth { name: "t".into(), verify: Some(verify), ..Default::default() });
        assert!(found.len() < 2, "{found:?}");
        found.into_iter().next().map(|problem| (problem.to_string(), problem.fatal, problem.doubtful))
    };
    let found = |no_newer, elsewhere| found_at(975.0, no_newer, elsewhere);
    let fatal = "tunnel t, far relay: refused";
    assert_eq!(found(None, false), Some((fatal.into(), true, false)));
    let full = Some("no flow of the tunnel is free");
    let doubtful = format!("{fatal}; last result 25s ago, no newer one: no flow of the tunnel is free");
    assert_eq!(found(full, false), Some((doubtful.clone(), false, true)));
    assert_eq!(found(full, true), Some((doubtful.clone(), false, true)), "it may come back at once");
    let old = doubtful.replace("25s", "2m10s");
    assert_eq!(found_at(870.0, full, false), Some((old.clone(), false, true)));
    assert_eq!(found_at(870.0, full, true), Some((old, false, false)), "the other host tells how it is");
}

#[test]
fn failed_dials_are_a_problem_but_not_fatal() {
    let hops =
        vec![hop("a:1", HopStateName::Up, 2), hop("b:1", HopStateName::Up, 3), hop("c:1", HopStateName::Ejected, 7)];
    let found = of(hops);
    let whats: Vec<&str> = found.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(whats, ["b:1: its last 3 dials failed", "c:1 is ejected: its last 7 dials failed"]);
    assert!(found.iter().all(|problem| !problem.fatal && problem.since_unix_seconds == 995.0));
}

#[test]
fn it_is_doubtful_that_flows_are_served_if_no_next_hop_is_left() {
    let (up, failing) = (hop("a:1", HopStateName::Up, 2), hop("b:1", HopStateName::Up, 3));
    let (ejected, down) = (hop("c:1", HopStateName::Ejected, 7), hop("d:1", HopStateName::Down, 0));
    let doubtful = |hops: &[&HopState]| {
        let found = of(hops.iter().copied().cloned().collect());
        found.iter().map(|problem| problem.doubtful && !problem.fatal).collect::<Vec<bool>>()
    };
    assert_eq!(doubtful(&[&failing]), [true]);
    assert_eq!(doubtful(&[&failing, &ejected, &down]), [true, true, true]);
    assert_eq!(doubtful(&[&failing, &up]), [false]);
    assert_eq!(doubtful(&[&down, &down]), [false], "that is fatal");
}

#[test]
fn a_listener_without_its_address_is_fatal() {
    let since = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
    let gone_address = Some(GoneAddress { ip: "10.10.10.20".parse().unwrap(), since });
    let found = of_one(TunnelHealth { name: "t".into(), gone_address, ..TunnelHealth::default() });
    let want = "tunnel t, listener: 10.10.10.20 is not an address of this host any more: add it again, or ";
    assert!(found.len() == 1 && found[0].to_string().starts_with(want), "{found:?}");
    assert!(found[0].fatal && !found[0].doubtful && found[0].since_unix_seconds == 7.0);
}

#[test]
fn the_problem_of_data_connections_is_a_warning() {
    let since = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
    let last = since + std::time::Duration::from_secs(60);
    let data_problem = Some(DataProblemView { what: "Address 10.0.0.9 is not in allow".into(), since, last });
    let found = of_one(TunnelHealth { name: "t".into(), data_problem, ..TunnelHealth::default() });
    let want = "tunnel t, FTP data: data connections are refused or do not come, the last one 15m33s ago: Address 10.0.0.9 is not in allow; ";
    assert!(found.len() == 1 && found[0].to_string().starts_with(want), "{found:?}");
    assert!(!found[0].fatal && !found[0].doubtful && found[0].since_unix_seconds == 7.0);
}

#[test]
fn clients_that_wait_make_it_doubtful_that_flows_are_served() {
    for (full, why) in [(Full::MaxFlows, "the tunnel"), (Full::AllFlows, "all tunnels"), (Full::Permits, "no desc")] {
        let waiting = Some(WaitView { full, since: std::time::UNIX_EPOCH + std::time::Duration::from_secs(7) });
        let waits = TunnelHealth { name: "t".into(), waiting, ..TunnelHealth::default() };
        let found = of_one(waits);
        let want = format!("tunnel t, resources: connections wait in the listen queue: {why}");
        assert!(found.len() == 1 && found[0].to_string().starts_with(&want), "{found:?}");
        assert!(found[0].doubtful && !found[0].fatal && found[0].since_unix_seconds == 7.0);
    }
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
    let found = problems(&Facts { resources: &[low, near], ..Facts::default() }, 1000.0);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["resources: flows: 82 % in use; raise it"]);
    assert_eq!((found[0].since_unix_seconds, found[0].fatal), (7.0, false));
}

#[test]
fn a_reload_that_was_refused_is_a_problem() {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
    let refusal = Refusal { why: "line 7:\nno name".into(), at };
    let found = problems(&Facts { refusal: Some(&refusal), ..Facts::default() }, 1000.0);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["process: the last reload was refused, and the old configuration stays: line 7: no name"]);
    assert_eq!((found[0].since_unix_seconds, found[0].fatal || found[0].doubtful), (7.0, false));
}

#[test]
fn probes_without_a_newer_result_are_a_problem_unless_none_is_due() {
    let found = |state, no_newer: Option<&str>, elsewhere, phase| {
        let (last, no_newer) = (Some(963.0), no_newer.map(Into::into));
        let verify = VerifyState { state, last_unix_seconds: last, no_newer, elsewhere, ..VerifyState::default() };
        let tunnel = TunnelHealth { name: "t".into(), verify: Some(verify), ..TunnelHealth::default() };
        let found = problems(&Facts { tunnels: &[tunnel], phase, ..Facts::default() }, 1000.0);
        found.iter().filter(|problem| problem.stage == "verify").map(ToString::to_string).collect::<Vec<_>>()
    };
    let (whole, why) = (VerifyStateName::Whole, Some("far relay: it answers only who proves its key"));
    let want = "tunnel t, verify: no result for 37s: far relay: it answers only who proves its key";
    assert_eq!(found(whole, why, false, Phase::Serving), [want]);
    let none = Vec::<String>::new();
    assert_eq!(found(whole, None, false, Phase::Serving), none);
    assert_eq!(found(whole, why, true, Phase::Serving), none, "a backup relay");
    assert_eq!(found(whole, why, false, Phase::Draining), none);
    assert_eq!(found(VerifyStateName::Broken, why, false, Phase::Serving), none);
}
