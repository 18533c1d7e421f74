//! Carrying a flow's bytes: two pumps, one each way, joined in one task. The decisions are
//! [`longhaul_core::pump`]'s; here they meet sockets.
//!
//! Nothing is locked, allocated or logged for each chunk. A pump that cannot go on has registered this task with the
//! socket it waits for, and holds a vessel only when that is the sink.

use super::Relay;
use super::end::Broken;
use super::leg::{self, Choice};
use super::low_water::LowWater;
use super::stream::Stream;
use super::vessel::Vessel;
use crate::config::Tunnel;
use longhaul_core::pump::{Pump, Step};
use longhaul_sys::sockopt::Leg;
use longhaul_sys::tcp_info::unacknowledged;
use std::future::{Future, poll_fn};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tracing::warn;

/// The bytes that a flow carried, each counted when the sink's socket took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// From the accept leg to the dial leg.
    pub up: u64,
    /// From the dial leg to the accept leg.
    pub down: u64,
}

/// What a flow is carried with.
pub(super) struct Carry<'a> {
    pub(super) relay: &'a Relay,
    pub(super) tunnel: &'a Tunnel,
    pub(super) accept: &'a Arc<Stream>,
    pub(super) dial: &'a Arc<Stream>,
}

impl Carry<'_> {
    /// Carries every byte both ways until both directions have ended well, and writes what it carried to `tally` also
    /// when it is dropped before.
    ///
    /// # Errors
    /// The leg that broke, and how. Both legs are then to be reset.
    pub(super) async fn run(&self, tally: &mut Tally) -> Result<(), Broken> {
        let mut flow = Both {
            up: Direction::new(self, self.accept, self.dial, Leg::Dial),
            down: Direction::new(self, self.dial, self.accept, Leg::Accept),
            tally,
        };
        let mut half_open = HalfOpen { moved: 0, timer: None };
        // By the leg that has sent its FIN.
        let limits = (self.tunnel.accept.linger_half_open(), self.tunnel.dial.linger_half_open());
        // A pump blocked on its sink does not look at its source, and one that has ended looks at neither: without these
        // two, a RST on one leg would wait for the other leg's next byte.
        let mut accept_error = pin!(self.accept.failed());
        let mut dial_error = pin!(self.dial.failed());
        poll_fn(|cx| {
            let up = flow.up.poll(cx).map_err(|(end, err)| self.broken(end.of(Leg::Accept), &err))?;
            let down = flow.down.poll(cx).map_err(|(end, err)| self.broken(end.of(Leg::Dial), &err))?;
            if up.is_ready() && down.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if accept_error.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.broken(Leg::Accept, &pending_error(self.accept))));
            }
            if dial_error.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.broken(Leg::Dial, &pending_error(self.dial))));
            }
            let limit = match (up.is_ready(), down.is_ready()) {
                (true, _) => limits.0,
                (_, true) => limits.1,
                _ => None,
            };
            half_open.poll(cx, limit, flow.up.pump.moved() + flow.down.pump.moved()).map(Err)
        })
        .await?;
        drop(flow);
        self.settle().await
    }

    /// Waits until the peers' kernels have acknowledged every byte. Until then a leg may still break, and while we hold
    /// it with SO_LINGER 0 that is told to the other one; the FINs themselves need no waiting for.
    async fn settle(&self) -> Result<(), Broken> {
        let mut pause = Duration::from_millis(1);
        loop {
            let mut all_acknowledged = true;
            for (leg, socket) in [(Leg::Accept, self.accept), (Leg::Dial, self.dial)] {
                // A FIN that is out and not acknowledged counts as one byte. A kernel that does not tell (an mptcp leg before
                // Linux 5.17, a seccomp filter) would never do so, and nothing else bounds this wait: the flow ends here, and
                // the kernel goes on sending what is left.
                if unacknowledged(socket.as_fd()).is_ok_and(|bytes| bytes > 1) {
                    all_acknowledged = false;
                    if let Some(err) = socket.take_error().ok().flatten() {
                        return Err(self.broken(leg, &err));
                    }
                }
            }
            if all_acknowledged {
                return Ok(());
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    fn broken(&self, leg: Leg, err: &io::Error) -> Broken {
        Broken { leg, errno: err.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Both directions, and where their counts go even when the flow's task is dropped.
struct Both<'a> {
    up: Direction<'a>,
    down: Direction<'a>,
    tally: &'a mut Tally,
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        *self.tally = Tally { up: self.up.pump.moved(), down: self.down.pump.moved() };
    }
}

/// One pump with its sockets.
struct Direction<'a> {
    relay: &'a Relay,
    source: &'a Arc<Stream>,
    sink: &'a Stream,
    pump: Pump,
    splice: bool,
    vessel: Option<Vessel>,
    /// Bytes of the fill that is being drained.
    fill: usize,
    low_water: LowWater,
    /// The sink's congestion control.
    choice: Choice,
}

/// At which of its two sockets a pump failed.
#[derive(Clone, Copy)]
enum End {
    Source,
    Sink,
}

impl End {
    /// The leg, for the pump whose source is `source`.
    fn of(self, source: Leg) -> Leg {
        match self {
            End::Source => source,
            End::Sink => source.other(),
        }
    }
}

impl<'a> Direction<'a> {
    fn new(carry: &Carry<'a>, source: &'a Arc<Stream>, sink: &'a Stream, leg: Leg) -> Direction<'a> {
        Direction {
            relay: carry.relay,
            source,
            sink,
            pump: Pump::new(),
            splice: carry.tunnel.splice,
            vessel: None,
            fill: 0,
            low_water: LowWater::new(),
            choice: Choice::of(carry.tunnel, leg, sink),
        }
    }

    /// The four arms. Ready when FIN was sent. After some turns a busy pump lets the other direction and other flows go
    /// first: without that a reverse message waited 140 ms behind a copying pump, which the whole budget of tokio let go on.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), (End, io::Error)>> {
        let mut turns = TURNS;
        loop {
            match self.pump.step() {
                Step::Fill => {
                    let filled = ready!(self.poll_fill(cx)).map_err(|err| (End::Source, err))?;
                    self.fill = filled;
                    self.low_water.filled(filled);
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
                        vessel.emptied(self.fill, &self.relay.pool);
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
                self.low_water.wait(self.source, &self.relay.marks);
                return Poll::Pending;
            }
            let vessel = match &mut self.vessel {
                Some(vessel) => vessel,
                none => none.insert(take_vessel(self.relay, self.splice)),
            };
            match self.source.try_io(Interest::READABLE, || vessel.fill(self.source)) {
                Ok(Some(filled)) => return Poll::Ready(Ok(filled)),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                // A socket, a kernel or a seccomp filter that refuses splice says so before the first byte.
                Err(err) if !(self.splice && self.pump.moved() == 0 && refuses_splice(self.relay, &err)) => {
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
                Err(err) if self.splice && self.pump.moved() == 0 && refuses_splice(self.relay, &err) => {
                    self.splice = false;
                    vessel.unsplice(self.pump.held(), &self.relay.pool)?;
                }
                drained => return Poll::Ready(drained),
            }
        }
    }

    /// The vessel is empty and nothing is coming: an idle pump has none.
    fn give_back(&mut self) {
        if let Some(vessel) = self.vessel.take() {
            vessel.give(&self.relay.pool);
        }
    }
}

impl Drop for Direction<'_> {
    fn drop(&mut self) {
        if let Some(vessel) = self.vessel.take() {
            vessel.discard(&self.relay.pool);
        }
    }
}

/// The timer of `linger-half-open`: runs only while exactly one direction has ended, starts again with every byte.
struct HalfOpen {
    moved: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl HalfOpen {
    fn poll(&mut self, cx: &mut Context<'_>, limit: Option<Duration>, moved: u64) -> Poll<Broken> {
        let Some(limit) = limit else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if moved != self.moved {
            self.moved = moved;
            timer.set(sleep_until(Instant::now() + limit));
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Broken { leg: Leg::Accept, errno: Broken::HALF_OPEN })
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

/// The error for which the kernel woke us; a reset when somebody took it already.
fn pending_error(socket: &Stream) -> io::Error {
    match socket.take_error() {
        Ok(Some(err)) | Err(err) => err,
        Ok(None) => io::Error::from_raw_os_error(libc::ECONNRESET),
    }
}

/// How many times a pump may fill and drain before others go first: 4 MiB at the most, a millisecond at 40 Gbit/s.
const TURNS: u32 = 4;
