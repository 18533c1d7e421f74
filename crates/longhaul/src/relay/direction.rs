//! One pump with its two sockets: the steps of [`longhaul_core::pump`], done with splice(2) or by copying.
//!
//! Nothing is locked, allocated or logged per chunk. A pump that cannot go on has registered its task with the socket that
//! it waits for, and holds a vessel only when that is the sink.

use super::Relay;
use super::carry::Carry;
use super::leg::{self, Choice};
use super::low_water::LowWater;
use super::stream::Stream;
use super::vessel::Vessel;
use longhaul_core::pump::{Pump, Step};
use longhaul_sys::sockopt::Leg;
use longhaul_sys::tcp_info::TcpInfo;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tracing::warn;

/// One pump with its sockets.
pub(super) struct Direction<'a> {
    carry: &'a Carry<'a>,
    source: &'a Arc<Stream>,
    sink: &'a Stream,
    pub(super) pump: Pump,
    splice: bool,
    vessel: Option<Vessel>,
    /// Bytes of the fill that is being drained.
    fill: usize,
    low_water: LowWater,
    /// The sink's congestion control.
    choice: Choice,
    /// Bytes that the sink had before the pump began (fast open).
    early: u64,
    /// Whether the source is broken: then its end is a FIN only if one came before the break.
    source_is_broken: bool,
    is_stopped: bool,
}

/// At which of its two sockets a pump failed.
#[derive(Clone, Copy)]
pub(super) enum End {
    Source,
    Sink,
}

impl End {
    /// The leg, for the pump whose source is `source`.
    pub(super) fn of(self, source: Leg) -> Leg {
        match self {
            End::Source => source,
            End::Sink => source.other(),
        }
    }
}

impl<'a> Direction<'a> {
    /// The pump from `source` to `sink`, which is the leg `leg` and has `early` bytes already.
    pub(super) fn new(
        carry: &'a Carry<'a>,
        source: &'a Arc<Stream>,
        sink: &'a Stream,
        leg: Leg,
        early: u64,
    ) -> Direction<'a> {
        Direction {
            carry,
            source,
            sink,
            pump: Pump::new(),
            splice: carry.tunnel.splice,
            vessel: None,
            fill: 0,
            low_water: LowWater::new(),
            choice: Choice::of(carry.tunnel, leg, sink),
            early,
            source_is_broken: false,
            is_stopped: false,
        }
    }

    /// The source broke. What it had sent by then is still delivered.
    pub(super) fn source_broke(&mut self) {
        self.source_is_broken = true;
    }

    /// Moves nothing more, and throws away what is held.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        if let Some(vessel) = self.vessel.take() {
            vessel.discard(&self.carry.relay.pool);
        }
    }

    /// Whether it waits for its sink.
    pub(super) fn is_blocked(&self) -> bool {
        self.pump.step() == Step::Drain && !self.is_stopped
    }

    /// Whether FIN was sent on the sink.
    pub(super) fn has_sent_fin(&self) -> bool {
        self.pump.step() == Step::Done
    }

    /// Whether it moves nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.is_stopped || self.has_sent_fin()
    }

    /// The four arms. Ready when FIN was sent or the direction was [stopped](Direction::stop). After some turns a busy pump lets the other direction and other flows go
    /// first: without that a reverse message waited 140 ms behind a copying pump, which the whole budget of tokio let go on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), (End, io::Error)>> {
        let mut turns = TURNS;
        loop {
            match self.pump.step() {
                _ if self.is_stopped => return Poll::Ready(Ok(())),
                Step::Fill => {
                    let filled = ready!(self.poll_fill(cx)).map_err(|err| (End::Source, err))?;
                    if filled == 0 && self.source_is_broken && !self.has_fin() {
                        return Poll::Ready(Err((End::Source, io::Error::from_raw_os_error(libc::ECONNRESET))));
                    }
                    self.fill = filled;
                    self.low_water.filled(filled);
                    self.carry.member.moved();
                    self.pump.filled(filled);
                }
                Step::Drain => {
                    let Poll::Ready(drained) = self.poll_drain(cx) else {
                        if self.pump.moved() >= leg::ENOUGH {
                            self.choice.full(self.sink);
                        }
                        return Poll::Pending;
                    };
                    self.pump.drained(drained.map_err(|err| (End::Sink, err))?);
                    if let (0, Some(vessel)) = (self.pump.held(), &mut self.vessel) {
                        vessel.emptied(self.fill, &self.carry.relay.pool);
                        turns -= 1;
                    }
                    if turns == 0 {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Step::Fin => {
                    self.give_back();
                    shutdown(self.sink).map_err(|err| (End::Sink, err))?;
                    self.pump.finned();
                }
                Step::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if self.source.poll_read_ready(cx)?.is_pending() {
                self.give_back();
                self.low_water.wait(self.source, &self.carry.relay.marks);
                return Poll::Pending;
            }
            let vessel = match &mut self.vessel {
                Some(vessel) => vessel,
                none => none.insert(take_vessel(self.carry.relay, self.splice)),
            };
            match self.source.try_io(Interest::READABLE, || vessel.fill(self.source)) {
                Ok(Some(filled)) => return Poll::Ready(Ok(filled)),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                // A socket, a kernel or a seccomp filter that refuses splice says so before the first byte.
                Err(err) if !(self.splice && self.pump.moved() == 0 && refuses_splice(self.carry.relay, &err)) => {
                    return Poll::Ready(Err(err));
                }
                // Or there is urgent data, and then more of it is likely: from here on this pump copies.
                Ok(None) | Err(_) => {
                    self.splice = false;
                    self.give_back();
                }
            }
        }
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(vessel) = &mut self.vessel else { return Poll::Ready(Ok(0)) };
        loop {
            ready!(self.sink.poll_write_ready(cx))?;
            match self.sink.try_io(Interest::WRITABLE, || vessel.drain(self.sink, self.pump.held())) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                Err(err) if self.splice && self.pump.moved() == 0 && refuses_splice(self.carry.relay, &err) => {
                    self.splice = false;
                    vessel.unsplice(self.pump.held(), &self.carry.relay.pool)?;
                }
                drained => return Poll::Ready(drained),
            }
        }
    }

    /// Whether the source, all of which is read, has sent FIN. Asked only after its error was taken, for from then on the
    /// kernel says "end of stream" either way: a FIN counts as a byte received, and no read returns it.
    fn has_fin(&self) -> bool {
        TcpInfo::of(self.source.as_fd()).is_ok_and(|info| info.bytes_received > self.early + self.pump.moved())
    }

    /// The vessel is empty and nothing is coming: an idle pump has none.
    fn give_back(&mut self) {
        if let Some(vessel) = self.vessel.take() {
            vessel.give(&self.carry.relay.pool);
        }
    }
}

impl Drop for Direction<'_> {
    fn drop(&mut self) {
        if let Some(vessel) = self.vessel.take() {
            vessel.discard(&self.carry.relay.pool);
        }
    }
}

fn take_vessel(relay: &Relay, splice: bool) -> Vessel {
    let vessel = Vessel::take(&relay.pool, splice);
    if matches!(vessel, Vessel::Buffer { .. }) {
        relay.counters.copied.fetch_add(1, Relaxed);
    }
    vessel
}

/// Sends FIN. ENOTCONN means that the connection was reset meanwhile, which the reading side reports.
fn shutdown(socket: &Stream) -> io::Result<()> {
    socket2::SockRef::from(socket).shutdown(Shutdown::Write)
}

/// Whether `err` says "not by splice" and not "this connection is broken": EINVAL (splice(2)), ENOSYS, and what a security
/// module, a seccomp filter or a protocol without it answers. Said once in the log, for the flows only get slower.
fn refuses_splice(relay: &Relay, err: &io::Error) -> bool {
    const REFUSALS: [i32; 5] = [libc::EINVAL, libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP];
    let refuses = err.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno));
    if refuses && !relay.splice_refused.swap(true, Relaxed) {
        let err = leg::failed("splice", err);
        warn!(%err, "splice is refused: flows go on by copying, slower; a seccomp filter, SELinux or an mptcp leg does that");
    }
    refuses
}

/// How many times a pump may fill and drain before others go first: 4 MiB at the most, a millisecond at 40 Gbit/s.
const TURNS: u32 = 4;
