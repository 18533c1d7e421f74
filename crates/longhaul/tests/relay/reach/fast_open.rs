//! Tests `dial.fastopen`: the SYN carries the client's first bytes, and the next hop takes them, refuses them, or never answers.
//!
//! Each test has its own network namespace with nothing but loopback, so it needs root.

use crate::carry::many::assert_urgent_behind;
use crate::harness::*;
use longhaul_config::options::{self, Leg, Setting, row};
use longhaul_core::wire::answer;
use longhaul_core::wire::probe::Preface;
use longhaul_sys::tcp_info::{State, TcpInfo};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

const FAST_OPEN: &str = "--set=dial.fastopen=true";

/// Runs `test` in a network namespace where the kernel allows fast open on both sides. Loopback has the MTU of a real line,
/// so that a SYN carries only one segment.
fn alone(test: impl FnOnce() + Send) {
    in_own_network(|| {
        if !has_sysctl("net/ipv4/tcp_fastopen") {
            return skip("before Linux 4.15, fast open is allowed for the whole host alone");
        }
        ip("link set lo mtu 1500");
        allow("3");
        test();
    });
}

/// Allows fast open in the calling thread's namespace: value 1 allows it for clients, 2 for servers, 3 for both.
fn allow(bits: &str) {
    set_sysctl("net/ipv4/tcp_fastopen", bits);
}

/// Returns a counter of the calling thread's namespace. `name` is nstat(8)'s without `TcpExt`.
fn counter(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.split(' ').zip(values.split(' ')).find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1.parse().unwrap()
}

/// Returns a server that takes data in the SYN.
fn open_server(ip: &str) -> TcpListener {
    let server = server_at(ip);
    let row = row(Leg::Accept, "fastopen").unwrap();
    Setting { row, value: options::parse(row, "64").unwrap() }.tell(server.as_fd()).unwrap();
    server
}

/// Fetches the fast open cookie of 127.0.0.1 for this namespace, so that the next SYN to it carries data.
fn get_cookie() {
    let server = open_server("127.0.0.1");
    let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    client.send_to_with_flags(b"?", &server.local_addr().unwrap().into(), libc::MSG_FASTOPEN).unwrap();
    let mut accepted = server.accept().unwrap().0;
    accepted.read_exact(&mut [0]).unwrap();
}

/// A relay that dials with fast open.
struct Opener {
    hop: Hop,
}

impl Opener {
    fn new(hops: &[SocketAddr], flags: &[&str]) -> Opener {
        Opener { hop: Hop::new(hops, &[&[FAST_OPEN], flags].concat()) }
    }

    /// Returns a relay with these flags, and its next hop, which takes data in the SYN.
    fn with_server(flags: &[&str]) -> (Opener, TcpListener) {
        let server = open_server("127.0.0.1");
        (Opener::new(&[server.local_addr().unwrap()], flags), server)
    }

    /// Connects a client and runs `first` on it while the relay is stopped. The relay thus sees the effects of `first` at once,
    /// however busy the machine is.
    fn dial_and(&self, first: impl FnOnce(&TcpStream)) -> TcpStream {
        self.hop.relay.stop();
        let client = self.hop.dial();
        first(&client);
        self.hop.relay.signal("CONT");
        client
    }

    /// Carries a flow with bytes for several segments, and an answer. Asserts that every byte reaches `server` exactly once.
    fn pass(&self, server: &TcpListener) {
        const BYTES: usize = 40_000; // more than the relay peeks
        let client = self.dial_and(|mut client| client.write_all(&pattern(1, BYTES)).unwrap());
        let accepted = accept(server);
        client.shutdown(Shutdown::Write).unwrap();
        assert_whole(&accepted, &pattern(1, BYTES));
        (&accepted).write_all(b"answer").unwrap();
        drop(accepted);
        assert_eq!(read_to_end(&client), (b"answer".to_vec(), Ending::Fin));
        assert_eq!(self.hop.relay.flow_end(), (BYTES as u64, 6, "finished".into()));
    }
}

#[test]
fn of_eight_flows_all_but_the_first_send_data_in_the_syn() {
    for (ip, flags) in [("127.0.0.1", &[][..]), ("127.0.0.1", &["--no-splice"]), ("[::1]", &[])] {
        alone(|| {
            let server = open_server(ip);
            let opener = Opener::new(&[server.local_addr().unwrap()], flags);
            for flow in 0..8 {
                opener.pass(&server);
                assert_eq!(counter("TCPFastOpenPassive"), flow, "flow {flow} to {ip}");
            }
            assert_eq!(counter("TCPFastOpenCookieReqd"), 1);
        });
    }
}

#[test]
fn a_next_hop_without_fast_open_gets_the_data_after_the_handshake() {
    alone(|| {
        let server = server_at("127.0.0.1");
        let opener = Opener::new(&[server.local_addr().unwrap()], &[]);
        opener.pass(&server);
        get_cookie();
        let acked = counter("TCPFastOpenActive");
        opener.pass(&server);
        assert_eq!((counter("TCPFastOpenActive"), counter("TCPFastOpenActiveFail")), (acked, 1));
    });
}

#[test]
fn a_kernel_that_forbids_fast_open_dials_normally() {
    alone(|| {
        allow("2");
        let (opener, server) = Opener::with_server(&[]);
        opener.pass(&server);
        opener.pass(&server);
        assert_eq!(counter("TCPFastOpenPassive"), 0);
    });
}

#[test]
fn multipath_tcp_and_fast_open_together_lose_nothing() {
    if let Err(err) = Socket::new(Domain::IPV4, Type::STREAM, Some(socket2::Protocol::MPTCP)) {
        return skip(&format!("no MPTCP here: {err}"));
    }
    alone(|| {
        // An MPTCP leg refuses splice. The relay learns this only after the first bytes are gone.
        let (opener, server) = Opener::with_server(&["--set=dial.mptcp=true"]);
        opener.pass(&server);
        get_cookie();
        opener.pass(&server);
    });
}

/// The first bytes of a probe go into no SYN, because the next hop is the final host.
#[test]
fn a_probe_is_not_in_the_syn() {
    alone(|| {
        get_cookie();
        let (opener, server) = Opener::with_server(&["--verify-hops=0"]);
        let preface = Preface { hops: 0, echo_bytes: 0, nonce: [1; 16] }.bytes();
        let client = opener.dial_and(|mut client| client.write_all(&preface).unwrap());
        assert_eq!(read_to_end(&accept(&server)), (Vec::new(), Ending::Fin));
        let (report_and_receipt, ending) = read_to_end(&client);
        assert_eq!((&report_and_receipt[..16], ending), (&answer::MAGIC[..], Ending::Fin));
    });
}

/// Runs `test` twice: in a namespace without a cookie of 127.0.0.1, where the SYN carries no data, and in one with the cookie.
fn with_and_without_cookie(test: impl Fn() + Sync) {
    for cookie in [false, true] {
        alone(|| {
            if cookie {
                get_cookie();
            }
            test();
        });
    }
}

#[test]
fn if_a_next_hop_refuses_or_does_not_answer_the_bytes_go_to_the_next_one() {
    for refuses in [true, false] {
        with_and_without_cookie(|| {
            let (dead, silent, server) = (Port::reserve("127.0.0.1"), Silent::new(), open_server("127.0.0.1"));
            let first = if refuses { dead.address() } else { silent.address() };
            let opener = Opener::new(&[first, server.local_addr().unwrap()], &["--connect-timeout=1s"]);
            opener.pass(&server);
            opener.pass(&server);
        });
    }
}

/// The bytes of a SYN may have reached a server whose answer is lost, so no other server gets them meanwhile.
#[test]
fn while_a_syn_with_data_is_under_way_no_other_hop_is_dialled() {
    alone(|| {
        get_cookie();
        let (dead, server) = (Silent::new(), open_server("127.0.0.1"));
        let opener = Opener::new(&[dead.address(), server.local_addr().unwrap()], &["--connect-timeout=3s"]);
        let started = Instant::now();
        opener.pass(&server);
        assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
    });
}

/// Without a cookie the SYN carries no data, so the dials may race. The second one must not carry data either.
#[test]
fn a_syn_without_data_leaves_the_dials_free_to_race() {
    alone(|| {
        let (dead, server) = (Silent::new(), open_server("127.0.0.1"));
        let opener = Opener::new(&[dead.address(), server.local_addr().unwrap()], &["--connect-timeout=10min"]);
        opener.pass(&server);
    });
}

#[test]
fn if_no_next_hop_answers_the_client_is_reset() {
    with_and_without_cookie(|| {
        let (refuses, silent) = (Port::reserve("127.0.0.1"), Silent::new());
        let opener = Opener::new(&[refuses.address(), silent.address()], &["--connect-timeout=1s"]);
        let client = opener.dial_and(|mut client| client.write_all(b"anybody?").unwrap());
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        let why = opener.hop.relay.wait_log("dial failed")["why"].as_str().unwrap().to_string();
        assert!(why.contains("ECONNREFUSED") && why.contains("no answer in 1s"), "{why}");
        assert_eq!(opener.hop.relay.flow_end(), (0, 0, "dial failed".into()));
    });
}

#[test]
fn a_silent_client_hears_a_server_that_speaks_first() {
    with_and_without_cookie(|| {
        let (opener, server) = Opener::with_server(&[]);
        for _ in 0..2 {
            let (client, accepted) = (opener.hop.dial(), accept(&server));
            (&accepted).write_all(b"220 ready").unwrap();
            let mut greeting = [0; 9];
            (&client).read_exact(&mut greeting).unwrap();
            assert_eq!(&greeting, b"220 ready");
            talk(&client, &accepted);
            drop((client, accepted));
            assert_eq!(opener.hop.relay.flow_end(), (4, 13, "finished".into()));
        }
    });
}

#[test]
fn a_client_that_ends_before_or_with_its_first_bytes_gets_its_answer() {
    for bytes in [&b""[..], b"all of it"] {
        with_and_without_cookie(|| {
            let (opener, server) = Opener::with_server(&[]);
            let client = opener.dial_and(|client| send_all(client, bytes));
            let accepted = accept(&server);
            assert_eq!(read_to_end(&accepted), (bytes.to_vec(), Ending::Fin));
            (&accepted).write_all(b"late").unwrap();
            drop(accepted);
            assert_eq!(read_to_end(&client), (b"late".to_vec(), Ending::Fin));
            assert_eq!(opener.hop.relay.flow_end(), (bytes.len() as u64, 4, "finished".into()));
        });
    }
}

#[test]
fn a_client_that_resets_ends_the_dial() {
    with_and_without_cookie(|| {
        let silent = Silent::new();
        let opener = Opener::new(&[silent.address()], &["--connect-timeout=60s", "--log-level", "debug"]);
        let is_heard = |how: &str| assert_eq!(opener.hop.relay.flow_end(), (0, 0, how.into()));
        reset(opener.dial_and(|mut client| client.write_all(b"never mind").unwrap()));
        is_heard("reset by the accept leg");
        // Resets while the relay waits for the first byte, and then before the relay looks.
        reset(opener.hop.dial());
        is_heard("health check");
        opener.hop.relay.stop();
        reset(opener.hop.dial());
        opener.hop.relay.signal("CONT");
        is_heard("health check");
    });
}

#[test]
fn urgent_data_stays_urgent_after_the_first_bytes_and_as_the_first_byte() {
    for before in [&b"abc"[..], b""] {
        with_and_without_cookie(|| {
            let (opener, server) = Opener::with_server(&[]);
            let client = opener.dial_and(|mut client| {
                client.write_all(before).unwrap();
                SockRef::from(client).send_out_of_band(b"!").unwrap();
                send_all(client, b"def");
            });
            let accepted = accept(&server);
            assert_urgent_behind(&accepted, before);
            assert_eq!(read_to_end(&accepted), (b"def".to_vec(), Ending::Fin));
            drop(accepted);
            assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin));
            assert_eq!(opener.hop.relay.flow_end(), (before.len() as u64 + 4, 0, "finished".into()));
        });
    }
}

#[test]
fn a_reset_by_the_next_hop_after_its_answer_is_passed_on() {
    with_and_without_cookie(|| {
        let (opener, server) = Opener::with_server(&[]);
        let client = opener.dial_and(|mut client| client.write_all(b"hello").unwrap());
        let accepted = accept(&server);
        (&accepted).read_exact(&mut [0; 5]).unwrap();
        // A byte must reach the client before the reset. If the reset comes before the relay has seen the answer, the flow
        // ends as "dial failed".
        (&accepted).write_all(b".").unwrap();
        (&client).read_exact(&mut [0]).unwrap();
        reset(accepted);
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        assert_eq!(opener.hop.relay.flow_end(), (5, 1, "reset by the dial leg".into()));
    });
}

/// Drops every SYN-ACK from `port` in the calling thread's namespace while `test` runs. Returns false if nft(8) is missing.
fn without_syn_acks(port: u16, test: impl FnOnce()) -> bool {
    let nft = |rules: &str| Command::new("nft").arg(rules).status().map(|status| assert!(status.success(), "{rules}"));
    let rule = format!("add rule inet lost out tcp sport {port} tcp flags & (syn | ack) == (syn | ack) drop");
    let chain = "add table inet lost; add chain inet lost out { type filter hook output priority 0; }";
    if nft(&format!("{chain}; {rule}")).is_err() {
        return false;
    }
    test();
    nft("delete table inet lost").is_ok()
}

/// The relay is stopped before the first hop's SYN-ACK arrives. When the relay continues, it finds both the answer and the
/// reset.
#[test]
fn if_a_next_hop_got_the_bytes_and_reset_no_other_gets_them() {
    alone(|| {
        get_cookie();
        let (first, second) = (open_server("127.0.0.1"), open_server("127.0.0.1"));
        let [one, two] = [&first, &second].map(|server| server.local_addr().unwrap());
        let opener = Opener::new(&[one, two], &["--connect-timeout=60s"]);
        let mut flow = None;
        let ran = without_syn_acks(one.port(), || {
            let client = opener.dial_and(|mut client| client.write_all(b"order one").unwrap());
            let mut accepted = patient(first.accept().expect("the data of the SYN completes the connection").0);
            let mut got = [0; 9];
            accepted.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"order one");
            opener.hop.relay.stop();
            flow = Some((client, accepted));
        });
        if !ran {
            return skip("nft(8) is not installed");
        }
        let (client, accepted) = flow.expect("the test ran");
        // The server's kernel retransmits the SYN-ACK after a second, and the relay's kernel answers it.
        let state = || TcpInfo::of(accepted.as_fd()).unwrap().state;
        wait_until("the handshake has ended", || state() == State::Established);
        reset(accepted);
        opener.hop.relay.signal("CONT");
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        assert_eq!(opener.hop.relay.flow_end().2, "reset by the dial leg");
        assert_not_dialled(&second);
    });
}
