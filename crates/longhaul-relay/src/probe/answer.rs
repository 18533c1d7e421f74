//! Probes: connections whose first bytes are a preface (docs/protocol.md). A relay passes a probe on to the next relay, or
//! answers it: it echoes the prober's bytes and says how its own dial went.
//!
//! ```text
//! hops to go > 0   report to the prober, preface to the next hop, then an ordinary flow
//! with a key       challenge to the prober, proof from it
//! hops to go = 0   report to the prober, FIN to the final host, echo, receipt
//! too slow         report among the echoed bytes, FIN
//! dial failed      report to the prober, FIN
//! next hop resets  report to the prober, FIN
//! ```
//! No preface goes to a final host: one with 0 hops to go is answered here. One with more is passed on only
//! if `verify_hops` says that the next hop is a relay, or if it comes from this host, whose administrator can tell.
//!
//! The final host gets a connection that ends with FIN before a byte. Every server knows that from clients that give up.
//! A RST would reach most servers as an error of accept(2) or read(2), which many of them log.

use crate::leg::closing::linger_off;
use crate::leg::peek;
use crate::leg::stream::Stream;
use crate::leg::talk::{poll_receive, send_all};
use crate::live::failure_kind::FailureKind;
use crate::live::flow::Flow;
use crate::live::how::{Broken, How};
use crate::probe::{measure, proof};
use crate::reach::dial::Unanswered;
use crate::reach::host_answer;
use crate::state::legs::Legs;
use crate::state::probes::ProbePlace;
use crate::state::shared::Relay;
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use longhaul_core::opening::{Asks, Found, MAX_PREFACE_BYTES, PrefaceKind};
use longhaul_core::sources::Source;
use longhaul_core::wire::answer::{Dial, Frame, Next, Receipt, Report};
use longhaul_core::wire::probe::{LENGTH, Preface};
use longhaul_sys::process;
use longhaul_sys::splice;
use longhaul_sys::tcp_info::TcpInfo;
use socket2::SockRef;
use std::future::{Future, pending, poll_fn, ready};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::time::timeout;
use tracing::{debug, warn};

/// Answer to a preface.
pub(crate) enum Answered {
    /// Its flow ends.
    Ended(How),
    /// The flow begins with this preface instead.
    PassOn(Box<[u8]>),
}

/// Answers the preface that was `found` at the beginning of a flow, in its first `bytes` bytes.
pub(crate) async fn answer(legs: &Legs<'_>, found: Found, bytes: usize) -> Answered {
    legs.flow.note_probe();
    let why = match found {
        Found::Preface(kind) => match kind {
            PrefaceKind::Probe(preface) if bytes == LENGTH => return answer_probe(legs, &preface).await,
            PrefaceKind::Measure(preface) if bytes == LENGTH => {
                let measured = measure::serve(legs.relay, legs.flow, legs.accept, preface);
                return Answered::Ended(end_dial_leg(legs, measured).await);
            }
            // Nobody sends a byte behind it before the answer.
            PrefaceKind::Probe(_) | PrefaceKind::Measure(_) => "a preface with bytes behind it".into(),
        },
        found => found.to_string(),
    };
    let refusal = async {
        refused(legs.relay, legs.flow, &format!("{why} ({bytes} bytes)"));
        How::ProbeRefused
    };
    Answered::Ended(end_dial_leg(legs, refusal).await)
}

/// Passes a probe on, or answers it. With a key, its prober has to prove it first.
async fn answer_probe(legs: &Legs<'_>, preface: &Preface) -> Answered {
    let Legs { relay, flow, accept, dial } = *legs;
    let admitted = match course(legs.tunnel(), preface, || is_from_here(relay, flow, accept)) {
        Course::PassOn(hops) if proof::wanted(relay, flow).is_some() => {
            admit(relay, flow, accept, preface, || may_pass_on(relay, flow, hops).then_some(hops)).await
        }
        Course::PassOn(hops) if may_pass_on(relay, flow, hops) => {
            flow.counters.count(|counters| &counters.probes);
            Ok(hops)
        }
        _ => Err(end_dial_leg(legs, answer_as_last(relay, flow, accept, Some(dial), preface)).await),
    };
    let hops = match admitted {
        Ok(hops) => hops,
        Err(how) => return Answered::Ended(how),
    };
    let report = Frame::Report(report(flow, preface, Some(dial), Next::PassedOn)).bytes();
    // Only a server that has filled the send buffer before makes this wait.
    let how = match timeout(ANSWER_TIME, send_all(accept, &report)).await {
        Ok(Ok(())) => return Answered::PassOn(Box::new(Preface { hops, ..*preface }.bytes())),
        // Also after the server's FIN, which has passed.
        Ok(Err(err)) => Broken::of(Leg::Accept, &err).into(),
        Err(_) => How::TimedOut(Leg::Accept),
    };
    Answered::Ended(end_dial_leg(legs, ready(how)).await)
}

/// Waits until the prober has proved the key, and counts its probe if it gets a `place`, which it returns. Otherwise tells the prober why
/// not.
///
/// # Errors
/// The key is not proved, or there is no place. The flow ends this way.
async fn admit<T>(
    relay: &Relay,
    flow: &Flow,
    accept: &Stream,
    preface: &Preface,
    place: impl FnOnce() -> Option<T>,
) -> Result<T, How> {
    if let Err(why) = proof::ask(relay, flow, accept, preface).await {
        return Err(refuse_unproven(relay, flow, accept, preface, why).await);
    }
    let Some(place) = place() else {
        refused(relay, flow, TOO_MANY);
        let _ = timeout(ANSWER_TIME, converse(accept, report(flow, preface, None, Next::Busy), None)).await;
        return Err(How::ProbeRefused);
    };
    flow.counters.count(|counters| &counters.probes);
    Ok(place)
}

/// Tells the prober that it has not proved the key, and nothing else.
async fn refuse_unproven(relay: &Relay, flow: &Flow, accept: &Stream, preface: &Preface, why: &str) -> How {
    flow.counters.count(|counters| &counters.probes_unproven);
    refused(relay, flow, why);
    let _ = timeout(FAREWELL_TIME, converse(accept, bare_report(preface, Next::Unproven), None)).await;
    How::ProbeRefused
}

/// Ends the dial leg of a flow that is `answered` here. The final host gets FIN and no byte.
async fn end_dial_leg(legs: &Legs<'_>, answered: impl Future<Output = How>) -> How {
    // This fails only on a connection that is gone.
    let _ = SockRef::from(&**legs.dial).shutdown(Shutdown::Write);
    // However the probe ends, the final host has had its end.
    linger_off(legs.dial);
    let how = answered.await;
    discard(legs.dial);
    how
}

/// Answers a probe before the dial where the tunnel has `verify_final = false`. Returns `None` when the flow is to be
/// dialled. Then no byte was read.
pub(crate) async fn answer_undialled(relay: &Relay, flow: &Flow, accept: &Stream) -> Option<How> {
    if flow.tunnel.verify_final || !flow.client.may_be_probe() {
        return None;
    }
    let preface = peek_probe(accept).await?;
    flow.note_probe();
    if course(&flow.tunnel, &preface, || is_from_here(relay, flow, accept)) != Course::Answer
        || peek::consume(accept, LENGTH).is_err()
    {
        return None;
    }
    // Dropping the answer loses nothing that the other arm needs.
    tokio::select! {
        how = answer_as_last(relay, flow, accept, None, &preface) => Some(how),
        how = flow.cut.given() => Some(how),
    }
}

/// After a failed dial: tells the prober, whose `preface` was [taken](take_probe), how it `failed`.
pub(crate) async fn tell_dial_failed(
    relay: &Relay,
    flow: &Arc<Flow>,
    accept: &Stream,
    preface: &Preface,
    failed: Unanswered,
) {
    let place = || match course(&flow.tunnel, preface, || is_from_here(relay, flow, accept)) {
        Course::PassOn(hops) => may_pass_on(relay, flow, hops).then_some(None),
        Course::Answer | Course::Refuse => place_to_answer(relay, flow),
    };
    let telling = async {
        if let Ok(_place) = admit(relay, flow, accept, preface, place).await {
            let dial = dial_of(&flow.tunnel, &failed).await;
            let report = Report { dial, why: failed.why, ..report(flow, preface, None, Next::DialFailed) };
            let _ = converse(accept, report, None).await;
        }
    };
    tokio::select! {
        _ = timeout(ANSWER_TIME, telling) => {}
        _ = flow.cut.given() => {}
    }
}

/// After the next hop has reset the connection before the client's first byte was read: if the client is a prober, tells it
/// that its probe came as far as the next hop.
pub(crate) async fn tell_reset(legs: &Legs<'_>) {
    let Legs { relay, flow, accept, dial } = *legs;
    let telling = async {
        let Some(preface) = take_probe(flow, accept).await else { return };
        let Course::PassOn(hops) = course(legs.tunnel(), &preface, || is_from_here(relay, flow, accept)) else {
            answer_as_last(relay, flow, accept, Some(dial), &preface).await;
            return;
        };
        let place = || may_pass_on(relay, flow, hops).then_some(());
        if admit(relay, flow, accept, &preface, place).await.is_ok() {
            // The end of the connection after this report says the rest.
            let _ = converse(accept, report(flow, &preface, Some(dial), Next::PassedOn), None).await;
        }
    };
    let _ = timeout(ANSWER_TIME, telling).await;
}

/// Whether a probe may be passed on now, with `hops` to go. The daemon's own probes are not limited.
fn may_pass_on(relay: &Relay, flow: &Arc<Flow>, hops: u8) -> bool {
    flow.client.is_own() || relay.probes.may_pass_on(Source::from(flow.client.address().ip()), flow, hops)
}

/// Course of a probe at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Answers it.
    Answer,
    /// Passes it on, with so many hops to go.
    PassOn(u8),
    /// Refuses to pass it on.
    Refuse,
}

fn course(tunnel: &Tunnel, preface: &Preface, is_from_here: impl FnOnce() -> bool) -> Course {
    match (preface.hops, tunnel.verify_hops) {
        (0, _) | (_, Some(0)) => Course::Answer,
        (hops, Some(follow)) => Course::PassOn(hops.min(follow) - 1),
        (_, None) if is_from_here() => Course::PassOn(0),
        (_, None) => Course::Refuse,
    }
}

/// Whether the client of `flow` is this host. A proxy on this host speaks for any client, so a client that a proxy has named
/// is never this host.
fn is_from_here(relay: &Relay, flow: &Flow, accept: &Stream) -> bool {
    if flow.proxy().is_some() {
        return false;
    }
    // Not always the address that the client connected to: a connection to a secondary address comes from the primary one.
    let peer = SockRef::from(accept).peer_addr().ok().and_then(|peer| peer.as_socket());
    peer.is_some_and(|peer| relay.tunnels.loop_guard.here.has(peer) == Ok(true))
}

/// Returns how a report tells that a dial `failed`.
async fn dial_of(tunnel: &Tunnel, failed: &Unanswered) -> Dial {
    match (failed.kind, failed.address) {
        (FailureKind::Refused, _) => Dial::Refused,
        (FailureKind::NoAnswer, Some(address)) if host_answer::is_port_silent(tunnel, address).await => {
            Dial::PortSilent
        }
        (FailureKind::NoAnswer, _) => Dial::NoAnswer,
        (FailureKind::Unreachable, Some(address)) if host_answer::is_prohibited(tunnel, address).await => Dial::Refused,
        (FailureKind::Reset | FailureKind::Unreachable | FailureKind::Unresolved | FailureKind::Other, _) => {
            Dial::Failed
        }
    }
}

/// Waits a moment for the first bytes on `accept`. Returns the preface if they are that of a probe, and leaves them where they are.
pub(crate) async fn peek_probe(accept: &Stream) -> Option<Preface> {
    match peek::peek(accept, peek::ask(Asks::BesideDial), &mut [0; MAX_PREFACE_BYTES]).await {
        Ok((Found::Preface(PrefaceKind::Probe(preface)), _)) => Some(preface),
        _ => None,
    }
}

/// Reads the preface of a probe on `accept`, if there is one, so that the close can end with FIN. Waits up to
/// [`DIAL_TIME`](longhaul_core::opening::DIAL_TIME) for the first bytes, so a client that has sent nothing is reset that much later
/// than without this call.
pub(crate) async fn take_probe(flow: &Flow, accept: &Stream) -> Option<Preface> {
    if !flow.client.may_be_probe() {
        return None;
    }
    let preface = peek_probe(accept).await?;
    flow.note_probe();
    peek::consume(accept, LENGTH).ok().map(|()| preface)
}

/// Answers the probe with `preface`, which is not passed on, and returns how its flow ends. The prober gets a report. It also gets
/// the echo and the receipt if the report says so.
async fn answer_as_last(relay: &Relay, flow: &Flow, accept: &Stream, dial: Option<&Stream>, preface: &Preface) -> How {
    if let Err(why) = proof::ask(relay, flow, accept, preface).await {
        return refuse_unproven(relay, flow, accept, preface, why).await;
    }
    let (next, place) = admit_to_answer(relay, flow, accept, preface);
    let report = report(flow, preface, dial, next);
    let busy = Report { next: Next::Busy, echo_bytes: 0, ..report.clone() };
    let answered = tokio::select! {
        answered = timeout(ANSWER_TIME, converse(accept, report, place.as_ref())) => answered.ok(),
        // Dropping the answer loses nothing that this arm needs.
        () = lost(place.as_ref()) => {
            refused(relay, flow, "its prober sends too slowly, and another probe needs its place");
            None
        }
    };
    if next != Next::Echo {
        return How::ProbeRefused;
    }
    let Some(answered) = answered else {
        // A path that is slow is not broken. The prober finds this report among the bytes that come back.
        let _ = timeout(FAREWELL_TIME, converse(accept, busy, None)).await;
        return How::TimedOut(Leg::Accept);
    };
    match answered {
        Ok(()) => How::Finished,
        Err(err) => Broken::of(Leg::Accept, &err).into(),
    }
}

/// Decides on a probe that is not passed on, and counts it. Returns what follows its report, and its place if it needs one.
fn admit_to_answer<'a>(
    relay: &'a Relay,
    flow: &Flow,
    accept: &Stream,
    preface: &Preface,
) -> (Next, Option<ProbePlace<'a>>) {
    let (next, place) = match course(&flow.tunnel, preface, || is_from_here(relay, flow, accept)) {
        Course::Answer => match place_to_answer(relay, flow) {
            Some(place) => (Next::Echo, place),
            None => (Next::Busy, None),
        },
        // It comes here only if it may not be passed on now.
        Course::PassOn(_) => (Next::Busy, None),
        Course::Refuse => (Next::NotPassedOn, None),
    };
    match next {
        Next::Echo => {
            flow.counters.count(|counters| &counters.probes);
            debug!(flow = flow.number, tunnel = %flow.tunnel.name, peer = %flow.client.address(), "answering a probe");
        }
        Next::Busy => refused(relay, flow, TOO_MANY),
        _ => refused(relay, flow, "verify_hops does not allow it to be passed on"),
    }
    (next, place)
}

/// Returns the place of a probe that is answered here. `None`: there is none now. The daemon's own probes need none, so that strangers
/// cannot keep them out.
fn place_to_answer<'a>(relay: &'a Relay, flow: &Flow) -> Option<Option<ProbePlace<'a>>> {
    match flow.client.is_own() {
        true => Some(None),
        false => relay.probes.begin(Source::from(flow.client.address().ip())).map(Some),
    }
}

/// Waits until the probe has lost its `place`. One without a place loses none.
async fn lost(place: Option<&ProbePlace<'_>>) {
    match place {
        Some(place) => place.lost().await,
        None => pending().await,
    }
}

/// Sends `report`, echoes if it says so, and ends the connection. Tells `place` of the bytes that it echoes.
async fn converse(accept: &Stream, report: Report, place: Option<&ProbePlace<'_>>) -> io::Result<()> {
    let (echoes, nonce, bytes) = (report.next == Next::Echo, report.nonce, report.echo_bytes);
    send_all(accept, &Frame::Report(report).bytes()).await?;
    if echoes {
        let receipt = Frame::Receipt(Receipt { nonce, ..echo(accept, bytes, place).await? });
        send_all(accept, &receipt.bytes()).await?;
    }
    bid_farewell(accept).await;
    Ok(())
}

/// Echoes `bytes` bytes. Returns the receipt, without the nonce.
async fn echo(accept: &Stream, bytes: u32, place: Option<&ProbePlace<'_>>) -> io::Result<Receipt> {
    let mut buffer = vec![0; BUFFER];
    let (mut left, mut checksum, mut began) = (bytes as usize, 0, None);
    while left > 0 {
        let max = left.min(BUFFER);
        let got = poll_fn(|cx| poll_receive(accept, cx, &mut buffer[..max])).await?;
        if got == 0 {
            return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
        }
        began.get_or_insert_with(Instant::now);
        checksum = crc32c::crc32c_append(checksum, &buffer[..got]);
        send_all(accept, &buffer[..got]).await?;
        if let Some(place) = place {
            place.echoed(got);
        }
        left -= got;
    }
    let time = began.map_or(Duration::ZERO, |began| began.elapsed());
    Ok(Receipt { nonce: [0; 16], bytes, checksum, time_us: micros(time) })
}

/// Sends FIN, and waits until the peer has ended the connection, so that the close discards nothing.
async fn bid_farewell(accept: &Stream) {
    let _ = SockRef::from(accept).shutdown(Shutdown::Write);
    let reading = async {
        let mut bytes = [0; 1024];
        while poll_fn(|cx| poll_receive(accept, cx, &mut bytes)).await.is_ok_and(|got| got > 0) {}
    };
    let _ = timeout(FAREWELL_TIME, reading).await;
}

/// Reads and drops what the final host has said, because a close with unread bytes sends RST.
fn discard(dial: &Stream) {
    let mut bytes = [0; 4096];
    // A host that says more than 1 MiB to a silent client gets the RST.
    let _ = (0..256).take_while(|_| splice::receive(dial, &mut bytes).is_ok_and(|got| got > 0)).count();
}

fn report(flow: &Flow, preface: &Preface, dial: Option<&Stream>, next: Next) -> Report {
    let rtt = dial.and_then(|dial| TcpInfo::of(dial.as_fd()).ok()).map_or(Duration::ZERO, |info| info.rtt);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = process::hostname();
    let dialled = flow.next_hop().map(|(_, address)| address.to_string());
    let from = dial.and_then(|dial| SockRef::from(dial).local_addr().ok()).and_then(|from| from.as_socket());
    Report {
        dial: if dial.is_some() { Dial::Connected } else { Dial::NotDialled },
        clock_us: u64::try_from(clock.as_micros()).unwrap_or(u64::MAX),
        dial_us: flow.dial_us().unwrap_or_else(|| micros(flow.began.elapsed())),
        rtt_us: micros(rtt),
        echo_bytes: if next == Next::Echo { preface.echo_bytes } else { 0 },
        name,
        version: env!("CARGO_PKG_VERSION").into(),
        next_hop: dialled.unwrap_or_default(),
        why: from.map(|from| from.to_string()).unwrap_or_default(),
        ..bare_report(preface, next)
    }
}

/// Returns a report that says nothing about this relay.
fn bare_report(preface: &Preface, next: Next) -> Report {
    Report {
        nonce: preface.nonce,
        hops: preface.hops,
        dial: Dial::NotDialled,
        next,
        clock_us: 0,
        dial_us: 0,
        rtt_us: 0,
        echo_bytes: 0,
        name: String::new(),
        version: String::new(),
        next_hop: String::new(),
        why: String::new(),
    }
}

fn refused(relay: &Relay, flow: &Flow, why: &str) {
    flow.counters.count(|counters| &counters.probes_refused);
    if let Some(more) = relay.lines.probe.pass(&flow.tunnel.name, Instant::now()) {
        warn!(flow = flow.number, tunnel = %flow.tunnel.name, peer = %flow.client.address(), why, more, "probe refused");
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Why a probe over the limits is refused.
const TOO_MANY: &str = "too many probes";

/// Maximum time that an answer takes: 64 MiB each way at 10 Mbit/s.
const ANSWER_TIME: Duration = Duration::from_secs(120);

/// Time that the prober has to end the connection after the last byte.
const FAREWELL_TIME: Duration = Duration::from_secs(5);

/// Size of the buffer of an echo in bytes.
const BUFFER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow;
    use crate::leg::stream::{BOUND, soon, stand_still};
    use longhaul_config::NextHop;
    use longhaul_core::wire::answer::Frames;
    use std::net::SocketAddr;
    use std::sync::mpsc::Sender;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    /// Returns a client, and its flow to the next hop `to`, which has not begun.
    async fn flow_to(to: SocketAddr) -> (TcpStream, impl Future<Output = ()> + Send) {
        let ours = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = NextHop::new(to.ip().to_string(), to.port());
        let tunnel = Tunnel { verify_hops: Some(1), ..Tunnel::new("ends", ours.local_addr().unwrap(), vec![to]) };
        let client = soon(TcpStream::connect(tunnel.listen)).await.unwrap();
        let (accept, peer) = soon(ours.accept()).await.unwrap();
        let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
        SockRef::from(&accept).set_linger(Some(Duration::ZERO)).unwrap(); // as our own listener sets it
        let relay = Relay::new(100);
        let tunnel = relay.tunnels.open(Arc::new(tunnel));
        (client, flow::run(relay, tunnel, accept, peer, ()))
    }

    /// A client and its flow, while the clock stands still. Then no wait of the flow ends by time.
    struct Stopped {
        client: TcpStream,
        flow: JoinHandle<()>,
        done: Sender<()>,
        still: JoinHandle<()>,
    }

    impl Stopped {
        /// Also returns the connection to the next hop.
        async fn begin() -> (Stopped, std::net::TcpStream) {
            let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            // accept(2) obeys SO_RCVTIMEO, too (socket(7)).
            SockRef::from(&server).set_read_timeout(Some(BOUND)).unwrap();
            let (client, flow) = flow_to(server.local_addr().unwrap()).await;
            tokio::time::pause();
            let (done, still) = stand_still();
            let flow = tokio::spawn(flow);
            tokio::task::yield_now().await;
            (Stopped { client, flow, done, still }, server.accept().unwrap().0)
        }

        /// Lets the clock move, ends the client, and waits until its flow has ended.
        async fn end(self) {
            drop((self.client, self.done));
            self.still.await.unwrap();
            soon(self.flow).await.unwrap();
            tokio::time::resume();
        }
    }

    /// Lets the flow see what has come.
    async fn let_look() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    /// A FIN that waited would never come.
    #[tokio::test]
    async fn a_fin_behind_bytes_does_not_wait_for_a_preface() {
        let (mut stopped, mut hop) = Stopped::begin().await;
        std::io::Write::write_all(&mut hop, b"greeted").unwrap();
        drop(hop);
        let mut got = Vec::new();
        soon(stopped.client.read_to_end(&mut got)).await.unwrap();
        assert_eq!(got, b"greeted");
        stopped.end().await;
    }

    /// The preface comes in time on any machine.
    #[tokio::test]
    async fn a_prober_hears_of_a_next_hop_that_ends_before_the_preface_comes() {
        for linger in [None, Some(Duration::ZERO)] {
            let (mut stopped, hop) = Stopped::begin().await;
            SockRef::from(&hop).set_linger(linger).unwrap();
            drop(hop);
            let_look().await;
            let client = &mut stopped.client;
            soon(client.write_all(&Preface { hops: 1, echo_bytes: 1024, nonce: [7; 16] }.bytes())).await.unwrap();
            let mut got = Vec::new();
            let read = soon(client.read_to_end(&mut got)).await;
            assert!(linger.is_none() || read.is_ok(), "FIN behind the report: {read:?}");
            let mut frames = Frames::default();
            let found: Vec<_> = got.iter().filter_map(|byte| frames.take(*byte).unwrap()).collect();
            let [Frame::Report(report)] = &found[..] else { panic!("{found:?} {linger:?}") };
            assert_eq!((report.nonce, report.next), ([7; 16], Next::PassedOn));
            stopped.end().await;
        }
    }

    /// The first byte is that of a preface, and is held back; so is the FIN. The reset lets it pass.
    #[tokio::test]
    async fn a_next_hop_that_ends_and_resets_while_bytes_are_held_back_ends_the_flow() {
        let (mut stopped, hop) = Stopped::begin().await;
        soon(stopped.client.write_all(&[0xfd])).await.unwrap();
        hop.shutdown(Shutdown::Write).unwrap();
        let_look().await;
        SockRef::from(&hop).set_linger(Some(Duration::ZERO)).unwrap();
        drop(hop);
        assert_eq!(soon(stopped.client.read(&mut [0])).await.unwrap(), 0);
        stopped.end().await;
    }

    /// A preface never goes to a final host by the will of another host.
    #[test]
    fn a_probe_is_passed_on_only_where_a_relay_is_known_to_follow() {
        let with = |verify_hops, hops, is_from_here| {
            let mut tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
            tunnel.verify_hops = verify_hops;
            course(&tunnel, &Preface { hops, echo_bytes: 0, nonce: [0; 16] }, || is_from_here)
        };
        assert_eq!([with(None, 1, true), with(None, 5, true)], [Course::PassOn(0); 2]);
        assert_eq!([with(None, 1, false), with(None, 5, false)], [Course::Refuse; 2]);
        assert_eq!([with(Some(1), 1, false), with(Some(2), 2, false)], [Course::PassOn(0), Course::PassOn(1)]);
        assert_eq!(with(Some(1), 8, true), Course::PassOn(0), "no further than the tunnel goes");
        assert_eq!([with(Some(0), 1, true), with(None, 0, false), with(Some(2), 0, false)], [Course::Answer; 3]);
    }
}
