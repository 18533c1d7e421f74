//! Finds out whether a tunnel's flows come back to it through another relay. [`longhaul_core::loops`] decides.
//!
//! ```text
//! a test   connects to the next hop as a dial does, and sends no byte: does a flow without a byte come from the source?
//!          sends FIN: does that flow end so, too?
//! a probe  only if both happened: the next hop reports which connection it has made, and that one ends at our listener
//! ```
//! The first two steps harm no final host. A preface would be garbage to one, so it is sent only to a next hop that sends
//! connections back, and not with `verify_hops = 0`, which says that the next hop is no relay.

use crate::leg::closing::linger_off;
use crate::live::flow::Flow;
use crate::live::tally::Tally;
use crate::lock::lock;
use crate::reach::connect;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use crate::verify::{self, Plan};
use longhaul_config::options::Leg;
use longhaul_core::loops::{MAX_LOOPED, SLOWED_BY, Sign, Tested};
use longhaul_core::proxy_header;
use longhaul_sys::splice;
use socket2::SockRef;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::warn;

/// Looks at a new `flow` before its dial: it may be one of many flows of the same source that nobody answers. Then somebody tests
/// whether they come back. Returns the time by which the dial is to be delayed.
pub(crate) fn look(relay: &Arc<Relay>, tunnel: &Arc<ServedTunnel>, flow: &Flow) -> Option<Duration> {
    let (from, now) = (flow.peer().ip().to_canonical(), Instant::now());
    // Clients on this host are no relay elsewhere. `LoopGuard` finds the loops within this process.
    if from.is_loopback() || !flow.began_by(from) {
        return None;
    }
    let flows = tunnel.counters.flows_now.load(Relaxed);
    if flow.number % LOOK_EVERY == 0 && flows > MAX_LOOPED as u64 {
        let next_hop = unanswered(relay, tunnel, from);
        if let Some(next_hop) = next_hop.filter(|_| lock(&tunnel.loops).suspect(from, now)) {
            tokio::spawn(test_until_answered(relay.clone(), tunnel.clone(), from, next_hop));
        }
    }
    lock(&tunnel.loops).is_slowed(from, now).then_some(SLOWED_BY)
}

/// Looks at a `flow` that has ended: an answered one shows that there is no loop.
pub(crate) fn ended(tunnel: &ServedTunnel, flow: &Flow) {
    let mut loops = lock(&tunnel.loops);
    let from = flow.peer().ip().to_canonical();
    if loops.is_doubtful(from) && flow.began_by(from) && flow.is_answered() {
        loops.clear(from, Instant::now());
    }
}

/// Whether an ended `flow` went round in a loop. Nobody waits for it: the flow of the client that began it is another one, and a probe
/// tells what it found. The dials of a loop are ahead of the preface, so the probe's own flows do not show it.
pub(crate) fn went_round(tunnel: &ServedTunnel, flow: &Flow) -> bool {
    let from = flow.peer().ip().to_canonical();
    !flow.is_answered() && flow.began_by(from) && lock(&tunnel.loops).is_loop(from, Instant::now())
}

/// Returns the next hop of flows from `from`, if there are more of them than a loop may have, and none of the newest is answered.
fn unanswered(relay: &Relay, tunnel: &ServedTunnel, from: IpAddr) -> Option<SocketAddr> {
    let newest = relay.registry.newest(&tunnel.counters, from, MAX_LOOPED + 1);
    let are_many = newest.len() > MAX_LOOPED && !newest.iter().any(|flow| flow.is_answered());
    newest.iter().find_map(|flow| flow.next_hop()).filter(|_| are_many).map(|(_, address)| address)
}

/// Tests whether the flows of `from` come back, now and again later while nobody answers them.
async fn test_until_answered(relay: Arc<Relay>, tunnel: Arc<ServedTunnel>, from: IpAddr, mut next_hop: SocketAddr) {
    loop {
        // Most servers answer meanwhile.
        sleep(BEFORE_TEST).await;
        let newest = relay.registry.newest(&tunnel.counters, from, MAX_LOOPED);
        let result = match newest.iter().any(|flow| flow.is_answered()) {
            true => Tested::Gone,
            false => test(&relay, &tunnel, from, next_hop).await,
        };
        lock(&tunnel.loops).tested(from, result, Instant::now());
        let is_certain = matches!(result, Tested::Back(Sign::Loop(_)));
        if matches!(result, Tested::Back(_)) {
            warn!(tunnel = %tunnel.settings.name, peer = %from, %next_hop, is_certain,
                "flows come back to the tunnel: two relays lead to each other");
        }
        if !is_certain {
            sleep(BEFORE_NEXT_TEST).await;
            if let Some(again) = unanswered(&relay, &tunnel, from) {
                next_hop = again;
                continue;
            }
        }
        return lock(&tunnel.loops).rest();
    }
}

/// Tests whether a connection to `next_hop` comes back from `from`, and makes a probe if it does.
async fn test(relay: &Arc<Relay>, tunnel: &ServedTunnel, from: IpAddr, next_hop: SocketAddr) -> Tested {
    let may_probe = tunnel.settings.verify_hops != Some(0);
    let mut result = Tested::Unclear;
    for _ in 0..TRIES {
        match returns(relay, tunnel, from, next_hop).await {
            Some(false) => return Tested::Gone,
            Some(true) => result = Tested::Back(Sign::Returns),
            None => {}
        }
        if result != Tested::Unclear {
            if !may_probe {
                break;
            }
            if let Some(own) = probe(relay, tunnel, next_hop).await {
                return Tested::Back(Sign::Loop(own));
            }
        }
        // The other relay knows the loop already, perhaps, and refuses us until the flows have ended that it has refused.
        sleep(BETWEEN_TRIES).await;
    }
    result
}

/// Whether a connection to `next_hop` that ends without a byte comes from `from`, and ends so. `None` if it cannot be made, or is
/// reset.
async fn returns(relay: &Relay, tunnel: &ServedTunnel, from: IpAddr, next_hop: SocketAddr) -> Option<bool> {
    let _spare = tunnel.spare()?;
    let last = relay.registry.last();
    let came = |is_it: fn(&Flow) -> bool| {
        let is_silent = |flow: &Flow| flow.began_by(from) && flow.tally() == Tally::default();
        let is_of_tunnel = |flow: &Flow| Arc::ptr_eq(&flow.counters, &tunnel.counters);
        relay.registry.since(last + 1).iter().any(|flow| is_of_tunnel(flow) && is_silent(flow) && is_it(flow))
    };
    let (stream, _) = connect::begin(relay, &tunnel.settings, next_hop, &[]).ok()?;
    connect::finish(relay, &stream, next_hop, TEST_TIME).await.ok()?;
    if let Some(version) = tunnel.settings.proxy_out {
        // Behind this header, the next hop dials a moment later, because a server may speak first.
        splice::send(&stream, &proxy_header::write_own(version)).ok()?;
    }
    // The kernel tells a reset once.
    let was_reset = AtomicBool::new(false);
    let is_reset = || {
        let fails = splice::peek(stream.as_fd(), &mut [0]).is_err_and(|err| err.kind() != ErrorKind::WouldBlock);
        was_reset.fetch_or(fails, Relaxed) || fails
    };
    let has_come = within(TEST_TIME, || came(|flow| !flow.has_passed_fin(Leg::Accept)) || is_reset()).await;
    // A final host gets an end that every server knows.
    let _ = SockRef::from(&stream).shutdown(Shutdown::Write);
    linger_off(&stream);
    let has_ended = has_come && within(TEST_TIME, || came(|flow| flow.has_passed_fin(Leg::Accept)) || is_reset()).await;
    (!is_reset()).then_some(has_ended)
}

/// Makes a probe through `next_hop`. Returns the address of this tunnel to which the next hop has connected for it.
async fn probe(relay: &Relay, tunnel: &ServedTunnel, next_hop: SocketAddr) -> Option<SocketAddr> {
    let _spare = tunnel.spare()?;
    let (stream, _) = connect::begin(relay, &tunnel.settings, next_hop, &[]).ok()?;
    connect::finish(relay, &stream, next_hop, TEST_TIME).await.ok()?;
    let stream = TcpStream::from_std(stream.into_socket().into()).ok()?;
    let plan = Plan { key: relay.probes.key(), ..Plan::of_next_hop(&tunnel.settings, next_hop, PROBE_TIME) };
    verify::run_on(&plan, &stream).await.came_back
}

/// Waits until `is_so` returns true, at most for `time`. Returns whether it did.
async fn within(time: Duration, is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() >= time {
            return false;
        }
        sleep(BETWEEN_LOOKS).await;
    }
    true
}

/// The newest flows are looked at for each flow whose number is a multiple of this. So the look costs an ordinary flow next to nothing,
/// and a loop has grown by few flows.
const LOOK_EVERY: u64 = 8;

/// Time before a test, in which the next hop may answer one of the flows.
const BEFORE_TEST: Duration = Duration::from_millis(100);

/// Time before the next test of a source whose flows are still not answered.
const BEFORE_NEXT_TEST: Duration = Duration::from_secs(60);

/// Maximum time of each step of a test. Between relays in one site it takes 20 ms, and between sites some round trips.
const TEST_TIME: Duration = Duration::from_secs(3);

/// Number of tries of a test, and the time after each.
const TRIES: u32 = 6;
const BETWEEN_TRIES: Duration = Duration::from_millis(300);

/// Maximum time of a probe.
const PROBE_TIME: Duration = Duration::from_secs(3);

/// Time between two looks for a flow that comes back.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
