//! Reads what a connection must begin with, and then starts its flow: the PROXY header where the tunnel has `proxy_in`, or the preface
//! of a probe of the daemon's own. Other connections do not come here.
//!
//! ```text
//! accept ──peek──> a part of the header ──wait for more, peek──> the whole header ──read exactly it──> flow
//!                        └── bad, or not whole in time ──> RST
//! ```
//! A connection that ends without payload behind a header that names no client, or without any byte, is a health check: it is counted,
//! and nothing is dialled.
//!
//! The bytes are only peeked until the header is whole, so the bytes after it stay in the kernel for splice. A preface stays there,
//! too.

use crate::accept::source_limits;
use crate::flow;
use crate::leg::peek::{ask, consume, peek};
use crate::leg::setup::failed;
use crate::leg::stream::Stream;
use crate::live::client::{Client, Via};
use crate::state::permits::Permit;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_core::opening::{Asks, Found, Opening, PrefaceKind};
use longhaul_core::proxy_header::{Bad, Ends, MAX_BYTES};
use longhaul_sys::tcp_info::TcpInfo;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::warn;

/// An accepted and allowed connection whose flow has not begun.
pub(super) struct Arrived {
    pub(crate) relay: Arc<Relay>,
    pub(crate) tunnel: Arc<ServedTunnel>,
    pub(crate) accept: Stream,
    /// Address of the far end of `accept`: the proxy's, if there is one.
    pub(super) peer: SocketAddr,
    // The last field, because fields are dropped in this order, and the permit stands for the descriptor of `accept`.
    pub(crate) permit: Permit,
}

/// Reads what the connection must begin with and starts its flow, in a task of its own, so that an idle flow does not hold the
/// state of this one. Resets the connection when that is not there in time, or when a limit forbids the client another flow.
pub(super) async fn run(asks: Asks, mut arrived: Arrived) {
    let read = tokio::select! {
        read = read_client(&arrived, asks) => read,
        // Dropping the connection resets it.
        () = arrived.relay.is_cut() => return,
    };
    let client = match read {
        Ok(Some(client)) => client,
        Ok(None) => return arrived.tunnel.counters.count(|counters| &counters.health_checks),
        Err(why) => return refuse(&arrived, asks, &why),
    };
    let Arrived { relay, tunnel, permit, .. } = &mut arrived;
    if client.is_own() || source_limits::admit(relay, tunnel, &client, permit) {
        let Arrived { relay, tunnel, accept, permit, .. } = arrived;
        tokio::spawn(flow::run(relay, tunnel, accept, client, permit));
    }
}

/// Returns the client, by the header or the preface; `None` if this was a health check. Reads exactly the header. Dropping this
/// future loses no byte.
///
/// # Errors
/// It is not there. The text says why.
async fn read_client(Arrived { relay, accept, peer, .. }: &Arrived, asks: Asks) -> Result<Option<Client>, String> {
    let (opening, mut bytes) = (ask(asks), vec![0; MAX_BYTES]);
    let mut found = peek_or_end(accept, opening, &mut bytes).await?;
    if let Found::NoHeader(Bad::Slow(_)) = found {
        // Asked only now, because most headers are there at once.
        let rto = TcpInfo::of(accept.as_fd()).map_or(Duration::ZERO, |info| info.rto);
        found = peek_or_end(accept, opening.or_slower(rto), &mut bytes).await?;
    }
    match found {
        Found::Header(header) => {
            consume(accept, header.bytes).map_err(|err| failed("recv", &err).to_string())?;
            accept.note_received_beside(header.bytes as i64);
            let via = |Ends { client, to }| Client::Via(Box::new(Via { client, to, proxy: *peer }));
            let client = header.ends.map_or((*peer).into(), via);
            match client.is_nobody() && is_check(accept).await? {
                true => Ok(None),
                false => Ok(Some(client)),
            }
        }
        Found::Preface(PrefaceKind::Probe(preface)) if relay.probes.own.admit(*peer, &preface.nonce) => {
            Ok(Some(Client::Own(Box::new(*peer))))
        }
        Found::Ended if asks != Asks::OwnProbe => Ok(None),
        Found::NoHeader(why) => Err(why.to_string()),
        _ => Err(Bad::Missing.to_string()),
    }
}

/// Whether the connection ends behind its header, which names no client or its sender.
///
/// # Errors
/// The socket's error.
async fn is_check(accept: &Stream) -> Result<bool, String> {
    Ok(peek_or_end(accept, ask(Asks::Behind), &mut [0]).await? == Found::Ended)
}

/// Like [`peek`]. A reset before a byte is an end.
async fn peek_or_end(accept: &Stream, opening: Opening, bytes: &mut [u8]) -> Result<Found, String> {
    match peek(accept, opening, bytes).await {
        Ok((found, _)) => Ok(found),
        Err(err) if err.kind() == ErrorKind::ConnectionReset => Ok(Found::Ended),
        Err(err) => Err(failed("recv", &err).to_string()),
    }
}

fn refuse(Arrived { relay, tunnel, peer, .. }: &Arrived, asks: Asks, why: &str) {
    let (counters, tunnel) = (&tunnel.counters, &tunnel.settings.name);
    counters.count(|counters| &counters.refused);
    if asks == Asks::OwnProbe {
        counters.count(|counters| &counters.not_allowed);
        counters.count(|counters| &counters.probes_refused);
        if let Some(more) = relay.lines.refused.pass(tunnel, Instant::now()) {
            warn!(%tunnel, %peer, more, "refused: not the announced probe");
        }
        return;
    }
    counters.count(|counters| &counters.bad_proxy_headers);
    if let Some(more) = relay.lines.header.pass(tunnel, Instant::now()) {
        warn!(%tunnel, %peer, %why, more, "refused: no valid PROXY header");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::peek::poll_peek;
    use crate::leg::stream;
    use crate::live::counters::Counters;
    use longhaul_config::{NextHop, Tunnel};
    use longhaul_core::opening::HEADER_TIME;
    use longhaul_core::proxy_header::{Accepts, Version, write, write_own};
    use longhaul_core::wire::answer::{Frame, Frames, Next, Report};
    use longhaul_core::wire::probe::Preface;
    use longhaul_sys::splice;
    use socket2::SockRef;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 6000\r\n";

    /// Returns both ends of a connection. The first one is the accept leg.
    fn pair() -> (Stream, TcpStream) {
        let (accept, client) = stream::pair();
        client.set_nodelay(true).unwrap();
        SockRef::from(&accept).set_linger(Some(Duration::ZERO)).unwrap(); // as our own listener sets it
        (accept, client)
    }

    fn arrived(relay: &Arc<Relay>, accept: Stream, server: SocketAddr) -> Arrived {
        let hop = NextHop::new(server.ip().to_string(), server.port());
        let mut tunnel = Tunnel::new("one", "127.0.0.1:1".parse().unwrap(), vec![hop]);
        tunnel.proxy_in = Some(Accepts::Any);
        let tunnel = relay.tunnels.open(Arc::new(tunnel));
        relay.tunnels.set(vec![tunnel.clone()]);
        let permit = tunnel.try_enter().unwrap();
        let peer = SockRef::from(&accept).peer_addr().unwrap().as_socket().unwrap();
        Arrived { relay: relay.clone(), tunnel, accept, peer, permit }
    }

    /// Returns the connection that the relay dials. Neither it nor a byte on it is waited for without end.
    async fn dialled(server: &tokio::net::TcpListener) -> TcpStream {
        let far = stream::soon(server.accept()).await.unwrap().0.into_std().unwrap();
        far.set_nonblocking(false).unwrap();
        far.set_read_timeout(Some(stream::BOUND)).unwrap();
        far
    }

    /// The header comes in two parts, split at every byte. Between them the task sleeps: each arrival polls it once.
    #[tokio::test]
    async fn a_header_in_two_parts_is_read_exactly_and_the_wait_costs_nothing() {
        for split in 1..HEADER.len() {
            let (accept, mut client) = pair();
            client.write_all(&HEADER[..split]).unwrap();
            // So that the first poll sees the first part.
            poll_fn(|cx| accept.poll_read_ready(cx).map(drop)).await;
            let mut polls = 0;
            let mut bytes = vec![0; MAX_BYTES];
            let mut opening = ask(Asks::Header(Accepts::Any));
            let found = poll_fn(|cx| {
                polls += 1;
                let polled = poll_peek(&accept, &mut opening, &mut bytes, cx);
                if polls == 1 {
                    assert!(polled.is_pending());
                    client.write_all(&[&HEADER[split..], b"after"].concat()).unwrap();
                }
                polled
            });
            let (Found::Header(header), _) = found.await.unwrap() else { panic!("no header: split at {split}") };
            assert_eq!((header.bytes, header.ends.unwrap().client.to_string()), (46, "192.0.2.7:51234".into()));
            assert!(polls <= 3, "split at {split}: {polls} polls");
            consume(&accept, header.bytes).unwrap();
            let mut rest = [0; 100];
            let read = splice::receive(&accept, &mut rest).unwrap();
            assert_eq!(&rest[..read], b"after");
        }
    }

    /// In virtual time, which moves only while no task runs.
    #[tokio::test(start_paused = true)]
    async fn a_header_that_is_not_whole_after_15_s_is_refused() {
        let relay = Relay::new(100);
        for part in [&b""[..], b"P", b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 6000\r"] {
            let (accept, mut client) = pair();
            client.write_all(part).unwrap();
            let start = tokio::time::Instant::now();
            run(Asks::Header(Accepts::Any), arrived(&relay, accept, client.peer_addr().unwrap())).await;
            let waited = start.elapsed();
            assert!((HEADER_TIME..HEADER_TIME * 2).contains(&waited), "{waited:?}");
            assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        assert_eq!(relay.counters.bad_proxy_headers.load(Relaxed), 3);
        assert_eq!((relay.counters.refused.load(Relaxed), relay.counters.accepted.load(Relaxed)), (3, 0));
        relay.ended().await; // every permit has come back
    }

    /// Whether by FIN or RST, and with a header or without one: nothing is dialled, and it is no refusal.
    #[tokio::test]
    async fn a_health_check_is_counted_and_not_dialled() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let relay = Relay::new(100);
        let to = "198.51.100.1:6000".parse().unwrap();
        let naming_itself = |client: SocketAddr| write(Version::V1, Some(Ends { client, to }));
        let headers: [&dyn Fn(SocketAddr) -> Vec<u8>; 4] =
            [&|_| Vec::new(), &|_| write_own(Version::V1), &|_| write_own(Version::V2), &naming_itself];
        for (header, linger) in headers.iter().flat_map(|header| [(header, None), (header, Some(Duration::ZERO))]) {
            let (accept, mut client) = pair();
            let header = header(client.local_addr().unwrap());
            client.write_all(&header).unwrap();
            SockRef::from(&client).set_linger(linger).unwrap();
            let mut arrived = arrived(&relay, accept, server.local_addr().unwrap());
            if let SocketAddr::V4(peer) = arrived.peer {
                // As on a listener of every address.
                arrived.peer = SocketAddr::new(peer.ip().to_ipv6_mapped().into(), peer.port());
            }
            let tunnel = arrived.tunnel.clone();
            drop(client);
            run(Asks::Header(Accepts::Any), arrived).await;
            let counted = |counter: &AtomicU64| counter.load(Relaxed);
            let Counters { health_checks, refused, accepted, .. } = &*tunnel.counters;
            let found = [health_checks, refused, accepted].map(counted);
            assert_eq!(found, [1, 0, 0], "{} {linger:?}", header.escape_ascii());
        }
        assert!(server.accept().is_err_and(|err| err.kind() == ErrorKind::WouldBlock));
        relay.ended().await;
    }

    /// HAProxy sends application checks so. Where the server speaks first, nothing comes behind the header.
    #[tokio::test]
    async fn a_connection_that_goes_on_behind_such_a_header_is_a_flow() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        for (header, payload) in
            [Version::V1, Version::V2].iter().flat_map(|v| [(write_own(*v), "hello"), (write_own(*v), "")])
        {
            let relay = Relay::new(100);
            let (accept, mut client) = pair();
            client.write_all(&[&header, payload.as_bytes()].concat()).unwrap();
            tokio::spawn(run(Asks::Header(Accepts::Any), arrived(&relay, accept, server.local_addr().unwrap())));
            let far = dialled(&server).await;
            drop(client);
            let mut got = Vec::new();
            let read = tokio::task::spawn_blocking(move || (&far).read_to_end(&mut got).map(|_| got)).await.unwrap();
            assert_eq!((read.unwrap(), relay.counters.health_checks.load(Relaxed)), (payload.into(), 0));
            relay.ended().await;
            let ends = [&relay.counters.finished, &relay.counters.reset].map(|ends| ends.load(Relaxed));
            assert_eq!(ends, [1, 0]);
        }
    }

    /// The RST of a check may come late.
    #[tokio::test]
    async fn a_connection_that_is_reset_late_behind_such_a_header_is_a_check() {
        let (server, relay) = (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), Relay::new(100));
        let (accept, mut client) = pair();
        client.write_all(&write_own(Version::V2)).unwrap();
        tokio::spawn(run(Asks::Header(Accepts::Any), arrived(&relay, accept, server.local_addr().unwrap())));
        let mut far = dialled(&server).await;
        far.write_all(b"220 hello\r\n").unwrap();
        let client = tokio::task::spawn_blocking(move || client.read_exact(&mut [0; 11]).map(|()| client));
        let client = client.await.unwrap().unwrap();
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        relay.ended().await;
        let Counters { checked, reset_by_peer, .. } = &*relay.counters;
        assert_eq!([checked, reset_by_peer].map(|ends| ends.load(Relaxed)), [1, 0]);
    }

    /// Such a client may only read, and its download may be cut.
    #[tokio::test]
    async fn a_download_behind_such_a_header_is_a_flow() {
        for linger in [None, Some(Duration::ZERO)] {
            let (server, relay) = (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), Relay::new(100));
            let (accept, mut client) = pair();
            client.write_all(&write_own(Version::V2)).unwrap();
            tokio::spawn(run(Asks::Header(Accepts::Any), arrived(&relay, accept, server.local_addr().unwrap())));
            let mut far = dialled(&server).await;
            far.write_all(&[0; 5000]).unwrap();
            let client = tokio::task::spawn_blocking(move || client.read_exact(&mut [0; 5000]).map(|()| client));
            let client = client.await.unwrap().unwrap();
            SockRef::from(&client).set_linger(linger).unwrap();
            drop((client, linger.is_none().then_some(far)));
            relay.ended().await;
            let Counters { checked, finished, reset_by_peer, .. } = &*relay.counters;
            let ends = [checked, finished, reset_by_peer].map(|ends| ends.load(Relaxed));
            assert_eq!(ends, if linger.is_none() { [0, 1, 0] } else { [0, 0, 1] });
        }
    }

    #[tokio::test]
    async fn a_cut_ends_the_wait_for_a_header() {
        let relay = Relay::new(100);
        let (accept, mut client) = pair();
        let waiting =
            tokio::spawn(run(Asks::Header(Accepts::Any), arrived(&relay, accept, client.peer_addr().unwrap())));
        tokio::task::yield_now().await;
        relay.cut();
        waiting.await.unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(relay.counters.refused.load(Relaxed), 0);
    }

    /// A stream that breaks after its header must not look as if it had ended: the kernel counts the header's bytes too.
    #[tokio::test]
    async fn a_header_does_not_hide_that_a_client_was_reset() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::new(100);
        let (accept, mut client) = pair();
        client.write_all(&[HEADER, b"half"].concat()).unwrap();
        tokio::spawn(run(Asks::Header(Accepts::Any), arrived(&relay, accept, server.local_addr().unwrap())));
        let far = dialled(&server).await;
        assert_eq!(relay.flows()[0].peer, "192.0.2.7:51234");
        assert_eq!(relay.flows()[0].proxy, client.local_addr().ok().map(|address| address.to_string()));
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        let mut got = Vec::new();
        let read = tokio::task::spawn_blocking(move || ((&far).read_to_end(&mut got).unwrap_err().kind(), got)).await;
        let (err, got) = read.unwrap();
        assert_eq!(err, ErrorKind::ConnectionReset);
        assert!(b"half".starts_with(&got));
        relay.ended().await;
        assert_eq!(relay.counters.reset_by_peer.load(Relaxed), 1);
    }

    /// A proxy on this host speaks for hosts elsewhere, which must not send a preface to a final host.
    #[tokio::test]
    async fn a_probe_through_a_proxy_on_this_host_is_not_passed_on() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::new(100);
        let (accept, mut client) = pair();
        let preface = Preface { hops: 1, echo_bytes: 0, nonce: [7; 16] }.bytes();
        client.write_all(&[HEADER, &preface].concat()).unwrap();
        tokio::spawn(run(Asks::Header(Accepts::Any), arrived(&relay, accept, server.local_addr().unwrap())));
        let far = dialled(&server).await;
        client.shutdown(Shutdown::Write).unwrap();
        let (mut reached, mut said) = (Vec::new(), Vec::new());
        let read = tokio::task::spawn_blocking(move || {
            let ends = ((&far).read_to_end(&mut reached).is_ok(), client.read_to_end(&mut said).is_ok());
            (ends, reached, said)
        });
        let (ends, reached, said) = read.await.unwrap();
        assert_eq!((ends, reached), ((true, true), Vec::new()));
        let mut frames = Frames::default();
        let report = said.into_iter().find_map(|byte| frames.take(byte).unwrap());
        assert!(matches!(report, Some(Frame::Report(Report { next: Next::NotPassedOn, .. }))), "{report:?}");
    }

    #[tokio::test]
    async fn a_stream_counts_its_header() {
        let (accept, mut client) = pair();
        client.write_all(HEADER).unwrap();
        let arrived = arrived(&Relay::new(100), accept, client.peer_addr().unwrap());
        let found = read_client(&arrived, Asks::Header(Accepts::V1)).await.unwrap().unwrap();
        let accept = &arrived.accept;
        assert_eq!((found.address().port(), accept.received_beside(), accept.header_sent()), (51234, 46, 0));
        assert!(splice::peek(accept.as_fd(), &mut [0]).is_err_and(|err| err.kind() == ErrorKind::WouldBlock));
    }
}
