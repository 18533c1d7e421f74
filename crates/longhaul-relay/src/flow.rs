//! One flow, from the accepted connection to its end.

use crate::carry::end::{FlowEnd, LegEnd};
use crate::carry::join::{self, LastLook};
use crate::ftp;
use crate::leg::peek;
use crate::leg::stream::Stream;
use crate::live::client::Client;
use crate::live::flow::Flow;
use crate::live::how::{Broken, How};
use crate::probe::answer;
use crate::probe::{loop_test, measure};
use crate::reach::dial;
use crate::reach::dial::{Dialled, NotDialled};
use crate::reach::proxy_out::Header;
use crate::state::hops::{Chosen, Hops};
use crate::state::legs::Legs;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::Protocol;
use longhaul_config::options::Leg;
use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tracing::{debug, warn};

/// Dials for the accepted connection, carries every byte, and logs how the flow ended. The dial starts before a byte is
/// read. `permit` is dropped when the flow and its FTP data connections are over.
///
/// Not an async fn: an async fn would hold its arguments twice in the future of every idle flow.
pub(crate) fn run(
    relay: Arc<Relay>,
    tunnel: Arc<ServedTunnel>,
    accept: Stream,
    client: impl Into<Client>,
    permit: impl Any + Send + Sync,
) -> impl Future<Output = ()> + Send {
    let accept = Arc::new(accept);
    let live = Live::begin(relay, tunnel, client.into(), &accept);
    async move {
        // Boxed, because the dial's states would otherwise be part of every idle flow.
        let reached = Box::pin(reach(&live, &accept)).await;
        let (dial, (how, last_look), permit) = match reached {
            Ok(dial) => {
                let (ended, permit) = match live.flow.tunnel.protocol {
                    Protocol::Tcp => (carry(&live, &accept, &dial).await, Held::Alone(permit)),
                    // Boxed, because the future would otherwise be part of every idle flow.
                    Protocol::Ftp => Box::pin(carry_ftp(&live, &accept, &dial, permit)).await,
                };
                (Some(dial), ended, permit)
            }
            Err(how) => (None, (how, None), Held::Alone(permit)),
        };
        live.flow.ended(how);
        let mut end = FlowEnd { flow: &live.flow, tally: live.flow.tally(), how, last_look };
        // Prepares the sockets so that closing them tells the peers how the flow ended. The close comes next.
        let dial_end = dial.as_deref().map(|dial| LegEnd::conclude(dial, Leg::Dial, &end));
        let accept_end = LegEnd::conclude(&accept, Leg::Accept, &end);
        let is_check = accept_end.is_of_check(&end);
        if is_check && end.how != How::Finished {
            end.how = How::Checked;
        }
        live.flow.counters.ended(end.how);
        // Closed at once, because `conclude` prepared the close for the state that the kernel just reported. Closed
        // before the permit is dropped, because the permit stands for their descriptors.
        drop((accept, dial));
        // The verifier logs what its probes find.
        if !live.flow.client.is_own() {
            let is_quiet = is_check || live.flow.is_probe() || loop_test::went_round(&live.tunnel, &live.flow);
            end.log(&live.relay, &accept_end, dial_end.as_ref(), is_quiet);
        }
        drop(live);
        drop(permit);
    }
}

/// The permit of a flow that has ended. It is made only then, so that it takes no memory in an idle flow.
#[expect(dead_code, reason = "a permit is only held and dropped")]
enum Held<P> {
    Alone(P),
    /// Of an FTP control connection. Its data connections hold the permit, too, so a client that leaves them behind keeps its place
    /// in the limits.
    Shared(Arc<P>),
}

/// A registered flow, and the relay that carries it. Dropping it removes the flow from the registry, and from the flows
/// of its next hop. It also records whether the hop has answered it, or reset it.
struct Live {
    relay: Arc<Relay>,
    tunnel: Arc<ServedTunnel>,
    flow: Arc<Flow>,
}

impl Live {
    fn begin(relay: Arc<Relay>, tunnel: Arc<ServedTunnel>, client: Client, accept: &Arc<Stream>) -> Live {
        tunnel.counters.count(|counters| &counters.accepted);
        tunnel.counters.count(|counters| &counters.flows_now);
        let flow = relay.registry.add(tunnel.settings.clone(), &tunnel.counters, client, accept);
        let proxy = flow.proxy().map(tracing::field::display);
        debug!(flow = flow.number, tunnel = %flow.tunnel.name, peer = %flow.client.address(), proxy, "flow began");
        Live { relay, tunnel, flow }
    }

    /// Whether the next hop sent a byte or FIN, or else reset the flow within [`RESETS_WITHIN`], as a relay does whose `allow` lacks this
    /// one, or whose own dial failed. `None` if neither, and of flows that tell nothing of the hop, such as those of a loop, which this
    /// relay resets itself.
    fn has_answered(&self) -> Option<bool> {
        let Flow { client, began, .. } = &*self.flow;
        if self.flow.is_probe() || client.is_own() || client.is_data() {
            return None;
        }
        let dialled_for = Duration::from_micros(self.flow.dial_us().unwrap_or_default().into());
        match self.flow.how()? {
            How::Finished => Some(true),
            _ if self.flow.tally().down > 0 => Some(true),
            How::Reset(Leg::Dial)
                if began.elapsed().saturating_sub(dialled_for) < RESETS_WITHIN && !self.is_in_doubt() =>
            {
                Some(false)
            }
            _ => None,
        }
    }

    /// Whether flows of the tunnel may come back to it: then this relay itself resets them.
    fn is_in_doubt(&self) -> bool {
        self.tunnel.loops.suspecting().is_some_and(|watch| watch.view(Instant::now()).is_some())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((hop, _)) = self.flow.next_hop() {
            self.tunnel.hops.ended(hop, self.has_answered(), self.flow.began.instant());
        }
        loop_test::ended(&self.tunnel, &self.flow);
        self.relay.registry.remove(&self.flow);
        self.tunnel.counters.uncount(|counters| &counters.flows_now);
    }
}

/// Dials, unless the client gives up or the flow is cut before a next hop answers.
async fn reach(live: &Live, accept: &Stream) -> Result<Arc<Stream>, How> {
    let Live { relay, tunnel, flow } = live;
    if let Some((stream, address)) = flow.client.take_met() {
        tunnel.hops.claim(&tunnel.counters, &tunnel.settings, 0).answered(Duration::ZERO);
        return Ok(connected(live, Dialled { stream, hop: 0, address, early: 0 }));
    }
    if let Some(pause) = loop_test::look(relay, tunnel, flow) {
        tokio::select! {
            () = sleep(pause) => {}
            how = flow.cut.given() => return Err(how),
        }
    }
    let header = Header::of(flow);
    if let Some(how) = answer::answer_undialled(relay, flow, accept).await {
        return Err(how);
    }
    if let Some(how) = measure::serve_undialled(relay, flow, accept).await {
        return Err(how);
    }
    let Some(chosen) = choose(live, accept).await else {
        let names: Vec<String> = tunnel.settings.to.iter().map(ToString::to_string).collect();
        tell_of_dial(live, &format!("every next hop is down by its checks: {}", names.join(", ")));
        return Err(How::DialFailed);
    };
    // Every arm may be dropped at any await. Dropping a dial closes its socket.
    let dialled = tokio::select! {
        dialled = dial::dial(relay, tunnel, chosen, accept, &header) => dialled,
        () = accept.failed() => {
            // What came before the reset is still there. It tells a prober that gave up from a client.
            answer::take_probe(flow, accept).await;
            return Err(How::Reset(Leg::Accept));
        }
        how = flow.cut.given() => return Err(how),
    };
    match dialled {
        Ok(dialled) => {
            let early = dialled.early;
            let dial = connected(live, dialled);
            peek::consume(accept, early).map_err(|err| Broken::of(Leg::Accept, &err))?;
            Ok(dial)
        }
        Err(NotDialled::Accept(err)) => Err(Broken::of(Leg::Accept, &err).into()),
        Err(NotDialled::NoAnswer(unanswered)) => {
            ftp::note_failed_dial(tunnel, flow, &unanswered);
            let preface = answer::take_probe(flow, accept).await;
            tell_of_dial(live, &unanswered.why);
            if let Some(how) = measure::serve_if_measuring(relay, flow, accept).await {
                return Err(how);
            }
            if let Some(preface) = preface {
                answer::tell_dial_failed(relay, flow, accept, &preface, unanswered).await;
            }
            Err(How::DialFailed)
        }
    }
}

/// Notes and logs the dial leg. Returns it.
fn connected(Live { flow, .. }: &Live, Dialled { stream, hop, address, early }: Dialled) -> Arc<Stream> {
    let dial = Arc::new(stream);
    flow.connected(hop, address, &dial);
    flow.set_carried(Leg::Accept, early as u64);
    debug!(
        flow = flow.number,
        tunnel = %flow.tunnel.name,
        peer = %flow.client.address(),
        proxy = flow.proxy().map(tracing::field::display),
        next_hop = %flow.tunnel.to[hop],
        next_hop_address = %address,
        dial_local = dial.local().map(tracing::field::display),
        dial_ms = flow.began.elapsed().as_micros() as f64 / 1e3,
        "flow connected"
    );
    dial
}

/// Chooses the next hops to dial. `None` if all are down by their checks, unless a probe asks: it shall find the broken stage
/// itself.
async fn choose<'a>(Live { tunnel, flow, .. }: &'a Live, accept: &Stream) -> Option<Chosen<'a>> {
    let chosen = tunnel.hops.choose(&tunnel.counters, &tunnel.settings, flow.client.address().ip());
    match chosen.order.is_empty() {
        true => answer::peek_probe(accept).await.map(|_| Hops::every(&tunnel.settings)),
        false => Some(chosen),
    }
}

/// Logs why a dial failed. Every flow has its own line at its end. This line has the reason, which is the same for most of them.
/// That of a probe is DEBUG, because no client is reset, and its prober tells the result.
fn tell_of_dial(Live { relay, flow, .. }: &Live, why: &str) {
    let (number, tunnel, peer) = (flow.number, &flow.tunnel.name, flow.client.address());
    if flow.is_probe() || flow.client.is_own() {
        debug!(flow = number, tunnel = %tunnel, peer = %peer, why, "dial failed");
    } else if let Some(more) = relay.lines.dial.pass(tunnel, Instant::now()) {
        // The command may come after the dial.
        let transfer = || flow.client.transfer().map_or("FTP data connection".into(), |transfer| transfer.to_string());
        let transfer = flow.client.is_data().then(transfer);
        warn!(flow = number, tunnel = %tunnel, peer = %peer, transfer, why, more, "dial failed");
    }
}

/// Carries the flow until it ends or is cut. Not an async fn, for the same reason as [`run`].
fn carry<'a>(live: &'a Live, accept: &'a Arc<Stream>, dial: &'a Arc<Stream>) -> impl Future<Output = (How, LastLook)> {
    let legs = begin_to_carry(live, accept, dial);
    async move {
        // Dropping the carrying future loses no count, because the counts are in the flow. Dropping the other arm loses
        // nothing.
        tokio::select! {
            biased;
            ended = join::run(&legs, legs.flow.tally()) => ended,
            how = legs.flow.cut.given() => (how, None),
        }
    }
}

/// Carries an FTP control connection, as [`carry()`] does. Returns `permit`, which its data connections hold, too.
async fn carry_ftp<P>(live: &Live, accept: &Arc<Stream>, dial: &Arc<Stream>, permit: P) -> ((How, LastLook), Held<P>)
where
    P: Any + Send + Sync,
{
    let (legs, permit) = (begin_to_carry(live, accept, dial), Arc::new(permit));
    let how = tokio::select! {
        biased;
        how = ftp::run(&live.relay, &live.tunnel, &legs, permit.clone(), start_data) => how,
        how = legs.flow.cut.given() => how,
    };
    ((how, None), Held::Shared(permit))
}

/// Starts the flow of an FTP data connection.
fn start_data(ftp::NewFlow { relay, tunnel, accept, client, place }: ftp::NewFlow) {
    tokio::spawn(run(relay, tunnel, accept, client, place));
}

/// Hands the flow to those who watch its legs.
fn begin_to_carry<'a>(live: &'a Live, accept: &'a Arc<Stream>, dial: &'a Arc<Stream>) -> Legs<'a> {
    let Live { relay, flow, .. } = live;
    relay.sweep.begin(flow);
    relay.governor.begin(flow);
    Legs { relay, flow, accept, dial }
}

/// Age of a connection below which a reset tells of the next hop, and not of what the flow did there. A relay resets after
/// [`HEADER_TIME`](longhaul_core::opening::HEADER_TIME) without a PROXY header, or when its own dial has timed out.
const RESETS_WITHIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::leg_state::LegState;
    use crate::leg::stream::{self, BOUND, soon, stand_still};
    use crate::live::flow::FlowStateName;
    use longhaul_config::{NextHop, Tunnel};
    use socket2::SockRef;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Shutdown, SocketAddr};
    use std::sync::atomic::Ordering::Relaxed;
    use tokio::io::Interest;
    use tokio::net::{TcpListener, TcpStream};

    /// Sends a message that fits every buffer, and waits until it has arrived.
    async fn pass(from: &TcpStream, to: &TcpStream) {
        let mut got = [0; 8];
        soon(from.writable()).await.unwrap();
        assert_eq!(from.try_write(b"message").unwrap(), 7);
        let read = soon(to.async_io(Interest::READABLE, || to.try_read(&mut got))).await;
        assert_eq!(read.unwrap(), 7);
    }

    fn size_of_future<A, B, C, D, E, R>(_: impl Fn(A, B, C, D, E) -> R) -> usize {
        size_of::<R>()
    }

    /// With 4,000 idle flows, each takes 1,750 to 1,913 bytes of user memory. The task is the largest part of it. The
    /// runtime adds about 100 bytes to the future, and allocates it in steps of 128.
    #[test]
    fn an_idle_flow_is_small() {
        let task = size_of_future(|relay, tunnel, accept, peer: SocketAddr, permit: u64| {
            run(relay, tunnel, accept, peer, permit)
        });
        let flow = size_of::<Flow>();
        assert!(task <= 440 && flow <= 192, "a flow has grown to {task} bytes of future and {flow} in the registry");
    }

    /// The bytes before a reset arrive, even if both have arrived before the runtime looks at the handshake.
    #[tokio::test]
    async fn a_next_hop_that_answers_and_resets_at_once_is_heard() {
        let ours = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // accept(2) obeys SO_RCVTIMEO, too (socket(7)).
        SockRef::from(&server).set_read_timeout(Some(BOUND)).unwrap();
        let to = server.local_addr().unwrap();
        let to = NextHop::new(to.ip().to_string(), to.port());
        // The second next hop is not dialled.
        let other = NextHop::new("192.0.2.1", 1);
        let tunnel = Tunnel::new("loud", ours.local_addr().unwrap(), vec![to, other]);
        let mut client = std::net::TcpStream::connect(tunnel.listen).unwrap();
        client.set_read_timeout(Some(BOUND)).unwrap();
        let (accept, peer) = soon(ours.accept()).await.unwrap();
        let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
        // As our own listener sets it.
        SockRef::from(&accept).set_linger(Some(Duration::ZERO)).unwrap();
        let relay = Relay::new(100);
        tokio::spawn(run(relay.clone(), relay.tunnels.open(Arc::new(tunnel)), accept, peer, ()));
        // The flow dials in its first turn. It gets no other turn before the next await here.
        tokio::task::yield_now().await;
        let mut answers = server.accept().unwrap().0;
        answers.write_all(b"answer").unwrap();
        SockRef::from(&answers).set_linger(Some(Duration::ZERO)).unwrap();
        drop(answers);
        let mut got = Vec::new();
        let read = tokio::task::spawn_blocking(move || (client.read_to_end(&mut got).unwrap_err().kind(), got)).await;
        assert_eq!(read.unwrap(), (ErrorKind::ConnectionReset, b"answer".to_vec()));
        assert_eq!((relay.counters.reset_by_peer.load(Relaxed), relay.counter_values().bytes_down), (1, 6));
    }

    /// A client of FTP whose reset comes with the dial: its bytes go through the rewriting all the same.
    #[tokio::test]
    async fn the_commands_of_a_client_that_has_reset_are_rewritten() {
        let [(accept, mut client), (dial, mut server)] = [stream::pair(), stream::pair()];
        let (peer, next_hop) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        let hop = NextHop::new(next_hop.ip().to_string(), next_hop.port());
        let tunnel = Tunnel { protocol: Protocol::Ftp, ..Tunnel::new("files", peer, vec![hop]) };
        client.write_all(b"PORT 10,0,0,9,0,22\r\nRETR f\r\n").unwrap();
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        let relay = Relay::new(100);
        let (accept, dial) = (Arc::new(accept), Arc::new(dial));
        let live = Live::begin(relay.clone(), relay.tunnels.open(Arc::new(tunnel)), peer.into(), &accept);
        live.flow.connected(0, next_hop, &dial);
        assert_eq!(soon(carry_ftp(&live, &accept, &dial, ())).await.0.0, How::Reset(Leg::Accept));
        drop((live, accept, dial));
        let mut got = Vec::new();
        server.set_read_timeout(Some(BOUND)).unwrap();
        server.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"RETR f\r\n");
    }

    /// Views show a flow from its beginning, and its bytes as they move. A kill sends RST on both legs.
    #[tokio::test]
    async fn a_live_flow_is_seen_and_killed() {
        let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (ours, server) = (listener().await, listener().await);
        let to = server.local_addr().unwrap();
        let hop = NextHop::new(to.ip().to_string(), to.port());
        let tunnel = Tunnel::new("seen", ours.local_addr().unwrap(), vec![hop.clone()]);
        let client = soon(TcpStream::connect(tunnel.listen)).await.unwrap();
        let (accept, peer) = soon(ours.accept()).await.unwrap();
        let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
        SockRef::from(&accept).set_linger(Some(Duration::ZERO)).unwrap(); // as our own listener sets it
        let relay = Relay::new(100);
        let view = || relay.flows().pop().unwrap();
        let task = run(relay.clone(), relay.tunnels.open(Arc::new(tunnel)), accept, peer, ());
        assert!(view().state == FlowStateName::Dialling && view().next_hop.is_none() && view().dial.is_none());
        let flow = tokio::spawn(task);
        let (far, dial_local) = soon(server.accept()).await.unwrap();
        pass(&client, &far).await;
        pass(&far, &client).await;
        // The pump counts after it has written.
        soon(async {
            while (view().up_bytes, view().down_bytes) != (7, 7) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let seen = view();
        assert_eq!((seen.flow, seen.state), (1, FlowStateName::Open));
        let local = |leg: &Option<LegState>| leg.as_ref().unwrap().local;
        assert_eq!(
            (seen.peer, local(&seen.accept)),
            (client.local_addr().unwrap().to_string(), client.peer_addr().ok())
        );
        assert_eq!((seen.next_hop, seen.next_hop_address), (Some(hop.to_string()), Some(to)));
        assert_eq!(local(&seen.dial), Some(dial_local));
        let dial = seen.dial.unwrap();
        assert!(dial.cwnd_segments > 0 && dial.congestion.is_some(), "{dial:?}");

        assert!(!relay.kill(2) && relay.kill(1));
        soon(flow).await.unwrap();
        assert!(relay.flows().is_empty() && !relay.kill(1));
        assert_eq!((relay.counters.cut.load(Relaxed), relay.counters.flows_now.load(Relaxed)), (1, 0));
        for end in [client, far] {
            let read = soon(end.async_io(Interest::READABLE, || end.try_read(&mut [0; 8]))).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    }

    /// In virtual time: a flow that is not half-open may be silent for longer than `linger-half-open`, and for a year.
    #[tokio::test]
    async fn an_idle_flow_stays_for_a_year() {
        for protocol in [Protocol::Tcp, Protocol::Ftp] {
            idle_for_a_year(protocol).await;
            tokio::time::resume();
        }
    }

    async fn idle_for_a_year(protocol: Protocol) {
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (ours, server) = (listener().await, listener().await);
        let to = server.local_addr().unwrap();
        let to = NextHop::new(to.ip().to_string(), to.port());
        let mut tunnel = Tunnel { protocol, ..Tunnel::new("idle", ours.local_addr().unwrap(), vec![to]) };
        tunnel.accept.set(Leg::Accept, "linger-half-open", "1s").unwrap();
        tunnel.dial.set(Leg::Dial, "linger-half-open", "1s").unwrap();
        let client = soon(TcpStream::connect(tunnel.listen)).await.unwrap();
        let (accept, peer) = soon(ours.accept()).await.unwrap();
        let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
        let relay = Relay::new(100);
        let flow = tokio::spawn(run(relay.clone(), relay.tunnels.open(Arc::new(tunnel)), accept, peer, ()));
        let (far, _) = soon(server.accept()).await.unwrap();
        pass(&client, &far).await;

        tokio::time::pause();
        let (done, still) = stand_still();
        tokio::time::advance(YEAR).await;
        pass(&client, &far).await;
        pass(&far, &client).await;
        assert!(!flow.is_finished());

        // The same clock ends the flow once it is half-open: while nothing else runs, it jumps to the linger's end.
        drop(done);
        still.await.unwrap();
        let before = tokio::time::Instant::now();
        SockRef::from(&client).shutdown(Shutdown::Write).unwrap();
        soon(flow).await.unwrap();
        assert!(before.elapsed() >= Duration::from_secs(1) && relay.counters.reset.load(Relaxed) == 1);
    }
}
