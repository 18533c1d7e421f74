//! Finds out whether a tunnel's flows come back to it through another relay. [`longhaul_core::loops`] decides.
//!
//! ```text
//! a test  connects to the next hop as a dial does, and sends nothing: does a flow without a byte come?
//!   FIN   does the FIN of that flow come right after it, and not before?
//!   RST   does a reset of the same flow come right after it, and not before?
//! ```
//! Each end is sent after a random time. Many clients that close without a byte may still look like the FIN, and so that alone is a
//! doubt. Only five resets in a row are a proof, because a client may imitate one. A test sends no byte but the PROXY header of its tunnel: a
//! final host gets FIN, as from a client that gives up, and RST behind that only if it has not answered and another flow ended meanwhile.

use crate::leg::closing::linger_off;
use crate::leg::stream::Stream;
use crate::live::flow::Flow;
use crate::live::how::How;
use crate::live::tally::Tally;
use crate::reach::connect;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_core::loops::{self, MAX_LOOPED, RESET_CHANCES, Series, Sign, Tested, Watch};
use longhaul_core::opening::BEHIND_TIME;
use longhaul_core::proxy_header;
use longhaul_sys::splice;
use socket2::SockRef;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tracing::{info, warn};

/// Looks at a new `flow` before its dial: it may be one of many flows of the same source that nobody answers. Then somebody tests
/// whether they come back. Returns the time by which the dial is to be delayed.
pub(crate) fn look(relay: &Arc<Relay>, tunnel: &Arc<ServedTunnel>, flow: &Flow) -> Option<Duration> {
    let (from, now) = (flow.source(), Instant::now());
    if !is_outside(flow) {
        return None;
    }
    let is_due =
        tunnel.loops.begun(flow) % LOOK_EVERY == 0 && tunnel.counters.flows_now.load(Relaxed) > MAX_LOOPED as u64;
    if is_due && tunnel.loops.may_suspect(from, now) && are_unanswered(relay, tunnel, from) {
        if relay.tunnels.answers(tunnel, from) {
            tunnel.loops.change(|watch| watch.answered(from, now));
        } else if tunnel.loops.suspect(from, now) {
            tokio::spawn(test_while_unanswered(relay.clone(), tunnel.clone(), from));
        }
    }
    slowed_by(tunnel, from)
}

/// Returns the time by which a dial for a flow of `from` is delayed now.
fn slowed_by(tunnel: &ServedTunnel, from: IpAddr) -> Option<Duration> {
    let watch = tunnel.loops.suspecting()?;
    watch.slowed_by(from, flows_since(tunnel), Instant::now())
}

/// Returns the number of flows that a loop may have now. One that is suspected now has none from before.
fn flows_since(tunnel: &ServedTunnel) -> u64 {
    tunnel.counters.flows_now.load(Relaxed).min(tunnel.loops.begun_since() as u64)
}

/// Looks at a `flow` that has ended: an answered one shows that there is no loop.
pub(crate) fn ended(tunnel: &ServedTunnel, flow: &Flow) {
    if is_outside(flow) && flow.is_answered() {
        tunnel.loops.change(|watch| watch.answered(flow.source(), Instant::now()));
    }
}

/// Whether an ended `flow` went round in a loop. Nobody waits for it: the flow of the client that began it is another one, and a probe
/// tells what it found. The dials of a loop are ahead of the preface, so the probe's own flows do not show it. A client may imitate a loop,
/// so a flow that has carried bytes is quiet only if the loop is proven.
pub(crate) fn went_round(tunnel: &ServedTunnel, flow: &Flow) -> bool {
    let from = flow.source();
    let is_quiet =
        |watch: &Watch, now| watch.is_proven(from, now) || watch.is_loop(from, now) && flow.tally() == Tally::default();
    !flow.is_answered()
        && flow.began_by(from)
        && tunnel.loops.suspecting().is_some_and(|watch| is_quiet(&watch, Instant::now()))
}

/// Whether more of the newest flows are from `from` than a loop may have, and none of them is answered.
fn are_unanswered(relay: &Relay, tunnel: &ServedTunnel, from: IpAddr) -> bool {
    let newest = tunnel.loops.newest(&relay.registry, |flow| flow.began_by(from), usize::MAX);
    newest.len() > MAX_LOOPED && !newest.iter().any(|flow| flow.is_answered())
}

/// Returns the next hop of the newest flow that is connected, or the first one that is an address.
fn next_hop(relay: &Relay, tunnel: &ServedTunnel) -> Option<SocketAddr> {
    let newest = tunnel.loops.newest(&relay.registry, |flow| flow.next_hop().is_some(), 1);
    let of_flow = newest.first().and_then(|flow| Some(flow.next_hop()?.1));
    of_flow.or_else(|| tunnel.settings.to.iter().find_map(|hop| hop.address()))
}

/// Looks which of `tested` and the suspected sources are answered meanwhile: their dials are not slowed any more. Returns whether `tested` is.
fn note_answered(relay: &Relay, tunnel: &ServedTunnel, tested: IpAddr) -> bool {
    let mut sources = tunnel.loops.suspecting().map(|watch| watch.suspects()).unwrap_or_default();
    sources.retain(|source| *source != tested);
    sources.push(tested);
    sources.retain(|source| relay.tunnels.answers(tunnel, *source));
    tunnel.loops.change(|watch| sources.iter().for_each(|source| watch.answered(*source, Instant::now())));
    sources.contains(&tested)
}

/// Tests whether the flows of `from` come back, and again later, while nobody answers them. The flows of a loop end by their refusals,
/// so it is tested without them, and is over soon after it was mended.
async fn test_while_unanswered(relay: Arc<Relay>, tunnel: Arc<ServedTunnel>, mut from: IpAddr) {
    let loops = tunnel.loops.clone();
    // A reload may change how it dials.
    let served = || relay.tunnels.list().iter().find(|served| Arc::ptr_eq(&served.loops, &loops)).cloned();
    let watch_says = |says: fn(&Watch, IpAddr, Instant) -> bool, from| {
        loops.suspecting().is_some_and(|watch| says(&watch, from, Instant::now()))
    };
    let (mut told, mut last_hop, mut began) = (None, None, None);
    let name = tunnel.settings.name.clone();
    let mut due = Instant::now() + MIN_WAIT; // in which most servers answer
    while let Some(tunnel) = served() {
        let left = due.saturating_duration_since(Instant::now());
        sleep(left.min(BETWEEN_LOOKS_AT_FLOWS)).await;
        if note_answered(&relay, &tunnel, from) {
            break;
        }
        if !are_unanswered(&relay, &tunnel, from) && !watch_says(Watch::is_loop, from) {
            break;
        }
        if left > BETWEEN_LOOKS_AT_FLOWS {
            continue;
        }
        // A tunnel that was closed gets no flow, and a test would keep the process from its end.
        if !tunnel.listens() {
            due = Instant::now() + BETWEEN_LOOKS_AT_FLOWS;
            continue;
        }
        // While dials are slowed, none of the newest flows may be connected.
        let Some(next_hop) = next_hop(&relay, &tunnel).or(last_hop) else {
            due = Instant::now() + BETWEEN_LOOKS_AT_FLOWS;
            continue;
        };
        loops.change(|watch| watch.dials(next_hop));
        let (result, source) = test(&relay, &tunnel, from, next_hop).await;
        // In a full tunnel, nothing can come.
        let result = if result == Tested::Gone && tunnel.full().is_some() { Tested::Unclear } else { result };
        loops.change(|watch| watch.tested(source, result, Instant::now()));
        let sign = result.sign();
        // They came back from another one: the flows of a client go round, too.
        if sign.is_some() {
            from = source;
        }
        // One test may find less than the one before, such as when the other relay refuses it.
        let is_certain = matches!(result, Tested::Proven(_));
        let news = sign.map(|_| is_certain);
        if news > told {
            told = news;
            began = began.or_else(|| Some(Instant::now()));
            tell(&tunnel.settings.name, from, next_hop, is_certain);
        }
        // From now on, `status` does not name them either.
        if result == Tested::Gone && !watch_says(Watch::is_loop, from) {
            told = None;
            tell_end(&tunnel.settings.name, began.take());
        }
        last_hop = Some(next_hop);
        due = Instant::now()
            + match result {
                Tested::Gone if watch_says(Watch::is_loop, from) => WHILE_IN_DOUBT,
                Tested::Gone => BEFORE_NEXT_TEST,
                Tested::Unclear => AFTER_UNCLEAR,
                Tested::Back(_) | Tested::Proven(_) => WHILE_IN_DOUBT,
            };
    }
    loops.change(|watch| watch.rest(from));
    tell_end(&name, began);
}

/// Writes the line that flows of `tunnel` come back.
fn tell(tunnel: &str, from: IpAddr, next_hop: SocketAddr, is_certain: bool) {
    match is_certain {
        true => {
            warn!(tunnel, peer = %from, %next_hop, is_certain, "flows go round in a loop: the `to` of this relay or of `peer` is wrong")
        }
        false => {
            warn!(tunnel, peer = %from, %next_hop, is_certain, "flows seem to come back to the tunnel: do two relays lead to each other?");
        }
    }
}

/// Writes the line that they no longer do, if one said that they do since `began`.
fn tell_end(tunnel: &str, began: Option<Instant>) {
    if let Some(began) = began {
        info!(tunnel, seconds = began.elapsed().as_secs(), "flows no longer come back to the tunnel");
    }
}

/// Tests whether connections to `next_hop` come back, one after the other, until that is proven. Returns also from whom: from `from`, or
/// from the source that it found.
async fn test(relay: &Relay, tunnel: &Arc<ServedTunnel>, from: IpAddr, next_hop: SocketAddr) -> (Tested, IpAddr) {
    let (mut series, mut found, mut source) = (Series::default(), Tested::Unclear, from);
    let (mut patience, mut comes_in, mut was_found) = (MIN_WAIT, Duration::ZERO, false);
    for _ in 0..TRIES {
        if !relay.tunnels.is_listed(tunnel) {
            break;
        }
        // What only FIN has shown ends with the flows that showed it.
        if found == Tested::Back(Sign::Returns) && !are_unanswered(relay, tunnel, source) {
            break;
        }
        // Its dials may be delayed, and so the newest flows be without an answer.
        if note_answered(relay, tunnel, source) {
            return (Tested::Gone, source);
        }
        let is_known = tunnel.loops.suspecting().is_some_and(|watch| watch.is_loop(source, Instant::now()));
        // The other relay may delay its dial, too, and has about as many flows.
        comes_in = comes_in.max(2 * loops::delay(is_known, flows_since(tunnel)));
        let result = returns(relay, tunnel, next_hop, patience, &mut comes_in).await;
        // Some relays end by FIN what they have refused.
        if result == Err(Tested::Gone) && !was_found {
            return (Tested::Gone, from);
        }
        let echo = result.unwrap_or_default();
        if let Some((_, other)) = echo.filter(|(_, other)| *other != source) {
            (series, source) = (Series::default(), other);
        }
        let sign = echo.map(|(sign, _)| sign);
        found = series.add(sign);
        was_found |= found != Tested::Unclear;
        match found {
            Tested::Proven(_) => break,
            // Views tell it before it is proven.
            Tested::Back(_) => tunnel.loops.change(|watch| watch.tested(source, found, Instant::now())),
            Tested::Gone | Tested::Unclear => {}
        }
        if !matches!(sign, Some(Sign::Loop(_))) {
            // A host is busy. Or the other relay knows the loop already, and refuses us until the flows have ended that it has refused.
            sleep(2 * patience).await;
            if result.is_ok() {
                patience = patience * 3 / 2;
            }
        }
    }
    (found, source)
}

/// Whether a host elsewhere began `flow`. Clients on this host are no relay elsewhere; `LoopGuard` finds the loops within this process.
fn is_outside(flow: &Flow) -> bool {
    let from = flow.source();
    !from.is_loopback() && flow.began_by(from)
}

/// Returns the sign that a connection to `next_hop` comes back, and from whom. It ends `patience` to some times that after it has come here
/// and, `comes_in` later, has been dialled. `None` if these times were too short to tell; `comes_in` is then longer.
///
/// # Errors
/// It does not come back, or it was refused.
async fn returns(
    relay: &Relay,
    tunnel: &ServedTunnel,
    next_hop: SocketAddr,
    patience: Duration,
    comes_in: &mut Duration,
) -> Result<Option<(Sign, IpAddr)>, Tested> {
    let _spare = tunnel.spare().ok_or(Tested::Unclear)?;
    let (last, began) = (relay.registry.last(), Instant::now());
    let (stream, _) = connect::begin(relay, &tunnel.settings, next_hop, &[]).map_err(|_| Tested::Unclear)?;
    connect::finish(relay, &stream, next_hop, TEST_TIME).await.map_err(|_| Tested::Unclear)?;
    let patience = patience.max(ROOM * began.elapsed());
    // Behind this header, the next hop dials a moment later, because a server may speak first.
    let header = tunnel.settings.proxy_out.map(proxy_header::write_own);
    if let Some(header) = &header {
        splice::send(&stream, header).map_err(|_| Tested::Unclear)?;
    }
    let dials_in = header.map_or(Duration::ZERO, |_| BEHIND_TIME);
    // A final host gets FIN, whatever comes.
    linger_off(&stream);
    let mut silent = Silent(Some(stream));
    // The oldest first.
    let flows = || -> Vec<Arc<Flow>> {
        // A relay on the way may have put a header before the bytes that do not come.
        let is_silent = |flow: &Arc<Flow>| matches!(flow.tally(), Tally { up: ..=HEADERS, down: 0 });
        let is_of_tunnel = |flow: &Arc<Flow>| Arc::ptr_eq(&flow.counters, &tunnel.counters) && is_outside(flow);
        let flows = relay.registry.since(last + 1).into_iter();
        flows.filter(|flow| is_of_tunnel(flow) && is_silent(flow)).collect()
    };
    if !silent.within(TEST_TIME, || !flows().is_empty()).await? {
        return Err(Tested::Gone);
    }
    let came = Instant::now();
    let has_ended = |flow: &Arc<Flow>| flow.has_passed_fin(Leg::Accept);
    let soon = patience / 2;
    let wait = patience + dials_in + *comes_in + random_of(2, soon)?;
    let Some(flow) = silent.echo(wait, soon, flows, Silent::finish, has_ended).await? else {
        // A host answers FIN by FIN.
        silent.within(ROOM * patience, || false).await?;
        // The flow may have come later, if the other relay knows the loop already. With few flows that is not long: clients of a server that
        // hangs end theirs, too.
        let late = 2 * loops::delay(true, flows_since(tunnel));
        if !silent.within(late, || flows().iter().any(has_ended)).await? {
            return Err(Tested::Gone);
        }
        // Clients of a server that hangs end their flows, too: no loop delays a flow for longer than this.
        *comes_in = came.elapsed().saturating_sub(patience).min(2 * loops::delay(true, u64::MAX));
        silent.reset();
        return Ok(None);
    };
    let own = flow.client_to().ok_or(Tested::Unclear)?;
    let own = SocketAddr::new(own.ip().to_canonical(), own.port());
    let was_reset = |flow: &Arc<Flow>| flow.how() == Some(How::Reset(Leg::Accept));
    // On a busy host, a reset takes longer than a look at it.
    let wait = patience + random_of(RESET_CHANCES, patience)?;
    let echo = silent.echo(wait, patience, || vec![flow.clone()], Silent::reset, was_reset).await?;
    Ok(Some((echo.map_or(Sign::Returns, |_| Sign::Loop(own)), flow.source())))
}

/// Returns a random time below `count` times `span`.
fn random_of(count: u32, span: Duration) -> Result<Duration, Tested> {
    let random = longhaul_measure::random().map_err(|_| Tested::Unclear)?;
    Ok((count * span).mul_f64(f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX)))
}

/// A connection to the next hop that carries no byte, but the PROXY header of the tunnel. `None` once it was reset.
struct Silent(Option<Stream>);

impl Silent {
    /// Waits for `wait`, and then calls `end`. Returns the first of `flows` for which `is_echo` becomes true within `soon` after that, and
    /// not before.
    async fn echo(
        &mut self,
        wait: Duration,
        soon: Duration,
        flows: impl Fn() -> Vec<Arc<Flow>>,
        end: fn(&mut Silent),
        is_echo: impl Fn(&Arc<Flow>) -> bool,
    ) -> Result<Option<Arc<Flow>>, Tested> {
        self.within(wait, || false).await?;
        let mut flows = flows();
        flows.retain(|flow| !is_echo(flow));
        end(self);
        self.within(soon, || flows.iter().any(&is_echo)).await?;
        Ok(flows.into_iter().find(is_echo))
    }

    /// Waits until `is_so` returns true, at most for `time`. Returns whether it did.
    ///
    /// # Errors
    /// The next hop has said something or ended the connection: [`Tested::Gone`]. It has reset it: [`Tested::Unclear`].
    async fn within(&self, time: Duration, is_so: impl Fn() -> bool) -> Result<bool, Tested> {
        let start = Instant::now();
        while !is_so() {
            if let Some(stream) = &self.0 {
                match splice::peek(stream.as_fd(), &mut [0]) {
                    Err(err) if err.kind() == ErrorKind::WouldBlock => {}
                    Ok(_) if !stream.was_reset() => return Err(Tested::Gone),
                    _ => return Err(Tested::Unclear),
                }
            }
            if start.elapsed() >= time {
                return Ok(false);
            }
            sleep(BETWEEN_LOOKS).await;
        }
        Ok(true)
    }

    fn finish(&mut self) {
        let _ = self.0.as_ref().map(|stream| SockRef::from(stream).shutdown(Shutdown::Write));
    }

    /// Ends also the flows that the connection has made in a loop. Each of them would make the next one, for ever.
    fn reset(&mut self) {
        let _ = self.0.take().map(|stream| SockRef::from(&stream).set_linger(Some(Duration::ZERO)));
    }
}

/// The newest flows of a tunnel are looked at for each flow whose place is a multiple of this. So the look costs an ordinary flow next to
/// nothing, and a loop has grown by few flows.
const LOOK_EVERY: usize = 8;

/// Minimum time before a test, and before each end of a connection.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// Minimum number of round trips before an end. FIN must come back in half of that time, and RST in all of it.
const ROOM: u32 = 4;

/// Time before the next test of a source whose flows are still not answered.
const BEFORE_NEXT_TEST: Duration = Duration::from_secs(60);

/// The same if the last test came to no end, such as by a refusal of the other relay.
const AFTER_UNCLEAR: Duration = Duration::from_secs(2);

/// The same if the connections of the last test came back. So a mistaken doubt, or a loop that somebody has mended, ends within
/// seconds.
const WHILE_IN_DOUBT: Duration = Duration::from_secs(5);

/// Time between two looks whether a source still has flows that are not answered.
const BETWEEN_LOOKS_AT_FLOWS: Duration = Duration::from_secs(1);

/// Maximum time until a connection is made, and until it has come back. Between relays in one site it takes 20 ms, and between sites some
/// round trips.
const TEST_TIME: Duration = Duration::from_secs(3);

/// Maximum number of bytes of the headers that relays on the way put before a connection of a test: some of version 1 or 2 of the PROXY
/// protocol, of up to 107 bytes.
const HEADERS: u64 = 512;

/// Maximum number of connections of a test.
const TRIES: u32 = 12;

/// Time between two looks for a flow that comes back.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
