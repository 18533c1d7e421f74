//! The link, live: for each direction a thread that reads frames from one TUN device, lets them pass the stages of
//! [`longhaul_core::link`], and writes each to the other device when it is due.
//!
//! It sleeps in ppoll(2) until a frame comes or one is due, with timeouts in nanoseconds: it is on time without spinning.
//! A frame is written as it was read unless a stage took some of its segments; then the runs that are left are written
//! with new headers, straight from the same buffer.

use super::pool::Pool;
use super::problem::Problem;
use longhaul_core::link::{Counters, Link, Packet, segment};
use longhaul_sys::SysError;
use longhaul_sys::tun::{self, Tun, Woken};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Both directions of the link; they stop when it is dropped.
#[derive(Debug)]
pub(super) struct Live {
    directions: [Direction; 2],
}

/// What one direction of the link has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The stages in the order in which packets pass them.
    pub stages: Vec<(&'static str, Counters)>,
    /// Frames read from the one device.
    pub frames_in: u64,
    /// Frames written to the other.
    pub frames_out: u64,
    /// Super-packets that arrived in more than one piece or not whole.
    pub cut: u64,
    /// Frames dropped because the lab's own memory limit was reached: more than a link of this rate and delay holds.
    pub overflowed: u64,
    /// Frames that were no packet, or that the kernel did not take.
    pub refused: u64,
}

#[derive(Debug)]
struct Direction {
    /// Closing it stops the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

/// What a direction's thread works with; the thread lets go of it while it sleeps.
struct State {
    link: Link,
    pool: Pool,
    traffic: Traffic,
    start: Instant,
}

impl Live {
    /// Carries packets between two devices over `links`, the first of which leads from the first device to the second.
    /// Each direction may hold `memory` bytes of packets.
    pub(super) fn start(devices: [Tun; 2], links: [Link; 2], memory: usize) -> Result<Live, Problem> {
        let [near, far] = devices.map(Arc::new);
        let [out, back] = links;
        let directions = [
            Direction::start("lab-link-out", Arc::clone(&near), Arc::clone(&far), out, memory)?,
            Direction::start("lab-link-back", far, near, back, memory)?,
        ];
        Ok(Live { directions })
    }

    /// What both directions have done: from near to far, and back.
    pub(super) fn traffic(&self) -> [Traffic; 2] {
        [0, 1].map(|index| {
            let state = self.directions[index].state.lock().unwrap_or_else(PoisonError::into_inner);
            Traffic { stages: state.link.counters().collect(), ..state.traffic.clone() }
        })
    }
}

impl Direction {
    fn start(name: &str, from: Arc<Tun>, to: Arc<Tun>, link: Link, memory: usize) -> Result<Direction, Problem> {
        let (stop, stopped) = UnixStream::pair().map_err(Problem::io("socketpair"))?;
        let state = State { link, pool: Pool::new(memory), traffic: Traffic::default(), start: Instant::now() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let body = move || {
            // Without the right to it, the link is only less precise on a busy machine.
            tun::run_before_others();
            // A device that is gone ends the link; the lab is being taken down.
            let _ = tun::precise_timeouts().and_then(|()| carry(&from, &to, &stopped, &shared));
        };
        let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = Some(spawned.map_err(Problem::io("starting the link's thread"))?);
        Ok(Direction { stop: Some(stop), thread, state })
    }
}

impl Drop for Direction {
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
        let wait = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.deliver(to);
            match state.accept(from)? {
                // More may be waiting, but what is due goes first.
                Accepted::Batch => Some(Duration::ZERO),
                Accepted::All => state.link.due().map(|due| due.saturating_sub(state.start.elapsed())),
            }
        };
        if from.wait(stop.as_fd(), wait)? == Woken::Stop {
            return Ok(());
        }
    }
}

enum Accepted {
    /// Everything there was.
    All,
    /// A batch; there may be more.
    Batch,
}

impl State {
    /// Writes every packet that is due.
    fn deliver(&mut self, to: &Tun) {
        let now = self.start.elapsed();
        while let Some(packet) = self.link.receive(now) {
            match send(to, self.pool.frame(packet.slot), &packet) {
                Ok(()) => self.traffic.frames_out += 1,
                Err(_) => self.traffic.refused += 1,
            }
            self.pool.release(packet.slot);
        }
    }

    /// Reads a batch of frames and puts them on the link.
    fn accept(&mut self, from: &Tun) -> Result<Accepted, SysError> {
        for _ in 0..BATCH {
            let Some(length) = from.read(self.pool.incoming())? else { return Ok(Accepted::All) };
            let at = self.start.elapsed();
            self.traffic.frames_in += 1;
            let Ok(shape) = segment::shape(self.pool.arrived(length)) else {
                self.traffic.refused += 1;
                continue;
            };
            let Some(slot) = self.pool.keep(length) else {
                self.traffic.overflowed += 1;
                continue;
            };
            let packet = shape.packet(slot, at);
            let before = self.lost();
            let pieces = self.link.send(packet);
            self.traffic.cut += u64::from(pieces > 0 && packet.segments > 1 && self.lost() > before);
            self.pool.expect(slot, pieces);
        }
        Ok(Accepted::Batch)
    }

    fn lost(&self) -> u64 {
        self.link.counters().map(|(_, counters)| counters.segments_lost()).sum()
    }
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
