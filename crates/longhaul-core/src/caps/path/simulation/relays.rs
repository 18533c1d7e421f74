//! Two relays on one line.

use super::*;
use std::ops::Range;

/// The least model: both are acknowledged in proportion to what they send while there is a queue. Their drains take a part of each; only
/// steps that are the same for both bring them together.
#[test]
fn two_relays_on_one_line_come_to_equal_shares() {
    let (start, line, first) = (Instant::now(), 200e6, [50e6, 160e6]);
    let (mut paths, mut queue, mut carried) = ([PathCap::begin(start), PathCap::begin(start)], 0.0, Vec::new());
    for look in 1..=1_200 {
        let sends = [0, 1].map(|index: usize| paths[index].cap().map_or(first[index], |cap| cap.0 as f64));
        let all: f64 = sends.iter().sum();
        queue = f64::max(queue + (all / line - 1.0) * 0.1, 0.0);
        let part = if queue > 0.0 { line / all } else { 1.0 };
        for (path, sent) in paths.iter_mut().zip(sends) {
            let rtt = Some(Duration::from_secs_f64(0.063 + queue));
            let delivered = (sent * part / 8.0 * 0.1) as u64;
            let look_at =
                PathLook { rtt, least_rtt: Some(Duration::from_millis(63)), delivered, ..PathLook::default() };
            let all_wait = PathLook { active: 4, waiting: 4, held: 4, rivals: 4, segment: MSS as u32, ..look_at };
            path.look(start + look * Duration::from_millis(100), &all_wait);
        }
        carried.push((sends[0] * part, all * part));
    }
    assert!(paths.iter().all(|path| path.state().0 == PathState::ShortQueue));
    let [first, all] = [|one: &(f64, f64)| one.0, |one: &(f64, f64)| one.1]
        .map(|of: fn(&(f64, f64)) -> f64| carried[900..].iter().map(of).sum::<f64>() / 300.0);
    assert!((0.4..0.6).contains(&(first / all)) && all > 0.95 * line, "{} of {}", first / all, all / line);
}

/// The second begins `late` ms after the first one; its looks are `phase` ms later. A CUBIC flow of another program is there `outside`, in ms.
/// Returns the queue in ms, and whether a relay shares the line, of each of `steps`.
fn two_relays(late: usize, phase: usize, outside: Range<usize>, steps: usize) -> Vec<(f64, bool)> {
    let (start, mut world) = (Instant::now(), World::new(200.0, 63, 2e6, 8, Model::Bbr));
    let (mut paths, mut seen) = ([PathCap::begin(start), PathCap::begin(start)], [(0.0, 0.0); 8]);
    world.jitter = 1.0;
    world.flows.push(Sender::other(outside.start));
    let step = |now: usize| {
        let shares = paths.each_ref().map(|path| path.cap().map_or(f64::INFINITY, |cap| cap.0 as f64 / 8e3 / 4.0));
        world.flows[8].is_on = outside.contains(&now);
        for (index, flow) in world.flows.iter_mut().take(8).enumerate() {
            // The cap of its own relay limits it, as a reader would.
            (flow.is_on, flow.reader) = (index < 4 || now >= late, shares[index / 4]);
            flow.switch(if paths[index / 4].needs_cubic() { Model::Cubic } else { Model::Bbr });
        }
        world.step(None);
        for (side, path) in paths.iter_mut().enumerate().filter(|(side, _)| (world.now + side * phase) % 100 == 0) {
            let flows = world.flows.iter().zip(&mut seen).skip(4 * side).take(4);
            let look = look_at(flows, world.rtt, 0.0, shares[side] * 100.0);
            path.look(start + Duration::from_millis(world.now as u64), &look);
        }
        (world.wait(), paths.iter().any(|path| path.state().0 == PathState::Sharing))
    };
    (0..steps).map(step).collect()
}

/// The first one may take the second one for a program that fills the queue. That ends soon, because the queue stays short.
#[test]
fn a_relay_that_begins_later_is_no_other_program() {
    for (late, phase) in [0, 100, 200, 400, 600, 1_000, 2_000, 4_000, 7_000]
        .into_iter()
        .flat_map(|late| [(late, 0), (late, 31), (late, 62)])
    {
        let steps = two_relays(late, phase, 0..0, 60_000);
        let shared = steps.iter().filter(|(_, is_shared)| *is_shared).count();
        let mut queue: Vec<f64> = steps[15_000..].iter().map(|(queue, _)| *queue).collect();
        queue.sort_by(f64::total_cmp);
        let p99 = queue[queue.len() * 99 / 100];
        assert!(shared < 20_000 && p99 < 20.0, "{late} ms later, {phase}: shared for {shared} ms, queue {p99} ms");
    }
}

/// Each of two relays that share the line would take the other one for the program, if they did not try together.
#[test]
fn two_relays_do_not_share_for_ever() {
    for (late, phase, end) in
        [(0, 0, 50_000), (0, 31, 63_000), (1_000, 62, 77_000), (4_000, 31, 50_000), (4_000, 62, 63_000)]
    {
        let steps = two_relays(late, phase, 20_000..end, end + 150_000);
        let last = steps.iter().rposition(|(_, is_shared)| *is_shared).unwrap_or(0);
        assert!(steps[..end].iter().any(|(_, is_shared)| *is_shared), "{late} {phase} {end}");
        assert!(
            last < end + 120_000,
            "{late} ms later, {phase}: shared until {} s after the end",
            (last - end) / 1_000
        );
    }
}
