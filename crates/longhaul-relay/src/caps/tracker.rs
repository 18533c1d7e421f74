//! The thread that looks at the flows below caps, and sets their limits.
//!
//! It looks 40 times a second while bytes move, 11 times if `bandwidth = "auto"` alone has one busy flow, four times a second while bytes
//! do not move, and not at all once no such flow is left. With thousands of flows it looks less often, so that it never takes more than a
//! few percent of a processor. A flow that has not moved a byte since the last look costs a few loads, any other one system call for each
//! direction.

use super::desk::{Begun, FEW, News, Offers, Shared, pace};
use super::paths::{EVERY, MANY_FLOWS, Paths, Sink, WAYS, sink_of, sources};
use super::rules::Rules;
use crate::live::flow::Flow;
use crate::lock::lock;
use longhaul_config::options::Leg;
use longhaul_core::caps::{Caps, Divider, Member, Offer, Sample};
use longhaul_sys::tcp_info::{TcpInfo, unsent};
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// State of the thread.
pub(super) struct Tracker {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    caps: Caps,
    /// Time when the caps were computed from the schedule.
    computed: Instant,
    flows: Vec<Arc<Flow>>,
    /// Their numbers.
    numbers: HashSet<u64>,
    /// The directions of `flows`, in the same order; by [`sources`].
    members: [Vec<Member>; 2],
    /// Their sinks, in the same order.
    sinks: [Vec<Sink>; 2],
    dividers: [Divider; 2],
    /// The paths of each direction, and whether they have caps now.
    paths: [Paths; 2],
    is_auto: bool,
    /// Time of the last log line about a path, and the direction of that path.
    logged: Option<Instant>,
    logged_direction: usize,
    /// Number of flows that had moved or waited at the last look.
    busy: usize,
    /// Time of the last division.
    divided: Instant,
    /// Time when a byte was last seen to move.
    moved: Instant,
}

/// A direction of a flow, and its sink.
type Side = (Member, Sink);

/// A wait between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    /// `None` waits for news alone.
    time: Option<Duration>,
    /// Whether a flow that begins ends it.
    is_drowsy: bool,
}

impl Tracker {
    /// Returns the state before the first look.
    pub(super) fn new(shared: Arc<Shared>) -> Tracker {
        let (caps, now) = (Caps::default(), Instant::now());
        Tracker {
            shared,
            rules: Arc::default(),
            dividers: [Divider::new(&caps), Divider::new(&caps)],
            caps,
            computed: now,
            flows: Vec::new(),
            numbers: HashSet::new(),
            members: [Vec::new(), Vec::new()],
            sinks: [Vec::new(), Vec::new()],
            paths: Default::default(),
            is_auto: false,
            logged: None,
            logged_direction: 0,
            busy: 0,
            divided: now,
            moved: now,
        }
    }

    /// Looks at the flows for ever.
    pub(super) fn run(mut self) -> ! {
        loop {
            let Pause { time, is_drowsy } = self.pause(Instant::now());
            let news = self.shared.wait(time, is_drowsy);
            if time.is_none() {
                self.wake_up(Instant::now());
            }
            self.take(news);
            self.look(Instant::now());
        }
    }

    fn pause(&self, now: Instant) -> Pause {
        let still = now.saturating_duration_since(self.moved);
        if self.flows.is_empty() && still >= STAY_AWAKE {
            return Pause { time: None, is_drowsy: true };
        }
        if still >= STILL {
            return Pause { time: Some(SLOW), is_drowsy: true };
        }
        // Each look at a busy flow costs a system call for each busy direction. Paths alone get by with their own looks.
        let is_auto_alone = self.is_auto && self.caps.all.is_none() && self.caps.tunnels.iter().all(Option::is_none);
        if is_auto_alone && self.busy > MANY_FLOWS {
            return Pause { time: Some(SLOW), is_drowsy: false };
        }
        // Nothing is to be divided until another flow begins.
        let is_single = is_auto_alone && self.busy <= 1 && self.flows.len() <= MANY_FLOWS;
        let flows = u32::try_from(self.flows.len()).unwrap_or(u32::MAX);
        let least = if is_single { EVERY } else { FAST };
        Pause { time: Some((PER_FLOW.saturating_mul(flows)).clamp(least, SLOW)), is_drowsy: is_single }
    }

    /// Begins anew after a time without flows.
    fn wake_up(&mut self, now: Instant) {
        self.compute_caps(now);
        self.dividers = [Divider::new(&self.caps), Divider::new(&self.caps)];
        (self.divided, self.moved) = (now, now);
    }

    fn compute_caps(&mut self, now: Instant) {
        self.caps = self.rules.caps(self.shared.clock);
        self.computed = now;
        let was_auto = std::mem::replace(&mut self.is_auto, self.rules.is_auto_now(self.shared.clock));
        if was_auto && !self.is_auto {
            self.leave_paths(now);
        }
    }

    /// Ends the caps of the paths. Each leg gets back the congestion control that it had.
    fn leave_paths(&mut self, now: Instant) {
        self.paths = Default::default();
        for (direction, (members, sinks)) in self.members.iter_mut().zip(&mut self.sinks).enumerate() {
            for ((flow, member), sink) in self.flows.iter().zip(members).zip(sinks) {
                member.set_path(None);
                sink.leave(flow, sink_of(flow, direction));
            }
        }
        self.dividers = [Divider::new(&self.caps), Divider::new(&self.caps)];
        self.divided = now;
        lock(&self.shared.paths).clear();
    }

    /// Takes the flows that have begun, and follows changed rules. After a reload, `rule` is an index of older rules; `follow` sets the
    /// right one before the first look.
    pub(super) fn take(&mut self, news: News) {
        let now = Instant::now();
        for Begun { flow, rule, limits, at } in news.begun {
            let own = news.rules.flow_cap(rule);
            let is_background = news.rules.is_background(rule);
            let begin = |told| Member::begin(rule, own, at, 0, told).in_background(is_background);
            self.add(flow, limits.map(|told| (begin(told), Sink::New)));
        }
        if !news.before.is_empty() {
            self.rules = news.rules;
            self.compute_caps(now);
            self.follow(&news.before, now);
        }
    }

    /// Adds a flow. One that began during a reload may be there already. Its sockets may have been told the limit of its begin last, and
    /// are told again what its members know.
    fn add(&mut self, flow: Arc<Flow>, sides: [Side; 2]) {
        if !self.numbers.insert(flow.number) {
            let Some(place) = self.flows.iter().position(|known| known.number == flow.number) else { return };
            for (direction, list) in self.members.iter().enumerate() {
                pace(&flow, sink_of(&flow, direction), list[place].told());
            }
            return;
        }
        for ((list, sinks), (member, sink)) in self.members.iter_mut().zip(&mut self.sinks).zip(sides) {
            list.push(member);
            sinks.push(sink);
        }
        self.flows.push(flow);
    }

    /// Applies changed rules to every live flow. `before` are the rules by which their limits may have been set.
    fn follow(&mut self, before: &[Arc<Rules>], now: Instant) {
        self.dividers = [Divider::new(&self.caps), Divider::new(&self.caps)];
        (self.divided, self.moved) = (now, now);
        // The dividers must know the paths before a limit is told.
        self.paths.iter_mut().for_each(Paths::look_at_once);
        let [up, down] = std::mem::take(&mut self.members).map(Vec::into_iter);
        let [up_sinks, down_sinks] = std::mem::take(&mut self.sinks).map(Vec::into_iter);
        let sides = up.zip(up_sinks).zip(down.zip(down_sinks)).map(|(up, down)| [up, down]);
        let flows = std::mem::take(&mut self.flows);
        self.numbers.clear();
        let mut known: HashMap<u64, [Side; 2]> = flows.iter().map(|flow| flow.number).zip(sides).collect();
        self.shared.clone().registry.visit_all(|flow| {
            if flow.is_connected() && !flow.has_ended() {
                self.follow_for(flow, before, known.remove(&flow.number), now);
            }
        });
    }

    /// Applies changed rules to one flow, which was `known` before or not.
    fn follow_for(&mut self, flow: &Arc<Flow>, before: &[Arc<Rules>], known: Option<[Side; 2]>, now: Instant) {
        let name = &flow.tunnel.name;
        let rule = self.rules.find(name);
        let own = rule.and_then(|rule| self.rules.flow_cap(rule));
        let has_look = rule.filter(|rule| self.rules.needs_looks(*rule));
        let may_be_limited = own.is_some() || before.iter().any(|before| before.find(name).is_some());
        if may_be_limited && (known.is_none() || has_look.is_none()) {
            Leg::ALL.into_iter().for_each(|sink| pace(flow, sink, own));
        }
        if let Some(rule) = has_look {
            let begin = |source| (Member::begin(rule, own, now, flow.carried(source), own), Sink::New);
            let sides = known.unwrap_or_else(|| sources(flow).map(begin));
            let is_background = self.rules.is_background(rule);
            let below = |(member, sink): Side| (member.below(rule, own).in_background(is_background), sink);
            self.add(flow.clone(), sides.map(below));
        } else if let Some(sides) = known {
            for (direction, (_, mut sink)) in sides.into_iter().enumerate() {
                sink.leave(flow, sink_of(flow, direction));
            }
        }
    }

    /// Samples every flow, divides the caps, and sets the limits that have changed.
    pub(super) fn look(&mut self, now: Instant) {
        if self.rules.has_schedule() && now.saturating_duration_since(self.computed) >= SLOW {
            self.compute_caps(now);
            self.dividers.iter_mut().for_each(|divider| divider.set(&self.caps));
        }
        // Before the samples, so that the last sample of an ended flow has all of its bytes.
        let ended: Vec<usize> = (0..self.flows.len()).filter(|index| self.flows[*index].has_ended()).collect();
        let mut moved = 0;
        self.busy = 0;
        // Both are asked, because `is_due` begins the look of its paths. They are always due together.
        let is_due = self.is_auto
            && self.paths.iter_mut().fold(false, |is_due, paths| is_due | paths.is_due(self.flows.len(), now));
        for direction in [0, 1] {
            let (mut busy, paths, divider) = (0, &mut self.paths[direction], &mut self.dividers[direction]);
            let members = self.members[direction].iter_mut().zip(&mut self.sinks[direction]);
            for (flow, (member, sink)) in self.flows.iter().zip(members) {
                let (sample, info) = sample(flow, sources(flow)[direction], member, is_due.then_some(sink));
                moved += divider.look(member, now, &sample);
                busy += usize::from(!member.is_silent());
                if is_due {
                    paths.look(flow, sink_of(flow, direction), member, sink, info.as_ref(), now);
                }
            }
            self.busy = self.busy.max(busy);
        }
        if moved > 0 {
            self.moved = now;
        }
        if is_due {
            self.paths.iter_mut().zip(&mut self.dividers).for_each(|(paths, divider)| paths.decide(divider, now));
            self.show_paths(now);
        }
        if !ended.is_empty() && ended.len() == self.flows.len() {
            // Before the thread sleeps, one more look shows that there is no flow.
            self.moved = now;
        }
        for index in ended.into_iter().rev() {
            self.remove(index);
        }
        let elapsed = now.saturating_duration_since(self.divided);
        self.divided = now;
        for (direction, (divider, members)) in self.dividers.iter_mut().zip(&mut self.members).enumerate() {
            divider.divide(elapsed, members);
            for ((flow, member), sink) in self.flows.iter().zip(members).zip(&self.sinks[direction]) {
                // A flow keeps its first share until its path is known.
                if self.is_auto && matches!(sink, Sink::New) && member.is_raised() {
                    continue;
                }
                if let Some(limit) = member.news() {
                    pace(flow, sources(flow)[direction].other(), limit);
                }
            }
        }
        self.publish();
    }

    /// Publishes the paths for views, and writes a log line if one has changed its state, at most one a second.
    fn show_paths(&mut self, now: Instant) {
        let views = self.paths.iter().zip(WAYS).flat_map(|(paths, way)| paths.views(way, now));
        *lock(&self.shared.paths) = views.collect();
        if self.logged.is_some_and(|last| now.saturating_duration_since(last) < Duration::from_secs(1)) {
            return;
        }
        // By turns.
        let mut directions = [1 - self.logged_direction, self.logged_direction].into_iter();
        if let Some(direction) = directions.find(|direction| self.paths[*direction].tell(WAYS[*direction], now)) {
            (self.logged, self.logged_direction) = (Some(now), direction);
        }
    }

    fn remove(&mut self, index: usize) {
        let flow = self.flows.swap_remove(index);
        self.numbers.remove(&flow.number);
        for (direction, (members, sinks)) in self.members.iter_mut().zip(&mut self.sinks).enumerate() {
            let (member, sink) = (members.swap_remove(index), sinks.swap_remove(index));
            self.paths[direction].end(&flow, sink_of(&flow, direction), &member, &sink);
        }
    }

    /// Publishes the shares for flows that begin before the next look.
    fn publish(&self) {
        let [(up, of_up), (down, of_down)] = [self.dividers[0].offers(), self.dividers[1].offers()];
        let tunnels = of_up.zip(of_down).map(|(up, down)| [up, down]).collect();
        let few = if self.flows.len() > FEW { &[] } else { &self.flows[..] };
        let few = self.members[0].iter().map(Member::tunnel).zip(few.iter().cloned()).collect();
        let paths = [0, 1].map(|direction| {
            let offers: Vec<Offer> = self.dividers[direction].path_offers().collect();
            self.paths[direction]
                .addresses()
                .filter_map(|(address, index)| Some((address, *offers.get(index)?)))
                .collect()
        });
        let offers = Offers { all: [up, down], tunnels, paths, few };
        let mut desk = lock(&self.shared.desk);
        // Other rules have other indices.
        if desk.before.is_empty() {
            desk.offers = Some(offers);
        }
    }
}

/// Samples the direction of `flow` out of `source`. With `sink`, also returns its TCP_INFO if the look at the path needs it; that has the
/// unsent bytes, so the sample costs no other system call.
fn sample(flow: &Flow, source: Leg, member: &Member, sink: Option<&Sink>) -> (Sample, Option<TcpInfo>) {
    let (taken, is_blocked) = (flow.carried(source), flow.is_blocked(source));
    // Read after `taken`, so that bytes that move meanwhile count as unsent, and are sent at the next look.
    let leg = || flow.stream(source.other());
    let needs_info = sink.is_some_and(|sink| sink.needs_info(taken, is_blocked));
    let info = needs_info.then(leg).flatten().and_then(|leg| TcpInfo::of(leg.as_fd()).ok());
    let unsent = match &info {
        Some(info) => info.notsent_bytes,
        None if taken == member.sent() => 0,
        None => leg().and_then(|leg| unsent(leg.as_fd()).ok()).unwrap_or(0),
    };
    (Sample { taken, unsent: unsent.into(), is_blocked }, info)
}

/// Interval between two looks while bytes move.
const FAST: Duration = Duration::from_millis(25);
/// Interval while no byte moves, with thousands of flows, and between two looks at the schedule.
const SLOW: Duration = Duration::from_millis(250);
/// Interval for each flow if that is more than [`FAST`]. A look at a flow takes less than a microsecond.
const PER_FLOW: Duration = Duration::from_micros(20);
/// Time without a moved byte after which looks become rare.
const STILL: Duration = Duration::from_secs(1);
/// Time without a flow for which the accounts are kept, so that the cap also holds for short flows with gaps between
/// them.
const STAY_AWAKE: Duration = Duration::from_secs(2);
