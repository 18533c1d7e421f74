//! Moves the bytes of a control connection through its session.
//!
//! ```text
//! the client's first bytes are a preface ──┐
//! the server accepted AUTH ────────────────┼──> carry: the bytes pass as they are
//! the client sent FIN ─────────────────────┘
//! a leg broke ──> the other leg gets its last bytes ──> RST on both legs
//! ```
//! Each byte goes through the session before `carry` begins. While the session waits for a reply, the client is not read, and its
//! FIN waits, too: until the reply comes, or until the server has been silent for [`SILENCE`] without a transfer. The
//! server's FIN goes on at once, and the client's commands still go through the session until the client's FIN.

use super::data::{DataConnections, Sides};
use super::data_listener::NewFlow;
use super::first::First;
use super::places::Places;
use super::way::Way;
use crate::carry::join;
use crate::leg::stream::Stream;
use crate::leg::talk::{poll_read, poll_write};
use crate::live::how::{Broken, How};
use crate::probe::answer;
use crate::state::legs::Legs;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_core::ftp::{Channels, Session, Side};
use longhaul_sys::splice;
use socket2::SockRef;
use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

/// Carries a control connection until it ends. Returns why it ended, as [`join::run`] does. Its data
/// connections hold `permit` until the last one ends. `start` starts the flow of a data connection.
pub(crate) async fn run(
    relay: &Arc<Relay>,
    tunnel: &Arc<ServedTunnel>,
    legs: &Legs<'_>,
    permit: Arc<impl Any + Send + Sync>,
    start: fn(NewFlow),
) -> How {
    // After a reset the kernel still knows our own addresses, and the flow knows the peers', so this does not happen. Without them no
    // byte may pass.
    let Some(sides) = Sides::of(legs) else { return How::Reset(Leg::Accept) };
    let data = DataConnections::new(relay, tunnel, legs, sides, Places::new(&permit), start);
    drop(permit);
    let mut control = Control::new(legs, data);
    match control.rewrite(relay).await {
        Next::Carry => {}
        Next::End(how) => return how,
        Next::Broken(broken) => {
            let has_read = control.up.read > 0;
            drop(control);
            return end_broken(legs, broken, has_read).await;
        }
    }
    let HandedOver { broken, mut data, limit } = control.hand_over();
    // Every arm may be dropped, because the flow ends.
    let how = tokio::select! {
        biased;
        // Serves the data connection that may still come. It is never ready.
        () = poll_fn(|cx| { data.poll(cx); Poll::Pending }) => How::Finished,
        how = join::run(legs, legs.flow.tally()) => how,
        () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() => How::Cut,
    };
    // The kernel tells an error once, so `carry` knows only that a leg broke.
    broken.filter(|_| how != How::Finished).map_or(how, How::from)
}

/// Ends a connection after a leg broke and all its bytes are sent. `has_read`: the client has sent bytes.
async fn end_broken(legs: &Legs<'_>, broken: Broken, has_read: bool) -> How {
    join::deliver(legs, broken.leg.other()).await;
    // As in `carry`: a next hop that resets at once may do so before the prober has sent its preface.
    if !has_read && broken.leg == Leg::Dial {
        Box::pin(answer::tell_reset(legs)).await;
    }
    broken.into()
}

/// Continuation of a control connection after its bytes were rewritten.
enum Next {
    /// `carry` goes on.
    Carry,
    /// A leg broke, and all its bytes are sent.
    Broken(Broken),
    /// It has ended.
    End(How),
}

/// State of a control connection that `carry` goes on with.
struct HandedOver {
    /// The leg that broke first.
    broken: Option<Broken>,
    data: DataConnections,
    /// Time at which it is reset, if the session ended it.
    limit: Option<Instant>,
}

/// A control connection with its session.
struct Control<'a> {
    legs: &'a Legs<'a>,
    session: Session,
    data: DataConnections,
    up: Way,
    down: Way,
    /// Knowledge about the client's first bytes.
    first: First,
    /// Time when it last moved bytes.
    moved: Instant,
    /// Time when it last moved bytes or had a data connection.
    active: Instant,
    /// Time when the server last sent or took bytes, or when a transfer was last seen.
    heard: Instant,
    /// Time when the session ended it: the server has QUIT, and the client 421.
    left: Option<Instant>,
    /// Whether nothing more is read, and `carry` goes on once the bytes here are sent.
    is_plain: bool,
    /// The leg that broke first.
    broken: Option<Broken>,
    /// Bytes of the server that wait until its data connection has reached the client.
    early: Option<Read>,
}

/// Bytes of one read.
struct Read {
    /// Empty at the end of the stream.
    bytes: Vec<u8>,
    /// Whether it is the urgent byte.
    is_urgent: bool,
}

/// Why a step failed.
struct Failed {
    leg: Leg,
    err: io::Error,
}

impl<'a> Control<'a> {
    fn new(legs: &'a Legs<'a>, data: DataConnections) -> Control<'a> {
        Control {
            legs,
            session: Session::new(data.rules().clone()),
            data,
            up: Way::new(Leg::Accept),
            down: Way::new(Leg::Dial),
            first: First::Awaited,
            moved: Instant::now(),
            active: Instant::now(),
            heard: Instant::now(),
            left: None,
            is_plain: false,
            broken: None,
            early: None,
        }
    }

    /// Rewrites until `carry` can go on or the connection has ended. While the relay drains, ends the connection once it is
    /// quiet.
    async fn rewrite(&mut self, relay: &Relay) -> Next {
        let mut draining = relay.draining();
        let legs = self.legs;
        loop {
            let (is_draining, active) = (*draining.borrow_and_update(), self.active);
            let (limit, silent, quiet) = (self.limit(), self.heard + self.silence(), active + self.quiet());
            let (places, full) = (self.data.places(), self.data.room_limit().filter(|_| self.session.is_waiting()));
            let held = if let First::Held(since) = self.first { Some(since + answer::PATIENCE) } else { None };
            // Every arm may be dropped: `poll` keeps what it has read, and the others lose nothing.
            tokio::select! {
                biased;
                () = poll_fn(|cx| self.poll(cx)) => {
                    if self.is_plain && self.up.is_sent() && self.down.is_sent() {
                        return Next::Carry;
                    }
                }
                // A direction that waits for its sink does not look at its source.
                () = legs.accept.failed(), if !self.is_broken(Leg::Accept) => self.failed(Leg::Accept),
                () = legs.dial.failed(), if !self.is_broken(Leg::Dial) => self.failed(Leg::Dial),
                // This fails only when the relay is gone, which outlives its flows.
                _ = draining.changed() => {}
                () = sleep_until(held.unwrap_or(active)), if held.is_some() => self.first = First::Late,
                () = sleep_until(limit.unwrap_or(active)), if limit.is_some() => {
                    if self.limit().is_some_and(|limit| limit <= Instant::now()) {
                        let late = if self.left.is_some() { How::Cut } else { How::HalfOpenTooLong };
                        return Next::End(self.broken.map_or(late, How::from));
                    }
                }
                () = sleep_until(silent), if self.session.is_waiting() => self.give_up_if_silent(),
                () = places.freed() => {
                    // Until now it had a data connection, perhaps long after the last reply to its transfer.
                    self.active = Instant::now();
                    if full.is_some() {
                        self.look_again();
                    }
                }
                () = sleep_until(full.unwrap_or(active)), if full.is_some() => self.look_again(),
                () = sleep_until(quiet), if is_draining => self.leave_if_quiet(),
            }
            let is_over = !self.is_plain && self.up.is_over() && self.down.is_over();
            if let Some(broken) = self.broken.filter(|_| is_over) {
                return Next::Broken(broken);
            }
        }
    }

    /// Returns the time at which the connection is ended if nothing moves until then, as `carry` does.
    fn limit(&self) -> Option<Instant> {
        let tunnel = self.legs.tunnel();
        let limit = match (self.up.has_ended, self.down.has_ended) {
            _ if self.broken.is_some() => Some(PATIENCE),
            (true, _) => tunnel.accept.linger_half_open(),
            (_, true) => tunnel.dial.linger_half_open(),
            _ => None,
        };
        limit.map(|limit| self.moved + limit).into_iter().chain(self.left_limit()).min()
    }

    /// Returns the time until which both sides may close the connection that the session ended.
    fn left_limit(&self) -> Option<Instant> {
        self.left.map(|left| left + LEAVING)
    }

    /// Takes the command that waits for room.
    fn look_again(&mut self) {
        self.session.look_again(&mut self.data, &mut self.down.out, &mut self.up.out);
        self.data.wait_on();
    }

    /// Returns the time without bytes and transfers after which the session waits no longer for a reply.
    fn silence(&self) -> Duration {
        if self.session.is_doubtful() { DOUBTFUL_SILENCE } else { SILENCE }
    }

    /// Returns the time without bytes and data connections after which a drain ends the connection.
    fn quiet(&self) -> Duration {
        match self.session.is_transferring() {
            true => STAGING,
            false if self.session.is_owed() && !self.session.is_doubtful() || !self.session.is_between_lines() => {
                SILENCE
            }
            false => QUIET,
        }
    }

    /// Ends the session's wait for replies if the server does nothing.
    fn give_up_if_silent(&mut self) {
        // The data connection alone does not tell: it may wait for a transfer that never begins.
        let has_data = self.data.have_data() || self.data.await_server();
        if self.session.is_transferring() && has_data || self.data.is_arriving() || !self.up.is_sent() {
            self.heard = Instant::now();
        } else if self.heard.elapsed() >= self.silence() {
            self.session.give_up_waiting(&mut self.data, &mut self.down.out, &mut self.up.out);
            // The command may go on waiting, for room.
            self.heard = Instant::now();
        }
    }

    /// Ends the connection if nothing happens on it: the server gets QUIT, and the client 421.
    fn leave_if_quiet(&mut self) {
        let has_ended = self.up.has_ended || self.broken.is_some() || self.left.is_some();
        if has_ended || !self.session.may_leave() || self.data.have_data() {
            self.active = Instant::now();
        } else if self.active.elapsed() >= self.quiet() {
            // A server that has sent FIN sends no reply any more, and the client has that FIN.
            if !self.down.has_ended {
                self.session.leave(&mut self.down.out, &mut self.up.out);
            }
            self.left = Some(Instant::now());
        }
    }

    /// Moves bytes until both directions have to wait, or for a turn. Ready when `carry` can go on, and when other timers apply
    /// than before.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let phase = |control: &Control<'_>| {
            let waits = (control.session.is_waiting(), control.data.room_limit(), control.silence(), control.quiet());
            let ended = (control.up.has_ended, control.down.has_ended);
            let over = (control.up.is_over(), control.down.is_over());
            (control.broken.is_some(), over, ended, control.first, waits, control.left.is_some())
        };
        let (before, read) = (phase(self), self.up.read);
        for _ in 0..TURNS {
            // First, because the next command may close the listener.
            self.data.poll(cx);
            if self.session.is_waiting() && self.data.room_limit().is_some() && !self.data.is_arriving() {
                self.look_again();
            }
            let up = self.poll_way(Leg::Accept, cx);
            let down = self.poll_way(Leg::Dial, cx);
            if !self.is_plain && (self.session.is_opaque() || self.broken.is_none() && self.up.is_over()) {
                self.release();
            }
            if !self.is_plain && self.broken.is_none() && self.down.is_over() {
                self.pass_fin();
            }
            if up.is_ready() || down.is_ready() {
                self.moved = Instant::now();
                // No command of the client leads to anything after the server's FIN.
                if !self.down.has_ended {
                    self.active = self.moved;
                }
            }
            if self.is_plain && self.up.is_sent() && self.down.is_sent() || phase(self) != before {
                return Poll::Ready(());
            }
            if up.is_pending() && down.is_pending() {
                return Poll::Pending;
            }
            // A refused command goes to nobody, so nothing else paces the client.
            if self.up.read != read {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Stops to read. What the session holds goes on as it is.
    fn release(&mut self) {
        self.take_early();
        // Nobody reads any more in the server's replies that the transfer begins.
        if self.session.is_transferring() {
            self.data.begins();
        }
        self.is_plain = true;
        self.end(Side::Client);
        self.end(Side::Server);
    }

    fn end(&mut self, side: Side) {
        self.session.end(side, &mut self.data, &mut self.down.out, &mut self.up.out);
    }

    /// Passes the server's FIN on, once.
    fn pass_fin(&mut self) {
        let client = self.legs.accept;
        if client.has_sent_fin() {
            return;
        }
        match SockRef::from(client).shutdown(Shutdown::Write) {
            Ok(()) => {
                client.note_fin_sent();
                self.legs.flow.passed_fin(Leg::Dial);
            }
            Err(err) => self.breaks(Broken::of(Leg::Accept, &err)),
        }
    }

    /// Takes the pending error of a leg.
    fn failed(&mut self, leg: Leg) {
        self.breaks(Broken::of(leg, &join::pending_error(self.legs.of(leg))));
    }

    /// Records that a leg broke. The direction into it stops. The direction out of it goes on to its end.
    fn breaks(&mut self, broken: Broken) {
        // The error is taken, so `carry` must not take the end of this leg for its FIN.
        self.legs.of(broken.leg).note_reset();
        let way = self.way(broken.leg.other());
        way.is_stopped = true;
        (way.out, way.urgent) = (Vec::new(), 0);
        self.broken.get_or_insert(broken);
        self.moved = Instant::now();
        if broken.leg == Leg::Accept && !self.is_plain {
            // Nobody waits for the replies any more, so they do not hold back the last commands.
            self.end(Side::Server);
        }
    }

    fn is_broken(&self, leg: Leg) -> bool {
        self.broken.is_some_and(|broken| broken.leg == leg) || self.legs.of(leg).was_reset()
    }

    /// Takes one step of the direction out of `source`: sends, or else reads. Pending while it has to wait.
    fn poll_way(&mut self, source: Leg, cx: &mut Context<'_>) -> Poll<()> {
        let way = self.way(source);
        let step = match (way.out.is_empty(), way.is_over()) {
            (_, true) => return Poll::Pending,
            (false, false) => self.poll_send(source, cx),
            (true, false) => self.poll_take(source, cx),
        };
        step.map(|done| {
            if let Err(Failed { leg, err }) = done {
                // A reset is reported behind the bytes before it.
                self.way(source).has_ended |= leg == source;
                self.breaks(Broken::of(leg, &err));
            }
        })
    }

    fn poll_send(&mut self, source: Leg, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        if source == Leg::Dial && self.data.is_arriving() {
            return Poll::Pending; // `DataConnections::poll` wakes
        }
        let sink = self.legs.of(source.other());
        let way = self.way(source);
        let polled = poll_write(sink, cx, || match way.urgent {
            0 => splice::send(sink, &way.out),
            urgent => splice::send_urgent(sink, &way.out[..urgent]),
        });
        let is_blocked = polled.is_pending();
        let polled = polled.map_ok(|sent| {
            way.out.drain(..sent);
            way.sent += sent as u64;
            way.urgent = way.urgent.saturating_sub(sent);
            sent
        });
        let sent = way.sent;
        if source == Leg::Accept && polled.is_ready() {
            self.heard = Instant::now();
        }
        self.legs.flow.set_blocked(source, is_blocked);
        self.legs.flow.carried(source, sent);
        polled.map_ok(drop).map_err(|err| Failed { leg: source.other(), err })
    }

    /// Reads from `source`, and gives the session what came.
    fn poll_take(&mut self, source: Leg, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        let is_client = source == Leg::Accept;
        if !is_client && self.data.is_arriving() {
            return Poll::Pending; // `DataConnections::poll` wakes
        }
        if !is_client && self.take_early() {
            return Poll::Ready(Ok(()));
        }
        // Also pending while the client leaves more than CHUNK bytes of replies untaken: the session's own replies must not fill the
        // memory. The next step of the other direction polls this one again.
        if self.is_plain || is_client && (self.session.is_waiting() || self.down.out.len() > CHUNK) {
            return Poll::Pending;
        }
        let socket = self.legs.of(source);
        let failed = |err| Failed { leg: source, err };
        if is_client && !matches!(self.first, First::Command | First::Late) {
            self.first = ready!(self.first.poll(socket, cx)).map_err(failed)?;
            if self.first == First::Preface {
                self.release();
                return Poll::Ready(Ok(()));
            }
        }
        let mut bytes = [0; CHUNK];
        let bytes = if is_client { &mut bytes[..COMMANDS] } else { &mut bytes[..] };
        let mut is_urgent = false;
        let mut receive = || receive(socket, bytes, &mut is_urgent);
        // The bytes came before, so nothing reports them again. An urgent byte among them takes several calls.
        let is_late = is_client && self.first == First::Late;
        let late = is_late.then(&mut receive).filter(|late| !late.as_ref().is_err_and(is_empty));
        let is_done = late.is_none();
        let read = match late {
            Some(late) => late,
            None => ready!(poll_read(socket, cx, receive)),
        };
        if is_client && is_done {
            self.first = First::Command;
        }
        let read = match read.map_err(failed)? {
            // The error that reports the reset was taken before.
            0 if socket.was_reset() => return Poll::Ready(Err(failed(io::Error::from_raw_os_error(libc::ECONNRESET)))),
            read => read,
        };
        if !is_client && self.data.is_arriving() {
            self.early = Some(Read { bytes: bytes[..read].to_vec(), is_urgent });
        } else {
            self.took(source, &bytes[..read], is_urgent);
        }
        Poll::Ready(Ok(()))
    }

    /// Gives the session the bytes that waited for a data connection. Returns whether there were some.
    fn take_early(&mut self) -> bool {
        let early = self.early.take();
        early.map(|Read { bytes, is_urgent }| self.took(Leg::Dial, &bytes, is_urgent)).is_some()
    }

    /// Gives the session `bytes` of `source`; none are the end of the stream.
    fn took(&mut self, source: Leg, bytes: &[u8], is_urgent: bool) {
        let Control { legs, session, data, up, down, heard, left, .. } = self;
        if legs.flow.pulse.beat() {
            legs.relay.registry.wake(legs.flow);
        }
        let way = if source == Leg::Accept { &mut *up } else { &mut *down };
        if source == Leg::Dial {
            *heard = Instant::now();
        }
        way.read += bytes.len() as u64;
        way.has_ended = bytes.is_empty();
        let side = if source == Leg::Accept { Side::Client } else { Side::Server };
        let may_be_urgent = is_urgent && bytes.iter().all(|byte| session.may_be_urgent(side, *byte));
        match (side, bytes) {
            (_, []) => session.end(side, data, &mut down.out, &mut up.out),
            (Side::Client, _) => session.from_client(bytes, data, &mut down.out, &mut up.out),
            (Side::Server, _) => {
                session.from_server(bytes, data, &mut down.out, &mut up.out);
                if session.is_opaque() {
                    say_opaque(legs);
                }
            }
        }
        if session.has_left() {
            left.get_or_insert_with(Instant::now);
        }
        // A byte that the session holds goes on later, in its place in the line.
        let way = if source == Leg::Accept { &mut *up } else { &mut *down };
        if may_be_urgent {
            way.urgent = way.out.len();
        }
        for way in [&mut *up, &mut *down] {
            if way.is_stopped {
                (way.out, way.urgent) = (Vec::new(), 0);
            }
        }
    }

    /// Prepares the legs for `carry`, which compares the bytes that the kernel received with those that were passed on.
    fn hand_over(self) -> HandedOver {
        for way in [&self.up, &self.down] {
            self.legs.of(way.source).note_received_beside(way.read as i64 - way.sent as i64);
        }
        HandedOver { limit: self.left_limit(), broken: self.broken, data: self.data }
    }

    fn way(&mut self, source: Leg) -> &mut Way {
        match source {
            Leg::Accept => &mut self.up,
            Leg::Dial => &mut self.down,
        }
    }
}

/// Receives bytes of `socket`: up to the urgent mark, or the urgent byte alone.
fn receive(socket: &Stream, bytes: &mut [u8], is_urgent: &mut bool) -> io::Result<usize> {
    // The urgent byte may come at any time. The kernel knows the mark of those bytes only that are here already.
    let here = splice::peek(socket.as_fd(), bytes)?;
    match splice::urgent_byte(socket.as_fd())? {
        Some(byte) => {
            (bytes[0], *is_urgent) = (byte, true);
            Ok(1)
        }
        None => splice::receive(socket, &mut bytes[..here]),
    }
}

fn is_empty(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::WouldBlock
}

fn say_opaque(legs: &Legs<'_>) {
    let (relay, tunnel) = (legs.relay, &legs.tunnel().name);
    if relay.lines.opaque.pass(tunnel) {
        warn!(tunnel = %tunnel, peer = %legs.flow.peer(),
            "FTP over TLS: this relay cannot see the data connections any more, and only passive mode works; give the server \
             fixed passive ports and carry each by a plain tunnel of the same port: see docs/ftp.md");
    }
}

/// Maximum number of bytes that are read at once.
const CHUNK: usize = 4096;
/// The same of the client's, in a turn. The runtime looks for events of other flows only once in 61 turns.
const COMMANDS: usize = 512;
/// Number of steps after which other flows of the worker may run.
const TURNS: usize = 16;
/// Time that the last bytes wait for a leg that takes nothing once the other leg is broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time without bytes and data connections after which a drain ends a control connection.
const QUIET: Duration = Duration::from_secs(5);
/// The same while a transfer has no last reply: a server may need a while for the file, which may have to come from a tape.
const STAGING: Duration = Duration::from_secs(600);
/// Time without bytes and transfers after which the session waits no longer for a reply. Only clients that do not wait for
/// replies themselves can tell the difference.
const SILENCE: Duration = Duration::from_secs(30);
/// The same for a reply that may never come, such as that of pure-ftpd to an ABOR without a transfer.
const DOUBTFUL_SILENCE: Duration = Duration::from_secs(2);
/// Time that both sides have to close a connection after a drain ended it.
const LEAVING: Duration = Duration::from_secs(10);
