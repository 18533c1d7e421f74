//! Sets keepalive and the limits of retransmission as [`longhaul_core::silence`] decides them: a leg whose peer fell silent
//! probes it after some seconds, an idle leg once a minute.
//!
//! One thread, the sweep, looks at the flows once a second. It waits on a condition while there is nothing to look at:
//! - a flow younger than [`MIN_AGE`] is only in the registry, and makes no system call for this;
//! - of an older flow, a leg that gives bytes costs some atomic operations per second, and a TCP_INFO every [`REFRESH`];
//! - a leg that gives none while its flow is not idle costs a TCP_INFO per second: it sends only, or its peer is silent;
//! - an idle flow is not looked at, and its next byte puts it on the list again.

use crate::leg::rto;
use crate::leg::sample::leg_look;
use crate::leg::stream::Stream;
use crate::live::counters::Counters;
use crate::live::flow::Flow;
use crate::live::registry::Registry;
use crate::live::stalled::{Outages, SilentPlaces, TunnelPlace};
use longhaul_config::options::{Leg, LegOptions, Setting, Value, key};
use longhaul_core::silence::{ACTIVE, Check, Keepalive, LegLook, MIN_AGE, PATIENCE, RARE_AFTER, Silence, rare};
use longhaul_core::stall::{Answer, Answers};
use longhaul_sys::tcp_info::TcpInfo;
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Starts the sweep of the live flows when it is first needed.
#[derive(Debug)]
pub(crate) struct Sweep {
    registry: Arc<Registry>,
    thread: OnceLock<bool>,
    /// Told when a next hop or the clients of a tunnel stop answering.
    began: Arc<Notify>,
}

/// State of the sweep's thread.
struct Sweeper {
    registry: Arc<Registry>,
    /// The lowest number of a flow that it has not taken yet.
    from: u64,
    watched: Vec<Watched>,
    looks: Looks,
    /// The outages of next hops and clients by the last sweep, by the counters of their tunnels.
    outages: Vec<(Arc<Counters>, Outages)>,
    /// Number of these places that did not answer.
    silent: usize,
    began: Arc<Notify>,
}

/// How the sweep looks at a leg.
#[derive(Clone, Copy)]
struct Looks {
    /// Asks the kernel about a leg. `None` if it does not know: MPTCP before Linux 5.16 has no TCP_INFO.
    look: fn(&Stream) -> Option<LegLook>,
    /// Time for which an active leg waits for its silent peer.
    patience: Duration,
}

/// A flow that is not idle.
struct Watched {
    flow: Weak<Flow>,
    silence: Silence,
    legs: [WatchedLeg; 2],
}

/// A leg of such a flow.
#[derive(Clone, Copy)]
struct WatchedLeg {
    /// Number of bytes that it has given, and whether more waited for their reader, as of the last look. `None` before the first one: it
    /// may have given them long ago.
    given: Option<(u64, bool)>,
    /// Time of the next look in the kernel, even if it gives bytes.
    refresh: Option<Instant>,
    answers: Answers,
    /// Whether its keepalive probes are [`rare`].
    is_rare: bool,
    /// What the last look says about its peer.
    answer: Answer,
}

impl Sweep {
    /// Returns a sweep of the flows in `registry`.
    pub(super) fn new(registry: &Arc<Registry>) -> Sweep {
        Sweep { registry: registry.clone(), thread: OnceLock::new(), began: Arc::default() }
    }

    /// Waits until a next hop or the clients of a tunnel have stopped answering. The wait may be dropped. Only one may wait.
    pub(crate) async fn outage(&self) {
        self.began.notified().await;
    }

    /// Starts the sweep for `flow`, both of whose legs are connected. A leg whose keepalive or user-timeout a user has
    /// set keeps it, and is only looked at. If there is no thread for the sweep, the other legs get the presets of the table.
    pub(crate) fn begin(&self, flow: &Flow) {
        if !self.is_swept() {
            Leg::ALL.into_iter().for_each(|leg| tell(flow, leg, &IDLE_SETTINGS));
        }
    }

    /// Starts the thread at the first call. Returns false when it could not be started.
    fn is_swept(&self) -> bool {
        self.is_swept_with(PATIENCE)
    }

    /// Starts the thread at the first call, with this patience. Returns false when it could not be started.
    pub(crate) fn is_swept_with(&self, patience: Duration) -> bool {
        *self.thread.get_or_init(|| {
            let look = |leg: &Stream| Some(leg_look(&TcpInfo::of(leg.as_fd()).ok()?));
            let sweeper = Sweeper::new(self.registry.clone(), Looks { look, patience }, self.began.clone());
            std::thread::Builder::new().name("longhaul-sweep".into()).spawn(move || sweeper.run()).is_ok()
        })
    }
}

impl Sweeper {
    fn new(registry: Arc<Registry>, looks: Looks, began: Arc<Notify>) -> Sweeper {
        Sweeper { registry, from: 1, watched: Vec::new(), looks, outages: Vec::new(), silent: 0, began }
    }

    fn run(mut self) -> ! {
        loop {
            if self.watched.is_empty() {
                self.registry.wait(self.from);
            }
            std::thread::sleep(PERIOD);
            self.sweep(Instant::now());
        }
    }

    fn sweep(&mut self, now: Instant) {
        for flow in
            self.registry.take(&mut self.from, |flow| now.saturating_duration_since(flow.began.instant()) >= MIN_AGE)
        {
            self.watched.push(Watched { flow, silence: Silence::begin(now), legs: [WatchedLeg::begin(now); 2] });
        }
        self.watched.retain_mut(|watched| watched.look(now, self.looks));
        self.tell_stalled(now);
        if self.watched.capacity() > 2 * self.watched.len() + SPARE_ENTRIES {
            self.watched.shrink_to(self.watched.len() + SPARE_ENTRIES);
        }
    }

    /// Tells the views which next hops and clients do not answer. Costs nothing while all do.
    fn tell_stalled(&mut self, now: Instant) {
        let answers = |watched: &Watched, is: fn(&Answer) -> bool| watched.legs.iter().any(|leg| is(&leg.answer));
        if self.outages.is_empty() && !self.watched.iter().any(|watched| answers(watched, is_missing)) {
            return;
        }
        let before = std::mem::take(&mut self.outages);
        for flow in self.watched.iter().filter(|watched| answers(watched, is_missing)) {
            flow.visit(|counters, place, answer| {
                let Answer::Missing(since) = answer else { return };
                let index = of_tunnel(&self.outages, counters).unwrap_or_else(|| {
                    self.outages.push((counters.clone(), Outages::default()));
                    self.outages.len() - 1
                });
                let before = of_tunnel(&before, counters).map(|index| &before[index].1);
                self.outages[index].1.add(place, since, before);
            });
        }
        for flow in self.watched.iter().filter(|watched| answers(watched, |answer| matches!(answer, Answer::Came(_)))) {
            flow.visit(|counters, place, answer| {
                let known = of_tunnel(&self.outages, counters).filter(|_| !is_missing(&answer));
                known.into_iter().for_each(|index| self.outages[index].1.answer(place, answer));
            });
        }
        let mut silent = 0;
        for (counters, outages) in &self.outages {
            let places = outages.places(now);
            silent += places.hops.len() + usize::from(places.clients.is_some());
            counters.stalled.set(places);
        }
        let is_over = |(counters, _): &&(Arc<Counters>, _)| of_tunnel(&self.outages, counters).is_none();
        before.iter().filter(is_over).for_each(|(counters, _)| counters.stalled.set(SilentPlaces::default()));
        // The log tells an outage at once, and not only when it looks at all tunnels.
        if std::mem::replace(&mut self.silent, silent) < silent {
            self.began.notify_one();
        }
    }
}

/// Returns the index of the outages of the tunnel with these counters.
fn of_tunnel(outages: &[(Arc<Counters>, Outages)], counters: &Arc<Counters>) -> Option<usize> {
    outages.iter().position(|(known, _)| Arc::ptr_eq(known, counters))
}

fn is_missing(answer: &Answer) -> bool {
    matches!(answer, Answer::Missing(_))
}

impl Watched {
    /// Sets keepalive and limits of the legs as the flow needs them now. Returns false when the sweep need not look at the flow:
    /// it is idle or has ended.
    fn look(&mut self, now: Instant, looks: Looks) -> bool {
        let Some(flow) = self.flow.upgrade() else { return false };
        if !flow.is_connected() {
            return true;
        }
        let has_moved = flow.pulse.take_beat();
        if has_moved {
            tell_some(&flow, self.silence.moved(now), &ACTIVE_SETTINGS);
        }
        let to_check = self.silence.to_check(now).filter(|_| !has_moved);
        let mut checks = [None; 2];
        let mut seen = [const { None }; 2];
        for leg in Leg::ALL {
            let of = &mut self.legs[leg.index()];
            let is_due = to_check.is_some_and(|legs| legs[leg.index()]);
            if of.needs_look(&flow, leg, now) || is_due {
                let Some(socket) = flow.stream(leg) else { continue };
                let look = (looks.look)(&socket);
                if let (Some(look), false) = (look, matches!(of.answer, Answer::Came(_))) {
                    of.answer = of.answers.look(now, &look);
                }
                checks[leg.index()] = is_due.then(|| look.map_or(Check::Idle, |look| look.check()));
                seen[leg.index()] = look.map(|look| (socket, look));
            }
        }
        if to_check.is_some() {
            tell_some(&flow, self.silence.checked(now, checks), &IDLE_SETTINGS);
        }
        for ((leg, seen), is_active) in Leg::ALL.into_iter().zip(seen).zip(self.silence.active()) {
            let Some((socket, look)) = seen else { continue };
            let least = flow.tunnel.options(leg).least_rto_max().filter(|_| is_active);
            let waits = match self.legs[leg.index()].answer {
                Answer::Missing(since) => now.saturating_duration_since(since),
                _ => Duration::ZERO,
            };
            rto::limit(&socket, least.and_then(|least| look.limits(least, looks.patience, waits)));
            if look.is_held_back() {
                rto::try_again(&socket);
            }
            self.legs[leg.index()].pace(&flow, leg, &socket, &look, is_active, looks.patience);
        }
        // The pump may have moved bytes meanwhile. Then the flow stays on the list, and the next look makes its legs
        // active.
        has_moved || to_check.is_none() || self.silence.is_in_doubt(now) || !flow.pulse.rest()
    }

    /// Visits both legs: the counters of the tunnel, where the leg leads, and what the last look says about the peer.
    fn visit(&self, mut visit: impl FnMut(&Arc<Counters>, TunnelPlace, Answer)) {
        let Some(flow) = self.flow.upgrade() else { return };
        let Some((hop, _)) = flow.next_hop() else { return };
        let places = [TunnelPlace::Client(flow.source()), TunnelPlace::Hop(hop.member().key)];
        places.into_iter().zip(&self.legs).for_each(|(place, leg)| visit(&flow.counters, place, leg.answer));
    }
}

impl WatchedLeg {
    fn begin(now: Instant) -> WatchedLeg {
        WatchedLeg { given: None, refresh: None, answers: Answers::begin(now), is_rare: false, answer: Answer::None }
    }

    /// Whether the kernel has to be asked about `leg`. Not if its peer is alive, because it gives bytes, and takes some. If their reader
    /// is slow, the bytes may have come long ago.
    fn needs_look(&mut self, flow: &Flow, leg: Leg, now: Instant) -> bool {
        let (given, waits) = (flow.carried(leg), flow.is_blocked(leg));
        let before = self.given.replace((given, waits));
        let gives = !waits && before.is_some_and(|(before, waited)| before != given && !waited);
        self.answer = if gives { self.answers.gave(now) } else { Answer::None };
        let needs = !gives || flow.is_blocked(leg.other()) || self.refresh.is_none_or(|refresh| now >= refresh);
        if needs {
            self.refresh = Some(now + REFRESH);
        }
        needs
    }

    /// Makes the probes of a leg with limits [`rare`] while none is answered.
    fn pace(&mut self, flow: &Flow, leg: Leg, socket: &Stream, look: &LegLook, is_active: bool, patience: Duration) {
        if !self.is_rare && look.unanswered_probes >= RARE_AFTER && rto::is_limited(socket) {
            self.is_rare = true;
            // Without `keepalive-idle`, which would restart the timer of the next probe.
            tell(flow, leg, &settings(&Keepalive { interval: rare(patience), ..ACTIVE })[..1]);
        } else if self.is_rare && look.unanswered_probes == 0 {
            self.is_rare = false;
            tell(flow, leg, if is_active { &ACTIVE_SETTINGS } else { &IDLE_SETTINGS });
        }
    }
}

/// Returns the connection of `leg`, if we set its keepalive and it is not closed.
fn our_stream(flow: &Flow, leg: Leg) -> Option<Arc<Stream>> {
    flow.stream(leg).filter(|_| flow.tunnel.options(leg).keepalive_is_ours())
}

/// Sets the keepalive of the legs for which `which` is true.
fn tell_some(flow: &Flow, which: [bool; 2], settings: &[Setting]) {
    for (leg, _) in Leg::ALL.into_iter().zip(which).filter(|(_, is_told)| *is_told) {
        tell(flow, leg, settings);
    }
}

/// Sets the keepalive of `leg`, if it is ours to set and the leg is not closed.
fn tell(flow: &Flow, leg: Leg, settings: &[Setting]) {
    if let Some(socket) = our_stream(flow, leg) {
        set(&socket, settings);
    }
}

/// Sets the keepalive of an idle leg on a connection without a flow, unless `options` has one.
pub(crate) fn keep_alive(socket: &Stream, options: &LegOptions) {
    if options.keepalive_is_ours() {
        set(socket, &IDLE_SETTINGS);
    }
}

fn set(socket: &Stream, settings: &[Setting]) {
    for setting in settings {
        // The start of the tunnel has tried each setting. Here it fails only on a broken connection.
        let _ = setting.tell(socket.as_fd());
    }
}

/// Returns the rows of the table with the values of `keepalive`.
fn settings(keepalive: &Keepalive) -> Vec<Setting> {
    let values = [keepalive.interval.as_secs(), keepalive.count.into(), keepalive.idle.as_secs()];
    presets().zip(values).map(|(preset, number)| Setting { value: Value::Number(number), ..preset }).collect()
}

/// Returns the table's presets in the order in which they are set. `keepalive-idle` is last, because it restarts the
/// timer.
fn presets() -> impl Iterator<Item = Setting> {
    let presets = LegOptions::default();
    [key::KEEPALIVE_INTERVAL, key::KEEPALIVE_COUNT, key::KEEPALIVE_IDLE]
        .into_iter()
        .filter_map(move |key| presets.find(key).cloned())
}

/// Settings of [`ACTIVE`].
static ACTIVE_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| settings(&ACTIVE));
/// Settings of an idle leg: the presets of the table.
static IDLE_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| presets().collect());

/// Interval between two looks of the sweep.
const PERIOD: Duration = Duration::from_secs(1);
/// Longest time between two looks at a leg that gives bytes. Its round trip may have grown, and with it the least time between two
/// retransmissions that are not needless.
const REFRESH: Duration = Duration::from_secs(8);
/// Number of unused entries that the list keeps when it shrinks.
const SPARE_ENTRIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;
    use longhaul_config::Tunnel;
    use longhaul_config::options::row;
    use socket2::SockRef;
    use std::net::TcpStream;
    use tokio::time::timeout;

    #[test]
    fn without_limits_a_silent_peer_is_given_up_after_two_minutes_in_both_cases() {
        for settings in [&*ACTIVE_SETTINGS, &*IDLE_SETTINGS] {
            let [Value::Number(interval), Value::Number(count), Value::Number(idle)] =
                [0, 1, 2].map(|index| settings[index].value.clone())
            else {
                panic!("{settings:?}")
            };
            assert_eq!(idle + interval * count, 120, "{settings:?}");
        }
    }

    /// Returns both ends of a connection. The first is a leg.
    fn leg() -> (Arc<Stream>, TcpStream) {
        let (leg, peer) = pair();
        (Arc::new(leg), peer)
    }

    /// Returns the time until the first probe, in seconds; 0 means never.
    fn idle_s(leg: &Stream) -> Value {
        row(Leg::Dial, "keepalive-idle").unwrap().read(leg.as_fd()).unwrap().unwrap()
    }

    fn tunnel() -> Tunnel {
        Tunnel::new("silence", "127.0.0.1:1".parse().unwrap(), Vec::new())
    }

    /// Returns a sweep whose thread is the test. The clock is an argument, and `look` says when a peer has answered.
    fn swept_here(look: fn(&Stream) -> Option<LegLook>) -> (Sweep, Sweeper) {
        let registry = Arc::<Registry>::default();
        let looks = Looks { look, patience: PATIENCE };
        let began = Arc::<Notify>::default();
        let sweep = Sweep { registry: registry.clone(), thread: OnceLock::from(true), began: began.clone() };
        (sweep, Sweeper::new(registry, looks, began))
    }

    /// Looks at a leg whose peer has answered long ago.
    fn answered(_: &Stream) -> Option<LegLook> {
        Some(LegLook { since_sent: PATIENCE, since_received: PATIENCE, peer_window: 1, ..LegLook::default() })
    }

    /// Looks at a leg with an unanswered probe.
    fn unanswered(leg: &Stream) -> Option<LegLook> {
        answered(leg).map(|look| LegLook { unanswered_probes: 1, ..look })
    }

    /// Returns a flow of `tunnel` that is connected now.
    fn flow(sweep: &Sweep, tunnel: &Tunnel, accept: &Arc<Stream>, dial: &Arc<Stream>) -> Arc<Flow> {
        let flow = sweep.registry.add(Arc::new(tunnel.clone()), &Arc::default(), tunnel.listen, accept);
        flow.connected(0, tunnel.listen, dial);
        sweep.begin(&flow);
        flow
    }

    /// Records a moved byte, as a pump does for each fill.
    fn moved(sweep: &Sweep, flow: &Arc<Flow>) {
        if flow.pulse.beat() {
            sweep.registry.wake(flow);
        }
    }

    #[tokio::test]
    async fn keepalive_follows_the_flow() {
        let (sweep, mut sweeper) = swept_here(answered);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let flow = flow(&sweep, &tunnel(), &accept, &dial);
        let start = Instant::now();
        let mut at = |seconds| {
            sweeper.sweep(start + Duration::from_secs(seconds));
            assert_eq!(idle_s(&accept), idle_s(&dial));
            (idle_s(&dial), sweeper.watched.len())
        };
        assert_eq!(at(2), (Value::Number(0), 0), "young");
        assert_eq!(at(4), (Value::Number(5), 1), "active");
        assert_eq!(at(11), (Value::Number(5), 1), "still in doubt");
        moved(&sweep, &flow);
        assert_eq!(at(12), (Value::Number(5), 1), "active again");
        assert_eq!(at(19), (Value::Number(5), 1), "counted from the last byte");
        assert_eq!(at(20), (Value::Number(60), 0), "idle");
        assert_eq!(at(10_000), (Value::Number(60), 0));
        moved(&sweep, &flow);
        moved(&sweep, &flow);
        assert_eq!(at(10_001), (Value::Number(5), 1), "a byte wakes it, once");
        sweep.registry.remove(&flow);
        drop(flow);
        assert_eq!(at(10_002), (Value::Number(5), 0), "ended");
    }

    #[tokio::test]
    async fn a_leg_in_doubt_is_looked_at_again_and_a_byte_meanwhile_is_seen() {
        let (sweep, mut sweeper) = swept_here(unanswered);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let flow = flow(&sweep, &tunnel(), &accept, &dial);
        let start = Instant::now();
        for seconds in [4, 12, 17, 60, 3600] {
            sweeper.sweep(start + Duration::from_secs(seconds));
            assert_eq!((idle_s(&dial), sweeper.watched.len()), (Value::Number(5), 1), "{seconds} s");
        }
        // The kernel reports that a leg is idle. A byte moves while its keepalive is set.
        sweeper.looks.look = answered;
        let watched = &mut sweeper.watched[0];
        let later = start + Duration::from_secs(7200);
        watched.look(later, sweeper.looks);
        assert_eq!(idle_s(&dial), Value::Number(60));
        moved(&sweep, &flow);
        let mut none_else = u64::MAX;
        assert_eq!(sweep.registry.take(&mut none_else, |_| true).len(), 1, "it was idle");
    }

    /// Looks at a leg with two unanswered probes.
    fn silent(leg: &Stream) -> Option<LegLook> {
        answered(leg).map(|look| LegLook { unanswered_probes: RARE_AFTER, ..look })
    }

    #[tokio::test]
    async fn probes_become_rare_without_an_answer_and_are_as_before_after_one() {
        let Some(_) = rto::kernels() else { return println!("SKIP: before Linux 6.15 there is no TCP_RTO_MAX_MS") };
        let ((sweep, mut sweeper), (accept, _client), (dial, _server)) = (swept_here(silent), leg(), leg());
        let (_flow, start) = (flow(&sweep, &tunnel(), &accept, &dial), Instant::now());
        let interval = row(Leg::Dial, "keepalive-interval").unwrap();
        let mut at = |seconds, look| {
            sweeper.looks.look = look;
            sweeper.sweep(start + Duration::from_secs(seconds));
            assert_eq!(interval.read(accept.as_fd()), interval.read(dial.as_fd()));
            let Ok(Some(Value::Number(seconds))) = interval.read(dial.as_fd()) else { panic!("{seconds} s") };
            seconds
        };
        assert_eq!(at(4, answered), ACTIVE.interval.as_secs());
        assert_eq!(at(5, unanswered), ACTIVE.interval.as_secs(), "one may be lost");
        assert_eq!(at(6, silent), rare(PATIENCE).as_secs());
        assert_eq!(at(7, unanswered), rare(PATIENCE).as_secs());
        assert_eq!(at(8, answered), ACTIVE.interval.as_secs());
        assert_eq!([at(9, silent), at(14, answered)], [rare(PATIENCE).as_secs(), 15], "idle at once");
    }

    /// Looks at a leg with bytes in flight that are never acknowledged.
    fn in_the_dark(leg: &Stream) -> Option<LegLook> {
        Some(LegLook { unacked_segments: 1, acked_bytes: 7, ..answered(leg)? })
    }

    #[tokio::test]
    async fn a_next_hop_is_stalled_while_none_of_its_flows_has_an_answer() {
        let ((sweep, mut sweeper), (accept, _client), (dial, _server)) = (swept_here(in_the_dark), leg(), leg());
        let hop = |port| longhaul_config::NextHop::new("192.0.2.1", port);
        let tunnel = Arc::new(Tunnel { to: vec![hop(1), hop(2)], ..tunnel() });
        let counters = Arc::<Counters>::default();
        let flow = |to| {
            let flow = sweep.registry.add(tunnel.clone(), &counters, tunnel.listen, &accept);
            flow.connected(to, tunnel.listen, &dial);
            flow
        };
        let (one, two, other) = (flow(0), flow(0), flow(1));
        let start = Instant::now();
        let mut at = |seconds| {
            sweeper.sweep(start + Duration::from_secs(seconds));
            let SilentPlaces { clients, hops } = counters.stalled.get();
            let since = |then: Instant| (then - start).as_secs();
            let of = |port| hops.iter().find(|(key, _)| *key == hop(port).member().key).map(|(_, last)| since(*last));
            (clients.map(|(last, _)| since(last)), of(1), of(2))
        };
        assert_eq!((at(4), at(6)), ((None, None, None), (None, None, None)));
        let mut told = std::pin::pin!(sweep.outage());
        assert!(timeout(Duration::ZERO, &mut told).await.is_err(), "nobody is silent yet");
        assert_eq!(at(7), (Some(4), Some(4), Some(4)));
        timeout(Duration::from_secs(60), told).await.unwrap();
        one.set_carried(Leg::Dial, 1);
        assert_eq!(at(8), (Some(4), None, Some(4)), "a next hop gave bytes to one flow");
        assert_eq!(at(9), (Some(4), None, Some(4)), "a second ago");
        assert_eq!(at(11), (Some(4), Some(8), Some(4)), "since the last answer");
        other.set_carried(Leg::Accept, 1);
        assert_eq!(at(12).0, None, "a client gave bytes");
        [one, two, other].into_iter().for_each(|flow| sweep.registry.remove(&flow));
        assert_eq!(at(13), (None, None, None), "they have ended");
        // A flow that moved bytes before it was idle, and wakes in the dark.
        let woken = flow(0);
        woken.set_carried(Leg::Dial, 9);
        assert_eq!([at(20), at(22), at(23)], [(None, None, None), (None, None, None), (Some(20), Some(20), None)]);
        // Another one begins to wait later. And the first one ends without an answer.
        let quiet = flow(0);
        assert_eq!([at(30), at(33)], [(Some(20), Some(20), None); 2], "it is the same outage");
        sweep.registry.remove(&woken);
        drop(woken);
        assert_eq!(at(34), (Some(20), Some(20), None), "for as long as nobody has answered");
        let mut gave = |second, bytes, is_blocked| {
            quiet.set_carried(Leg::Dial, bytes);
            quiet.set_blocked(Leg::Dial, is_blocked);
            at(second).1
        };
        assert_eq!([gave(35, 1, true), gave(36, 2, false)], [Some(20); 2], "its reader is slow: they came long ago");
        assert_eq!([gave(37, 3, false), gave(40, 3, false)], [None, Some(37)]);
    }

    #[tokio::test]
    async fn the_keepalive_of_a_user_stays_and_ended_flows_are_never_sampled() {
        let (sweep, mut sweeper) = swept_here(answered);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let later = Instant::now() + Duration::from_secs(60);
        for option in ["keepalive-idle=77s", "keepalive-interval=7s", "keepalive-count=7", "user-timeout=7s"] {
            let mut tunnel = tunnel();
            let (key, value) = option.split_once('=').unwrap();
            tunnel.dial.set(Leg::Dial, key, value).unwrap();
            let one = flow(&sweep, &tunnel, &accept, &dial);
            sweeper.sweep(later);
            assert_eq!((idle_s(&accept), idle_s(&dial)), (Value::Number(5), Value::Number(0)), "{option}");
            sweep.registry.remove(&one);
            drop(one);
            SockRef::from(&*accept).set_keepalive(false).unwrap();
            tunnel.accept.set(Leg::Accept, key, value).unwrap();
            let other = flow(&sweep, &tunnel, &accept, &dial);
            sweeper.sweep(later);
            assert_eq!((idle_s(&accept), idle_s(&dial)), (Value::Number(0), Value::Number(0)), "{option}");
            sweep.registry.remove(&other);
        }
        sweep.registry.remove(&flow(&sweep, &tunnel(), &accept, &dial));
        sweeper.sweep(later);
        assert!(sweeper.watched.is_empty(), "ended before it was old");
    }

    #[tokio::test]
    async fn a_flow_whose_dial_takes_long_has_keepalive_once_it_is_connected() {
        let (sweep, mut sweeper) = swept_here(answered);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let (tunnel, later) = (Arc::new(tunnel()), Instant::now() + Duration::from_secs(60));
        let flow = sweep.registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &accept);
        sweeper.sweep(later);
        assert_eq!((idle_s(&accept), sweeper.watched.len()), (Value::Number(0), 1));
        flow.connected(0, tunnel.listen, &dial);
        sweeper.sweep(later);
        assert_eq!((idle_s(&accept), idle_s(&dial)), (Value::Number(5), Value::Number(5)));
    }

    #[tokio::test]
    async fn where_no_thread_can_sweep_the_presets_hold_from_the_beginning() {
        let sweep = Sweep { registry: Arc::default(), thread: OnceLock::from(false), began: Arc::default() };
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let mut tunnel = tunnel();
        tunnel.dial.set(Leg::Dial, "keepalive-idle", "77s").unwrap();
        flow(&sweep, &tunnel, &accept, &dial);
        for preset in presets() {
            assert_eq!(preset.row.read(accept.as_fd()).unwrap(), Some(preset.value), "{}", preset.row.key);
        }
        assert_eq!(idle_s(&dial), Value::Number(0), "a user has set that leg's");
    }
}
