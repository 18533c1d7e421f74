//! The divider in virtual time, with simulated flows whose sockets keep their limits exactly, or as the kernel does in
//! segments.

use super::divider::{Caps, Divider, Member, Offer};
use super::meter::Sample;
use longhaul_units::Rate;
use std::time::{Duration, Instant};

const CAP: Rate = Rate(200_000_000);
const TICK: Duration = Duration::from_millis(25);
const STEP: Duration = Duration::from_millis(1);
/// The first ten segments of a connection, which the kernel does not pace.
const UNPACED: f64 = 14_480.0;

/// A flow of one direction.
#[derive(Clone, Copy)]
struct Flow {
    /// Rate at which the source brings bytes.
    source: Rate,
    /// Rate of the path, or of the reader.
    path: Rate,
    /// Number of bytes after which the flow ends.
    length: f64,
    produced: f64,
    taken: f64,
    sent: f64,
    limit: Option<Rate>,
    /// The kernel's pacing. `None` sends any part of a byte at the limit.
    segments: Option<Segments>,
}

/// Pacing of whole segments, as the kernel does it (net/ipv4/tcp_output.c, tcp_update_skb_after_send): a segment is charged
/// when it is sent, at the rate of that moment. A lower limit changes that rate at once, a higher one with the next ACK.
#[derive(Clone, Copy)]
struct Segments {
    bytes: f64,
    rate: Option<Rate>,
    /// Time in seconds until the last segment is paid for.
    due: f64,
}

/// A flow whose source and path are as fast as can be.
const GREEDY: Flow = Flow {
    source: Rate(10_000_000_000),
    path: Rate(1_000_000_000),
    length: f64::INFINITY,
    produced: 0.0,
    taken: 0.0,
    sent: 0.0,
    limit: None,
    segments: None,
};

/// Size of a send buffer.
const BUFFER: f64 = 256_000.0;

impl Flow {
    fn step(&mut self) {
        let bytes = |rate: Rate| rate.0 as f64 / 8.0 * STEP.as_secs_f64();
        self.produced = (self.produced + bytes(self.source)).min(self.length);
        self.taken = self.produced.min(self.sent + BUFFER);
        if let Some(segments) = self.segments.as_mut().filter(|_| self.sent >= UNPACED) {
            self.sent += segments.step(self.limit, self.taken - self.sent);
            return;
        }
        let rate = self.limit.map_or(self.path, |limit| limit.min(self.path));
        let unpaced = (UNPACED - self.sent).max(0.0).min(bytes(self.path));
        self.sent = (self.sent + unpaced.max(bytes(rate))).min(self.taken);
    }

    fn set(&mut self, limit: Option<Rate>) {
        self.limit = limit;
        if let Some(segments) = &mut self.segments {
            segments.rate = segments.rate.into_iter().chain(limit).min();
        }
    }

    fn sample(&self) -> Sample {
        let is_blocked = self.produced - self.taken >= 1.0;
        Sample { taken: self.taken as u64, unsent: (self.taken - self.sent) as u64, is_blocked }
    }
}

impl Segments {
    /// Returns the number of bytes sent of those that `wait`. Their ACK comes within the step.
    fn step(&mut self, limit: Option<Rate>, wait: f64) -> f64 {
        self.due = (self.due - STEP.as_secs_f64()).max(0.0);
        if self.due > 0.0 || wait < self.bytes {
            return 0.0;
        }
        self.due = self.rate.map_or(0.0, |rate| self.bytes * 8.0 / rate.0 as f64);
        self.rate = limit;
        self.bytes
    }
}

/// The flows below one cap.
struct World {
    now: Instant,
    divider: Divider,
    /// For flows that begin before the next look.
    offer: Offer,
    /// Number of flows that have begun and ended since the last look.
    begun: u64,
    over: u64,
    flows: Vec<Flow>,
    members: Vec<Member>,
    /// Bytes of flows that have ended.
    ended: f64,
}

impl World {
    fn new(flows: &[Flow]) -> World {
        let divider = Divider::new(&Caps { all: None, tunnels: vec![Some(CAP)] });
        let (now, offer) = (Instant::now(), Offer::first(Some(CAP)));
        let mut world =
            World { now, divider, offer, begun: 0, over: 0, flows: Vec::new(), members: Vec::new(), ended: 0.0 };
        flows.iter().for_each(|flow| world.begin(*flow));
        world
    }

    fn begin(&mut self, flow: Flow) {
        let limit = self.offer.share(self.begun, self.over);
        self.begun += 1;
        // The socket has its first limit before its first byte.
        let segments = flow.segments.map(|segments| Segments { rate: limit, ..segments });
        self.flows.push(Flow { limit, segments, ..flow });
        self.members.push(Member::begin(0, None, self.now, flow.sent as u64, limit));
    }

    /// Runs for `time`. Calls `each` in every step.
    fn run(&mut self, time: Duration, mut each: impl FnMut(&mut World)) {
        for _ in 0..time.as_millis() / TICK.as_millis() {
            for _ in 0..TICK.as_millis() / STEP.as_millis() {
                self.flows.iter_mut().for_each(Flow::step);
                self.now += STEP;
                each(self);
            }
            self.look();
        }
    }

    fn look(&mut self) {
        for (flow, member) in self.flows.iter().zip(&mut self.members) {
            self.divider.look(member, self.now, &flow.sample());
        }
        self.divider.divide(TICK, &mut self.members);
        for (flow, member) in self.flows.iter_mut().zip(&mut self.members) {
            if let Some(limit) = member.news() {
                flow.set(limit);
            }
        }
        self.offer = self.divider.offers().1.next().unwrap_or_default();
        (self.begun, self.over) = (0, 0);
    }

    /// Removes the flows that have sent everything.
    fn end_finished(&mut self) -> usize {
        let before = self.flows.len();
        for index in (0..before).rev() {
            if self.flows[index].sent < self.flows[index].length {
                continue;
            }
            let flow = self.flows.swap_remove(index);
            let mut member = self.members.swap_remove(index);
            self.ended += flow.sent;
            self.over += 1;
            self.divider.look(&mut member, self.now, &flow.sample());
        }
        before - self.flows.len()
    }

    fn sent(&self) -> f64 {
        self.ended + self.flows.iter().map(|flow| flow.sent).sum::<f64>()
    }

    /// Runs for `time` and returns the mean rate as a part of the cap, of all flows and of the first one.
    fn rates(&mut self, time: Duration, each: impl FnMut(&mut World)) -> (f64, f64) {
        let first = |world: &World| world.flows.first().map_or(0.0, |flow| flow.sent);
        let before = (self.sent(), first(self));
        self.run(time, each);
        let part = |bytes: f64| bytes * 8.0 / time.as_secs_f64() / CAP.0 as f64;
        (part(self.sent() - before.0), part(first(self) - before.1))
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_cap_holds_for_any_number_of_greedy_flows() {
    for count in [1, 8, 100, 1000] {
        let mut world = World::new(&vec![GREEDY; count]);
        // A flow of its own sends ten segments and a buffer before anybody looks.
        let (start, _) = world.rates(seconds(2), |_| {});
        let (then, first) = world.rates(seconds(10), |_| {});
        assert!((0.9..1.1).contains(&start), "{count}: {start} in the first two seconds");
        assert!((0.99..1.01).contains(&then), "{count}: {then}");
        let fair = 1.0 / count as f64;
        assert!((0.9 * fair..1.1 * fair).contains(&first), "{count}: {first}");
    }
}

/// The account must not lower the limits after each segment of a slow flow.
#[test]
fn a_small_cap_holds_for_flows_that_send_whole_segments() {
    // Two segments of the MSS, and the 64 kB that the kernel sends on a short path.
    for (cap, count, bytes) in [(1_000_000, 20, 2_896.0), (1_000_000, 2, 65_160.0), (5_000_000, 10, 65_160.0)] {
        let segments = Some(Segments { bytes, rate: None, due: 0.0 });
        let mut world = World::new(&vec![Flow { segments, ..GREEDY }; count]);
        world.divider.set(&Caps { all: None, tunnels: vec![Some(Rate(cap))] });
        world.run(seconds(40), |_| {});
        let (all, _) = world.rates(seconds(240), |_| {});
        let all = all * CAP.0 as f64 / cap as f64;
        assert!((0.95..1.02).contains(&all), "{all} of {cap} bit/s with {count} flows and segments of {bytes} bytes");
    }
}

/// Returns an endless flow that the kernel sends in whole segments.
fn in_segments() -> Flow {
    Flow { segments: Some(Segments { bytes: SEGMENT, rate: None, due: 0.0 }), ..GREEDY }
}

/// Returns a flow that sends nothing until its `produced` grows, and then whole segments.
fn silent() -> Flow {
    Flow { source: Rate(0), produced: UNPACED, taken: UNPACED, sent: UNPACED, ..in_segments() }
}

/// Two segments of the MSS.
const SEGMENT: f64 = 2.0 * MSS;
const MSS: f64 = 1_448.0;

/// Returns the flows below a small `cap`, five seconds later.
fn below(cap: u64, flows: &[Flow]) -> World {
    let mut world = World::new(flows);
    world.divider.set(&Caps { all: None, tunnels: vec![Some(Rate(cap))] });
    world.run(seconds(5), |_| {});
    world
}

/// Lets a flow send at least four seconds at `cap`. Returns the part of the cap that it gets until it has sent everything.
fn burst(world: &mut World, flow: usize, cap: u64) -> f64 {
    let bytes = (cap as f64 / 8.0 * 4.0 / SEGMENT).ceil().max(12.0) * SEGMENT;
    let (begin, goal) = (world.now, world.flows[flow].sent + bytes);
    world.flows[flow].produced = goal;
    let mut end = None;
    world.run(seconds(12), |world| end = end.or((world.flows[flow].sent > goal - 1.0).then_some(world.now)));
    end.map_or(0.0, |end| bytes * 8.0 / (end - begin).as_secs_f64() / cap as f64)
}

/// A flow's limit must not stay an equal share of the cap, however small that is.
#[test]
fn a_burst_beside_flows_that_send_nothing_gets_the_cap() {
    let stuck = Flow { path: Rate(0), ..GREEDY };
    for (cap, silent_flows, stuck_flows) in [
        (1_000_000, 100, 0),
        (1_000_000, 1000, 0),
        (1_000_000, 0, 100),
        (2_000_000, 30, 0),
        (4_000_000, 200, 0),
        (10_000_000, 1000, 0),
    ] {
        let mut flows = vec![silent(); silent_flows + 2];
        flows.extend(vec![stuck; stuck_flows]);
        let mut world = below(cap, &flows);
        for flow in [0, 0, 1] {
            let part = burst(&mut world, flow, cap);
            let others = format!("{silent_flows} silent and {stuck_flows} stuck flows");
            assert!((0.85..1.15).contains(&part), "{part} of {cap} bit/s beside {others}");
        }
    }
}

/// Returns the part of a small `cap` that is sent in `time`.
fn used(world: &mut World, cap: u64, time: Duration, each: impl FnMut(&mut World)) -> f64 {
    world.rates(time, each).0 * CAP.0 as f64 / cap as f64
}

#[test]
fn silent_flows_that_all_begin_to_send_exceed_the_cap_by_a_segment_or_two_each() {
    for (cap, count) in [(1_000_000, 30), (1_000_000, 100), (10_000_000, 100)] {
        let mut world = below(cap, &vec![silent(); count]);
        world.flows.iter_mut().for_each(|flow| flow.source = GREEDY.source);
        let first = used(&mut world, cap, seconds(1), |_| {});
        let segments = 2.0 * count as f64 * SEGMENT * 8.0 / cap as f64;
        assert!(first < segments.max(1.2) + 0.01, "{first} of {cap} bit/s with {count} flows in the first second");
        world.run(seconds(60), |_| {});
        let then = used(&mut world, cap, seconds(200), |_| {});
        assert!((0.9..1.02).contains(&then), "{then} of {cap} bit/s with {count} flows");
    }
}

/// Such flows rarely wait at a look, so only the account sees them.
#[test]
fn flows_that_send_a_segment_now_and_then_keep_the_cap() {
    for (cap, count) in [(1_000_000, 100), (1_000_000, 1000)] {
        let mut world = below(cap, &vec![silent(); count]);
        // A segment of each flow in turn: twice as many as the cap allows.
        let pause = (SEGMENT * 4_000.0 / cap as f64) as usize;
        let mut step = 0;
        let mut each = |world: &mut World| {
            step += 1;
            if step % pause == 0 {
                let flow = &mut world.flows[(step / pause) % count];
                flow.produced = (flow.produced + SEGMENT).min(flow.sent + BUFFER);
            }
        };
        world.run(seconds(30), &mut each);
        let all = used(&mut world, cap, seconds(100), &mut each);
        assert!((0.7..1.1).contains(&all), "{all} of {cap} bit/s with {count} flows");
    }
}

/// Such as the tunnel's own probes. A flow would pay for a segment at a rate that the account has lowered after each of them.
#[test]
fn short_flows_that_are_not_paced_leave_the_rest_of_a_small_cap() {
    let mut world = below(1_000_000, &vec![in_segments(); 20]);
    let mut step = 0;
    let mut each = |world: &mut World| {
        world.end_finished();
        step += 1;
        if step % (5 * seconds(1).as_millis() / STEP.as_millis()) == 0 {
            world.begin(Flow { length: 7_500.0, ..GREEDY });
        }
    };
    world.run(seconds(40), &mut each);
    let all = used(&mut world, 1_000_000, seconds(200), &mut each);
    assert!((0.85..1.05).contains(&all), "{all}");
}

/// The next segment is charged before the look that sees the flow, so the flow pays for it at an equal share.
#[test]
fn a_burst_beside_a_busy_flow_and_silent_ones_pays_for_one_segment_at_an_equal_share() {
    for (cap, silent_flows) in [(1_000_000, 100), (1_000_000, 1000)] {
        let mut world = below(cap, &[in_segments()]);
        (0..silent_flows).for_each(|_| world.begin(Flow { sent: 0.0, ..silent() }));
        world.run(seconds(60), |_| {});
        let (begin, start) = (world.now, world.flows[1].sent);
        world.flows[1].produced = start + 4.0 * SEGMENT;
        let (mut second, mut last) = (None, None);
        world.run(seconds(60), |world| {
            let sent = world.flows[1].sent - start;
            second = second.or((sent > 1.5 * SEGMENT).then_some(world.now));
            last = last.or((sent > 3.5 * SEGMENT).then_some(world.now));
        });
        let after = |end: Option<Instant>| end.map_or(f64::INFINITY, |end| (end - begin).as_secs_f64());
        let (second, last) = (after(second), after(last));
        let equal = SEGMENT * 8.0 * (silent_flows + 1) as f64 / cap as f64;
        let what = format!("{second} s and {last} s at {cap} bit/s beside {silent_flows} silent flows");
        assert!((0.95 * equal..1.05 * equal).contains(&second), "{what}");
        // Two greedy flows share the cap then.
        assert!(last < second + 5.0 * SEGMENT * 8.0 / cap as f64 + 0.5, "{what}");
    }
}

/// Returns a flow that has `bytes` to send.
fn request(bytes: f64) -> Flow {
    let segments = Some(Segments { bytes: MSS, rate: None, due: 0.0 });
    let length = bytes.min(UNPACED) + ((bytes - UNPACED).max(0.0) / MSS).ceil() * MSS;
    Flow { length, produced: length, segments, ..GREEDY }
}

/// Each connection begins with bytes that are not paced. Only a low capacity makes up for them, as long as the load lasts.
#[test]
fn requests_of_many_clients_keep_a_small_cap() {
    let holds = 0.9..1.1;
    for (cap, at_once, bytes, expected) in [
        (1_000_000, 20, 22_000.0, holds.clone()),
        (1_000_000, 20, 30_000.0, holds.clone()),
        (1_000_000, 50, 100_000.0, holds.clone()),
        (10_000_000, 100, 22_000.0, holds.clone()),
        (10_000_000, 300, 30_000.0, holds.clone()),
        (10_000_000, 300, 50_000.0, holds.clone()),
        // Even at a quarter of the cap, the paced bytes take too little time.
        (1_000_000, 20, 20_000.0, 1.1..1.25),
        (10_000_000, 100, 20_000.0, 1.1..1.25),
        (10_000_000, 100, 17_000.0, 2.7..3.3),
        // The unpaced bytes of all clients are more than the account remembers.
        (1_000_000, 100, 30_000.0, 0.9..1.3),
    ] {
        let mut world = below(cap, &[]);
        let mut due = vec![world.now; at_once];
        let mut each = |world: &mut World| {
            due.extend(vec![world.now + 20 * STEP; world.end_finished()]);
            let now = world.now;
            let before = due.len();
            due.retain(|at| *at > now);
            (0..before - due.len()).for_each(|_| world.begin(request(bytes)));
        };
        world.run(seconds(40), &mut each);
        let all = used(&mut world, cap, seconds(120), &mut each);
        assert!(expected.contains(&all), "{all} of {cap} bit/s with {at_once} clients of {bytes} bytes");
    }
}

/// The short flows alone take half of the cap, or seven tenths. The endless ones must leave room for them.
#[test]
fn short_flows_beside_endless_ones_keep_a_small_cap() {
    for (cap, count, bytes, pause) in
        [(1_000_000, 20, 14_000.0, 224), (1_000_000, 20, 14_000.0, 160), (1_000_000, 20, 20_000.0, 229)]
    {
        let mut world = below(cap, &vec![in_segments(); count]);
        let mut step = 0;
        let mut each = |world: &mut World| {
            world.end_finished();
            step += 1;
            // One step is a millisecond.
            if step % pause == 0 {
                world.begin(request(bytes));
            }
        };
        world.run(seconds(40), &mut each);
        let all = used(&mut world, cap, seconds(120), &mut each);
        let what = format!("{count} endless flows and one of {bytes} bytes each {pause} ms");
        assert!((0.9..1.1).contains(&all), "{all} of {cap} bit/s with {what}");
    }
}

#[test]
fn a_greedy_flow_gets_what_quiet_ones_leave() {
    let mut flows = vec![GREEDY; 1];
    flows.extend(vec![Flow { source: Rate(100_000), ..GREEDY }; 99]);
    let mut world = World::new(&flows);
    world.run(seconds(2), |_| {});
    let (all, greedy) = world.rates(seconds(10), |_| {});
    assert!((0.97..1.01).contains(&all) && greedy >= 0.92, "{all} {greedy}");
}

#[test]
fn quiet_flows_that_burst_take_little_from_a_greedy_one() {
    let mut flows = vec![GREEDY; 1];
    flows.extend(vec![Flow { source: Rate(0), ..GREEDY }; 99]);
    let mut world = World::new(&flows);
    let mut step = 0;
    // Each quiet flow sends 12.5 kB once a second, 10 ms after the one before.
    let mut burst = |world: &mut World| {
        step += 1;
        if step % 10 == 0 {
            world.flows[1 + (step / 10) % 99].produced += 12_500.0;
        }
    };
    world.run(seconds(3), &mut burst);
    let (all, greedy) = world.rates(seconds(10), &mut burst);
    assert!((0.95..1.01).contains(&all) && greedy >= 0.9, "{all} {greedy}");
}

#[test]
fn flows_that_path_or_reader_hold_back_do_not_keep_their_share() {
    let mut flows = vec![GREEDY; 1];
    flows.extend(vec![Flow { path: Rate(1_000_000), ..GREEDY }; 20]);
    flows.extend(vec![Flow { path: Rate(0), ..GREEDY }; 20]);
    let mut world = World::new(&flows);
    world.run(seconds(2), |_| {});
    let (all, greedy) = world.rates(seconds(10), |_| {});
    assert!((0.97..1.01).contains(&all) && greedy >= 0.85, "{all} {greedy}");
}

#[test]
fn a_changed_cap_holds_within_a_second() {
    let mut world = World::new(&[GREEDY; 8]);
    world.run(seconds(3), |_| {});
    world.divider.set(&Caps { all: None, tunnels: vec![Some(Rate(CAP.0 / 10))] });
    world.run(seconds(1), |_| {});
    let (all, _) = world.rates(seconds(1), |_| {});
    assert!((0.08..0.11).contains(&all), "{all} of the old cap");
    world.divider.set(&Caps { all: None, tunnels: vec![None] });
    world.run(TICK, |_| {});
    assert!(world.flows.iter().all(|flow| flow.limit.is_none()), "no cap any more");
    world.divider.set(&Caps { all: None, tunnels: vec![Some(CAP)] });
    world.run(seconds(1), |_| {});
    let (all, _) = world.rates(seconds(2), |_| {});
    assert!((0.9..1.1).contains(&all), "{all}");
}

#[test]
fn a_flow_that_wakes_up_has_its_share_within_a_second() {
    let mut world = World::new(&[GREEDY, Flow { source: Rate(0), ..GREEDY }]);
    world.run(seconds(5), |_| {});
    world.flows[1].source = GREEDY.source;
    world.run(seconds(1), |_| {});
    let (all, first) = world.rates(seconds(2), |_| {});
    assert!((0.95..1.05).contains(&all) && (0.45..0.55).contains(&first), "{all} {first}");
}

#[test]
fn requests_on_new_connections_keep_the_cap() {
    for at_once in [1, 8, 50] {
        let request = Flow { length: 100_000.0, produced: 100_000.0, ..GREEDY };
        let mut world = World::new(&vec![request; at_once]);
        // A connection takes two milliseconds until it sends.
        let mut due = Vec::new();
        let mut each = |world: &mut World| {
            due.extend(vec![world.now + 2 * STEP; world.end_finished()]);
            let now = world.now;
            let before = due.len();
            due.retain(|at| *at > now);
            (0..before - due.len()).for_each(|_| world.begin(request));
        };
        world.run(seconds(3), &mut each);
        let (all, _) = world.rates(seconds(10), &mut each);
        // A single client waits for its answer before it asks again. With the most that the account gives, it can reach 0.7.
        let least = if at_once == 1 { 0.65 } else { 0.95 };
        assert!((least..1.05).contains(&all), "{at_once}: {all}");
    }
}
