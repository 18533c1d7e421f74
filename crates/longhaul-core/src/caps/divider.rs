//! Divides the caps among the flows, for one direction: the limit of each flow.
//!
//! A flow is below two caps, that of its tunnel and that of the daemon, and on a path whose cap is found by itself below that, too. Each
//! of them is an equal level for the flows whose demand it does not meet, so a flow gets the least of its demand and all levels. That is
//! max-min fair among all flows of the daemon. On a path, flows in the background get what the others leave.
//!
//! A limit has a floor, because the demand of a quiet flow is small, and its next burst must not crawl until the next look:
//!
//! | flow | floor |
//! | --- | --- |
//! | waits | equal share of the capacity, at most the cap |
//! | does not wait | equal share of the cap |
//! | is silent | the same, or the limit that it has, up to [`WAKING`], if that is more |
//!
//! The first two are [`WAKING`] if that is no more than the share of one more greedy flow: a segment that was charged at a low
//! rate is not charged anew. After a long excess, [`WAKING`] shrinks ([`Account::leniency`]). If every flow bursts at once, the
//! caps are exceeded until the next look, and the accounts pay it back.

use super::account::Account;
use super::ahead::{Ahead, UNPACED_BYTES};
use super::meter::{Meter, Sample};
use super::share::fair_level;
use longhaul_units::Rate;
use std::time::{Duration, Instant};

/// The caps that hold now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Cap of the daemon.
    pub all: Option<Rate>,
    /// Cap of each tunnel.
    pub tunnels: Vec<Option<Rate>>,
}

/// One direction of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The flow's tunnel, as an index into [`Caps::tunnels`].
    tunnel: usize,
    /// The flow's path, as an index of [`Divider::set_path`].
    path: Option<usize>,
    is_background: bool,
    /// The cap of the flow itself.
    own: Option<Rate>,
    meter: Meter,
    /// Number of bytes sent since the last division that the kernel paces.
    paced: u64,
    ahead: Ahead,
    demand: Rate,
    limit: Option<Rate>,
    /// The limit that the socket has.
    told: Option<Rate>,
    /// Whether it is the share of its path, and not the demand or another cap, that limits it.
    is_bound: bool,
    /// A limit is told if it differs from the told one by more than the told one divided by this.
    near: u64,
}

/// Divides the caps among the flows, for one direction.
#[derive(Clone, Debug)]
pub struct Divider {
    all: Group,
    tunnels: Vec<Group>,
    paths: Vec<Group>,
}

/// The flows below one cap.
#[derive(Clone, Debug, Default)]
struct Group {
    cap: Option<Rate>,
    /// Whether the cap is never exceeded to make up for what was missed: a queue would begin. It has no account.
    is_strict: bool,
    /// The least cap of the flows in the background together, or all that they have while there is no cap.
    background: Option<Rate>,
    account: Account,
    /// Whether the cap has changed since the last division.
    is_changed: bool,
    /// Number of bytes sent since the last division.
    sent: u64,
    /// Number of bytes that the flows are ahead of their limits, at this division and at the one before.
    ahead: f64,
    ahead_before: f64,
    flows: u64,
    waiting: u64,
    /// Whether a flow sends as much as its limit allows, and wants more.
    is_wanted: bool,
    /// Time since one last did. `None` before the first.
    since_wanted: Option<Duration>,
    /// The cap, corrected by the account.
    capacity: Option<Rate>,
    demands: Vec<Rate>,
    background_demands: Vec<Rate>,
    level: Option<Rate>,
    background_level: Option<Rate>,
    background_floor: Option<Rate>,
    floors: Option<Floors>,
}

/// The floors of the limits below a cap.
#[derive(Clone, Copy, Debug)]
struct Floors {
    /// Of a flow that waits.
    waiting: Rate,
    /// Of a flow that does not wait.
    quiet: Rate,
    /// Largest limit that a silent flow keeps: [`WAKING`], or less after a long excess.
    waking: Rate,
}

/// The share of a flow that begins between two divisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    capacity: Option<Rate>,
    rivals: u64,
}

impl Offer {
    /// Returns the offer of a cap below which no flow is alive.
    pub fn first(cap: Option<Rate>) -> Offer {
        Offer { capacity: cap, rivals: 0 }
    }

    /// Returns the share of one more flow: as if it, all that waited at the division and `begun` newer ones wanted as
    /// much as they can get. `ended` is the number of flows that have ended since the division.
    pub fn share(&self, begun: u64, ended: u64) -> Option<Rate> {
        let rivals = self.rivals.saturating_sub(ended) + begun;
        self.capacity.map(|capacity| Rate(capacity.0 / (rivals + 1)))
    }
}

impl Member {
    /// Returns a direction that begins `now`, after `sent` bytes, of a flow of `tunnel`, an index into
    /// [`Caps::tunnels`]. `own` is the cap of the flow itself. The limit of its socket is `told`.
    pub fn begin(tunnel: usize, own: Option<Rate>, now: Instant, sent: u64, told: Option<Rate>) -> Member {
        let (meter, ahead) = (Meter::begin(now, sent), Ahead::begin(told));
        let (path, is_background) = (None, false);
        Member {
            tunnel,
            path,
            is_background,
            own,
            meter,
            paced: 0,
            ahead,
            demand: Rate(0),
            limit: told,
            told,
            is_bound: false,
            near: NEAR,
        }
    }

    /// Returns the same direction of a flow in the background, or of another one.
    pub fn in_background(self, is_background: bool) -> Member {
        Member { is_background, ..self }
    }

    /// Puts the direction on a path, an index of [`Divider::set_path`], or on none.
    pub fn set_path(&mut self, path: Option<usize>) {
        self.path = path;
    }

    /// Returns the path.
    pub fn path(&self) -> Option<usize> {
        self.path
    }

    /// Whether the flow is in the background.
    pub fn is_background(&self) -> bool {
        self.is_background
    }

    /// Whether no byte waited at the last look, and none was sent since the one before.
    pub fn is_silent(&self) -> bool {
        self.meter.is_silent()
    }

    /// Whether bytes waited at the last look.
    pub fn is_waiting(&self) -> bool {
        self.meter.is_waiting()
    }

    /// Whether bytes waited at the last look, and the flow has sent its whole share of its path.
    pub fn is_held(&self) -> bool {
        self.is_bound && self.told.is_some_and(|limit| self.meter.uses_all_of(limit))
    }

    /// Returns the same direction below other caps, on the same path.
    pub fn below(self, tunnel: usize, own: Option<Rate>) -> Member {
        Member { tunnel, own, ..self }
    }

    /// Returns the flow's tunnel, as an index into [`Caps::tunnels`].
    pub fn tunnel(&self) -> usize {
        self.tunnel
    }

    /// Returns the number of bytes sent at the last look.
    pub fn sent(&self) -> u64 {
        self.meter.sent()
    }

    /// Returns the limit of its socket, as it was last told.
    pub fn told(&self) -> Option<Rate> {
        self.told
    }

    /// Whether its socket has a limit, and is to have a higher one or none.
    pub fn is_raised(&self) -> bool {
        self.told.is_some_and(|told| self.limit.is_none_or(|limit| limit > told))
    }

    /// Returns the limit if the socket must be told: if it differs from the told one by more than a sixteenth, or less on a path. The
    /// inner `None` means no limit.
    pub fn news(&mut self) -> Option<Option<Rate>> {
        let is_near = match (self.limit, self.told) {
            (Some(limit), Some(told)) => limit.0.abs_diff(told.0) <= told.0 / self.near,
            (limit, told) => limit == told,
        };
        if is_near {
            return None;
        }
        self.told = self.limit;
        self.ahead.tell(self.limit);
        Some(self.limit)
    }
}

impl Divider {
    /// Returns a divider below `caps`.
    pub fn new(caps: &Caps) -> Divider {
        let tunnels = vec![Group::default(); caps.tunnels.len()];
        let mut divider = Divider { all: Group::default(), tunnels, paths: Vec::new() };
        divider.set(caps);
        divider.groups().for_each(|group| group.is_changed = false);
        divider
    }

    /// Replaces the caps. There are as many tunnels as before.
    pub fn set(&mut self, caps: &Caps) {
        self.all.set(caps.all);
        for (group, cap) in self.tunnels.iter_mut().zip(&caps.tunnels) {
            group.set(*cap);
        }
    }

    /// Sets the cap of the path `index`. Its flows in the background have what the others leave, and at least `background`; without a cap
    /// they have that alone.
    pub fn set_path(&mut self, index: usize, cap: Option<Rate>, background: Option<Rate>) {
        if self.paths.len() <= index {
            self.paths.resize(index + 1, Group { is_strict: true, ..Group::default() });
        }
        self.paths[index].set(cap);
        self.paths[index].background = background;
    }

    /// Takes a sample of `member`. Returns the number of bytes that it has sent since the last one.
    pub fn look(&mut self, member: &mut Member, now: Instant, sample: &Sample) -> u64 {
        let before = member.sent().max(UNPACED_BYTES);
        let sent = member.meter.look(now, sample);
        member.paced += member.sent().max(UNPACED_BYTES) - before;
        self.all.sent += sent;
        if let Some(group) = self.tunnels.get_mut(member.tunnel) {
            group.sent += sent;
        }
        sent
    }

    /// Sets the limits of `members`, all live flows. `elapsed` is the time since the last division.
    pub fn divide(&mut self, elapsed: Duration, members: &mut [Member]) {
        self.count(elapsed, members);
        self.groups().for_each(|group| group.settle(elapsed));
        self.demand(members);
        for member in members {
            let path = member.path.and_then(|path| self.paths.get(path));
            let groups = || [Some(&self.all), self.tunnels.get(member.tunnel), path].into_iter().flatten();
            let levels = groups().filter_map(|group| group.level_of(member));
            let share = levels.fold(member.demand, Rate::min);
            let floor = groups().filter_map(|group| group.floor(member)).min();
            // Without a cap above it, only the flow's own cap limits it.
            let limit = floor.map(|floor| share.max(floor));
            member.limit = limit.into_iter().chain(member.own).min();
            let of_path = path.and_then(|path| path.level_of(member));
            member.is_bound = of_path.zip(member.limit).is_some_and(|(share, limit)| share <= limit);
            member.near = match path {
                Some(path) if path.flows > MANY => NEAR_OF_MANY,
                Some(_) => NEAR_ON_PATH,
                None => NEAR,
            };
        }
    }

    /// Returns the offer of the daemon's cap, and of each tunnel's.
    pub fn offers(&self) -> (Offer, impl Iterator<Item = Offer>) {
        (self.all.offer(), self.tunnels.iter().map(Group::offer))
    }

    /// Returns the offer of each path.
    pub fn path_offers(&self) -> impl Iterator<Item = Offer> {
        self.paths.iter().map(Group::offer)
    }

    fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        std::iter::once(&mut self.all).chain(&mut self.tunnels).chain(&mut self.paths)
    }

    /// Counts the flows below each cap, and what they are ahead of their limits.
    fn count(&mut self, elapsed: Duration, members: &mut [Member]) {
        self.groups().for_each(Group::begin_count);
        for member in members {
            member.ahead.pass(elapsed, std::mem::take(&mut member.paced), member.told);
            let is_waiting = member.meter.is_waiting();
            // A flow that its own cap limits can use nothing more.
            let limit = member.told.filter(|limit| member.own.is_none_or(|own| *limit < own));
            // During a slow segment, no higher limit would help.
            let is_wanted = limit.is_some_and(|limit| !member.ahead.is_slow() && member.meter.is_held_by(limit));
            let path = member.path.and_then(|path| self.paths.get_mut(path));
            for group in [Some(&mut self.all), self.tunnels.get_mut(member.tunnel), path].into_iter().flatten() {
                group.flows += 1;
                group.ahead += member.ahead.bytes();
                group.waiting += u64::from(is_waiting);
                group.is_wanted |= is_wanted;
            }
        }
    }

    /// Sets the demands and levels: first those of the tunnels, then those of the paths, and then the daemon's, of what these leave.
    fn demand(&mut self, members: &mut [Member]) {
        self.groups().for_each(|group| {
            group.demands.clear();
            group.background_demands.clear();
        });
        for member in members.iter_mut() {
            let of_path = member.path.and_then(|path| self.paths.get(path)?.fair());
            let tunnel = self.tunnels.get_mut(member.tunnel);
            let of_tunnel = tunnel.as_ref().and_then(|tunnel| tunnel.fair());
            let fair = [self.all.fair(), of_tunnel, of_path].into_iter().flatten();
            let demand =
                member.meter.demand(fair.min().unwrap_or(Rate(u64::MAX)), member.ahead.is_held(), of_path.is_some());
            member.demand = member.own.map_or(demand, |own| demand.min(own));
            if let Some(tunnel) = tunnel {
                tunnel.demands.push(member.demand);
            }
        }
        self.tunnels.iter_mut().for_each(Group::share);
        let below = |demand: Rate, level: Option<Rate>| level.map_or(demand, |level| demand.min(level));
        for member in members.iter() {
            let Some(path) = member.path.and_then(|path| self.paths.get_mut(path)) else { continue };
            let level = self.tunnels.get(member.tunnel).and_then(|tunnel| tunnel.level);
            let demands = if member.is_background { &mut path.background_demands } else { &mut path.demands };
            demands.push(below(member.demand, level));
        }
        self.paths.iter_mut().for_each(Group::share_path);
        for member in members {
            let path = member.path.and_then(|path| self.paths.get(path)?.level_of(member));
            let level = self.tunnels.get(member.tunnel).and_then(|tunnel| tunnel.level);
            self.all.demands.push(below(below(member.demand, level), path));
        }
        self.all.share();
    }
}

impl Group {
    /// Replaces the cap. What was sent under another cap does not count for the new one.
    fn set(&mut self, cap: Option<Rate>) {
        if self.cap != cap {
            (self.cap, self.capacity) = (cap, cap);
            (self.account, self.is_changed) = (Account::default(), true);
        }
    }

    fn begin_count(&mut self) {
        (self.flows, self.waiting, self.is_wanted) = (0, 0, false);
        (self.ahead_before, self.ahead) = (self.ahead, 0.0);
    }

    /// Counts what was sent and paid for, and corrects the capacity.
    fn settle(&mut self, elapsed: Duration) {
        let sent = std::mem::take(&mut self.sent) as f64 + self.ahead_before - self.ahead;
        // After a reload, the flows are ahead by bytes that the former divider has seen.
        let sent = sent.max(0.0);
        if std::mem::take(&mut self.is_changed) || self.is_strict {
            return;
        }
        self.capacity = self.cap.map(|cap| {
            self.since_wanted = match self.is_wanted {
                true => Some(Duration::ZERO),
                false => self.since_wanted.map(|since| since + elapsed),
            };
            // A client that asks again when it has its answer leaves gaps, which would make its mean lower than the cap.
            let is_wanted = self.since_wanted.is_some_and(|since| since <= GAP);
            self.account.settle(cap, elapsed, sent, is_wanted);
            self.account.capacity(cap, self.waiting)
        });
    }

    /// Returns the level of a flow.
    fn level_of(&self, member: &Member) -> Option<Rate> {
        if self.is_strict && member.is_background { self.background_level } else { self.level }
    }

    /// Returns an equal share for each flow that waits.
    fn fair(&self) -> Option<Rate> {
        self.capacity.map(|capacity| Rate(capacity.0 / self.waiting.max(1)))
    }

    /// Returns the floor of the limit of `member`.
    fn floor(&self, member: &Member) -> Option<Rate> {
        if self.is_strict && member.is_background {
            return self.background_floor;
        }
        let Floors { waiting, quiet, waking } = self.floors?;
        if member.meter.is_waiting() {
            return Some(waiting);
        }
        let kept = member.told.filter(|_| member.meter.is_silent()).map(|told| told.min(waking));
        kept.max(Some(quiet))
    }

    fn share(&mut self) {
        let mut demands = std::mem::take(&mut self.demands);
        self.level = self.capacity.and_then(|capacity| fair_level(capacity, &mut demands));
        demands.push(Rate(u64::MAX));
        self.floors = self.cap.map(|cap| {
            let waking = Rate((WAKING.0 as f64 * self.account.leniency(cap)) as u64);
            let mut floor = |whole: Rate| {
                let one_more = fair_level(whole, &mut demands).unwrap_or(whole);
                one_more.min(waking).max(Rate(whole.0 / self.flows.max(1)))
            };
            // A negative balance lowers the limits of the flows that wait. Another flow would pay for its next segment at a lower
            // limit, long after the balance is even.
            Floors { waiting: floor(cap.min(self.capacity.unwrap_or(cap))), quiet: floor(cap), waking }
        });
        self.demands = demands;
    }

    /// Shares the cap of a path: the flows in the background have what the others leave, and at least [`Group::background`].
    fn share_path(&mut self) {
        let mut behind = std::mem::take(&mut self.background_demands);
        let least = self.background.filter(|_| !behind.is_empty()).unwrap_or(Rate(0));
        let whole = self.capacity;
        self.capacity = whole.map(|whole| Rate(whole.0.saturating_sub(least.0)));
        let wanted: u64 = self.demands.iter().fold(0, |sum, demand| sum.saturating_add(demand.0));
        self.share();
        self.capacity = whole;
        let left = match whole {
            Some(whole) => Some(Rate(whole.0.saturating_sub(wanted).max(least.0))),
            None => self.background,
        };
        // A flow whose demand is met may send its share before the next look.
        self.background_floor = left.map(|left| Rate(left.0 / behind.len().max(1) as u64));
        self.background_level = left.and_then(|left| fair_level(left, &mut behind));
        self.background_demands = behind;
    }

    fn offer(&self) -> Offer {
        Offer { capacity: self.capacity, rivals: self.waiting }
    }
}

/// Limit with which a flow wakes up. A segment of two times the MSS takes 0.23 s at it: the next look comes before the flow has
/// sent more.
const WAKING: Rate = Rate(100_000);
/// Time for which a cap still counts as wanted after the last look that saw a flow want more.
const GAP: Duration = Duration::from_millis(100);
/// A new limit is told if it differs from the old one by more than 1/`NEAR`.
const NEAR: u64 = 16;
/// The same on a path, whose cap is found by steps of up to 1/100, and with more than [`MANY`] flows: each telling is a system call, and those of
/// 2,000 flows took 2 % of a processor.
const NEAR_ON_PATH: u64 = 512;
const NEAR_OF_MANY: u64 = 64;
const MANY: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn mbit(rate: u64) -> Rate {
        Rate(rate * 1_000_000)
    }

    /// Divides `caps` among flows of the given tunnels. Each of them is blocked for the first time, so wants what it
    /// can get.
    fn limits(caps: &Caps, tunnels: &[usize], own: Option<Rate>) -> Vec<Option<Rate>> {
        let start = Instant::now();
        let mut divider = Divider::new(caps);
        let mut members: Vec<Member> =
            tunnels.iter().map(|tunnel| Member::begin(*tunnel, own, start, 0, None)).collect();
        for member in &mut members {
            divider.look(member, start + SECOND, &Sample { taken: 1, unsent: 1, is_blocked: true });
        }
        divider.divide(SECOND, &mut members);
        members.iter_mut().filter_map(Member::news).collect()
    }

    #[test]
    fn the_tunnel_s_cap_and_the_daemon_s_hold_together() {
        let caps = Caps { all: Some(mbit(100)), tunnels: vec![Some(mbit(20)), None, Some(mbit(10))] };
        let equal = limits(&caps, &[0, 1, 1, 1], None);
        assert_eq!(equal, [Some(mbit(20)), Some(mbit(25)), Some(mbit(25)), Some(mbit(25))]);
        assert_eq!(limits(&caps, &[2, 2], None), [Some(mbit(5)); 2]);
        assert_eq!(limits(&caps, &[1, 1], Some(mbit(7))), [Some(mbit(7)); 2]);
        let none = Caps { all: None, tunnels: vec![None] };
        assert_eq!(limits(&none, &[0, 0], Some(mbit(7))), [Some(mbit(7)); 2], "only the flow's own cap");
        assert_eq!(limits(&none, &[0, 0], None), [], "no cap, nothing to tell");
    }

    #[test]
    fn the_background_has_what_the_others_leave_of_a_path_and_its_floor() {
        let start = Instant::now();
        // One flow, and two in the background, which want what they can get. Each sends what it may for ten seconds.
        let limits = |cap: Option<Rate>, is_wanted: bool| {
            let mut divider = Divider::new(&Caps { all: None, tunnels: vec![None] });
            divider.set_path(0, cap, Some(mbit(10)));
            let mut members =
                [false, true, true].map(|is_behind| Member::begin(0, None, start, 0, None).in_background(is_behind));
            members.iter_mut().for_each(|member| member.set_path(Some(0)));
            for second in 1..10 {
                for member in &mut members {
                    let is_blocked = member.is_background() || is_wanted;
                    let sends = member.told().unwrap_or(mbit(100)).bytes_per_second() * u64::from(is_blocked);
                    let sample = Sample { taken: member.sent() + sends, unsent: 0, is_blocked };
                    divider.look(member, start + second * SECOND, &sample);
                }
                divider.divide(SECOND, &mut members);
                members.iter_mut().for_each(|member| _ = member.news());
            }
            members.map(|member| member.told())
        };
        assert_eq!(limits(Some(mbit(100)), true), [Some(mbit(90)), Some(mbit(5)), Some(mbit(5))]);
        assert_eq!(limits(Some(mbit(100)), false)[1..], [Some(mbit(50)); 2], "the other one sends nothing");
        assert_eq!(limits(None, true), [None, Some(mbit(5)), Some(mbit(5))], "another program fills the queue");
    }

    #[test]
    fn small_changes_are_not_told() {
        let mut member = Member::begin(0, None, Instant::now(), 0, None);
        let mut told = |limit| {
            member.limit = limit;
            member.news()
        };
        assert_eq!(told(Some(mbit(16))), Some(Some(mbit(16))));
        assert_eq!((told(Some(mbit(17))), told(Some(mbit(15)))), (None, None));
        assert_eq!(told(Some(mbit(14))), Some(Some(mbit(14))));
        assert_eq!((told(None), told(None)), (Some(None), None));
    }

    #[test]
    fn a_new_flow_gets_a_share_beside_those_that_wait() {
        let offer = Offer { capacity: Some(mbit(100)), rivals: 3 };
        assert_eq!((offer.share(0, 0), offer.share(1, 0)), (Some(mbit(25)), Some(mbit(20))));
        assert_eq!((offer.share(0, 2), offer.share(1, 9)), (Some(mbit(50)), Some(mbit(50))));
        assert_eq!(Offer::first(Some(mbit(100))).share(0, 0), Some(mbit(100)));
        assert_eq!(Offer::first(None).share(0, 0), None);
    }
}
