//! Half-open flows, with `linger-half-open` and without, in virtual time: no test here depends on the machine's speed.

use crate::flow;
use crate::leg::stream::{Stream, soon, stand_still};
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_config::{NextHop, Protocol, Tunnel};
use socket2::SockRef;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, pause, resume};

const LINGER: Duration = Duration::from_secs(3);

/// Sends a byte and waits until it has arrived.
async fn pass(from: &TcpStream, to: &TcpStream) {
    soon(from.writable()).await.unwrap();
    assert_eq!(from.try_write(b".").unwrap(), 1);
    assert_eq!(read(to).await, 1);
}

async fn read(from: &TcpStream) -> usize {
    soon(from.async_io(Interest::READABLE, || from.try_read(&mut [0; 8]))).await.unwrap()
}

/// A flow with both its peers.
struct Carried {
    relay: Arc<Relay>,
    flow: JoinHandle<()>,
    client: TcpStream,
    far: TcpStream,
}

/// Begins a flow of a tunnel with this protocol, whose half-open flows end after [`LINGER`] or never, and passes a byte.
async fn begin(protocol: Protocol, lingers: bool) -> Carried {
    let (ours, server) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let to = server.local_addr().unwrap();
    let to = NextHop::new(to.ip().to_string(), to.port());
    let mut tunnel = Tunnel::new("half-open", ours.local_addr().unwrap(), vec![to]);
    tunnel.protocol = protocol;
    if lingers {
        tunnel.accept.set(Leg::Accept, "linger-half-open", "3s").unwrap();
        tunnel.dial.set(Leg::Dial, "linger-half-open", "3s").unwrap();
    }
    let client = soon(TcpStream::connect(tunnel.listen)).await.unwrap();
    let (accept, peer) = soon(ours.accept()).await.unwrap();
    let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
    let relay = Relay::new(100);
    let flow = tokio::spawn(flow::run(relay.clone(), relay.tunnels.open(Arc::new(tunnel)), accept, peer, ()));
    let (far, _) = soon(server.accept()).await.unwrap();
    pass(&client, &far).await;
    Carried { relay, flow, client, far }
}

#[tokio::test]
async fn without_a_linger_a_half_open_flow_stays_for_a_year() {
    for protocol in [Protocol::Tcp, Protocol::Ftp] {
        let Carried { relay, flow, client, far } = begin(protocol, false).await;
        pause();
        let (done, still) = stand_still();
        SockRef::from(&client).shutdown(Shutdown::Write).unwrap();
        assert_eq!(read(&far).await, 0, "FIN");
        // A linger would look after each step.
        for _month in 0..12 {
            advance(Duration::from_secs(31 * 86_400)).await;
        }
        pass(&far, &client).await;
        SockRef::from(&far).shutdown(Shutdown::Write).unwrap();
        assert_eq!(read(&client).await, 0, "FIN");
        drop(done);
        still.await.unwrap();
        soon(flow).await.unwrap();
        assert_eq!(relay.counters.finished.load(Relaxed), 1, "{protocol:?}");
        resume();
    }
}

/// The time runs from the FIN, and not from the last byte before it.
#[tokio::test]
async fn a_flow_that_was_silent_before_its_fin_has_the_whole_linger() {
    for protocol in [Protocol::Tcp, Protocol::Ftp] {
        let Carried { relay, flow, client, far } = begin(protocol, true).await;
        pause();
        let (done, still) = stand_still();
        advance(2 * LINGER).await;
        SockRef::from(&far).shutdown(Shutdown::Write).unwrap();
        assert_eq!(read(&client).await, 0, "FIN");
        let fin = Instant::now();
        drop(done);
        still.await.unwrap();
        soon(flow).await.unwrap();
        assert!(fin.elapsed() >= LINGER - Duration::from_millis(100), "{protocol:?}: {:?}", fin.elapsed());
        assert_eq!(relay.counters.half_open_too_long.load(Relaxed), 1);
        resume();
    }
}

#[tokio::test]
async fn every_byte_starts_the_linger_of_a_half_open_flow_again() {
    let Carried { relay, flow, client, far } = begin(Protocol::Tcp, true).await;
    pause();
    let (done, still) = stand_still();
    SockRef::from(&client).shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&far).await, 0, "FIN");
    for _ in 0..4 {
        pass(&far, &client).await;
        advance(LINGER - Duration::from_millis(100)).await;
        assert!(!flow.is_finished());
    }
    pass(&far, &client).await;
    // From now on the clock jumps to the next timer.
    let last = Instant::now();
    drop(done);
    still.await.unwrap();
    soon(flow).await.unwrap();
    assert!(last.elapsed() >= LINGER, "{:?}", last.elapsed());
    assert_eq!(relay.counters.half_open_too_long.load(Relaxed), 1);
}
