//! The link, live: for each direction a thread that reads frames from one TUN device, lets them pass the stages of
//! [`longhaul_link`], and writes each to the other device when it is due.
//!
//! It sleeps in ppoll(2) until a frame comes or one is due, with timeouts in nanoseconds: it is on time without spinning.
//! A frame is written as it was read unless a stage took some of its segments; then the runs that are left are written
//! with new headers, straight from the same buffer.

use crate::error::LabError;
use crate::world::frames::Frames;
use longhaul_link::segment::Shape;
use longhaul_link::{Lateness, Ledger, Link, Packet, StageCounters, icmp, segment};
use longhaul_sys::SysError;
use longhaul_sys::tun::{self, Tun, Woken};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Both directions of the link; they stop when it is dropped.
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
    /// Frames read from the one device.
    pub frames_in: u64,
    /// Frames written to the other.
    pub frames_out: u64,
    /// Super-packets that arrived in more than one piece or not whole, because a stage did something to a part of them.
    pub cut: u64,
    /// Frames dropped because the lab's own memory limit was reached: more than a link of this rate and delay holds.
    pub overflowed: u64,
    /// Frames that were no packet, or that the kernel did not take.
    pub refused: u64,
    /// Senders told by ICMP that a packet was too big.
    pub told: u64,
    /// Lateness of each packet since the traffic began: the time from the moment it was due to the moment it was written.
    pub lateness: Lateness,
    /// TCP payload by the moment at which it was due, since the traffic began.
    pub ledger: Ledger,
}

#[derive(Debug)]
struct OneWay {
    /// Closing it stops the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

/// State of a direction's thread, which unlocks it while it sleeps.
struct State {
    link: Link,
    frames: Frames,
    traffic: LinkCounters,
    start: Instant,
    /// Lateness that is allowed when many packets are under way.
    lateness: Duration,
}

impl Live {
    /// Carries packets between two devices over `links`, the first of which leads from the first device to the second.
    /// Each direction may hold `memory` bytes of packets, and be late by `lateness` when many are under way.
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

    /// Puts off what the links' schedules change.
    pub(crate) fn hold(&self) {
        self.directions.iter().for_each(|direction| direction.lock().link.hold());
    }

    /// Lets the times of the schedules count from now on, and begins the lateness and the ledger anew.
    pub(crate) fn begin(&self) {
        for direction in &self.directions {
            let mut state = direction.lock();
            let now = self.start.elapsed();
            state.link.begin(now);
            state.traffic.lateness = Lateness::default();
            state.traffic.ledger = Ledger::from(now);
        }
    }

    /// Returns the time since the link was started.
    pub(crate) fn running(&self) -> Duration {
        self.start.elapsed()
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
            // Without the right to it, the link is only less precise on a busy machine.
            tun::run_before_others();
            // A device that is gone ends the link; the lab is being taken down.
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
            // When more frames are waiting only what is due goes before them.
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
    /// Until the next packet is due, or a frame comes.
    Wait(Option<Duration>),
    /// For a moment, to do several frames at once then.
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

    /// Reads a batch of frames and puts them on the link; whether those were all.
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

    /// A packet on its own is on time to the microsecond. A link with many under way, where the next is always due in a
    /// moment, would do nothing but fall asleep and wake up: it rests a little longer and is late by that much.
    fn rest(&self) -> Rest {
        let wait = self.link.due().map(|due| due.saturating_sub(self.start.elapsed()));
        match wait {
            Some(wait) if wait < self.lateness && self.link.under_way() > MANY => Rest::Pause(self.lateness),
            wait => Rest::Wait(wait),
        }
    }
}

/// Tells the sender of `frame`, through the device that it came from, that it does not fit into `mtu` bytes; whether
/// there was somebody to tell. It is told at once: the tunnel's own end is the sender's next hop.
fn tell(from: &Tun, frame: &[u8], shape: &Shape, mtu: u32) -> bool {
    let mut message = [0; icmp::MESSAGE_MAX];
    let length = icmp::too_big(frame, shape, mtu, &mut message);
    length > 0 && from.write(&[IoSlice::new(&message[..length])]).is_ok()
}

/// Writes the segments of `frame` that `packet` stands for.
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

/// Frames read before looking at what is due: at 10 Gbit/s eight super-packets take less than half a millisecond.
const BATCH: usize = 8;

/// Packets under way from which on the link is busy: a dozen interactive connections are not.
const MANY: usize = 32;
