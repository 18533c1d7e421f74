//! The paths of one direction, whose caps are found by themselves: the WAN legs to one address, and the looks at them.
//!
//! [`longhaul_core::caps::PathCap`] decides on each cap. A look at a leg is one TCP_INFO, and one more question while its line is shared. A leg
//! that does not move costs none.

use crate::live::flow::Flow;
use crate::live::how::How;
use longhaul_config::options::{self, Leg, Value};
use longhaul_core::caps::{Divider, Member, PathCap, PathLook, PathState};
use longhaul_core::path::{CUBIC, WAN_RTT, is_answered_late};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_units::Rate;
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tracing::info;

/// The paths of one direction.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// A path keeps its index while it has a leg.
    slots: Vec<Option<Path>>,
    indices: HashMap<IpAddr, usize>,
    looked: Option<Instant>,
    /// Time between the last two looks.
    elapsed: Duration,
    /// Index of the path of the last log line.
    logged: usize,
}

/// The WAN legs that send to one address.
#[derive(Debug)]
struct Path {
    address: IpAddr,
    cap: PathCap,
    /// The legs that have moved bytes since the last look.
    moved: Vec<Moved>,
    /// Bytes of flows that have ended since the last look.
    ended: u64,
    /// Whether it had flows at the look before.
    had_flows: bool,
    flows: u32,
    in_background: u32,
    waiting: u32,
    held: u32,
    /// Time when a flow that is not in the background last moved.
    foreground: Option<Instant>,
    /// Time of the last look at which it had a flow.
    used: Instant,
    /// The state in the log.
    told: PathState,
}

/// The measurements of one leg at a look. Counts are those since the look before.
#[derive(Clone, Copy, Debug)]
struct Moved {
    rtt: Duration,
    deviation: Duration,
    least_rtt: Duration,
    delivered: u64,
    retransmitted: u64,
    segment: u32,
    /// Number of segments received: acknowledgements.
    answers: u32,
    is_waiting: bool,
    is_background: bool,
}

/// The sink of a direction of a flow.
#[derive(Debug, Default)]
pub(super) enum Sink {
    /// Its round-trip time is not known yet.
    #[default]
    New,
    /// It is no WAN leg.
    Lan,
    /// It is a WAN leg.
    Wan(WanSink),
}

/// The totals of a WAN leg at the last look.
#[derive(Debug)]
pub(super) struct WanSink {
    /// Payload bytes that have arrived: acknowledged, or reported by SACK.
    arrived: u64,
    retransmitted: u64,
    sent: u64,
    answers: u32,
    /// Whether something was not acknowledged.
    is_open: bool,
    /// Time of the last look at which bytes had arrived.
    moved: Option<Instant>,
    /// Its congestion control before it became CUBIC, to share the line.
    before: Option<String>,
}

/// A path, for views.
#[derive(Clone, Debug)]
pub struct PathView {
    /// The address at its other end.
    pub address: IpAddr,
    /// The way of the flows whose bytes it carries: `up` or `down`.
    pub way: &'static str,
    /// The cap in force; `None` means no cap.
    pub cap: Option<Rate>,
    /// The rate of the last second, of payload.
    pub rate: Rate,
    /// Time that a packet waits in the queue. `None` without a measurement in the last second.
    pub queue: Option<Duration>,
    /// The round-trip time without a queue.
    pub least_rtt: Option<Duration>,
    /// How it is kept.
    pub state: PathState,
    /// Since when.
    pub since: Instant,
    /// Number of flows.
    pub flows: u32,
    /// Time of the last look at which it had one. Without flows, nobody looks.
    pub used: Instant,
}

impl Paths {
    /// Whether the next look is due, with so many `flows`.
    pub(super) fn is_due(&mut self, flows: usize, now: Instant) -> bool {
        let every = if flows > MANY_FLOWS { SELDOM } else { EVERY };
        let is_due = self.looked.is_none_or(|last| now.saturating_duration_since(last) >= every);
        if is_due {
            self.elapsed = self.looked.map_or(every, |last| now.saturating_duration_since(last));
            self.looked = Some(now);
            for path in self.slots.iter_mut().flatten() {
                path.had_flows = path.flows > 0;
                (path.flows, path.in_background, path.waiting, path.held) = (0, 0, 0, 0);
                path.moved.clear();
            }
        }
        is_due
    }

    /// Looks at one direction of `flow`, whose sink is the leg `leg`. `info` is its TCP_INFO; without it, the flow
    /// is only counted.
    pub(super) fn look(
        &mut self,
        flow: &Flow,
        leg: Leg,
        member: &mut Member,
        sink: &mut Sink,
        info: Option<&TcpInfo>,
        now: Instant,
    ) {
        let is_new = matches!(sink, Sink::New);
        let path = match sink {
            Sink::Lan => return,
            Sink::New => match self.find(flow, leg, info, now) {
                Some(Some(path)) => {
                    *sink = Sink::Wan(WanSink::begin());
                    member.set_path(Some(path));
                    path
                }
                Some(None) => {
                    *sink = Sink::Lan;
                    return;
                }
                None => return,
            },
            // The handshake's time may have had the client's silence in it.
            Sink::Wan(_) if info.is_some_and(|info| !info.min_rtt.is_zero() && info.min_rtt < WAN_RTT) => {
                sink.leave(flow, leg);
                *sink = Sink::Lan;
                return member.set_path(None);
            }
            Sink::Wan(_) => match member.path() {
                Some(path) => path,
                None => return,
            },
        };
        let (Sink::Wan(of), Some(Some(path))) = (sink, self.slots.get_mut(path)) else { return };
        path.used = now;
        path.flows += 1;
        path.in_background += u32::from(member.is_background());
        path.held += u32::from(member.is_held());
        let moved = info.and_then(|info| of.follow(info, member, now));
        path.waiting += u32::from(member.is_waiting() && of.is_moving(now));
        // The first look at a leg that is not new has the bytes of the time before it.
        let is_first = is_new && flow.began.elapsed() > 2 * SELDOM;
        if moved.is_some() && !is_first && !member.is_background() {
            path.foreground = Some(now);
        }
        path.moved.extend(moved.filter(|_| !is_first));
        let needs_cubic = path.cap.needs_cubic();
        let to_switch = info.is_some() && (needs_cubic || of.before.is_some());
        if let Some(stream) = flow.stream(leg).filter(|_| to_switch) {
            of.switch(flow, leg, needs_cubic, stream.as_fd());
        }
    }

    /// Counts the bytes of one direction of `flow`, which has ended, that no look has seen. Without them, short flows would seem to carry
    /// half of what they do. Of a flow that was reset, nobody knows how many have arrived.
    pub(super) fn end(&mut self, flow: &Flow, leg: Leg, member: &Member, sink: &Sink) {
        let is_short = flow.began.elapsed() < SHORT;
        let (index, seen) = match sink {
            _ if flow.how() != Some(How::Finished) => return,
            Sink::Lan => return,
            Sink::New if !is_short => return,
            Sink::New => (address_of(flow, leg).and_then(|address| self.indices.get(&address).copied()), 0),
            Sink::Wan(of) => (member.path(), of.arrived),
        };
        if let Some(Some(path)) = index.and_then(|index| self.slots.get_mut(index)) {
            path.ended += member.sent().saturating_sub(seen);
        }
    }

    /// Returns the path of a leg, a new one if need be; the inner `None` if it is no WAN leg. `None` while that is not known.
    fn find(&mut self, flow: &Flow, leg: Leg, info: Option<&TcpInfo>, now: Instant) -> Option<Option<usize>> {
        let address = address_of(flow, leg)?;
        if address.is_loopback() {
            return Some(None);
        }
        let info = info?;
        let rtt = if info.min_rtt.is_zero() { info.rtt } else { info.min_rtt };
        if rtt.is_zero() {
            return None;
        }
        if rtt < WAN_RTT {
            return Some(None);
        }
        if let Some(index) = self.indices.get(&address) {
            // Nobody looks while there is no flow. What was seen long ago holds no more.
            let path = self.slots[*index].as_mut().filter(|path| now.saturating_duration_since(path.used) > KEPT);
            if let Some(path) = path {
                *path = Path::begin(address, now);
            }
            return Some(Some(*index));
        }
        let Some(index) = self.free() else { return Some(None) };
        self.slots[index] = Some(Path::begin(address, now));
        self.indices.insert(address, index);
        Some(Some(index))
    }

    /// Returns the index of a free slot: if there are [`MAX_PATHS`], that of the path that has had no flow for the longest time. `None` if
    /// all have flows.
    fn free(&mut self) -> Option<usize> {
        if let Some(index) = self.slots.iter().position(Option::is_none) {
            return Some(index);
        }
        if self.slots.len() < MAX_PATHS {
            self.slots.push(None);
            return Some(self.slots.len() - 1);
        }
        let paths = self.slots.iter().enumerate().filter_map(|(index, path)| Some((index, path.as_ref()?)));
        let unused = paths.filter(|(_, path)| !path.had_flows && path.flows == 0);
        let (index, oldest) = unused.min_by_key(|(_, path)| path.used)?;
        self.indices.remove(&oldest.address);
        Some(index)
    }

    /// Decides on the caps after all legs were looked at, and tells `divider`.
    pub(super) fn decide(&mut self, divider: &mut Divider, now: Instant) {
        for index in 0..self.slots.len() {
            let Some(path) = &mut self.slots[index] else { continue };
            if path.flows == 0 && now.saturating_duration_since(path.used) > KEPT {
                self.indices.remove(&path.address);
                self.slots[index] = None;
                divider.set_path(index, None, None);
                continue;
            }
            if path.flows > 0 {
                let lasts = |last| now.saturating_duration_since(last) < FOREGROUND_LASTS;
                path.cap.set_background(path.in_background > 0 && !path.foreground.is_some_and(lasts), now);
            }
            path.cap.look(now, &path.summary(self.elapsed));
            path.ended = 0;
            divider.set_path(index, path.cap.cap(), path.cap.background());
        }
    }

    /// Writes a line about a path whose state has changed, of all such paths by turns. Says whether it has written one.
    pub(super) fn tell(&mut self, way: &'static str, now: Instant) -> bool {
        let count = self.slots.len();
        let Some(index) = (1..=count)
            .map(|step| (self.logged + step) % count)
            .find(|index| self.slots[*index].as_ref().is_some_and(|path| path.told != path.cap.state().0))
        else {
            return false;
        };
        self.logged = index;
        let Some(path) = &mut self.slots[index] else { return false };
        let view = path.view(way, now);
        path.told = view.state;
        let (state, cap) = (view.state.name(), view.cap.map(tracing::field::display));
        let queue_ms = view.queue.map(|queue| queue.as_micros() as f64 / 1e3);
        info!(path = %path.address, direction = way, state, cap, rate = %view.rate, queue_ms, "the state of a path has changed");
        true
    }

    /// Lets the next look be due at once.
    pub(super) fn look_at_once(&mut self) {
        self.looked = None;
    }

    /// Returns the paths, for views. `way` is the way of the flows.
    pub(super) fn views(&self, way: &'static str, now: Instant) -> impl Iterator<Item = PathView> {
        self.slots.iter().flatten().map(move |path| path.view(way, now))
    }

    /// Returns the addresses of the paths with their indices.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (IpAddr, usize)> {
        self.indices.iter().map(|(address, index)| (*address, *index))
    }
}

impl Path {
    fn begin(address: IpAddr, now: Instant) -> Path {
        Path {
            address,
            cap: PathCap::begin(now),
            moved: Vec::new(),
            ended: 0,
            had_flows: true,
            flows: 0,
            in_background: 0,
            waiting: 0,
            held: 0,
            foreground: None,
            used: now,
            told: PathState::Searching,
        }
    }

    /// Returns the look of the last `elapsed`.
    fn summary(&self, elapsed: Duration) -> PathLook {
        let sum = |of: fn(&Moved) -> u64| self.moved.iter().map(of).sum::<u64>();
        let delivered = sum(|moved| moved.delivered);
        let mean = delivered / self.moved.len().max(1) as u64;
        // The smoothed time of a leg with few bytes is an old one, and has the 40 ms for which the peer delays an acknowledgement.
        let is_bulk = |moved: &&Moved| moved.is_waiting || moved.delivered >= 2 * u64::from(moved.segment);
        let counts = |moved: &&Moved| moved.delivered * 4 >= mean && !moved.rtt.is_zero() && !moved.is_late(elapsed);
        let busy = self.moved.iter().filter(counts).filter(is_bulk);
        let least = busy.min_by_key(|moved| moved.rtt);
        PathLook {
            rtt: least.map(|moved| moved.rtt),
            deviation: least.map(|moved| moved.deviation).unwrap_or_default(),
            least_rtt: self.moved.iter().map(|moved| moved.least_rtt).filter(|rtt| !rtt.is_zero()).min(),
            delivered: delivered + self.ended,
            retransmitted: sum(|moved| moved.retransmitted),
            active: self.moved.len() as u32,
            waiting: self.waiting,
            held: self.held,
            rivals: self.moved.iter().filter(|moved| moved.is_waiting && !moved.is_background).count() as u32,
            segment: self.moved.iter().map(|moved| moved.segment).max().unwrap_or(1_448),
        }
    }

    fn view(&self, way: &'static str, now: Instant) -> PathView {
        let (state, since) = self.cap.state();
        let queue = self.cap.queue(now);
        PathView {
            address: self.address,
            way,
            cap: self.cap.cap(),
            rate: Rate(self.cap.rate() as u64),
            queue: queue.map(|(_, queue)| queue),
            least_rtt: queue.map(|(least, _)| least),
            state,
            since,
            flows: self.flows,
            used: self.used,
        }
    }
}

impl Moved {
    /// Whether the peer held back its acknowledgements in the last `elapsed`, so that the round trip shows no queue.
    fn is_late(&self, elapsed: Duration) -> bool {
        is_answered_late(self.answers, self.delivered, self.segment, elapsed)
    }
}

impl Sink {
    /// Whether a look needs TCP_INFO of the leg: its round trip is not known, or it is a WAN leg with bytes under way, with new ones
    /// (`taken` is all that it was given), or with a source that waits for it.
    pub(super) fn needs_info(&self, taken: u64, is_blocked: bool) -> bool {
        match self {
            Sink::New => true,
            Sink::Lan => false,
            Sink::Wan(of) => of.is_open || of.sent != taken || is_blocked,
        }
    }

    /// Gives the leg back the congestion control that it had.
    pub(super) fn leave(&mut self, flow: &Flow, leg: Leg) {
        if let (Sink::Wan(mut of), Some(stream)) = (std::mem::take(self), flow.stream(leg)) {
            of.switch(flow, leg, false, stream.as_fd());
        }
    }
}

impl WanSink {
    pub(super) fn begin() -> WanSink {
        WanSink { arrived: 0, retransmitted: 0, sent: 0, answers: 0, is_open: true, moved: None, before: None }
    }

    /// Takes the totals of `info`. Returns what has moved since the last look; `None` if nothing has arrived.
    fn follow(&mut self, info: &TcpInfo, member: &Member, now: Instant) -> Option<Moved> {
        // A lost segment holds up the acknowledgement of those behind it, but not their SACK.
        let sacked = u64::from(info.sacked_segments) * u64::from(info.snd_mss);
        // Segments of small messages are not full.
        let arrived = (info.bytes_acked + sacked).min(member.sent().max(info.bytes_acked)).max(self.arrived);
        let moved = Moved {
            rtt: info.rtt,
            deviation: info.rtt_var,
            least_rtt: info.min_rtt,
            delivered: arrived - self.arrived,
            retransmitted: info.bytes_retrans.saturating_sub(self.retransmitted),
            segment: info.snd_mss,
            answers: info.segments_received.wrapping_sub(self.answers),
            is_waiting: member.is_waiting(),
            is_background: member.is_background(),
        };
        (self.arrived, self.sent, self.answers) = (arrived, member.sent(), info.segments_received);
        self.is_open = info.unacked_segments > 0;
        if moved.delivered == 0 {
            // What was retransmitted counts when something has arrived.
            return None;
        }
        (self.retransmitted, self.moved) = (info.bytes_retrans, Some(now));
        Some(moved)
    }

    /// Whether the path moves its bytes, or did not acknowledge them yet. The rest waits for a reader that has stopped, and says nothing
    /// about the path.
    fn is_moving(&self, now: Instant) -> bool {
        self.is_open || self.moved.is_some_and(|moved| now.saturating_duration_since(moved) < STOPPED_AFTER)
    }

    /// Gives the leg CUBIC, or the congestion control that it had. A leg with one of the user's keeps it.
    pub(super) fn switch(&mut self, flow: &Flow, leg: Leg, needs_cubic: bool, socket: std::os::fd::BorrowedFd<'_>) {
        let asked = flow.tunnel.options(leg).find(options::key::CONGESTION).map(|setting| &setting.value);
        if asked.is_some_and(|asked| !matches!(asked, Value::Name(name) if name == options::AUTO)) {
            return;
        }
        let Ok(now) = sockopt::congestion(socket) else { return };
        if needs_cubic {
            // The pump may choose another one meanwhile. It has that back later.
            if now != CUBIC && sockopt::set_congestion(socket, CUBIC).is_ok() {
                self.before = Some(now);
            }
        } else if now != CUBIC
            || self.before.as_ref().is_some_and(|before| sockopt::set_congestion(socket, before).is_ok())
        {
            self.before = None;
        }
    }
}

/// Returns the source of each direction of `flow`: up, towards the tunnel's next hop, and down. An FTP data connection may come from
/// the next hop, and counts in the same direction as the others all the same.
pub(super) fn sources(flow: &Flow) -> [Leg; 2] {
    if flow.client.is_turned() { [Leg::Dial, Leg::Accept] } else { [Leg::Accept, Leg::Dial] }
}

/// Returns the address at the other end of a leg.
pub(super) fn address_of(flow: &Flow, leg: Leg) -> Option<IpAddr> {
    let address = match leg {
        Leg::Accept => flow.peer(),
        Leg::Dial => flow.next_hop()?.1,
    };
    Some(address.ip().to_canonical())
}

/// Returns the leg of `flow` that sends in `direction`, an index of [`sources`].
pub(super) fn sink_of(flow: &Flow, direction: usize) -> Leg {
    sources(flow)[direction].other()
}

/// The names of the directions, by the index of [`sources`].
pub(super) const WAYS: [&str; 2] = ["up", "down"];
/// Interval of the looks, and the same with more than [`MANY_FLOWS`].
pub(super) const EVERY: Duration = Duration::from_millis(90);
const SELDOM: Duration = Duration::from_millis(240);
pub(super) const MANY_FLOWS: usize = 1_000;
/// Time without an acknowledged byte, and without bytes in flight, after which a leg waits for its reader.
const STOPPED_AFTER: Duration = Duration::from_secs(1);
/// Age below which a flow that ends may have begun since the last look.
const SHORT: Duration = Duration::from_secs(1);
/// Time for which the cap of a path without flows is kept.
pub(super) const KEPT: Duration = Duration::from_secs(300);
/// Time for which a path counts as used by others than the background after such a flow has moved.
const FOREGROUND_LASTS: Duration = Duration::from_secs(10);
/// Maximum number of paths. With that many in use, a leg to another address has no cap of its own.
const MAX_PATHS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    /// The leg counts as one that the path limits while its bytes arrive or are in flight, as in an outage.
    #[test]
    fn a_leg_whose_reader_has_stopped_does_not_wait_for_the_path() {
        let start = Instant::now();
        let mut of = WanSink::begin();
        let member = Member::begin(0, None, start, 0, None);
        let mut look = |bytes_acked, unacked_segments, seconds| {
            let now = start + Duration::from_secs(seconds);
            of.follow(&TcpInfo { bytes_acked, unacked_segments, ..TcpInfo::default() }, &member, now);
            of.is_moving(now)
        };
        assert!(look(0, 10, 0) && look(0, 10, 9), "an outage");
        assert!(look(14_480, 0, 10) && look(14_480, 0, 10), "it has just moved");
        assert!(!look(14_480, 0, 11), "its window is closed");
    }

    /// Seen with a reader of 60 Mbit/s behind a line of 100: 18 acknowledgements a second, of 110 kB each, and 28 ms more.
    #[test]
    fn the_round_trip_of_late_acknowledgements_does_not_count() {
        let leg = |rtt, answers, delivered| Moved {
            rtt: Duration::from_millis(rtt),
            deviation: Duration::ZERO,
            least_rtt: Duration::from_millis(63),
            delivered,
            retransmitted: 0,
            segment: 1_448,
            answers,
            is_waiting: true,
            is_background: false,
        };
        let rtt = |moved| Path { moved, ..Path::begin([10, 0, 0, 1].into(), Instant::now()) }.summary(EVERY).rtt;
        let ms = |time| Some(Duration::from_millis(time));
        assert_eq!(rtt(vec![leg(91, 2, 220_000)]), None);
        assert_eq!(rtt(vec![leg(91, 2, 220_000), leg(70, 110, 500_000)]), ms(70));
        assert_eq!(rtt(vec![leg(70, 2, 5_792)]), ms(70), "a slow line: each second segment is acknowledged");
    }

    #[test]
    fn bytes_retransmitted_while_nothing_arrives_count_later() {
        let (mut of, member) = (WanSink::begin(), Member::begin(0, None, Instant::now(), 0, None));
        let mut look = |bytes_acked, bytes_retrans| {
            let info = TcpInfo { bytes_acked, bytes_retrans, unacked_segments: 10, ..TcpInfo::default() };
            of.follow(&info, &member, Instant::now()).map(|moved| (moved.delivered, moved.retransmitted))
        };
        let looks = [look(1_000, 0), look(1_000, 1_448), look(1_000, 2_896), look(9_000, 4_344), look(9_500, 4_344)];
        assert_eq!(looks, [Some((1_000, 0)), None, None, Some((8_000, 4_344)), Some((500, 0))]);
    }

    #[test]
    fn a_path_without_flows_leaves_its_place() {
        let now = Instant::now() + Duration::from_secs(100);
        let mut paths = Paths::default();
        for number in 0..MAX_PATHS as u64 {
            let index = paths.free().unwrap();
            let address = IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
            let used = now - Duration::from_millis(number);
            paths.slots[index] = Some(Path { used, had_flows: number != 700, ..Path::begin(address, now) });
            paths.indices.insert(address, index);
        }
        assert_eq!((paths.free(), paths.indices.len()), (Some(700), MAX_PATHS - 1));
        paths.slots[700] = Some(Path::begin(IpAddr::from([10, 1, 0, 0]), now));
        assert_eq!(paths.free(), None, "all others have flows");
    }
}
