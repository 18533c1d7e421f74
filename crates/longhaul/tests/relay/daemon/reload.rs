//! Tests reloads in quick succession: within the second for which a replaced listener still serves.

use crate::harness::*;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// One address of each kind that a tunnel can listen on.
const ADDRESSES: [&str; 4] = ["[::]", "[::1]", "127.0.0.1", "0.0.0.0"];

/// Options of successive reloads. Each removes an option of the one before. An existing listener cannot drop an option, so
/// each reload creates a new listener.
const OPTIONS: [&str; 3] = [
    "accept = { dscp = \"ef\" }\n",
    "accept = { keepalive-idle = \"100s\", mss = \"1000B\" }\n",
    "accept = { dscp = \"cs1\" }\n",
];

const CLIENTS: usize = 60;

/// Returns the loopback addresses that reach `listen`.
fn ways_in(listen: SocketAddr) -> Vec<SocketAddr> {
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), listen.port());
    match (listen.ip().is_unspecified(), listen.is_ipv6()) {
        (true, true) => vec![at("::1"), at("127.0.0.1")],
        (true, false) => vec![at("127.0.0.1")],
        _ => vec![listen],
    }
}

/// Connects to `entry` again and again, and asserts that each client is refused or reset, and that no server is dialled.
fn nobody_gets_in(entry: SocketAddr, to: &[&TcpListener]) {
    for _ in 0..CLIENTS {
        match TcpStream::connect(entry) {
            Ok(client) => assert_eq!(read_to_end(&patient(client)), (Vec::new(), Ending::Reset), "{entry}"),
            // The reset may arrive before connect(2) returns.
            Err(err) => {
                let is_expected = matches!(err.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset);
                assert!(is_expected, "{entry}: {err}");
            }
        }
    }
    to.iter().for_each(|server| assert_not_dialled(server));
}

#[test]
fn a_replaced_listener_obeys_the_next_allow_list() {
    for ip in ADDRESSES {
        let (far, port) = (server(), Port::reserve(ip));
        let with =
            |round: usize, allow: &str| tunnel("one", port.address(), &far, &(OPTIONS[round].to_string() + allow));
        // RFC 5737: no host has this address.
        const NOBODY: &str = "allow = \"192.0.2.77\"";
        for last in [with(2, NOBODY), with(1, NOBODY)] {
            let daemon = Daemon::start(&with(0, ""));
            assert_eq!(daemon.reload(&with(1, ""))["message"], "reloaded");
            assert_eq!(daemon.reload(&last)["message"], "reloaded");
            ways_in(port.address()).into_iter().for_each(|entry| nobody_gets_in(entry, &[&far]));
        }
    }
}

#[test]
fn a_replaced_listener_uses_the_next_file_s_next_hop() {
    for ip in ADDRESSES {
        let (first, last, port) = (server(), server(), Port::reserve(ip));
        let daemon = Daemon::start(&tunnel("one", port.address(), &first, OPTIONS[0]));
        assert_eq!(daemon.reload(&tunnel("one", port.address(), &first, OPTIONS[1]))["message"], "reloaded");
        assert_eq!(daemon.reload(&tunnel("other", port.address(), &last, OPTIONS[2]))["message"], "reloaded");
        for entry in ways_in(port.address()) {
            let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(entry).unwrap()).collect();
            let there: Vec<TcpStream> = clients.iter().map(|_| last.accept().unwrap().0).collect();
            drop((clients, there));
        }
        assert_not_dialled(&first);
    }
}

#[test]
fn a_replaced_listener_stops_serving_a_removed_tunnel() {
    for ip in ADDRESSES {
        let (far, port, other) = (server(), Port::reserve(ip), Port::reserve("127.0.0.1"));
        let stays = tunnel("stays", other.address(), &far, "");
        // Nobody listens at the next hop. A client that gets in is reset when the dial fails.
        let nowhere = Port::reserve("127.0.0.1");
        let with =
            |round: usize| stays.clone() + &tunnel_to("one", port.address(), &[nowhere.address()], OPTIONS[round]);
        let daemon = Daemon::start(&with(0));
        assert_eq!(daemon.reload(&with(1))["message"], "reloaded");
        assert_eq!(daemon.reload(&stays)["message"], "reloaded");
        ways_in(port.address()).into_iter().for_each(|entry| nobody_gets_in(entry, &[&far]));
        // A few clients may get in: both listeners close a moment after the reload and first serve waiting clients. That is one
        // client each, or two if the first client's flow ends before the listener looks for more.
        const LISTENERS: u64 = 2;
        let counters = daemon.relay.counters();
        assert!(counters["accepted"].as_u64().unwrap() <= 2 * LISTENERS, "{ip}: {counters}");
        talk(&dial(&other), &accept(&far));
    }
}

#[test]
fn a_listener_split_into_two_addresses_serves_each_by_its_own_tunnel() {
    for ip in ["0.0.0.0", "[::]"] {
        let (whole, one, two, port) = (server(), server(), server(), Port::reserve(ip));
        let daemon = Daemon::start(&tunnel("whole", port.address(), &whole, ""));
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), port.address().port());
        let halves = [at("127.0.0.1"), at("127.0.0.2")];
        let config = tunnel("one", halves[0], &one, "") + &tunnel("two", halves[1], &two, "");
        assert_eq!(daemon.reload(&config)["message"], "reloaded");
        for _ in 0..CLIENTS {
            for (entry, server) in halves.iter().zip([&one, &two]) {
                talk(&patient(TcpStream::connect(entry).unwrap()), &accept(server));
            }
        }
        // No tunnel serves this address any more, neither before the old listener is closed nor afterwards.
        nobody_gets_in(at("127.0.0.3"), &[&whole, &one, &two]);
    }
}
