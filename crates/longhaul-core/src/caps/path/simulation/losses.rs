//! Losses that come from no queue: policers, bad lines, bursts and outages.

use super::{MSS, Model, PathCap, PathLook, Run, Sender, World, eight};
use std::time::{Duration, Instant};

#[test]
fn random_losses_and_noise_cost_little_and_a_policer_is_not_exceeded() {
    for loss in [0.001, 0.01] {
        let mut run = Run::new(World { loss, ..World::new(200.0, 63, 2e6, 8, Model::Bbr) });
        run.run(40.0);
        assert!(run.used(8.0, 40.0) >= 0.95, "{loss}: {}", run.used(8.0, 40.0));
    }
    let mut run = Run::new(World { jitter: 20.0, ..World::new(200.0, 63, 2e6, 8, Model::Bbr) });
    run.run(40.0);
    assert!(run.used(8.0, 40.0) >= 0.8, "{}", run.used(8.0, 40.0));
    let mut run = Run::new(World { policer: Some((100e6, 0.0)), ..World::new(200.0, 63, 2e6, 8, Model::Bbr) });
    run.run(40.0);
    let [lost, delivered] = [|flow: &Sender| flow.retransmitted, |flow: &Sender| flow.delivered]
        .map(|of: fn(&Sender) -> f64| run.world.flows.iter().map(of).sum::<f64>());
    assert!(run.used(8.0, 40.0) >= 0.45 && lost / delivered < 0.01, "{} {}", run.used(8.0, 40.0), lost / delivered);
}

#[test]
fn an_outage_is_no_policer() {
    let mut run = eight();
    let before = run.path.cap().unwrap().0 as f64;
    let mut look = |tenth: u64, look: PathLook| {
        run.path.look(
            run.start + Duration::from_millis(20_000 + 100 * tenth),
            &PathLook { segment: 1448, waiting: 8, ..look },
        );
    };
    (1..30).for_each(|tenth| look(tenth, PathLook::default()));
    for tenth in 30..60 {
        let (rtt, retransmitted) = (Some(Duration::from_millis(63)), if tenth < 34 { 500_000 } else { 0 });
        look(tenth, PathLook { rtt, delivered: 2_400_000, retransmitted, active: 8, ..PathLook::default() });
    }
    assert!(run.path.cap().unwrap().0 as f64 >= 0.9 * before, "{:?}", run.path.cap());
}

/// A start sends twice what a policer passes: without a cap, 40 % of all that it sends is lost.
#[test]
fn a_start_that_loses_much_is_capped_before_it_is_a_second_old() {
    let (start, mut path) = (Instant::now(), PathCap::begin(Instant::now()));
    let look = |path: &mut PathCap, tenth: u32, delivered, retransmitted| {
        let rtt = Some(Duration::from_millis(63));
        let look = PathLook { rtt, least_rtt: rtt, delivered, retransmitted, ..PathLook::default() };
        let waits = PathLook { active: 1, waiting: 1, rivals: 1, segment: MSS as u32, ..look };
        path.look(start + tenth * Duration::from_millis(100), &waits);
        path.cap().map(|cap| cap.0 as f64)
    };
    let begin =
        [50_000, 200_000, 800_000].iter().zip(1..).map(|(bytes, tenth)| look(&mut path, tenth, *bytes, 0)).last();
    assert_eq!(begin, Some(None));
    assert_eq!(look(&mut path, 4, 1_200_000, 800_000), None, "the rate still grows");
    let cap = (5..=7).find_map(|tenth| look(&mut path, tenth, 1_200_000, 800_000));
    assert!(cap.is_some_and(|cap| (90e6..=96e6).contains(&cap)), "{cap:?}");
    let mut later = path.clone();
    (8..40).for_each(|tenth| assert!(look(&mut path, tenth, 1_150_000, 0).is_some(), "{tenth}"));
    // A flow that ends before that was found out leaves no cap behind.
    (8..30).for_each(|tenth| later.look(start + tenth * Duration::from_millis(100), &PathLook::default()));
    assert_eq!(later.cap(), None);
}

/// Bytes retransmitted as a part of those delivered, by all flows so far.
fn retransmitted(run: &Run) -> f64 {
    let lost: f64 = run.world.flows.iter().map(|flow| flow.retransmitted).sum();
    lost / run.world.flows.iter().map(|flow| flow.delivered).sum::<f64>()
}

fn begin(run: &mut Run, flows: usize) {
    for _ in 0..flows {
        let mut flow = Sender::new(Model::Bbr, true);
        (flow.lost_at, flow.round.0) = (run.world.now, run.world.now);
        run.world.flows.push(flow);
    }
}

/// Time between two bursts in ms, length of each, and the part that is lost. Then the least part of what the same flows have without a cap.
/// The last one is long enough to be looked into.
const BURSTS: [((usize, usize, f64), f64); 6] = [
    ((5_000, 100, 0.15), 0.9),
    ((5_000, 100, 0.3), 0.9),
    ((5_000, 50, 0.5), 0.9),
    ((3_000, 100, 0.1), 0.9),
    ((10_000, 200, 0.3), 0.9),
    ((10_000, 1_200, 0.05), 0.85),
];

#[test]
fn bursts_of_losses_do_not_lower_the_cap_for_ever() {
    for (bursts, least) in BURSTS {
        let mut runs = [false, true].map(|is_auto| {
            let world = World { bursts: Some(bursts), ..World::new(200.0, 63, 2e6, 8, Model::Bbr) };
            Run { is_auto, ..Run::new(world) }
        });
        let [without, with] = runs.each_mut().map(|run| run.run(200.0).used(0.0, 200.0));
        let parts =
            [0.0, 50.0, 100.0, 150.0].map(|from| runs[1].used(from, from + 50.0) / runs[0].used(from, from + 50.0));
        assert!(with >= least * without && parts[3] >= least, "{bursts:?}: {with:.3} of {without:.3}, {parts:.2?}");
    }
}

/// Seconds that four bulk flows need to 0.9 of the line. They begin 10 s after an end of thin traffic, which a `glitch` may have disturbed.
fn bulk_after_thin_traffic(has_bulk_before: bool, glitch: Option<(f64, f64)>) -> f64 {
    let mut run = Run::new(World::new(200.0, 63, 2e6, 2, Model::Bbr));
    run.world.flows[0].reader = 4e6 / 8e3;
    if has_bulk_before {
        run.run(10.0);
    }
    run.world.flows[1].is_on = false;
    run.run(15.0);
    let (time, part) = glitch.unwrap_or((0.3, 0.0));
    run.world.loss = part;
    run.run(time);
    run.world.loss = 0.0;
    run.run(10.0);
    begin(&mut run, 4);
    let from = run.steps.len();
    run.run(60.0);
    let has_most = |step: &usize| run.steps[*step..*step + 1_000].iter().map(|step| step.1).sum::<f64>() * 8.0 >= 180e6;
    (from..run.steps.len() - 1_000).find(has_most).map_or(f64::INFINITY, |step| (step - from) as f64 / 1e3)
}

#[test]
fn a_glitch_of_thin_traffic_is_no_cap_for_the_bulk() {
    for has_bulk_before in [false, true] {
        let without = bulk_after_thin_traffic(has_bulk_before, None);
        for (glitch, more) in [((0.3, 0.3), 1.0), ((1.5, 0.3), 17.0)] {
            let with = bulk_after_thin_traffic(has_bulk_before, Some(glitch));
            assert!(with <= without + more, "{has_bulk_before} {glitch:?}: {with} s, {without} s without");
        }
    }
}

/// Light traffic comes first, so the path is no new one, and the bulk's start still doubles when its first losses are seen.
#[test]
fn a_start_after_light_traffic_is_capped_by_what_the_policer_passes() {
    for every in [100, 240] {
        let mut run = Run::new(World { policer: Some((100e6, 0.0)), ..World::new(200.0, 63, 2e6, 1, Model::Bbr) });
        run.every = every;
        run.world.flows[0].reader = 25.0;
        run.run(5.0);
        run.world.flows[0].is_on = false;
        begin(&mut run, 2);
        let first = (0..100).find_map(|_| {
            run.run(0.1);
            run.path.cap().map(|cap| cap.0 as f64)
        });
        run.run(35.0);
        assert!(first.is_some_and(|cap| (90e6..=105e6).contains(&cap)), "{every}: {first:?}");
        assert!(run.used(10.0, 40.0) >= 0.45, "{every}: {}", run.used(10.0, 40.0));
        assert!(retransmitted(&run) < if every > 100 { 0.02 } else { 0.01 }, "{every}: {}", retransmitted(&run));
    }
}

#[test]
fn a_policer_that_becomes_slower_is_found_again() {
    for flows in [1, 8] {
        let mut run = Run::new(World { policer: Some((100e6, 0.0)), ..World::new(200.0, 63, 2e6, flows, Model::Bbr) });
        run.run(120.0);
        run.world.policer = Some((50e6, 0.0));
        run.run(60.0);
        assert!(run.used(130.0, 180.0) >= 0.9 * 0.25 && retransmitted(&run) < 0.01, "{flows}: {}", retransmitted(&run));
    }
}
