//! Paths in virtual time: a line with one queue, flows with simple models of BBR and CUBIC, and [`PathCap`] above ours.
//!
//! A step is a millisecond. The models have what matters here: BBR sends at the most that it has seen delivered and probes it now and
//! then; CUBIC fills the queue until a packet is lost.

use super::{PathCap, PathLook, PathState};
use longhaul_units::Rate;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

mod losses;
mod relays;

/// A line and its flows.
struct World {
    /// Bits per second.
    rate: f64,
    /// Round trip without the queue, in ms.
    rtt: usize,
    /// Bytes that the queue can hold.
    room: f64,
    /// Share of segments lost at random.
    loss: f64,
    /// Bursts of losses, besides: time from one to the next and length, in ms, and the share of segments lost.
    bursts: Option<(usize, usize, f64)>,
    /// A policer's rate in bit/s and the tokens in its bucket, in bytes.
    policer: Option<(f64, f64)>,
    /// Largest random addition to a measured round trip, in ms.
    jitter: f64,
    now: usize,
    queue: VecDeque<(usize, f64)>,
    queued: f64,
    /// Acknowledgements that reach a sender in each of the next steps: flow, bytes delivered, bytes lost, round trip in ms.
    under_way: VecDeque<Vec<(usize, f64, f64, f64)>>,
    flows: Vec<Sender>,
    random: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Model {
    Bbr,
    Cubic,
}

struct Sender {
    model: Model,
    is_ours: bool,
    is_on: bool,
    /// The most that its reader takes, in bytes a step.
    reader: f64,
    in_flight: f64,
    /// Bytes.
    window: f64,
    threshold: f64,
    /// Window at the last loss, and the step of it.
    most: f64,
    lost_at: usize,
    /// Most bytes delivered in a step of each of the last round trips.
    rates: VecDeque<f64>,
    round: (usize, f64),
    is_started: bool,
    least_rtt: f64,
    delivered: f64,
    retransmitted: f64,
    rtt: f64,
    deviation: f64,
}

const MSS: f64 = 1448.0;

impl Sender {
    fn new(model: Model, is_ours: bool) -> Sender {
        Sender {
            model,
            is_ours,
            is_on: true,
            reader: f64::INFINITY,
            in_flight: 0.0,
            window: 10.0 * MSS,
            threshold: f64::INFINITY,
            most: 0.0,
            lost_at: 0,
            rates: VecDeque::new(),
            round: (0, 0.0),
            is_started: false,
            least_rtt: f64::INFINITY,
            delivered: 0.0,
            retransmitted: 0.0,
            rtt: 0.0,
            deviation: 0.0,
        }
    }

    /// Returns a CUBIC flow of another program, which begins in the step `now`.
    fn other(now: usize) -> Sender {
        Sender { lost_at: now, round: (now, 0.0), ..Sender::new(Model::Cubic, false) }
    }

    fn switch(&mut self, model: Model) {
        if self.model != model {
            (self.model, self.threshold, self.most) = (model, self.in_flight.max(10.0 * MSS), self.in_flight);
            self.window = self.in_flight.max(10.0 * MSS);
        }
    }

    /// Bytes to send in the step `now`, below `cap` bytes.
    fn sends(&self, now: usize, cap: f64, rtt: usize) -> f64 {
        if !self.is_on {
            return 0.0;
        }
        let most = self.rates.iter().copied().fold(0.0, f64::max);
        match self.model {
            Model::Cubic => (self.window - self.in_flight).clamp(0.0, cap).min(self.window / rtt as f64 * 2.0),
            Model::Bbr if most == 0.0 => (self.window - self.in_flight).clamp(0.0, cap),
            Model::Bbr => {
                let gain = match (self.is_started, now / rtt.max(1) % 8) {
                    (false, _) => 2.89,
                    (true, 0) => 1.25,
                    (true, 1) => 0.75,
                    (true, _) => 1.0,
                };
                let window = 2.0 * most * self.least_rtt.max(1.0);
                (gain * most).min(cap).min((window - self.in_flight).max(0.0))
            }
        }
    }

    fn acked(&mut self, now: usize, bytes: f64, lost: f64, rtt: f64) {
        self.in_flight -= bytes + lost;
        self.delivered += bytes;
        self.retransmitted += lost;
        if bytes > 0.0 {
            self.deviation += ((rtt - self.rtt).abs() - self.deviation) * 0.05;
            self.rtt += (rtt - self.rtt) * if self.rtt == 0.0 { 1.0 } else { 0.1 };
            self.least_rtt = self.least_rtt.min(rtt);
        }
        self.round.1 += bytes;
        let elapsed = now - self.round.0;
        if elapsed as f64 >= self.least_rtt.max(10.0) {
            let rate = self.round.1 / elapsed as f64;
            let most = self.rates.iter().copied().fold(0.0, f64::max);
            // Three round trips without a quarter more end the start.
            self.is_started |= self.rates.len() > 4 && rate < 1.25 * most;
            self.rates.push_back(rate);
            if self.rates.len() > 10 {
                self.rates.pop_front();
            }
            self.round = (now, 0.0);
        }
        if self.model == Model::Cubic {
            self.grow(now, bytes, lost, rtt);
        }
    }

    fn grow(&mut self, now: usize, bytes: f64, lost: f64, rtt: f64) {
        if lost > MSS / 4.0 && (now - self.lost_at) as f64 > rtt {
            (self.most, self.lost_at) = (self.window, now);
            self.window = (0.7 * self.window).max(2.0 * MSS);
            self.threshold = self.window;
        } else if self.window < self.threshold {
            self.window += bytes;
        } else if bytes > 0.0 {
            let t = (now - self.lost_at) as f64 / 1e3;
            let k = (self.most / MSS * 0.3 / 0.4).cbrt();
            let target = (0.4 * (t - k).powi(3)) * MSS + self.most;
            // RFC 9438 4.3: at least as fast as Reno.
            let reno = bytes * 0.53 * MSS / self.window;
            let step = ((target - self.window) / (rtt.max(1.0)) * (bytes / (self.window / rtt.max(1.0)))).max(reno);
            self.window += step.min(bytes / 2.0);
        }
    }
}

impl World {
    fn new(mbit: f64, rtt: usize, room: f64, ours: usize, model: Model) -> World {
        World {
            rate: mbit * 1e6,
            rtt,
            room,
            loss: 0.0,
            bursts: None,
            policer: None,
            jitter: 0.0,
            now: 0,
            queue: VecDeque::new(),
            queued: 0.0,
            under_way: VecDeque::new(),
            flows: (0..ours).map(|_| Sender::new(model, true)).collect(),
            random: 7,
        }
    }

    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the queue in ms.
    fn wait(&self) -> f64 {
        self.queued * 8e3 / self.rate
    }

    fn later(&mut self, flow: usize, after: usize, bytes: f64, lost: f64, rtt: f64) {
        while self.under_way.len() <= after {
            self.under_way.push_back(Vec::new());
        }
        self.under_way[after].push((flow, bytes, lost, rtt));
    }

    /// A millisecond, with a cap for all of our flows.
    fn step(&mut self, cap: Option<f64>) {
        let ours = self.flows.iter().filter(|flow| flow.is_ours && flow.is_on).count().max(1) as f64;
        let share = cap.map_or(f64::INFINITY, |cap| cap / 8e3 / ours);
        if let Some((rate, tokens)) = &mut self.policer {
            *tokens = (*tokens + *rate / 8e3).min(*rate / 8.0 * 0.05);
        }
        let burst = self.bursts.filter(|(every, long, _)| self.now % every < *long).map_or(0.0, |(_, _, part)| part);
        for index in 0..self.flows.len() {
            let flow = &self.flows[index];
            let cap = if flow.is_ours { share } else { f64::INFINITY };
            let bytes = flow.sends(self.now, cap.min(flow.reader), self.rtt);
            if bytes <= 0.0 {
                continue;
            }
            self.flows[index].in_flight += bytes;
            let random = bytes * self.loss.max(burst);
            let mut passes = bytes - random;
            if let Some((_, tokens)) = &mut self.policer {
                passes = passes.min(*tokens);
                *tokens -= passes;
            }
            let fits = passes.min((self.room - self.queued).max(0.0));
            let wait = self.wait();
            if bytes - fits > 0.0 {
                self.later(index, self.rtt + wait as usize, 0.0, bytes - fits, self.rtt as f64 + wait);
            }
            self.queued += fits;
            self.queue.push_back((index, fits));
        }
        let mut sends = self.rate / 8e3;
        while sends > 0.0 {
            let Some((index, bytes)) = self.queue.front_mut() else { break };
            let (index, sent) = (*index, bytes.min(sends));
            *bytes -= sent;
            sends -= sent;
            if *bytes <= 1e-9 {
                self.queue.pop_front();
            }
            self.queued -= sent;
            let rtt = self.rtt as f64 + self.wait() + self.jitter * self.random();
            self.later(index, self.rtt, sent, 0.0, rtt);
        }
        for (index, bytes, lost, rtt) in self.under_way.pop_front().unwrap_or_default() {
            self.flows[index].acked(self.now, bytes, lost, rtt);
        }
        self.now += 1;
    }
}

/// Returns a look at `flows` over a line of `rtt` ms, each with its bytes delivered and retransmitted at the look before. Their round trips
/// are `delayed` ms longer, and a flow that has delivered `share` bytes has sent all that it may.
fn look_at<'a>(
    flows: impl Iterator<Item = (&'a Sender, &'a mut (f64, f64))>,
    rtt: usize,
    delayed: f64,
    share: f64,
) -> PathLook {
    let least_rtt = Some(Duration::from_millis(rtt as u64));
    let mut look = PathLook { segment: MSS as u32, least_rtt, ..PathLook::default() };
    for (flow, seen) in flows {
        let (delivered, lost) = (flow.delivered - seen.0, flow.retransmitted - seen.1);
        *seen = (flow.delivered, flow.retransmitted);
        if delivered > 0.0 {
            let rtt = Duration::from_secs_f64((flow.rtt + delayed) / 1e3);
            if look.rtt.is_none_or(|least| rtt < least) {
                (look.rtt, look.deviation) = (Some(rtt), Duration::from_secs_f64(flow.deviation / 1e3));
            }
            look.active += 1;
        }
        look.delivered += delivered as u64;
        look.retransmitted += lost as u64;
        look.waiting += u32::from(flow.is_on);
        look.rivals += u32::from(flow.is_on && delivered > 0.0);
        look.held += u32::from(flow.is_on && delivered >= 0.92 * share);
    }
    look
}

/// A run of [`World`] below a [`PathCap`].
struct Run {
    world: World,
    path: PathCap,
    start: Instant,
    /// Time between two looks in ms.
    every: usize,
    /// Whether the cap holds.
    is_auto: bool,
    seen: Vec<(f64, f64)>,
    /// For each step: queue in ms, bytes of ours delivered, and of others.
    steps: Vec<(f64, f64, f64)>,
}

impl Run {
    fn new(world: World) -> Run {
        let start = Instant::now();
        Run {
            seen: vec![(0.0, 0.0); world.flows.len() + 8],
            world,
            path: PathCap::begin(start),
            start,
            every: 100,
            is_auto: true,
            steps: Vec::new(),
        }
    }

    fn run(&mut self, seconds: f64) -> &mut Run {
        for _ in 0..(seconds * 1e3) as usize {
            let delivered = |world: &World, ours| {
                world.flows.iter().filter(|flow| flow.is_ours == ours).map(|flow| flow.delivered).sum::<f64>()
            };
            let before = [delivered(&self.world, true), delivered(&self.world, false)];
            self.world.step(self.path.cap().filter(|_| self.is_auto).map(|cap| cap.0 as f64));
            let [ours, others] = [delivered(&self.world, true) - before[0], delivered(&self.world, false) - before[1]];
            self.steps.push((self.world.wait(), ours, others));
            if self.world.now % self.every == 0 {
                self.look();
            }
        }
        self
    }

    fn look(&mut self) {
        let ours = self.world.flows.iter().filter(|flow| flow.is_ours && flow.is_on).count() as f64;
        // A slow flow sends one segment at a time, and its acknowledgement waits for the next one. The lab shows 55 ms for eight flows on
        // 2 Mbit/s: both segments take their time on the line, too.
        let segment = MSS * 8e3 / self.world.rate;
        let delayed = if self.world.rate < 1.2e6 * ours { (ours * segment).min(40.0) + 2.5 * segment } else { 0.0 };
        let share = self.path.cap().map_or(f64::INFINITY, |cap| cap.0 as f64 / 8e3 / ours);
        let flows = self.world.flows.iter().zip(&mut self.seen).filter(|(flow, _)| flow.is_ours);
        let look = look_at(flows, self.world.rtt, delayed, share * self.every as f64);
        let now = self.start + Duration::from_millis(self.world.now as u64);
        self.path.look(now, &look);
        let model = if self.is_auto && self.path.needs_cubic() { Model::Cubic } else { Model::Bbr };
        self.world.flows.iter_mut().filter(|flow| flow.is_ours).for_each(|flow| flow.switch(model));
    }

    /// Mean rate of ours, as a part of the line's, from `from` to `to` seconds.
    fn used(&self, from: f64, to: f64) -> f64 {
        self.mean(from, to, |step| step.1)
    }

    fn others(&self, from: f64, to: f64) -> f64 {
        self.mean(from, to, |step| step.2)
    }

    fn mean(&self, from: f64, to: f64, of: fn(&(f64, f64, f64)) -> f64) -> f64 {
        let steps = &self.steps[(from * 1e3) as usize..(to * 1e3) as usize];
        steps.iter().map(of).sum::<f64>() / steps.len() as f64 * 8e3 / self.world.rate
    }

    /// The 99th percentile of the queue in ms.
    fn p99(&self, from: f64, to: f64) -> f64 {
        let mut waits: Vec<f64> =
            self.steps[(from * 1e3) as usize..(to * 1e3) as usize].iter().map(|step| step.0).collect();
        waits.sort_by(f64::total_cmp);
        waits[waits.len() * 99 / 100]
    }

    /// Seconds from `from` to the last step before `to` at which `is_bad`.
    fn until(&self, from: f64, to: f64, is_bad: impl Fn(&(f64, f64, f64)) -> bool) -> f64 {
        let steps = &self.steps[(from * 1e3) as usize..(to * 1e3) as usize];
        steps.iter().rposition(is_bad).map_or(0.0, |index| (index + 1) as f64 / 1e3)
    }
}

/// Ten paths: Mbit/s, round trip in ms, queue as a part of the bandwidth-delay product, flows. Then the least part of the line, and the
/// longest 99th percentile of the queue in ms.
const PATHS: [(f64, usize, f64, usize, f64, f64); 10] = [
    (200.0, 63, 1.3, 1, 0.95, 20.0),
    (200.0, 63, 1.3, 8, 0.95, 20.0),
    (200.0, 63, 0.2, 8, 0.9, 20.0),
    (200.0, 10, 1.0, 8, 0.9, 20.0),
    (20.0, 63, 1.0, 1, 0.95, 20.0),
    (20.0, 63, 5.0, 8, 0.95, 20.0),
    (20.0, 300, 1.0, 8, 0.9, 20.0),
    (900.0, 63, 1.0, 8, 0.9, 20.0),
    (2.0, 63, 1.0, 8, 0.9, 100.0),
    (2.0, 63, 5.0, 8, 0.9, 100.0),
];

#[test]
fn a_full_line_has_a_short_queue() {
    for (mbit, rtt, products, flows, used, queue) in PATHS {
        let room = (mbit * 1e6 / 8e3 * rtt as f64 * products).max(20.0 * 1500.0);
        let mut run = Run::new(World::new(mbit, rtt, room, flows, Model::Bbr));
        run.run(40.0);
        let (is, waits) = (run.used(8.0, 40.0), run.p99(8.0, 40.0));
        let name = format!("{mbit} Mbit/s, {rtt} ms, {products} products, {flows} flows: {is:.3}, {waits:.1} ms");
        assert!(is >= used && waits <= queue, "{name}");
        assert_eq!(run.path.state().0, PathState::ShortQueue, "{name}");
        let route = run.path.queue(run.start + Duration::from_secs(40)).map(|(route, _)| route.as_millis());
        assert!(
            route.is_some_and(|route| route.abs_diff(rtt as u128) <= 20),
            "{name}: taken for a route of {route:?} ms"
        );
    }
}

fn eight() -> Run {
    let mut run = Run::new(World::new(200.0, 63, 2e6, 8, Model::Bbr));
    run.run(20.0);
    run
}

#[test]
fn a_line_that_becomes_slower_and_faster_is_followed() {
    let mut run = eight();
    run.world.rate = 50e6;
    run.run(20.0);
    assert!(run.until(20.0, 40.0, |step| step.0 > 30.0) <= 2.0 && run.used(30.0, 40.0) >= 0.9);
    run.world.rate = 200e6;
    run.run(20.0);
    assert!(run.used(50.0, 60.0) >= 0.9, "{}", run.used(50.0, 60.0));
}

/// Whenever between two looks the line becomes slower, nobody else is taken for the reason.
#[test]
fn a_line_that_becomes_slower_is_not_shared() {
    for (offset, mbit) in (0..100).step_by(10).flat_map(|offset| [100.0, 50.0, 20.0].map(|mbit| (offset, mbit))) {
        let mut run = eight();
        run.run(f64::from(offset) / 1e3);
        run.world.rate = mbit * 1e6;
        for second in 0..5 {
            run.run(1.0);
            assert_eq!(run.path.state().0, PathState::ShortQueue, "{mbit} Mbit/s, {offset} ms, second {second}");
        }
    }
}

/// A line of a hundredth, such as a mobile one in place of a fibre, is below the least cap of the first.
#[test]
fn a_line_that_becomes_much_slower_is_followed() {
    for is_background in [false, true] {
        let mut run = eight();
        run.run(20.0);
        run.path.set_background(is_background, run.start + Duration::from_secs(20));
        (run.world.rate, run.world.room) = (2e6, 50e3);
        run.run(60.0);
        let (p99, state) = (run.p99(50.0, 80.0), run.path.state().0);
        assert!(p99 < 110.0 && state != PathState::Sharing, "{is_background}: {p99} ms, {state:?}");
    }
}

#[test]
fn a_longer_route_is_no_queue() {
    let mut run = eight();
    run.world.rtt = 90;
    run.run(25.0);
    let slow = (200..450).filter(|tenth| {
        let from = f64::from(*tenth) / 10.0;
        run.used(from, from + 0.1) < 0.5
    });
    assert!(slow.count() <= 20 && run.used(35.0, 45.0) >= 0.9 && run.p99(36.0, 45.0) <= 20.0);
}

/// A CUBIC flow of another program begins after 10 s, and ends 30 s later. The run lasts 60 s.
fn beside_cubic(flows: usize, is_background: bool) -> Run {
    let mut run = Run::new(World::new(200.0, 63, 2e6, flows, Model::Bbr));
    run.path.set_background(is_background, run.start);
    run.run(10.0);
    run.world.flows.push(Sender::other(run.world.now));
    run.run(30.0);
    run.world.flows.last_mut().unwrap().is_on = false;
    run.run(20.0);
    run
}

#[test]
fn beside_another_program_the_line_is_shared_and_the_background_yields() {
    for (flows, fair) in [(1, 1.0 / 2.0), (2, 1.0 / 3.0)] {
        let run = beside_cubic(flows, false);
        let (ours, others) = (run.used(20.0, 40.0), run.others(20.0, 40.0));
        assert!(ours >= 0.6 * (1.0 - fair) && others >= 0.5 * fair, "{flows}: {ours} {others}");
    }
    for (flows, others) in [(1, 0.85), (8, 0.6)] {
        let run = beside_cubic(flows, true);
        assert!(run.others(20.0, 40.0) >= others, "{flows}: {}", run.others(20.0, 40.0));
        assert!(run.used(55.0, 60.0) >= 0.9, "{flows}: {} after its end", run.used(55.0, 60.0));
    }
}

/// One flow of others needs a while to fill a queue that an attempt has emptied. The line stays shared until that flow ends.
#[test]
fn an_attempt_beside_others_is_short() {
    let mut run = Run::new(World::new(200.0, 63, 2e6, 2, Model::Bbr));
    run.run(10.0);
    run.world.flows.push(Sender::other(run.world.now));
    run.run(20.0);
    let is_shared = |run: &mut Run| run.run(1.0).path.state().0 == PathState::Sharing;
    let shared = (30..180).filter(|_| is_shared(&mut run)).count();
    assert!(shared > 120, "{shared} of 150 s");
    let ours = run.used(30.0, 180.0);
    assert!((0.75..0.95).contains(&ours), "{ours}");
    run.world.flows.last_mut().unwrap().is_on = false;
    run.run(70.0);
    assert_eq!(run.path.state().0, PathState::ShortQueue);
    assert!(run.p99(245.0, 250.0) < 20.0, "{}", run.p99(245.0, 250.0));
}

/// All flows fall silent just after an attempt has emptied the queue.
#[test]
fn silence_after_an_attempt_ends_the_sharing() {
    let mut run = Run::new(World::new(200.0, 63, 2e6, 2, Model::Bbr));
    run.run(10.0);
    run.world.flows.push(Sender::other(run.world.now));
    run.run(20.0);
    let has_emptied = |run: &Run| run.path.cap().is_some() && run.world.wait() < 1.0;
    assert!((0..600).any(|_| has_emptied(run.run(0.1))), "no attempt in a minute");
    assert_eq!(run.path.state().0, PathState::Sharing);
    run.world.flows.iter_mut().for_each(|flow| flow.is_on = false);
    assert_eq!(run.run(5.0).path.state().0, PathState::ShortQueue);
}

/// After a pause, a cap far below what the path has had is found anew, and a line that was shared is, too.
#[test]
fn what_was_seen_before_a_pause_is_not_believed_for_ever() {
    let mut run = eight();
    run.path.cap = run.path.cap.map(|cap| 0.1 * cap);
    run.world.flows.iter_mut().for_each(|flow| flow.is_on = false);
    assert_eq!(run.run(3.0).path.state().0, PathState::Searching);
    run.world.flows.iter_mut().for_each(|flow| flow.is_on = true);
    run.run(5.0);
    assert!(run.used(25.0, 28.0) > 0.9, "{}", run.used(25.0, 28.0));

    let mut run = Run::new(World::new(200.0, 63, 2e6, 2, Model::Bbr));
    run.run(10.0);
    run.world.flows.push(Sender::other(run.world.now));
    assert!((0..40).any(|_| run.run(1.0).path.needs_cubic()), "it is not shared");
    run.world.flows.iter_mut().for_each(|flow| flow.is_on = false);
    assert_eq!(run.run(70.0).path.state().0, PathState::Searching);
}

#[test]
fn looks_may_be_rare() {
    let mut run = Run::new(World::new(200.0, 63, 2e6, 8, Model::Bbr));
    run.every = 270;
    run.run(40.0);
    assert!(run.used(10.0, 40.0) >= 0.9, "{}", run.used(10.0, 40.0));
    assert_eq!(run.path.state().0, PathState::ShortQueue);
}

/// A few bytes now and then, whose acknowledgements are late, take the cap of a line that was full before with them no more.
#[test]
fn thin_traffic_says_nothing_about_the_line() {
    let mut run = eight();
    let before = run.path.cap();
    let now = |tenth: u64| run.start + Duration::from_millis(20_000 + 100 * tenth);
    for tenth in 1..100 {
        let rtt = Some(Duration::from_millis(if tenth % 3 == 0 { 64 } else { 100 }));
        run.path.look(now(tenth), &PathLook { rtt, delivered: 100, active: 1, segment: 1448, ..PathLook::default() });
    }
    let cap = run.path.cap().unwrap().0;
    assert!(cap >= before.unwrap().0 / 10 * 9, "{cap} of {before:?}");
}

/// The reader of one flow of eight is slow, so an eighth of the cap is never used.
#[test]
fn a_slow_reader_does_not_keep_the_cap_low() {
    let mut run = eight();
    run.world.flows[0].reader = 1e6 / 8e3;
    run.world.rate = 400e6;
    run.run(20.0);
    assert!(run.used(30.0, 40.0) >= 0.9 && run.p99(30.0, 40.0) <= 20.0, "{}", run.used(30.0, 40.0));
}

/// A queue that others fill for an hour leaves the background its floor.
#[test]
fn the_floor_of_the_background_stays() {
    let mut run = Run::new(World::new(200.0, 63, 2e6, 8, Model::Bbr));
    run.path.set_background(true, run.start);
    run.run(20.0);
    let floor = |path: &PathCap| path.background().map_or(0, |Rate(floor)| floor);
    let (before, segment) = (floor(&run.path), MSS as u32);
    for tenth in 0..36_000_u64 {
        // It is never steady, and never empty.
        let rtt = Some(Duration::from_millis(100 + tenth % 40 * 2));
        let look = PathLook { rtt, delivered: 120_000, active: 8, waiting: 8, segment, ..PathLook::default() };
        run.path.look(run.start + Duration::from_millis(20_000 + 100 * tenth), &look);
    }
    assert!(floor(&run.path) * 10 >= before * 9 && before >= 9_000_000, "{before}: {}", floor(&run.path));
}
