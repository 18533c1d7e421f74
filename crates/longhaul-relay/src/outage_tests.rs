//! Outages of one leg of a flow, and readers that pause, with a patience of seconds. The sockets are real, and so is the time: the
//! kernel has no other.
//!
//! A socket filter that drops every packet is the outage. Each test asserts bytes and endings.

use crate::flow;
use crate::leg::rto;
use crate::leg::stream::Stream;
use crate::live::flow::Flow;
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_config::{NextHop, Tunnel};
use longhaul_sys::tcp_info::{State, TcpInfo};
use socket2::{SockFilter, SockRef};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Patience of the relay in these tests.
const PATIENCE: Duration = Duration::from_secs(25);
/// An outage that a flow survives. The kernel's 15 retransmissions with an rto-max of 1 s are over after 15 s.
const SHORTER: Duration = Duration::from_secs(18);
/// An outage that ends a flow: the patience, and the time until the next keepalive probe.
const LONGER: Duration = Duration::from_secs(33);
/// Bound of every wait.
const BOUND: Duration = Duration::from_secs(120);

/// A flow that has carried a byte each way, with both its peers, and limits on both legs. `None` before Linux 6.15.
struct Carried {
    relay: Arc<Relay>,
    flow: Arc<Flow>,
    client: TcpStream,
    server: TcpStream,
}

impl Carried {
    async fn begin() -> Option<Carried> {
        if rto::kernels().is_none() {
            println!("SKIP: before Linux 6.15 there is no TCP_RTO_MAX_MS");
            return None;
        }
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (ours, theirs) = (listener(), listener());
        // accept(2) waits no longer.
        [&ours, &theirs].iter().for_each(|listener| SockRef::from(*listener).set_read_timeout(Some(BOUND)).unwrap());
        // A paused reader shall close its window soon.
        SockRef::from(&theirs).set_recv_buffer_size(16 << 10).unwrap();
        let to = theirs.local_addr().unwrap();
        let tunnel =
            Tunnel::new("dark", ours.local_addr().unwrap(), vec![NextHop::new(to.ip().to_string(), to.port())]);
        let client = TcpStream::connect(tunnel.listen).unwrap();
        let (accept, peer) = ours.accept().unwrap();
        accept.set_nonblocking(true).unwrap();
        // As our own listener sets it.
        SockRef::from(&accept).set_linger(Some(Duration::ZERO)).unwrap();
        let accept = Stream::new(accept.into()).unwrap();
        let relay = Relay::new(100);
        assert!(relay.sweep.is_swept_with(PATIENCE));
        tokio::spawn(flow::run(relay.clone(), relay.tunnels.open(Arc::new(tunnel)), accept, peer, ()));
        let (server, _) = tokio::task::spawn_blocking(move || theirs.accept()).await.unwrap().unwrap();
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(BOUND)).unwrap();
            socket.set_write_timeout(Some(BOUND)).unwrap();
        }
        let mut flows = Vec::new();
        relay.registry.visit_all(|flow| flows.push(flow.clone()));
        Some(Carried { relay, flow: flows.remove(0), client, server })
    }

    /// Passes a byte each way until the sweep has set limits on both legs.
    fn wait_for_limits(&mut self) {
        let is_limited = |leg: &Arc<Stream>| rto::milliseconds(leg) == 1000;
        self.wait(|carried| {
            for (from, to) in [(&carried.client, &carried.server), (&carried.server, &carried.client)] {
                let (mut from, mut to) = (from, to);
                from.write_all(b".").unwrap();
                to.read_exact(&mut [0]).unwrap();
            }
            Leg::ALL.iter().all(|leg| is_limited(&carried.flow.stream(*leg).unwrap()))
        });
    }

    /// Waits until `is_true`, and looks every 50 ms.
    fn wait(&self, is_true: impl Fn(&Carried) -> bool) {
        let begin = Instant::now();
        while !is_true(self) {
            assert!(begin.elapsed() < BOUND);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the socket at the other end of `leg`.
    fn peer(&self, leg: Leg) -> &TcpStream {
        match leg {
            Leg::Accept => &self.client,
            Leg::Dial => &self.server,
        }
    }

    /// Drops every packet of `leg` for `time`, both ways.
    fn outage(&self, leg: Leg, time: Duration) {
        let ours = self.flow.stream(leg).unwrap();
        let sockets = [SockRef::from(self.peer(leg)), SockRef::from(&*ours)];
        sockets.iter().for_each(drop_all);
        std::thread::sleep(time);
        sockets.iter().for_each(|socket| socket.detach_filter().unwrap());
    }

    fn info(&self, leg: Leg) -> TcpInfo {
        TcpInfo::of(self.flow.stream(leg).unwrap().as_fd()).unwrap()
    }
}

/// Drops every packet that comes to `socket` (`ret #0`, linux/filter.h).
fn drop_all(socket: &SockRef<'_>) {
    socket.attach_filter(&[SockFilter::new(6, 0, 0, 0)]).unwrap();
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Reads to the end. Returns the bytes, and the kind of the error if there was one.
fn read_all(mut from: &TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut got = Vec::new();
    let end = from.read_to_end(&mut got);
    (got, end.err().map(|err| err.kind()))
}

/// Runs `test` on a thread that may wait.
async fn blocking(test: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(test).await.unwrap();
}

#[tokio::test]
async fn bytes_move_again_soon_after_an_outage() {
    let Some(mut carried) = Carried::begin().await else { return };
    blocking(move || {
        carried.wait_for_limits();
        std::thread::scope(|scope| {
            scope.spawn(|| carried.outage(Leg::Dial, SHORTER));
            std::thread::sleep(Duration::from_millis(200));
            (&carried.client).write_all(b"in the dark").unwrap();
        });
        // The kernel's own limits retransmit 0.2, 0.6, 1.4, 3, 6.2, 12.6 and 25.4 s after the first time, each time with twice the timeout.
        let timeout = carried.info(Leg::Dial).rto;
        let mut got = [0; 11];
        carried.server.read_exact(&mut got).unwrap();
        assert!(got == *b"in the dark" && timeout <= Duration::from_secs(1), "{timeout:?}");
    })
    .await;
}

/// One peer only sends, so its leg has nothing in flight and keepalive alone finds out; the other only receives.
#[tokio::test]
async fn an_active_flow_survives_an_outage_below_the_patience_and_not_above() {
    let cases = [Leg::Accept, Leg::Dial].map(|leg| [SHORTER, LONGER].map(|time| (leg, time)));
    let mut tests = Vec::new();
    for (leg, time) in cases.into_iter().flatten() {
        let Some(mut carried) = Carried::begin().await else { return };
        tests.push(tokio::task::spawn_blocking(move || {
            carried.wait_for_limits();
            let sent = bytes(1000);
            std::thread::scope(|scope| {
                scope.spawn(|| carried.outage(leg, time));
                std::thread::sleep(Duration::from_millis(200));
                (&carried.client).write_all(&sent).unwrap();
            });
            if time < PATIENCE {
                carried.client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(read_all(&carried.server), (sent, None), "{leg} leg");
            } else {
                let host = carried.peer(leg.other());
                let reset = (Vec::new(), Some(ErrorKind::ConnectionReset));
                assert_eq!(read_all(host), reset, "the host on the other side of the dark {leg} leg");
            }
        }));
    }
    for test in tests {
        test.await.unwrap();
    }
}

/// The outage begins long after the window has closed, or at once: then the limits of an open one are still set.
#[tokio::test]
async fn a_paused_reader_outlives_the_patience_and_an_outage() {
    let mut tests = Vec::new();
    for is_seen in [true, false] {
        let Some(mut carried) = Carried::begin().await else { return };
        tests.push(tokio::task::spawn_blocking(move || {
            carried.wait_for_limits();
            let sent = bytes(20_000_000);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    (&carried.client).write_all(&sent).unwrap();
                    carried.client.shutdown(Shutdown::Write).unwrap();
                });
                carried.wait(|carried| carried.info(Leg::Dial).snd_wnd == 0);
                if is_seen {
                    carried.wait(|carried| rto::milliseconds(&carried.flow.stream(Leg::Dial).unwrap()) == 0);
                }
                // With an rto-max of 1 s the kernel gives up after 16 s in which no window probe is answered.
                carried.outage(Leg::Dial, SHORTER);
                std::thread::sleep(PATIENCE + Duration::from_secs(2));
                let (got, end) = read_all(&carried.server);
                assert!(got == sent && end.is_none(), "{} bytes, {end:?}, seen: {is_seen}", got.len());
            });
        }));
    }
    for test in tests {
        test.await.unwrap();
    }
}

/// Its window closes and opens again and again. The kernel may count the time of a user-timeout from the first time that it was closed
/// (net/ipv4/tcp_input.c, tcp_ack_probe).
#[tokio::test]
async fn a_slow_reader_outlives_the_patience() {
    let Some(mut carried) = Carried::begin().await else { return };
    blocking(move || {
        carried.wait_for_limits();
        let sent = bytes(10_000_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&carried.client).write_all(&sent).unwrap();
                carried.client.shutdown(Shutdown::Write).unwrap();
            });
            let (begin, mut got) = (Instant::now(), Vec::new());
            while begin.elapsed() < 2 * PATIENCE {
                std::thread::sleep(Duration::from_millis(700));
                let mut some = [0; 8 << 10];
                (&carried.server).read_exact(&mut some).unwrap();
                got.extend(some);
            }
            let (rest, end) = read_all(&carried.server);
            got.extend(rest);
            assert!(got == sent && end.is_none(), "{} bytes, {end:?}", got.len());
        });
    })
    .await;
}

/// Where the flow is cut during the outage, the kernel alone has the last bytes. With an rto-max of 1 s and no user-timeout it drops
/// them after 3 s.
#[tokio::test]
async fn an_outage_behind_both_fins_loses_no_byte() {
    for is_cut in [false, true] {
        let Some(mut carried) = Carried::begin().await else { return };
        blocking(move || {
            carried.wait_for_limits();
            carried.server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_all(&carried.client), (Vec::new(), None));
            let sent = bytes(1000);
            drop_all(&SockRef::from(&carried.server));
            carried.client.write_all(&sent).unwrap();
            carried.client.shutdown(Shutdown::Write).unwrap();
            carried.wait(|carried| carried.info(Leg::Dial).state == State::LastAck);
            carried.wait(|carried| {
                let dial = carried.flow.stream(Leg::Dial).unwrap();
                SockRef::from(&*dial).linger().unwrap().is_none()
            });
            if is_cut {
                carried.relay.cut();
            }
            std::thread::sleep(Duration::from_secs(10));
            SockRef::from(&carried.server).detach_filter().unwrap();
            assert_eq!(read_all(&carried.server), (sent, None), "cut: {is_cut}");
        })
        .await;
    }
}
