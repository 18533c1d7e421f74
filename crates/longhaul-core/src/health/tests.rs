use super::*;
use crate::loops::{Doubtful, Sign};
use crate::next_hop::{Availability, HopView, Resets};
use crate::permits::Full;
use std::time::{Duration, SystemTime};

const NOW: u64 = 1000;

/// Returns the time `seconds` after the epoch.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn noted(why: &str, seconds: f64) -> Option<Noted> {
    Some(Noted { why: why.to_owned().into(), age: Duration::from_secs_f64(seconds) })
}

fn hop(next_hop: &str, state: Availability, failures: u32) -> HopFacts {
    let (age, failing_for) = (Duration::from_secs(60), (failures > 0).then_some(Duration::from_secs(5)));
    let choice = HopView {
        state,
        age,
        flows: 0,
        rtt: None,
        failures,
        failing_for,
        stalled_for: None,
        resets: None,
        is_check_failed: false,
    };
    HopFacts {
        next_hop: next_hop.into(),
        choice,
        last_failure: None,
        name: None,
        check_refusal: None,
        looped_for: None,
    }
}

fn up(next_hop: &str) -> HopFacts {
    hop(next_hop, Availability::Up, 0)
}

fn named(next_hop: &str, name: NameFacts) -> HopFacts {
    HopFacts { name: Some(name), ..up(next_hop) }
}

/// Returns the problems of a daemon in `phase` with one tunnel, at [`NOW`].
fn in_phase(phase: Phase, tunnel: TunnelFacts<'_>) -> Vec<Problem> {
    let tunnels = vec![TunnelFacts { name: "t", ..tunnel }];
    problems(&DaemonFacts { at: At { time: at(NOW), phase }, tunnels, near_limits: Vec::new(), refused_reload: None })
}

fn of_one(tunnel: TunnelFacts<'_>) -> Vec<Problem> {
    in_phase(Phase::Serving, tunnel)
}

fn of(hops: &[HopFacts]) -> Vec<Problem> {
    of_one(TunnelFacts { hops, ..TunnelFacts::default() })
}

/// Returns the only problem as text, with its health and the time since which it is there.
fn only(found: &[Problem]) -> Option<(String, Health, SystemTime)> {
    assert!(found.len() < 2, "{found:?}");
    found.first().map(|problem| (problem.to_string(), problem.health, problem.since))
}

fn healths(found: &[Problem]) -> Vec<Health> {
    found.iter().map(|problem| problem.health).collect()
}

/// Returns the probes of a tunnel, the last one with this trouble, `age` seconds ago.
fn probes(trouble: Option<&Trouble>, age: u64) -> ProbeFacts {
    ProbeFacts {
        since: at(800),
        interval: Duration::from_secs(500),
        timeout: Duration::from_secs(25),
        hindrance: None,
        address: Whereabouts::Here,
        returned_at: None,
        last: Some(result(NOW - age, trouble)),
    }
}

fn result(seconds: u64, trouble: Option<&Trouble>) -> ProbeResult {
    let took = Duration::from_secs(1);
    ProbeResult { at: at(seconds), hops: 1, trouble: trouble.cloned(), took, rtt: None, goodput: None }
}

fn refused_at(stage: Stage) -> Trouble {
    Trouble { stage, cause: Cause::Refused, why: "ECONNREFUSED".into(), is_certain: true }
}

#[test]
fn a_tunnel_is_broken_when_every_next_hop_is_down() {
    let (a, mut b) = (hop("a:1", Availability::Down, 0), hop("b:1", Availability::Down, 0));
    b.choice.age = Duration::from_secs(2);
    let all = "every next hop is down by its checks: a:1, b:1";
    assert_eq!(only(&of(&[a.clone(), b])), Some((all.into(), Health::Broken, at(998))));
    let one = of(&[a, up("b:1")]);
    assert_eq!(only(&one), Some(("a:1 is down by its checks".into(), Health::Failing, at(940))));
    assert_eq!((one[0].tunnel.as_deref(), one[0].stage), (Some("t"), Stage::NextHop));
    assert_eq!(of(&[]), []);
}

#[test]
fn a_problem_says_why_each_hop_failed_and_names_three_hops_at_most() {
    let failed = |name: &str, why: &str, seconds| HopFacts {
        last_failure: noted(why, seconds),
        ..hop(name, Availability::Down, 0)
    };
    let (a, b) = (failed("a:1", "refused", 3.2), failed("b:1", "final host: no answer", 125.0));
    let what = |hops: &[HopFacts]| of(hops)[0].to_string();
    let of_two = "every next hop is down by its checks: a:1 (refused 3s ago), b:1 (final host: no answer 2m05s ago)";
    assert_eq!(what(&[a.clone(), b.clone()]), of_two);
    let more = (3..=50).map(|at| failed(&format!("h{at}:1"), "reset", 0.0));
    let many: Vec<HopFacts> = [a.clone(), b].into_iter().chain(more).collect();
    assert_eq!(what(&many), format!("{of_two}, h3:1 (reset 0s ago) and 47 more"));
    let is =
        |hop: &HopFacts, state, failures| HopFacts { choice: HopView { state, failures, ..hop.choice }, ..hop.clone() };
    let (ejected, up) = (is(&a, Availability::Ejected, 7), is(&a, Availability::Up, 0));
    assert_eq!(what(&[a, up.clone()]), "a:1 is down by its checks (refused 3s ago)");
    assert_eq!(what(&[ejected, up]), "a:1 is ejected: its last 7 dials failed (refused 3s ago)");
}

#[test]
fn what_is_behind_the_connection_is_unknown_if_the_probes_of_checks_are_refused() {
    let refused = |next_hop: &str, state, seconds| HopFacts {
        check_refusal: noted("far relay: it refuses the key", seconds),
        ..hop(next_hop, state, 0)
    };
    let (a, b) = (refused("a:1", Availability::Up, 3.0), refused("b:1", Availability::SlowStart, 9.0));
    assert_eq!((of_hop(&a), of_hop(&b)), (Health::Unknown, Health::Unknown));
    let found = of(&[a.clone(), b, up("c:1"), refused("d:1", Availability::Down, 0.0)]);
    let reason = "far relay: it refuses the key";
    let what =
        format!("checks see only the connection, because their probes are refused: a:1 ({reason}), b:1 ({reason})");
    assert_eq!((found[1].to_string(), found[1].since), (what, at(991)));
    assert_eq!(healths(&found), [Health::Failing, Health::Unknown]);
    assert_eq!(of(&[refused("d:1", Availability::Down, 0.0), a])[0].to_string(), "d:1 is down by its checks");
}

#[test]
fn an_outage_of_the_resolver_breaks_a_tunnel_only_without_any_address() {
    let of_name = |next_hop: &str, has_address, seconds: Option<f64>| {
        let outage = seconds.and_then(|seconds| noted("no answer", seconds));
        named(next_hop, NameFacts { has_address, outage, absence: None })
    };
    let found = |hops: &[&HopFacts]| only(&of(&hops.iter().copied().cloned().collect::<Vec<_>>()));
    let (good, address) = (of_name("a:1", true, None), up("192.0.2.1:1"));
    let (stale, empty) = (of_name("b:1", true, Some(100.0)), of_name("c:1", false, Some(200.0)));
    let absent = of_name("d:1", false, None);
    assert_eq!((of_hop(&good), of_hop(&stale), of_hop(&empty)), (Health::Good, Health::Failing, Health::Broken));
    assert_eq!((found(&[&good]), found(&[&good, &address]), found(&[&absent])), (None, None, None));
    let said = |text: &str, health, since| Some((format!("no resolver answers for {text}"), health, at(since)));
    let serves = said("b:1 (no answer); the last good answer serves", Health::Failing, 900);
    assert_eq!((found(&[&stale]), found(&[&good, &stale])), (serves.clone(), serves));
    let none = said("c:1 (no answer); no next hop has an address", Health::Broken, 800);
    assert_eq!((found(&[&empty]), found(&[&absent, &empty])), (none.clone(), none));
    assert_eq!(found(&[&empty, &address]), said("c:1 (no answer); without an address: c:1", Health::Failing, 800));
    let both = said("b:1, c:1 (no answer); without an address: c:1", Health::Failing, 800);
    assert_eq!(found(&[&stale, &empty]), both);
    let many = said("b:1, b:1, b:1 and 1 more (no answer); the last good answer serves", Health::Failing, 900);
    assert_eq!(found(&[&stale; 4]), many);
}

#[test]
fn a_name_that_does_not_exist_is_doubtful_without_another_next_hop() {
    let absent = |next_hop: &str, seconds| {
        named(next_hop, NameFacts { absence: noted("the name does not exist", seconds), ..NameFacts::default() })
    };
    let (a, b) = (absent("a:1", 1.0), absent("b:1", 3.0));
    let one = "a:1: the name does not exist";
    assert_eq!(only(&of(std::slice::from_ref(&a))), Some((one.into(), Health::Doubtful, at(999))));
    let both = "a:1: the name does not exist, b:1: the name does not exist";
    assert_eq!(only(&of(&[a.clone(), b])), Some((both.into(), Health::Doubtful, at(997))));
    assert_eq!(healths(&of(&[a.clone(), up("192.0.2.1:1")])), [Health::Failing], "the other next hop serves");
    let down = hop("192.0.2.1:1", Availability::Down, 0);
    assert_eq!(healths(&of(&[a, down])), [Health::Doubtful; 2], "the other next hop does not serve");
}

#[test]
fn a_name_that_did_not_exist_is_no_worse_when_the_resolvers_fail() {
    let of_name = |next_hop: &str, absence| {
        named(next_hop, NameFacts { has_address: false, outage: noted("timeout", 100.0), absence })
    };
    let (typo, unknown) = (of_name("typo:1", noted("the name does not exist", 993.0)), of_name("c:1", None));
    let what = "typo:1: the name does not exist by the last answer, and no resolver answers now (timeout)";
    assert_eq!(only(&of(std::slice::from_ref(&typo))), Some((what.into(), Health::Doubtful, at(7))));
    // The other name had no answer at all: nobody knows whether it is a mistake.
    let found = of(&[typo, unknown]);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["no resolver answers for c:1 (timeout); no next hop has an address", what]);
    assert_eq!(healths(&found), [Health::Broken, Health::Doubtful]);
}

#[test]
fn failed_dials_are_a_problem_and_doubtful_if_no_next_hop_is_left() {
    let (two, three) = (hop("a:1", Availability::Up, 2), hop("b:1", Availability::Up, 3));
    let (ejected, down) = (hop("c:1", Availability::Ejected, 7), hop("d:1", Availability::Down, 0));
    let found = of(&[two.clone(), three.clone(), ejected.clone()]);
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["b:1: its last 3 dials failed", "c:1 is ejected: its last 7 dials failed"]);
    assert!(found.iter().all(|problem| problem.health == Health::Failing && problem.since == at(995)), "{found:?}");
    let of_hops = |hops: &[&HopFacts]| healths(&of(&hops.iter().copied().cloned().collect::<Vec<_>>()));
    assert_eq!(of_hops(&[&three]), [Health::Doubtful]);
    assert_eq!(of_hops(&[&three, &ejected, &down]), [Health::Doubtful; 3]);
    assert_eq!(of_hops(&[&three, &two]), [Health::Failing]);
    assert_eq!(of_hops(&[&down, &down]), [Health::Broken]);
    assert_eq!(of_hop(&hop("f:1", Availability::Up, 0)), Health::Good);
    let each = [&two, &three, &ejected, &down].map(of_hop);
    assert_eq!(each, [Health::Failing, Health::Doubtful, Health::Doubtful, Health::Broken]);
    assert_eq!(of_hop(&hop("e:1", Availability::SlowStart, 0)), Health::Waiting);
    let refused = |hop: &HopFacts| failure(&HopFacts { last_failure: noted("refused", 3.0), ..hop.clone() });
    assert_eq!(
        [&two, &ejected, &down].map(refused),
        ["5s", "5s", "1m00s"].map(|time| Some(format!("refused 3s ago, failing for {time}")))
    );
    assert_eq!((refused(&up("f:1")), failure(&three)), (None, Some("failing for 5s".into())));
}

#[test]
fn a_hop_that_answers_none_of_its_flows_is_doubtful_without_another_one() {
    let mut stalled = up("a:1");
    stalled.choice.stalled_for = Some(Duration::from_secs(20));
    let path = "is the path to it whole? ping it from here; docs/troubleshooting.md says more";
    let what = &format!("a:1 does not answer flows that carry bytes: {path}");
    assert_eq!(only(&of(&[stalled.clone()])), Some((what.into(), Health::Doubtful, at(980))));
    assert_eq!(only(&of(&[stalled.clone(), up("b:1")])), Some((what.into(), Health::Failing, at(980))));
    assert_eq!(
        (of_hop(&stalled), failure(&stalled)),
        (Health::Doubtful, Some("no answer to its flows for 20s".into()))
    );
    for (more, who) in [(0, "192.168.77.1 does"), (3, "192.168.77.1 and 3 more do")] {
        let stalled = StalledClients { first: "192.168.77.1".parse().unwrap(), more, since: at(990) };
        let clients = of_one(TunnelFacts { stalled_clients: Some(stalled), ..TunnelFacts::default() });
        let what = format!("{who} not answer flows that carry bytes: {path}");
        assert_eq!(only(&clients), Some((what, Health::Failing, at(990))));
        assert_eq!(clients[0].stage.part(), "clients");
    }
}

/// A backup relay tells how the tunnel is now.
#[test]
fn failed_dials_are_no_doubt_if_they_are_old_and_the_address_is_elsewhere() {
    let failed = |seconds| HopFacts { last_failure: noted("refused", seconds), ..hop("b:1", Availability::Up, 3) };
    let found = |seconds, address| {
        let hops = [failed(seconds)];
        let probes = ProbeFacts { address, hindrance: Some("elsewhere".into()), ..probes(None, 1) };
        healths(&of_one(TunnelFacts { hops: &hops, probes: Some(&probes), ..TunnelFacts::default() }))[0]
    };
    let elsewhere = Whereabouts::Elsewhere { since: at(1) };
    assert_eq!(found(121.0, elsewhere), Health::Failing);
    assert_eq!((found(119.0, elsewhere), found(121.0, Whereabouts::Here)), (Health::Doubtful, Health::Doubtful));
}

#[test]
fn a_broken_stage_breaks_the_tunnel_and_a_first_result_to_come_does_not() {
    fn found(probes: &ProbeFacts) -> Vec<Problem> {
        of_one(TunnelFacts { probes: Some(probes), ..TunnelFacts::default() })
    }
    let pending = ProbeFacts { last: None, ..probes(None, 1) };
    assert_eq!((found(&pending), found(&probes(None, 1))), (Vec::new(), Vec::new()));
    let now = At { time: at(NOW), phase: Phase::Serving };
    assert_eq!((pending.health(now), probes(None, 1).health(now)), (Health::Waiting, Health::Good));
    let said = |stage, hops| {
        let trouble = refused_at(stage);
        let last = Some(ProbeResult { hops, ..result(NOW - 1, Some(&trouble)) });
        let problem = found(&ProbeFacts { last, ..probes(None, 1) }).pop().unwrap();
        assert_eq!((problem.health, problem.since), (Health::Broken, at(800)));
        (problem.stage.part(), problem.to_string())
    };
    let plain = "refused (ECONNREFUSED)".to_string();
    assert_eq!(said(Stage::Link(0), 1), ("WAN", plain.clone()));
    assert_eq!(said(Stage::Relay(0), 0), ("near relay", plain.clone()));
    assert_eq!(said(Stage::Relay(1), 1), ("far relay", plain.clone()));
    assert_eq!(said(Stage::Relay(1), 2), ("far relay", format!("relay 2: {plain}")));
    assert_eq!(said(Stage::Link(1), 2), ("WAN", format!("link 2: {plain}")));
    assert_eq!(said(Stage::Data, 1), ("final host", format!("the payload did not come back whole: {plain}")));
}

/// A next hop is down by its checks because the path behind it is broken.
#[test]
fn the_stage_of_a_probe_comes_before_the_next_hops() {
    let (trouble, hops) = (refused_at(Stage::Link(0)), [hop("a:1", Availability::Down, 0)]);
    let probes = probes(Some(&trouble), 1);
    let found = of_one(TunnelFacts { hops: &hops, probes: Some(&probes), ..TunnelFacts::default() });
    assert_eq!(healths(&found), [Health::Broken; 2]);
    assert_eq!(found.iter().map(|problem| problem.stage).collect::<Vec<_>>(), [Stage::Link(0), Stage::NextHop]);
}

/// keepalived moves the address of a tunnel that is broken through both relays every few seconds. An alert must not end with each
/// move.
#[test]
fn a_broken_result_is_fatal_until_a_newer_one_unless_the_address_has_moved() {
    let trouble = refused_at(Stage::Relay(1));
    let found_since = |age, hindrance: Option<&str>, address, returned_at| {
        let probes =
            ProbeFacts { hindrance: hindrance.map(Into::into), address, returned_at, ..probes(Some(&trouble), age) };
        let (text, health, _) = only(&of_one(TunnelFacts { probes: Some(&probes), ..Default::default() })).unwrap();
        (text, health)
    };
    let found = |age, hindrance, address| found_since(age, hindrance, address, None);
    let (here, fatal) = (Whereabouts::Here, "refused (ECONNREFUSED)");
    assert_eq!(found(25, None, here), (fatal.into(), Health::Broken));
    assert_eq!(found(500, None, here).1, Health::Broken, "a probe every eight minutes");
    let full = Some("no flow of the tunnel is free");
    let late = format!("{fatal}; last result 25s ago, no newer one: no flow of the tunnel is free");
    assert_eq!(found(25, full, here), (late.clone(), Health::Broken));
    assert_eq!(found(130, full, here), (late.replace("25s", "2m10s"), Health::Broken));
    let returned = |age| found_since(age, full, here, Some(at(990)));
    assert_eq!((returned(25).1, returned(130).1), (Health::Doubtful, Health::Unknown), "its first probe was refused");
    for moved in [Whereabouts::Elsewhere { since: at(1) }, Whereabouts::Returned] {
        assert_eq!(found(25, full, moved), (late.clone(), Health::Doubtful), "it may come back at once");
        assert_eq!(found(130, full, moved), (late.replace("25s", "2m10s"), Health::Unknown));
    }
}

#[test]
fn a_result_is_overdue_after_the_interval_and_the_time_of_a_probe() {
    let first = ProbeFacts { interval: Duration::from_secs(30), last: None, ..probes(None, 0) };
    let later = ProbeFacts { last: Some(result(810, None)), ..first.clone() };
    let said = |probes: &ProbeFacts, seconds, phase| {
        let at = At { time: at(seconds), phase };
        (probes.is_overdue(at), probes.no_newer(at).map(String::from), probes.health(at))
    };
    let none = Some("the next probe is overdue".to_string());
    for (probes, last, health) in [(&first, 855, Health::Waiting), (&later, 865, Health::Good)] {
        assert_eq!(said(probes, last, Phase::Serving), (false, None, health));
        assert_eq!(said(probes, last + 1, Phase::Serving), (true, none.clone(), Health::Unknown));
    }
    let draining = Some("the daemon is draining and makes no probes".to_string());
    assert_eq!(said(&later, 865, Phase::Draining), (false, None, Health::Good));
    assert_eq!(said(&later, 866, Phase::Draining), (true, draining, Health::Unknown));
    let full = Some("no flow of the tunnel is free");
    let hindered = ProbeFacts { hindrance: full.map(Into::into), ..later };
    for (seconds, phase, is_overdue) in [(811, Phase::Serving, false), (866, Phase::Draining, true)] {
        assert_eq!(said(&hindered, seconds, phase), (is_overdue, full.map(Into::into), Health::Unknown));
    }
}

#[test]
fn probes_without_a_newer_result_are_a_problem_unless_none_is_due() {
    let trouble = refused_at(Stage::Lan);
    let found = |trouble, hindrance: Option<&str>, address, phase| {
        let probes = ProbeFacts { hindrance: hindrance.map(Into::into), address, ..probes(trouble, 37) };
        let mut found = in_phase(phase, TunnelFacts { probes: Some(&probes), ..TunnelFacts::default() });
        found.retain(|problem| problem.stage == Stage::Verify);
        only(&found)
    };
    let (here, why) = (Whereabouts::Here, Some("far relay: it answers only who proves its key"));
    let want = "no result for 37s: far relay: it answers only who proves its key";
    assert_eq!(found(None, why, here, Phase::Serving), Some((want.into(), Health::Unknown, at(963))));
    assert_eq!(found(None, None, here, Phase::Serving), None);
    let elsewhere = Whereabouts::Elsewhere { since: at(1) };
    assert_eq!(found(None, why, elsewhere, Phase::Serving), None, "a backup relay");
    assert_eq!(found(None, why, Whereabouts::Returned, Phase::Serving), None, "its first probe");
    assert_eq!(found(None, why, here, Phase::Draining), None);
    assert_eq!(found(Some(&trouble), why, here, Phase::Serving), None);
}

#[test]
fn each_other_rule_has_its_stage_its_health_and_its_remedy() {
    let found = |tunnel| {
        let found = of_one(tunnel);
        assert_eq!((found.len(), found[0].since), (1, at(7)));
        (found[0].stage, found[0].health, found[0].to_string())
    };
    let gone_address = Some(GoneAddress { ip: "10.10.10.20".parse().unwrap(), since: at(7) });
    let want = "10.10.10.20 is not an address of this host any more: add it again, or write accept = { freebind = true } \
                if keepalived moves it";
    let of_listener = found(TunnelFacts { gone_address, ..TunnelFacts::default() });
    assert_eq!(of_listener, (Stage::Listener, Health::Broken, want.into()));
    let data = DataFacts { what: "10.0.0.9 is not in allow".into(), since: at(7), last: at(67) };
    let want = "data connections are refused or do not come, the last one 15m33s ago: 10.0.0.9 is not in allow; \
                docs/ftp.md says more";
    let of_data = found(TunnelFacts { data_problem: Some(&data), ..TunnelFacts::default() });
    assert_eq!(of_data, (Stage::FtpData, Health::Failing, want.into()));
    for (full, why) in [
        (Full::MaxFlows, "the tunnel has its `max_flows`; raise it"),
        (Full::AllFlows, "all tunnels together have the `max_flows` of the process; raise it"),
        (Full::Permits, "no descriptors are left for another flow; raise LimitNOFILE"),
    ] {
        let waiting = Some(Wait { full, since: at(7) });
        let want = format!("connections wait in the listen queue: {why}, or wait until flows end");
        let of_queue = found(TunnelFacts { waiting, ..TunnelFacts::default() });
        assert_eq!(of_queue, (Stage::Resources, Health::Stalled, want));
    }
}

#[test]
fn flows_that_may_come_back_are_doubtful_and_the_problem_says_how_that_shows() {
    let said = |sign| {
        let (from, age) = ("10.20.20.20".parse().unwrap(), Duration::from_secs(7));
        let looped = Some(Doubtful { from, sign, next_hop: None, age });
        let back = HopFacts { looped_for: Some(age), ..up("10.20.20.20:6000") };
        let hops = &[up("10.20.20.21:6000"), back];
        let (text, health, since) = only(&of_one(TunnelFacts { looped, hops, ..TunnelFacts::default() })).unwrap();
        assert_eq!((health, since), (Health::Doubtful, at(NOW - 7)));
        text
    };
    let back = HopFacts { looped_for: Some(Duration::from_secs(7)), ..up("10.20.20.20:6000") };
    assert_eq!((of_hop(&back), failure(&back)), (Health::Doubtful, Some("its flows come back, for 7s".into())));
    let of_address = "10.20.20.20 is this tunnel's next hop, and connects to it: does its `to` lead back here?";
    assert_eq!(said(Sign::NextHop), of_address);
    let of_test = "a connection to the next hop came back from 10.20.20.20: does its `to` lead back here?";
    assert_eq!(said(Sign::Returns), of_test);
    let of_probe = "flows go round in a loop: this tunnel dials 10.20.20.20:6000, and 10.20.20.20 dials 10.10.10.20:6000, \
                    which is this tunnel; one of the two `to` is wrong";
    assert_eq!(said(Sign::Loop("10.10.10.20:6000".parse().unwrap())), of_probe);
}

#[test]
fn problems_of_the_process_come_after_those_of_tunnels_and_the_worst_first() {
    let hops = [hop("b:1", Availability::Down, 0)];
    let (failing, broken) = ([up("a:1"), hops[0].clone()], hops);
    let near = NearLimit { name: "flows", warning: "82 % in use", remedy: "raise it", since: at(7) };
    let tunnel = |name, hops| TunnelFacts { name, hops, ..TunnelFacts::default() };
    let found = problems(&DaemonFacts {
        at: At { time: at(NOW), phase: Phase::Serving },
        tunnels: vec![tunnel("one", &failing), tunnel("two", &broken)],
        near_limits: vec![near],
        refused_reload: Some(("line 7:\nno name", at(9))),
    });
    let said: Vec<(Option<&str>, String)> =
        found.iter().map(|problem| (problem.tunnel.as_deref(), problem.to_string())).collect();
    let want = [
        (Some("two"), "every next hop is down by its checks: b:1"),
        (Some("one"), "b:1 is down by its checks"),
        (None, "the last reload was refused, and the old configuration stays: line 7: no name"),
        (None, "flows: 82 % in use; raise it"),
    ];
    assert_eq!(said, want.map(|(tunnel, text)| (tunnel, text.to_string())));
    let healths = || found.iter().map(|problem| problem.health);
    assert!(healths().skip(1).all(|health| health == Health::Failing));
    assert_eq!((of_tunnel(healths().skip(1)), of_tunnel([].into_iter())), (Health::Failing, Health::Good));
    assert_eq!(of_daemon(Phase::Serving, healths()), Health::Broken);
    let whole = [Phase::Serving, Phase::Draining, Phase::Stopping].map(|phase| of_daemon(phase, [].into_iter()));
    assert_eq!(whole, [Health::Good, Health::Broken, Health::Broken]);
}

#[test]
fn a_whole_probe_refutes_only_resets_that_do_not_go_on() {
    let resets = |last| Resets { count: 5, age: Duration::from_secs(900), last: Duration::from_secs(last) };
    let refutes = |trouble, age, last| probes(trouble, age).refutes(&resets(last), at(NOW));
    // A probe takes a second here.
    assert!(refutes(None, 28, 30) && !refutes(None, 2, 29), "for 30 s, more may come");
    assert!(!refutes(None, 29, 30), "the probe began before the last one");
    assert!(!refutes(Some(&refused_at(Stage::FinalHost)), 1, 60));
}

#[test]
fn a_hop_that_resets_its_flows_is_doubtful_until_one_is_answered_or_the_last_reset_is_old() {
    let resetting = |count, last| {
        let resets = Some(Resets { count, age: Duration::from_secs(900), last: Duration::from_secs(last) });
        let hop = up("10.20.20.20:6000");
        of(&[HopFacts { choice: HopView { resets, ..hop.choice }, ..hop }])
    };
    let (text, health, since) = only(&resetting(5, 3)).unwrap();
    assert_eq!((health, since), (Health::Doubtful, at(NOW - 900)));
    assert_eq!(
        text,
        "10.20.20.20:6000 reset the last 5 flows before it sent a byte, the last one 3s ago: its log says why. A relay resets if its `allow` lacks this one, if its `proxy_in` differs from `proxy_out` here, or if it does not reach its own next hop; a server, if it refuses or crashes"
    );
    assert!(resetting(4, 3).is_empty() && resetting(5, 600).is_empty());
    let party = |found: Vec<Problem>| found.into_iter().find_map(|problem| problem.party).unwrap();
    let refusing =
        HopFacts { choice: HopView { failures: 3, ..up("10.20.20.20:6000").choice }, ..up("10.20.20.20:6000") };
    assert_ne!(party(resetting(5, 3)), party(of(&[refusing])), "each has lines of its own in the log");
}
