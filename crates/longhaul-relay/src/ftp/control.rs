//! Carries out what the session of a control connection asks for: reads and sends its bytes, opens its data connections, waits for its
//! times.
//!
//! ```text
//! the client's first bytes are a preface ──┐
//! the server accepted AUTH ────────────────┼──> carry: the bytes pass as they are
//! the client sent FIN ─────────────────────┘
//! a leg broke ──> the other leg gets its last bytes ──> RST on both legs
//! ```

use super::commands::Pass;
use super::data::DataConnections;
use super::data_listener::NewFlow;
use super::places::DataPlaces;
use crate::carry::join;
use crate::leg::peek::{ask, now, poll_peek};
use crate::leg::stream::Stream;
use crate::leg::talk::{poll_read, poll_write};
use crate::live::how::{Broken, How};
use crate::state::legs::Legs;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_core::ftp::{Action, End, Ends, Session, Side};
use longhaul_core::opening::{Asks, Found, MAGIC_BYTES, Opening};
use longhaul_sys::splice;
use socket2::SockRef;
use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::watch;
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
    let (pass, passed) = watch::channel(Pass::HeldUp);
    let Some(data) = DataConnections::new(relay, tunnel, (legs, passed), DataPlaces::new(permit), start) else {
        return How::Reset(Leg::Accept);
    };
    let mut control = Control::new(legs, data, pass);
    let end = control.rewrite(relay).await;
    let Control { mut data, broken, read, sent, session, pass, .. } = control;
    drop(pass);
    match (end, broken) {
        (End::PassOn, _) => {}
        (End::Broken, Some(broken)) => {
            drop(data);
            return Box::pin(join::end_broken(legs, broken, read.client == 0)).await;
        }
        (_, Some(broken)) => return broken.into(),
        (End::NotLeft, None) => return How::Cut,
        (End::TooLong | End::Broken, None) => return How::HalfOpenTooLong,
    }
    // `carry` compares the bytes that the kernel received with those that were passed on.
    for leg in Leg::ALL {
        legs.of(leg).note_received_beside(read[side(leg)] as i64 - sent[side(leg)] as i64);
    }
    let limit = session.poll_timeout().map(Instant::from_std);
    // Every arm may be dropped, because the flow ends.
    let how = tokio::select! {
        biased;
        // Serves the data connection that may still come. It is never ready.
        () = poll_fn(|cx| { data.poll(cx); Poll::Pending }) => How::Finished,
        (how, _) = join::run(legs, legs.flow.tally()) => how,
        () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() => How::Cut,
    };
    // The kernel tells an error once, so `carry` knows only that a leg broke.
    broken.filter(|_| how != How::Finished).map_or(how, How::from)
}

/// A control connection with its session.
struct Control<'a> {
    legs: &'a Legs<'a>,
    session: Session,
    data: DataConnections,
    /// Numbers of bytes that were read of each side, and that were sent in the direction out of it.
    read: Ends<u64>,
    sent: Ends<u64>,
    /// Tells the data connections.
    pass: watch::Sender<Pass>,
    first: FirstBytes,
    /// The leg that broke first.
    broken: Option<Broken>,
}

/// The client's first bytes.
enum FirstBytes {
    /// They may become the preface of a probe.
    Awaited(Opening),
    /// They began like a preface, and the rest did not come in time. They wait in the socket.
    Late,
    /// They were read.
    Read,
}

/// Why a step failed: this leg broke.
type Failed = (Leg, io::Error);

impl<'a> Control<'a> {
    fn new(legs: &'a Legs<'a>, data: DataConnections, pass: watch::Sender<Pass>) -> Control<'a> {
        let tunnel = legs.tunnel();
        let lingers = Ends { client: tunnel.accept.linger_half_open(), server: tunnel.dial.linger_half_open() };
        Control {
            legs,
            session: Session::new(data.rules().clone(), lingers, now()),
            data,
            read: Ends::default(),
            sent: Ends::default(),
            pass,
            first: FirstBytes::Awaited(ask(Asks::Control)),
            broken: None,
        }
    }

    /// Does what the session asks for until it is over.
    async fn rewrite(&mut self, relay: &Relay) -> End {
        let mut draining = relay.draining();
        let legs = self.legs;
        loop {
            self.session.drain(*draining.borrow_and_update());
            let (timeout, places) = (self.timeout(), self.data.places());
            // Every arm may be dropped: `poll` keeps what it has read, and the others lose nothing.
            tokio::select! {
                biased;
                end = poll_fn(|cx| self.poll(timeout, cx)) => if let Some(end) = end { return end },
                // A direction that waits for its sink does not look at its source.
                () = legs.accept.failed(), if !legs.accept.was_reset() => self.failed(Leg::Accept),
                () = legs.dial.failed(), if !legs.dial.was_reset() => self.failed(Leg::Dial),
                // This fails only when the relay is gone, which outlives its flows.
                _ = draining.changed() => {}
                () = places.freed() => {}
                () = sleep_until(timeout.unwrap_or_else(Instant::now)), if timeout.is_some() => self.tick(),
            }
        }
    }

    /// Moves bytes until both directions have to wait, or for a turn. Ready when the session is over, and when a time comes before
    /// `timeout`.
    fn poll(&mut self, timeout: Option<Instant>, cx: &mut Context<'_>) -> Poll<Option<End>> {
        let read = self.read.client;
        self.pass.send_if_modified(|pass| {
            *pass = Pass::Busy;
            false // nobody waits for that
        });
        for _ in 0..TURNS {
            // First, because the next command may close the listener.
            if let Some(called) = self.data.poll(cx) {
                self.session.opened(called);
            }
            if let Some(end) = self.act(cx) {
                return Poll::Ready(Some(end));
            }
            let up = self.poll_way(Leg::Accept, cx);
            let down = self.poll_way(Leg::Dial, cx);
            if up.is_pending() && down.is_pending() {
                self.pass.send_replace(match self.session.wants(Side::Client) {
                    true => Pass::Done,
                    // Not for long, and not for the end of an upload.
                    false if self.data.is_leaving() => Pass::Busy,
                    false => Pass::HeldUp,
                });
                let is_early = self.timeout().is_some_and(|next| timeout.is_none_or(|timeout| next < timeout));
                return if is_early { Poll::Ready(None) } else { Poll::Pending };
            }
            // A refused command goes to nobody, so nothing else paces the client.
            if self.read.client != read {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Carries out the session's actions. Returns how it is over, if it is.
    fn act(&mut self, cx: &mut Context<'_>) -> Option<End> {
        loop {
            self.session.know(self.data.state(), now());
            match self.session.poll(now())? {
                Action::Open(opening) => {
                    if let Some(opened) = self.data.open(opening).or_else(|| self.data.poll(cx)) {
                        self.session.opened(opened);
                    }
                }
                Action::Begin => self.data.begin(),
                Action::Transfer(transfer) => self.data.facts().transfer = Some(transfer),
                Action::RefusedTransfer => self.data.refused_transfer(),
                Action::LacksData => self.data.lacks_data(),
                Action::Refused(why) => self.data.refused(&why),
                Action::Encrypted => say_encrypted(self.legs),
                Action::Fin => self.pass_fin(),
                Action::End(end) => return Some(end),
            }
        }
    }

    /// Returns the next time at which to [`tick`](Control::tick).
    fn timeout(&self) -> Option<Instant> {
        self.session.poll_timeout().into_iter().chain(self.first_until()).min().map(Instant::from_std)
    }

    /// Returns the time at which the client's first bytes are late, if some have come.
    fn first_until(&self) -> Option<std::time::Instant> {
        match &self.first {
            FirstBytes::Awaited(opening) => opening.until(),
            FirstBytes::Late | FirstBytes::Read => None,
        }
    }

    fn tick(&mut self) {
        if self.first_until().is_some_and(|until| until <= now()) {
            self.first = FirstBytes::Late;
        }
        self.session.tick(now());
    }

    /// Passes the server's FIN on.
    fn pass_fin(&mut self) {
        let client = self.legs.accept;
        match SockRef::from(client).shutdown(Shutdown::Write) {
            Ok(()) => {
                client.note_fin_sent();
                self.legs.flow.passed_fin(Leg::Dial);
            }
            Err(err) => self.breaks(Leg::Accept, &err, false),
        }
    }

    /// Takes the pending error of a leg.
    fn failed(&mut self, leg: Leg) {
        self.breaks(leg, &join::pending_error(self.legs.of(leg)), false);
    }

    /// Records that a leg broke. `is_read`: all bytes that it had sent are read.
    fn breaks(&mut self, leg: Leg, err: &io::Error, is_read: bool) {
        // The error is taken, so `carry` must not take the end of this leg for its FIN.
        self.legs.of(leg).note_reset();
        self.broken.get_or_insert(Broken::of(leg, err));
        self.session.broke(side(leg), is_read, now());
    }

    /// Takes one step of the direction out of `source`: sends, or else reads. Pending while it has to wait.
    fn poll_way(&mut self, source: Leg, cx: &mut Context<'_>) -> Poll<()> {
        let has_output = !self.session.output(side(source.other())).0.is_empty();
        let step = match has_output {
            true => self.poll_send(source, cx),
            false if self.session.wants(side(source)) => self.poll_receive(source, cx),
            false => return Poll::Pending,
        };
        step.map(|done| {
            if let Err((leg, err)) = done {
                // A reset is reported behind the bytes before it.
                self.breaks(leg, &err, leg == source);
            }
        })
    }

    fn poll_send(&mut self, source: Leg, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        let leg = source.other();
        let sink = self.legs.of(leg);
        let (bytes, is_urgent) = self.session.output(side(leg));
        let polled = poll_write(sink, cx, || match is_urgent {
            true => splice::send_urgent(sink, bytes),
            false => splice::send(sink, bytes),
        });
        self.legs.flow.set_blocked(source, polled.is_pending());
        let sent = ready!(polled).map_err(|err| (leg, err))?;
        self.session.sent(side(leg), sent, now());
        self.sent[side(source)] += sent as u64;
        self.legs.flow.set_carried(source, self.sent[side(source)]);
        Poll::Ready(Ok(()))
    }

    /// Reads from `source`, and tells the session what came.
    fn poll_receive(&mut self, source: Leg, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        let is_client = source == Leg::Accept;
        let socket = self.legs.of(source);
        let failed = |err| (source, err);
        if let (true, FirstBytes::Awaited(opening)) = (is_client, &mut self.first) {
            let (found, _) = ready!(poll_peek(socket, opening, &mut [0; MAGIC_BYTES], cx)).map_err(failed)?;
            if found != Found::Payload {
                self.session.pass_on(now());
                return Poll::Ready(Ok(()));
            }
            self.first = FirstBytes::Read;
        }
        let mut bytes = [0; CHUNK];
        let bytes = if is_client { &mut bytes[..COMMANDS] } else { &mut bytes[..] };
        let mut is_urgent = false;
        let late = if is_client { self.receive_late(bytes, &mut is_urgent) } else { None };
        let read = match late {
            Some(late) => late,
            None => ready!(poll_read(socket, cx, || receive(socket, bytes, &mut is_urgent))),
        };
        match read.map_err(failed)? {
            // The error that reports the reset was taken before.
            0 if socket.was_reset() => return Poll::Ready(Err(failed(io::Error::from_raw_os_error(libc::ECONNRESET)))),
            read => self.took(source, &bytes[..read], is_urgent),
        }
        Poll::Ready(Ok(()))
    }

    /// Receives first bytes of the client that are late, and later ones until the socket is empty. They came before, so nothing reports
    /// them again. `None` if nothing is left of them.
    fn receive_late(&mut self, bytes: &mut [u8], is_urgent: &mut bool) -> Option<io::Result<usize>> {
        if !matches!(self.first, FirstBytes::Late) {
            return None;
        }
        // An urgent byte among them takes several calls.
        match receive(self.legs.accept, bytes, is_urgent) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                self.first = FirstBytes::Read;
                None
            }
            received => Some(received),
        }
    }

    /// Tells the session of `bytes` of `source`; none are the end of the stream.
    fn took(&mut self, source: Leg, bytes: &[u8], is_urgent: bool) {
        if self.legs.flow.pulse.beat() {
            self.legs.relay.registry.wake(self.legs.flow);
        }
        self.read[side(source)] += bytes.len() as u64;
        if source == Leg::Dial {
            self.data.server_sent();
        }
        match bytes {
            [] => self.session.end(side(source), now()),
            _ => self.session.receive(side(source), bytes, is_urgent, now()),
        }
    }
}

/// Returns the side to which `leg` leads.
fn side(leg: Leg) -> Side {
    match leg {
        Leg::Accept => Side::Client,
        Leg::Dial => Side::Server,
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

fn say_encrypted(legs: &Legs<'_>) {
    let (relay, tunnel) = (legs.relay, &legs.tunnel().name);
    if relay.lines.opaque.pass(tunnel) {
        warn!(tunnel = %tunnel, peer = %legs.flow.client.address(),
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
