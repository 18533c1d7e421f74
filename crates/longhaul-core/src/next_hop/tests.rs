use super::hash::mix;
use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const THRESHOLDS: Thresholds = Thresholds { rise: 2, fall: 3 };

fn client(number: u32) -> IpAddr {
    Ipv4Addr::from(0x0a00_0000 + number % 0x100_0000).into()
}

fn key(number: u16) -> HopKey {
    HopKey::of("hop.example", number)
}

fn members(weights: &[u32]) -> Vec<Member> {
    weights.iter().zip(1..).map(|(weight, port)| Member { key: key(port), weight: *weight }).collect()
}

fn policy(name: &str) -> &'static Policy {
    POLICIES.iter().find(|policy| policy.name == name).unwrap()
}

/// Returns the hop that a policy dials first for a client.
fn first(group: &mut Group, name: &str, members: &[Member], client: IpAddr, now: Instant) -> usize {
    group.order(policy(name), members, &[], client, 0, now)[0]
}

/// Returns the number of flows that each hop gets of `turns`, one of each client.
fn shares(name: &str, weights: &[u32], turns: u32) -> Vec<u32> {
    let (mut group, members, now) = (Group::default(), members(weights), Instant::now());
    let mut counts = vec![0; weights.len()];
    for turn in 0..turns {
        let hop = first(&mut group, name, &members, client(turn), now);
        group.began(members[hop].key, now);
        counts[hop] += 1;
    }
    counts
}

proptest! {
    #[test]
    fn every_policy_tries_every_hop_once(
        loads in prop::collection::vec((1u32..=256, 0u32..5, prop::option::of(0u64..2_000)), 0..20),
        number: u32,
        turn: u64,
    ) {
        let hops: Vec<Load> = loads.iter().zip(1..).map(|((weight, flows, rtt), port)| Load {
            key: key(port),
            weight: *weight,
            flows: *flows,
            rtt: rtt.map(Duration::from_millis),
        }).collect();
        for policy in POLICIES {
            let mut order = (policy.order)(&Choice { hops: &hops, client: client(number), turn });
            order.sort_unstable();
            prop_assert_eq!(order, (0..hops.len()).collect::<Vec<_>>(), "{}", policy.name);
        }
    }

    #[test]
    fn round_robin_gives_each_hop_its_weight_in_each_round(weights in prop::collection::vec(1u32..=30, 1..6)) {
        let round: u32 = weights.iter().sum();
        let twice: Vec<u32> = weights.iter().map(|weight| 2 * weight).collect();
        prop_assert_eq!(shares("round-robin", &weights, 2 * round), twice);
    }

    #[test]
    fn least_flows_keeps_the_flows_in_proportion(weights in prop::collection::vec(1u32..=30, 1..6), rounds in 1u32..4) {
        let counts = shares("least-flows", &weights, rounds * weights.iter().sum::<u32>());
        for (count, weight) in counts.iter().zip(&weights) {
            prop_assert!(count.abs_diff(rounds * weight) <= 1, "{:?} of {:?}", counts, weights);
        }
    }

    #[test]
    fn a_hop_that_goes_away_moves_only_its_own_clients(weights in prop::collection::vec(1u32..=256, 2..8), gone: usize) {
        let (mut group, now) = (Group::default(), Instant::now());
        let all = members(&weights);
        let gone = all[gone % all.len()];
        let left: Vec<Member> = all.iter().copied().filter(|member| *member != gone).collect();
        for number in 0..200 {
            let before = all[first(&mut group, "source-hash", &all, client(number), now)];
            let after = left[first(&mut group, "source-hash", &left, client(number), now)];
            prop_assert!(before == gone || before == after);
        }
    }

    /// Whatever happens, an order has each hop at most once, and lacks only hops that are down.
    #[test]
    fn only_hops_that_are_down_are_left_out(
        events in prop::collection::vec((0u8..6, 0u16..3, 0u64..40), 0..60),
        which in 0..5usize,
    ) {
        let (mut group, members, mut now) = (Group::default(), members(&[1, 2, 3]), Instant::now());
        for (event, hop, seconds) in events {
            let key = members[usize::from(hop)].key;
            now += Duration::from_secs(seconds);
            group.began(key, now);
            match event {
                0 | 1 => drop(group.failed(key, false, now)),
                2 => drop(group.answered(key, Duration::ZERO, now)),
                3 => drop(group.checked(key, false, THRESHOLDS, now)),
                4 => drop(group.checked(key, true, THRESHOLDS, now)),
                _ => group.ended(key),
            }
            let mut order = group.order(&POLICIES[which], &members, &[], client(9), mix(seconds), now);
            order.sort_unstable();
            let up = (0..3).filter(|hop| group.view(members[*hop].key, &[], now).state != Availability::Down);
            prop_assert_eq!(order, up.collect::<Vec<_>>());
        }
    }
}

#[test]
fn round_robin_spreads_the_turns_of_a_heavy_hop() {
    let (mut group, members, now) = (Group::default(), members(&[3, 1]), Instant::now());
    let turns: Vec<usize> = (0..8).map(|_| first(&mut group, "round-robin", &members, client(1), now)).collect();
    assert_eq!(turns, [0, 0, 1, 0, 0, 0, 1, 0]);
    assert_eq!(shares("round-robin", &[1, 1, 1], 9), [3, 3, 3]);
}

#[test]
fn source_hash_spreads_clients_by_weight() {
    let counts = shares("source-hash", &[3, 1], 4000);
    // The expected number is 1000; its standard deviation is 27.
    assert!((800..1200).contains(&counts[1]), "{counts:?}");
}

#[test]
fn source_hash_never_changes_between_versions() {
    let (mut group, members, now) = (Group::default(), members(&[1, 1, 1, 1]), Instant::now());
    let chosen: Vec<usize> = (0..12).map(|n| first(&mut group, "source-hash", &members, client(n), now)).collect();
    let mapped = "::ffff:10.0.0.5".parse().unwrap();
    assert_eq!(chosen[5], first(&mut group, "source-hash", &members, mapped, now));
    assert_eq!(chosen, [0, 2, 3, 2, 1, 1, 2, 3, 3, 3, 3, 1]);
}

#[test]
fn least_rtt_takes_the_fast_one_and_looks_at_the_others_now_and_then() {
    let (mut group, members, now) = (Group::default(), members(&[1, 1, 1]), Instant::now());
    for (hop, millis) in [(0, 80), (1, 20), (2, 21)] {
        group.measured(members[hop].key, Duration::from_millis(millis), now);
    }
    let mut counts = [0; 3];
    for turn in 0..960 {
        counts[first(&mut group, "least-rtt", &members, client(turn), now)] += 1;
    }
    assert!(counts[0] == 10 && counts[1] > 400 && counts[2] > 400, "{counts:?}");
    group.measured(members[1].key, Duration::from_secs(3), now);
    assert_eq!(group.view(members[1].key, &[], now).rtt, Some(Duration::from_millis(20)), "a lost SYN");
}

/// Two hops, and the times of a test.
struct Two {
    group: Group,
    members: Vec<Member>,
    now: Instant,
}

impl Two {
    fn new() -> Two {
        Two { group: Group::default(), members: members(&[1, 1]), now: Instant::now() }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn order(&mut self, random: u64) -> Vec<usize> {
        self.group.order(policy("in-order"), &self.members, &[], client(1), random, self.now)
    }

    fn fail(&mut self, hop: usize) -> Option<Change> {
        let key = self.members[hop].key;
        self.group.began(key, self.now);
        self.group.failed(key, false, self.now)
    }

    fn answer(&mut self, hop: usize) -> Option<Change> {
        let key = self.members[hop].key;
        self.group.began(key, self.now);
        let change = self.group.answered(key, Duration::from_millis(5), self.now);
        self.group.ended(key);
        change
    }

    fn check(&mut self, hop: usize, passed: bool) -> Option<Change> {
        self.group.checked(self.members[hop].key, passed, THRESHOLDS, self.now)
    }

    fn state(&self, hop: usize) -> Availability {
        self.group.view(self.members[hop].key, &[], self.now).state
    }
}

#[test]
fn three_failed_dials_in_a_row_eject_a_hop_and_one_dial_tries_it_later() {
    let mut two = Two::new();
    assert_eq!((two.fail(0), two.fail(0), two.answer(0)), (None, None, None));
    assert_eq!((two.fail(0), two.fail(0)), (None, None), "the answer was in between");
    assert_eq!(two.fail(0), Some(Change::Ejected(FIRST_PAUSE)));
    assert_eq!(two.order(0), [1, 0], "the last resort");
    assert_eq!(two.fail(0), None, "one that had begun before");
    two.pass(9);
    assert_eq!(two.order(0), [1, 0]);
    two.pass(1);
    assert_eq!(two.order(0), [0, 1], "the pause is over");
    two.group.began(two.members[0].key, two.now);
    assert_eq!(two.order(0), [1, 0], "one dial tries it");
    assert_eq!(two.group.failed(two.members[0].key, false, two.now), None, "it is still ejected");
    two.pass(19);
    assert_eq!(two.order(0), [1, 0], "twice as long");
    two.pass(1);
    assert_eq!(two.order(0), [0, 1]);
    for _ in 0..9 {
        two.fail(0);
        two.pass(60);
        assert_eq!(two.order(0), [0, 1], "never longer than a minute");
    }
}

#[test]
fn a_hop_that_returns_gets_a_growing_share() {
    let mut two = Two::new();
    for _ in 0..3 {
        two.fail(0);
    }
    two.pass(10);
    assert_eq!((two.answer(0), two.state(0)), (Some(Change::Returned), Availability::SlowStart));
    let mut share = |seconds| {
        two.pass(seconds);
        (0..1000u64).filter(|n| two.order(hash::mix(*n)) == [0, 1]).count()
    };
    assert!((50..150).contains(&share(0)));
    assert!((400..600).contains(&share(15)));
    assert_eq!(share(15), 1000);
    assert_eq!(two.state(0), Availability::Up);
    two.answer(0);
    assert_eq!((two.fail(0), two.fail(0), two.fail(0)), (None, None, Some(Change::Ejected(FIRST_PAUSE))));
}

#[test]
fn a_hop_that_fails_while_it_returns_is_ejected_at_once_and_for_longer() {
    let mut two = Two::new();
    for _ in 0..3 {
        two.fail(0);
    }
    two.pass(10);
    two.answer(0);
    assert_eq!(two.fail(0), Some(Change::Ejected(2 * FIRST_PAUSE)));
}

#[test]
fn a_hop_whose_flows_have_no_answer_is_dialled_last() {
    let (mut group, members, now) = (Group::default(), members(&[1, 1]), Instant::now());
    assert_eq!(group.order(policy("in-order"), &members, &[], client(1), 0, now), [0, 1]);
    let stalled = [(members[0].key, now)];
    let later = now + Duration::from_secs(9);
    assert_eq!(group.order(policy("in-order"), &members, &stalled, client(1), 0, later), [1, 0]);
    assert_eq!(group.order(policy("in-order"), &members[..1], &stalled, client(1), 0, later), [0], "the only one");
    let stalled_for = members.iter().map(|hop| group.view(hop.key, &stalled, later).stalled_for).collect::<Vec<_>>();
    assert_eq!(stalled_for, [Some(Duration::from_secs(9)), None]);
    assert_eq!(group.order(policy("in-order"), &members, &[], client(1), 0, later), [0, 1]);
}

#[test]
fn ejected_hops_are_all_tried_and_hops_that_are_down_are_not() {
    let mut two = Two::new();
    for _ in 0..3 {
        two.fail(0);
        two.fail(1);
    }
    assert_eq!((two.state(0), two.state(1), two.order(0)), (Availability::Ejected, Availability::Ejected, vec![0, 1]));
    assert_eq!((two.check(0, false), two.check(0, false), two.check(0, false)), (None, None, Some(Change::Down)));
    assert_eq!(two.order(0), [1]);
    for _ in 0..3 {
        two.check(1, false);
    }
    assert_eq!(two.order(0), Vec::<usize>::new());
    assert_eq!((two.check(0, true), two.check(0, true)), (None, Some(Change::Up)));
    assert_eq!((two.order(0), two.state(0)), (vec![0], Availability::SlowStart));
    two.group.unchecked(two.now);
    assert_eq!(two.state(1), Availability::SlowStart, "nothing would ever say that it is up");
}

#[test]
fn good_checks_end_an_ejection() {
    let mut two = Two::new();
    assert_eq!((two.check(0, true), two.check(0, true)), (None, None));
    for _ in 0..3 {
        two.fail(0);
    }
    assert_eq!((two.check(0, true), two.check(0, true)), (None, Some(Change::Returned)));
    assert_eq!((two.check(0, false), two.check(0, true), two.check(0, false)), (None, None, None));
}

#[test]
fn a_failed_check_shows_until_one_passes_and_an_answered_dial_does_not_hide_it() {
    let mut two = Two::new();
    let failing_for = |two: &Two| two.group.view(two.members[0].key, &[], two.now + Duration::from_secs(3)).failing_for;
    assert_eq!((failing_for(&two), two.check(0, false)), (None, None));
    two.group.answered(two.members[0].key, Duration::ZERO, two.now);
    assert_eq!(failing_for(&two), Some(Duration::from_secs(3)));
    assert_eq!((two.check(0, true), failing_for(&two)), (None, None));
}

#[test]
fn resets_in_a_row_count_until_an_answer_and_old_ones_are_forgotten() {
    let (mut group, key, start) = (Group::default(), key(1), Instant::now());
    group.began(key, start);
    let mut after = |second, has_answered| {
        let now = start + Duration::from_secs(second);
        group.used(key, has_answered, now, now);
        group.view(key, &[], now).resets.map(|Resets { count, age, last }| (count, age.as_secs(), last.as_secs()))
    };
    assert_eq!((after(0, false), after(9, false)), (Some((1, 0, 0)), Some((2, 9, 0))));
    assert_eq!((after(10, true), after(20, false)), (None, Some((1, 0, 0))));
    assert_eq!((after(619, false), after(1_219, false)), (Some((2, 599, 0)), Some((1, 0, 0))));
    let count = |group: &Group| group.view(key, &[], start).resets.map(|resets| resets.count);
    let at = |second| start + Duration::from_secs(second);
    group.used(key, true, at(1_218), at(1_220));
    assert_eq!(count(&group), Some(1), "the flow began before the first reset");
    group.used(key, false, at(1_221), at(1_222));
    group.used(key, true, at(1_220), at(1_223));
    assert_eq!(count(&group), None, "it began after the first, and before the last");
}

/// Otherwise the only hop of a tunnel would look broken until a client comes.
#[test]
fn good_checks_after_failed_dials_forgive_them() {
    let (mut group, only, now) = (Group::default(), members(&[1]), Instant::now());
    let key = only[0].key;
    let failures = |group: &Group| group.view(key, &[], now).failures;
    let fail = |group: &mut Group| {
        group.began(key, now);
        assert_eq!(group.failed(key, true, now), None);
    };
    (0..5).for_each(|_| assert_eq!(group.checked(key, true, THRESHOLDS, now), None));
    (0..4).for_each(|_| fail(&mut group));
    assert_eq!(group.checked(key, true, THRESHOLDS, now), None);
    assert_eq!(failures(&group), 4, "those before the dials do not count");
    fail(&mut group);
    group.checked(key, true, THRESHOLDS, now);
    assert_eq!(failures(&group), 5);
    assert_eq!(group.checked(key, true, THRESHOLDS, now), None);
    let view = group.view(key, &[], now);
    assert_eq!((view.state, view.failures, view.failing_for), (Availability::Up, 0, None));
    // A failed dial between failed checks does not keep the hop from going down.
    group.checked(key, false, THRESHOLDS, now);
    fail(&mut group);
    group.checked(key, false, THRESHOLDS, now);
    assert_eq!(group.checked(key, false, THRESHOLDS, now), Some(Change::Down));
}

/// Checks pass, and no dial does: the hop is ejected, unless its dials are rarer than `rise` checks.
#[test]
fn a_check_between_failed_dials_does_not_hide_them() {
    let mut two = Two::new();
    assert_eq!((two.fail(0), two.check(0, true), two.fail(0), two.check(0, true)), (None, None, None, None));
    assert_eq!(two.fail(0), Some(Change::Ejected(FIRST_PAUSE)));
}

#[test]
fn the_only_hop_is_never_ejected() {
    let (mut group, only, now) = (Group::default(), members(&[1]), Instant::now());
    for _ in 0..9 {
        group.began(only[0].key, now);
        assert_eq!(group.failed(only[0].key, true, now), None);
    }
    let view = group.view(only[0].key, &[], now);
    assert_eq!((view.state, view.failures, view.flows), (Availability::Up, 9, 0));
}

#[test]
fn a_reload_keeps_the_hops_that_stay_and_those_with_flows() {
    let (mut group, all, now) = (Group::default(), members(&[1, 1, 1]), Instant::now());
    all.iter().for_each(|member| group.measured(member.key, Duration::from_millis(7), now));
    group.began(all[1].key, now);
    group.keep(&all[..1], now);
    let known = |group: &Group, hop: usize| group.view(all[hop].key, &[], now).rtt.is_some();
    assert!(known(&group, 0) && known(&group, 1) && !known(&group, 2));
    group.ended(all[1].key);
    group.keep(&all[..1], now);
    assert!(!known(&group, 1));
}

#[test]
fn a_hop_that_nobody_has_dialled_has_its_state_since_it_came() {
    let (mut group, all, now) = (Group::default(), members(&[1, 1]), Instant::now());
    let [one, three] = [1, 3].map(Duration::from_secs);
    group.keep(&all[..1], now);
    group.keep(&all, now + one);
    assert_eq!([0, 1].map(|hop: usize| group.view(all[hop].key, &[], now + three).age), [three, three - one]);
}
