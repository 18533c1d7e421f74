//! One pump with its two sockets: the steps of [`longhaul_core::pump`], done by recv and send, or by splice(2).
//!
//! Messages are copied through the worker's scratch buffer, by one recv and one send each. A read that fills
//! [`MESSAGE`] bytes shows bulk. From then on bytes go through a pipe, until fills become small again.
//!
//! Nothing is locked or logged per chunk. While the sink takes every byte, the only allocation is [`Bulk`], once, when
//! a flow first brings bulk. A pump that cannot go on has registered its task with the socket that it waits for. It
//! holds bytes only while it waits for its sink.

use crate::carry::buffer::{Buffer, SCRATCH, with_scratch};
use crate::leg::low_water::LowWater;
use crate::leg::setup;
use crate::leg::stream::Stream;
use crate::live::how::Broken;
use crate::state::legs::Legs;
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_core::path::{AutoCongestion, MIN_ACKED_BYTES};
use longhaul_core::pump::{Pump, PumpStep};
use longhaul_sys::tcp_info::TcpInfo;
use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};
use tracing::warn;

/// One pump with its sockets.
pub(super) struct Direction<'a> {
    legs: &'a Legs<'a>,
    pub(super) pump: Pump,
    /// The `held` bytes of the pump.
    pub(super) buffer: Buffer,
    /// Whether bytes may go through a pipe.
    splice: bool,
    /// Whether splice has passed bytes. From then on its errors are errors of the sockets.
    spliced: bool,
    /// Whether the source currently brings more than messages.
    is_bulk: bool,
    /// State for bulk. Allocated at the first bulk and kept, so that a flow of messages does not have it.
    bulk: Option<Box<Bulk>>,
    /// Number of the held bytes that the relay's budget counts, because the pump is blocked.
    blocked: u32,
    /// Whether the sink's congestion control was still undecided at its handshake.
    may_choose: bool,
    /// The leg that it reads; the other leg is its sink. One leg instead of two references, because an idle flow has
    /// two directions.
    source: Leg,
    /// Whether the source is broken. The end of its stream then counts as FIN only if a FIN came before the break.
    pub(super) source_is_broken: bool,
    is_stopped: bool,
    /// Whether a FIN before any byte is not passed on yet.
    pub(super) may_hold_fin: bool,
}

/// Part of a pump that only bulk needs.
struct Bulk {
    low_water: LowWater,
    /// Chooses the sink's congestion control.
    choice: AutoCongestion,
    /// Runs while a pipe waits for the sink.
    pipe_wait: Option<PipeWait>,
}

/// A timer, and the number of bytes that the pump had moved when the timer was set.
struct PipeWait {
    timer: Pin<Box<Sleep>>,
    moved: u64,
}

impl<'a> Direction<'a> {
    /// Returns the pump from the leg `source` to the other leg, which has taken `early` bytes already.
    pub(super) fn new(legs: &'a Legs<'a>, source: Leg, early: u64) -> Direction<'a> {
        let sink = source.other();
        Direction {
            legs,
            source,
            pump: Pump::new(early),
            buffer: Buffer::Empty,
            splice: legs.tunnel().splice,
            spliced: false,
            is_bulk: false,
            bulk: None,
            blocked: 0,
            may_choose: !setup::auto_congestion(legs.tunnel(), sink, legs.of(sink)).is_settled(),
            source_is_broken: legs.of(source).was_reset(),
            is_stopped: false,
            may_hold_fin: false,
        }
    }

    pub(super) fn source(&self) -> &'a Arc<Stream> {
        self.legs.of(self.source)
    }

    fn sink(&self) -> &'a Stream {
        self.legs.of(self.source.other())
    }

    /// Stops the pump and discards the bytes that it holds.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        self.hold(0);
        std::mem::replace(&mut self.buffer, Buffer::Empty).discard(&self.legs.relay.pool);
    }

    /// Whether the next step is to read from the source.
    pub(super) fn is_waiting(&self) -> bool {
        self.pump.step() == PumpStep::Fill && !self.is_stopped
    }

    /// Whether the pump waits for its sink.
    pub(super) fn is_blocked(&self) -> bool {
        self.pump.step() == PumpStep::Drain && !self.is_stopped
    }

    /// Whether the FIN of the source has come, and is not passed on yet.
    pub(super) fn is_holding_fin(&self) -> bool {
        self.may_hold_fin && self.pump.moved() == 0 && self.pump.step() == PumpStep::Fin && !self.is_stopped
    }

    /// Whether FIN was sent on the sink.
    pub(super) fn has_sent_fin(&self) -> bool {
        self.pump.step() == PumpStep::Done
    }

    /// Whether the pump has sent FIN or was stopped.
    pub(super) fn has_ended(&self) -> bool {
        self.is_stopped || self.has_sent_fin()
    }

    /// Moves bytes until the pump has to wait. Ready when FIN was sent or the direction was [stopped](Direction::stop).
    ///
    /// # Errors
    /// The leg that broke: the source or the sink.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        with_scratch(|scratch| self.poll_from(cx, scratch))
    }

    /// Does the same with the bytes that may be in `scratch`, the worker's scratch buffer.
    pub(super) fn poll_from(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<Result<(), Broken>> {
        let polled = self.poll_with(cx, scratch);
        // In every case, because the next pump on this worker overwrites the scratch buffer.
        self.buffer.keep(scratch);
        self.legs.flow.set_carried(self.source, self.pump.moved());
        polled
    }

    /// Runs the steps until the pump has to wait or has used up its turn. The turn is limited so that the other
    /// direction and other flows can run: with tokio's whole budget, a message in the other direction waited 140 ms
    /// behind a copying pump.
    fn poll_with(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<Result<(), Broken>> {
        let source = self.source;
        let source_broke = |err| Broken::of(source, &err);
        let sink_broke = |err| Broken::of(source.other(), &err);
        let before = self.pump.moved();
        let mut turns = 0;
        loop {
            match self.pump.step() {
                _ if self.is_stopped => return Poll::Ready(Ok(())),
                PumpStep::Fill => {
                    let filled = ready!(self.poll_fill(cx, scratch)).map_err(source_broke)?;
                    self.filled(filled)?;
                }
                PumpStep::Drain => {
                    let Poll::Ready(drained) = self.poll_drain(cx, scratch) else {
                        self.block(cx).map_err(sink_broke)?;
                        return Poll::Pending;
                    };
                    self.pump.drained(drained.map_err(sink_broke)?);
                    if self.pump.held() > 0 {
                        continue;
                    }
                    self.drained();
                    turns += 1;
                    if turns >= MAX_TURNS || (turns >= TURNS && self.pump.moved() - before >= TURN_BYTES) {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                PumpStep::Fin if self.is_holding_fin() => return Poll::Pending,
                PumpStep::Fin => {
                    self.rest();
                    let may_end = self.legs.flow.client.poll_before_fin(source, self.pump.moved(), cx);
                    ready!(may_end).map_err(source_broke)?;
                    shutdown(self.sink()).map_err(sink_broke)?;
                    self.pump.finned();
                    self.legs.flow.passed_fin(self.source);
                }
                PumpStep::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Sends `bytes`, one at least, before those of the source.
    pub(super) fn send_first(&mut self, bytes: Box<[u8]>) {
        // This fails only at the end of a stream.
        let _ = self.filled(bytes.len());
        self.buffer = Buffer::Heap { bytes, from: 0, urgent: false };
    }

    /// Takes the `bytes` that came into the buffer, 0 at the end of the source's stream. Records for keepalive that the flow moves.
    ///
    /// # Errors
    /// The stream has ended without FIN.
    pub(super) fn filled(&mut self, bytes: usize) -> Result<(), Broken> {
        if bytes == 0 && self.source_is_broken && !self.has_fin() {
            return Err(Broken::of(self.source, &io::Error::from_raw_os_error(libc::ECONNRESET)));
        }
        if self.legs.flow.pulse.beat() {
            self.legs.relay.registry.wake(self.legs.flow);
        }
        self.pump.filled(bytes);
        Ok(())
    }

    /// Reads from the source into `scratch` or a pipe. Returns the number of bytes, 0 at the end of the stream.
    ///
    /// # Errors
    /// The source's error.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(mut ready) = self.source().poll_read_ready(cx)? else {
                self.rest();
                return Poll::Pending;
            };
            let max = self.legs.relay.budget.fill();
            let filled = match self.is_bulk && self.take_pipe() {
                true => self.fill_pipe(max),
                false => self.fill_scratch(scratch, max),
            };
            match filled {
                Ok(Some(Filled { bytes, all })) => {
                    if all && bytes > 0 {
                        ready.clear_ready();
                    }
                    self.is_bulk = bytes >= MESSAGE || (self.is_bulk && bytes >= MIN_BULK_FILL);
                    return Poll::Ready(Ok(bytes));
                }
                Ok(None) => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(err) => return Poll::Ready(Err(err)),
            }
        }
    }

    /// Fills the pipe that [`take_pipe`](Self::take_pipe) found. Returns `None` when this pump copies from now on.
    fn fill_pipe(&mut self, max: usize) -> io::Result<Option<Filled>> {
        let Buffer::Pipe(pipe) = &self.buffer else { return Ok(None) };
        match Buffer::fill_pipe(pipe, self.source(), max) {
            // A short fill does not show an empty socket: the pipe may be full.
            Ok(Some(bytes)) => {
                self.bulk().low_water.filled(bytes);
                return Ok(Some(Filled { bytes, all: false }));
            }
            // A socket, a kernel or a seccomp filter that refuses splice does so before the first byte.
            Err(err) if self.spliced || !refuses_splice(self.legs.relay, &err) => return Err(err),
            // Splice is refused, or there is urgent data and more of it is likely. This pump copies from now on.
            Ok(None) | Err(_) => {}
        }
        self.splice = false;
        self.give_back();
        Ok(None)
    }

    fn fill_scratch(&mut self, scratch: &mut [u8], max: usize) -> io::Result<Option<Filled>> {
        self.give_back();
        // Bulk is copied only when no pipe is available.
        let max = if self.is_bulk { max.min(SCRATCH) } else { MESSAGE };
        let urgent = self.source().has_urgent();
        self.buffer = Buffer::fill_scratch(scratch, self.source(), max, urgent)?;
        let Buffer::Scratch { to, .. } = self.buffer else { return Ok(None) };
        if self.is_bulk {
            self.legs.flow.counters.count(|counters| &counters.copied);
        }
        // recv(2) stops at an urgent byte. Without one, a short read has emptied the socket. Bytes that come later are
        // a new event (epoll(7), Q&A 9). If the end of the stream is there already, the runtime keeps the readiness.
        let bytes = to as usize;
        Ok(Some(Filled { bytes, all: bytes < max && !urgent }))
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>, scratch: &[u8]) -> Poll<io::Result<usize>> {
        let sink = self.sink();
        loop {
            let mut ready = ready!(sink.poll_write_ready(cx))?;
            let held = self.pump.held();
            let splices = matches!(self.buffer, Buffer::Pipe(_));
            match self.buffer.drain(scratch, sink, held) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(err) if splices && !self.spliced && refuses_splice(self.legs.relay, &err) => {
                    self.splice = false;
                    self.buffer.unsplice(held, &self.legs.relay.pool)?;
                }
                Ok(drained) => {
                    self.spliced |= splices;
                    // A short send(2) has filled the send buffer. A short splice may only have stopped at the end of a
                    // piece.
                    if !splices && drained < held {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(drained));
                }
                Err(err) => return Poll::Ready(Err(err)),
            }
        }
    }

    /// Called when the sink takes no more. Counts the held bytes in the budget. Once they have waited for [`STALLED`],
    /// moves them to the heap and frees their pipe for another pump.
    fn block(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let (held, moved) = (self.pump.held(), self.pump.moved());
        self.hold(held);
        if moved >= MIN_ACKED_BYTES {
            self.look_into_full_sink();
        }
        if !matches!(self.buffer, Buffer::Pipe(_)) {
            return Ok(());
        }
        let wait = self.bulk().pipe_wait.get_or_insert_with(|| PipeWait { timer: Box::pin(sleep(STALLED)), moved });
        while wait.timer.as_mut().poll(cx).is_ready() {
            if wait.moved == moved {
                self.bulk().pipe_wait = None;
                return self.buffer.unsplice(held, &self.legs.relay.pool);
            }
            wait.timer.as_mut().reset(Instant::now() + STALLED);
            wait.moved = moved;
        }
        Ok(())
    }

    /// Samples TCP_INFO of a full sink that carries bulk, until its congestion control is decided.
    fn look_into_full_sink(&mut self) {
        let sink = self.sink();
        let bulk = self.bulk();
        if bulk.choice.is_settled() {
            return;
        }
        let Ok(info) = TcpInfo::of(sink.as_fd()) else { return };
        setup::follow_path(&mut bulk.choice, sink, &info);
    }

    /// Called when the sink has taken every byte.
    fn drained(&mut self) {
        self.hold(0);
        match &mut self.buffer {
            Buffer::Pipe(pipe) if self.is_bulk => self.legs.relay.pool.grow(pipe),
            Buffer::Pipe(_) => {}
            Buffer::Scratch { .. } | Buffer::Heap { .. } | Buffer::Empty => self.buffer = Buffer::Empty,
        }
    }

    /// Called when the source is empty or has ended. Frees the pipe, because an idle pump holds none.
    fn rest(&mut self) {
        if let Buffer::Pipe(_) = self.buffer {
            let source = self.source();
            let marks = &self.legs.relay.marks;
            let answered = self.legs.flow.carried(self.source.other());
            self.bulk().low_water.wait(source, marks, answered, std::time::Instant::now);
            self.give_back();
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.pipe_wait = None;
        }
    }

    fn bulk(&mut self) -> &mut Bulk {
        let choice = if self.may_choose { AutoCongestion::open() } else { AutoCongestion::settled() };
        self.bulk.get_or_insert_with(|| Box::new(Bulk { low_water: LowWater::new(), choice, pipe_wait: None }))
    }

    /// Whether the source has sent FIN. Call it only when every byte is read and the source's error was taken: then the
    /// kernel reports the end of the stream with or without a FIN. A FIN counts as a received byte that no read
    /// returns.
    fn has_fin(&self) -> bool {
        let read = self.source().received_beside().saturating_add_unsigned(self.pump.moved());
        TcpInfo::of(self.source().as_fd()).is_ok_and(|info| i128::from(info.bytes_received) > i128::from(read))
    }

    /// Whether this empty pump has a pipe for its next bytes. Takes one from the pool if need be.
    fn take_pipe(&mut self) -> bool {
        if let (true, Buffer::Empty) = (self.splice, &self.buffer) {
            self.buffer = self.legs.relay.pool.take().map_or(Buffer::Empty, Buffer::Pipe);
        }
        matches!(self.buffer, Buffer::Pipe(_))
    }

    /// Returns the pipe to the pool. The pipe must be empty.
    fn give_back(&mut self) {
        std::mem::replace(&mut self.buffer, Buffer::Empty).give(&self.legs.relay.pool);
    }

    fn hold(&mut self, bytes: usize) {
        if (self.blocked > 0) != (bytes > 0) {
            self.legs.flow.set_blocked(self.source, bytes > 0);
        }
        self.legs.relay.budget.hold(self.blocked as usize, bytes);
        self.blocked = bytes as u32;
    }
}

impl Drop for Direction<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Result of a fill: `bytes` came from the source, 0 at its end. With `all`, the source has no more bytes for now.
struct Filled {
    bytes: usize,
    all: bool,
}

/// Sends FIN. ENOTCONN means that the connection was reset meanwhile; the pump that reads it reports that.
fn shutdown(socket: &Stream) -> io::Result<()> {
    if socket.has_sent_fin() {
        return Ok(());
    }
    socket2::SockRef::from(socket).shutdown(Shutdown::Write)
}

/// Whether `err` means that splice is not possible, and not that the connection is broken: EINVAL (splice(2)), ENOSYS,
/// or the errnos of a security module, a seccomp filter or a protocol without splice. Logged once only, because flows
/// merely get slower.
fn refuses_splice(relay: &Relay, err: &io::Error) -> bool {
    const REFUSALS: [i32; 5] = [libc::EINVAL, libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP];
    let refuses = err.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno));
    if refuses && !relay.splice_refused.swap(true, Relaxed) {
        let err = setup::failed("splice", err);
        warn!(%err, "splice is refused: flows are copied, which is slower; a seccomp filter, SELinux or an mptcp leg can cause \
            this");
    }
    refuses
}

/// Number of fills after which a pump yields, if it has moved [`TURN_BYTES`]: at most 4 MiB, or a millisecond at 40
/// Gbit/s.
const TURNS: u32 = 4;
/// Number of fills after which a pump yields in any case. Larger than [`TURNS`], because yielding costs a wake-up and
/// small fills move little.
const MAX_TURNS: u32 = 16;
/// Number of bytes after which a pump yields, once it has made [`TURNS`] fills.
const TURN_BYTES: u64 = 1 << 20;

/// Number of bytes from which on a read counts as bulk. The bytes after it are spliced.
const MESSAGE: usize = 16 * 1024;

/// A fill of fewer bytes ends bulk. Smaller than [`MESSAGE`], so that a source between the two does not switch at each
/// wake-up.
const MIN_BULK_FILL: usize = 4 * 1024;

/// Time after which bytes leave their pipe if the sink takes nothing.
const STALLED: Duration = Duration::from_secs(1);
