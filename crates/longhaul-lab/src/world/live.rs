//! The running link. Each direction has a thread that reads frames from one TUN device, passes them through the stages of
//! [`longhaul_link`], and writes each frame to the other device when it is due.
//!
//! The thread sleeps in ppoll(2) until a frame arrives or is due. Timeouts are in nanoseconds, so the thread is on time without
//! spinning. A frame is written as it was read, unless a stage removed some of its segments. In that case the remaining runs
//! of segments are written with new headers, directly from the same buffer.

use crate::error::LabError;
use crate::world::frames::Frames;
use longhaul_link::segment::Shape;
use longhaul_link::{Lateness, Ledger, Link, Packet, StageCounters, icmp, segment};
use longhaul_sys::SysError;
use longhaul_sys::tun::{self, Tun, Woken};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Both directions of the link. The drop stops them.
#[derive(Debug)]
pub(crate) struct Live {
    directions: [OneWay; 2],
    start: Instant,
}

/// Counters of one direction of the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// The stages in the order in which packets pass them.
    pub stages: Vec<(&'static str, StageCounters)>,
    /// Frames read from the sending side's device.
    pub frames_in: u64,
    /// Frames written to the receiving side's device.
    pub frames_out: u64,
    /// Super-packets that arrived in pieces or incomplete, because a stage changed only a part of them.
    pub cut: u64,
    /// Frames dropped because the lab's memory limit was reached. The limit is more than a link of this rate and delay holds.
    pub overflowed: u64,
    /// Frames that were not a packet, or that the kernel refused.
    pub refused: u64,
    /// ICMP messages sent to tell a sender that a packet was too big.
    pub told: u64,
    /// Lateness of the packets since the traffic began: the time from when a packet was due until it was written.
    pub lateness: Lateness,
    /// TCP payload by due time, since the traffic began.
    pub ledger: Ledger,
}

impl LinkCounters {
    /// Returns the counters besides those of segments and bytes, by name.
    pub(crate) fn others(&self) -> BTreeMap<String, u64> {
        let own = [
            ("frames_in", self.frames_in),
            ("frames_out", self.frames_out),
            ("cut", self.cut),
            ("overflowed", self.overflowed),
            ("refused", self.refused),
            ("told", self.told),
        ];
        let of_stage = |(stage, counters): &(&str, StageCounters)| {
            let events = longhaul_link::row(stage)?.events?;
            Some((format!("{stage}_{}", events.replace(' ', "_")), counters.events))
        };
        own.map(|(name, count)| (name.to_string(), count))
            .into_iter()
            .chain(self.stages.iter().filter_map(of_stage))
            .collect()
    }
}

#[derive(Debug)]
struct OneWay {
    /// Stops the thread when it is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

/// State of a direction's thread. The thread unlocks it before it sleeps.
struct State {
    link: Link,
    frames: Frames,
    traffic: LinkCounters,
    start: Instant,
    /// Permitted lateness when many packets are under way.
    lateness: Duration,
}

impl Live {
    /// Carries packets between two devices over `links`. The first link leads from the first device to the second. Each direction
    /// may hold `memory` bytes of packets, and be late by `lateness` when many packets are under way.
    pub(crate) fn start(
        devices: [Tun; 2],
        links: [Link; 2],
        memory: usize,
        lateness: Duration,
    ) -> Result<Live, LabError> {
        let [near, far] = devices.map(Arc::new);
        let [out, back] = links;
        let start = Instant::now();
        let state =
            |link| State { link, frames: Frames::new(memory), traffic: LinkCounters::default(), start, lateness };
        let directions = [
            OneWay::start("lab-link-out", Arc::clone(&near), Arc::clone(&far), state(out))?,
            OneWay::start("lab-link-back", far, near, state(back))?,
        ];
        Ok(Live { directions, start })
    }

    /// Holds back the links' schedules until [`Live::begin`].
    pub(crate) fn hold(&self) {
        self.directions.iter().for_each(|direction| direction.lock().link.hold());
    }

    /// Starts the clock of the schedules now, and resets the lateness and the ledger.
    pub(crate) fn begin(&self) {
        for direction in &self.directions {
            let mut state = direction.lock();
            let now = self.start.elapsed();
            state.link.begin(now);
            state.traffic.lateness = Lateness::default();
            state.traffic.ledger = Ledger::from(now);
        }
    }

    /// Returns the counters of both directions: from near to far, and back.
    pub(crate) fn counters(&self) -> [LinkCounters; 2] {
        [0, 1].map(|index| {
            let state = self.directions[index].lock();
            LinkCounters { stages: state.link.counters().collect(), ..state.traffic.clone() }
        })
    }
}

impl OneWay {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(name: &str, from: Arc<Tun>, to: Arc<Tun>, state: State) -> Result<OneWay, LabError> {
        let (stop, stopped) = UnixStream::pair().map_err(LabError::io("socketpair"))?;
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let body = move || {
            // Without the permission for this, the link is less precise on a busy machine, but works.
            tun::run_before_others();
            // An error means that the device is gone because the lab is being taken down. The thread ends.
            let _ = tun::precise_timeouts().and_then(|()| carry(&from, &to, &stopped, &shared));
        };
        let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = Some(spawned.map_err(LabError::io("starting the link's thread"))?);
        Ok(OneWay { stop: Some(stop), thread, state })
    }
}

impl Drop for OneWay {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Carries frames until told to stop.
fn carry(from: &Tun, to: &Tun, stop: &UnixStream, state: &Mutex<State>) -> Result<(), SysError> {
    loop {
        let rest = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.deliver(to);
            // If more frames are waiting, the thread does not sleep. It first delivers the packets that are due.
            if state.accept(from)? { state.rest() } else { Rest::Wait(Some(Duration::ZERO)) }
        };
        let woken = match rest {
            Rest::Pause(time) => tun::pause(stop.as_fd(), time)?,
            Rest::Wait(time) => from.wait(stop.as_fd(), time)?,
        };
        if woken == Woken::Stop {
            return Ok(());
        }
    }
}

/// The way in which a direction's thread sleeps.
enum Rest {
    /// Until the next packet is due, or a frame arrives.
    Wait(Option<Duration>),
    /// For a fixed time, so that several frames are handled at once afterwards.
    Pause(Duration),
}

impl State {
    /// Writes every packet that is due.
    fn deliver(&mut self, to: &Tun) {
        let now = self.start.elapsed();
        while let Some(packet) = self.link.receive(now) {
            let frame = self.frames.frame(packet.slot);
            match send(to, frame, &packet) {
                Ok(()) => self.traffic.frames_out += 1,
                Err(_) => self.traffic.refused += 1,
            }
            self.traffic.ledger.note(packet.at, segment::tcp_payload(frame, &packet));
            self.frames.release(packet.slot);
            self.traffic.lateness.note(self.start.elapsed().saturating_sub(packet.at));
        }
    }

    /// Reads a batch of frames and puts them on the link. Returns whether no more frames are waiting.
    fn accept(&mut self, from: &Tun) -> Result<bool, SysError> {
        for _ in 0..BATCH {
            let Some(length) = from.read(self.frames.incoming())? else { return Ok(true) };
            let at = self.start.elapsed();
            self.traffic.frames_in += 1;
            let Ok(shape) = segment::shape(self.frames.arrived(length)) else {
                self.traffic.refused += 1;
                continue;
            };
            let Some(slot) = self.frames.keep(length) else {
                self.traffic.overflowed += 1;
                continue;
            };
            let packet = shape.packet(slot, at);
            let sent = self.link.send(packet);
            let is_whole = sent.pieces == 1 && sent.segments == u64::from(packet.segments);
            self.traffic.cut += u64::from(sent.pieces > 0 && !is_whole && packet.segments > 1);
            if let Some(mtu) = sent.too_big {
                self.traffic.told += u64::from(tell(from, self.frames.frame(slot), &shape, mtu));
            }
            self.frames.expect(slot, sent.pieces);
        }
        Ok(false)
    }

    /// Returns how to sleep. A single packet is on time to the microsecond. With many packets under way, the next is always due
    /// very soon, and the thread would fall asleep and wake up all the time. It then sleeps a little longer and is late by that
    /// much.
    fn rest(&self) -> Rest {
        let wait = self.link.due().map(|due| due.saturating_sub(self.start.elapsed()));
        match wait {
            Some(wait) if wait < self.lateness && self.link.under_way() > MANY => Rest::Pause(self.lateness),
            wait => Rest::Wait(wait),
        }
    }
}

/// Tells the sender of `frame` by ICMP, through the device `from`, that the frame does not fit into `mtu` bytes. Returns whether
/// a message was sent. It is sent at once, because the tunnel's end is the sender's next hop.
fn tell(from: &Tun, frame: &[u8], shape: &Shape, mtu: u32) -> bool {
    let mut message = [0; icmp::MESSAGE_MAX];
    let length = icmp::too_big(frame, shape, mtu, &mut message);
    length > 0 && from.write(&[IoSlice::new(&message[..length])]).is_ok()
}

/// Writes the segments of `frame` that belong to `packet`.
fn send(to: &Tun, frame: &[u8], packet: &Packet) -> Result<(), SysError> {
    let whole = segment::shape(frame).ok().filter(|shape| shape.segments() != packet.segments);
    let Some(shape) = whole else { return to.write(&[IoSlice::new(frame)]) };
    let mut head = [0; segment::HEAD_MAX];
    let cut = segment::cut(frame, &shape, packet.first, packet.segments, &mut head);
    to.write(&[IoSlice::new(&head[..cut.head]), IoSlice::new(&frame[cut.payload])])
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("traffic", &self.traffic).field("under_way", &self.link.under_way()).finish()
    }
}

/// Number of frames read before due packets are delivered: at 10 Gbit/s eight super-packets take less than half a millisecond.
const BATCH: usize = 8;

/// A link is busy with more packets under way than this. A dozen interactive connections do not make it busy.
const MANY: usize = 32;
