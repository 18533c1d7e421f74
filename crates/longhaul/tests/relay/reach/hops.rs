//! Tests several next hops: racing dials, policies, ejection and return, and the state over a reload.

use crate::harness::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

/// Longer than any test may take: a dial that waits for it fails the test.
const NEVER: &str = "--connect-timeout=10min";

fn name(of: &TcpListener) -> String {
    of.local_addr().unwrap().to_string()
}

/// Connects to `entry` through the relay and sends a message each way.
fn pass(entry: &Port, server: &TcpListener) -> (TcpStream, TcpStream) {
    let (client, accepted) = (dial(entry), accept(server));
    talk(&client, &accepted);
    (client, accepted)
}

/// Answers each connection with its own `letter`, and closes it.
fn lettered(letter: u8) -> String {
    lettered_by(server(), letter)
}

fn lettered_by(server: TcpListener, letter: u8) -> String {
    let address = name(&server);
    // Ends when accept(2) times out, after the test.
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = server.accept() {
            let _ = socket.write_all(&[letter]);
        }
    });
    address
}

/// Returns the letter of the server that `entry` leads to, from the client's address `from`.
fn letter(entry: SocketAddr, from: &str) -> char {
    let mut client = dial_from(from, entry).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = String::new();
    client.read_to_string(&mut got).unwrap();
    got.chars().next().expect("a letter")
}

/// Returns the states of the next hops, in the order of `to`.
fn states(relay: &Relay) -> Vec<Value> {
    let lines = relay.lines_to_counters();
    lines.into_iter().filter(|line| line["message"] == "next hop").collect()
}

#[test]
fn a_blackholed_first_hop_costs_no_flow_its_connect_timeout() {
    let (silent, other, server) = (Silent::new(), Silent::new(), server());
    let to = [silent.address().to_string(), other.address().to_string(), name(&server)];
    let Hop { relay, port } = Hop::new(&to, &[NEVER]);
    let client = patient(TcpStream::connect(port.address()).unwrap());
    send_all(&client, b"exactly this");
    let accepted = patient(server.accept().unwrap().0);
    assert_eq!(read_to_end(&accepted), (b"exactly this".to_vec(), Ending::Fin));
    drop(accepted);
    assert_eq!(relay.flow_end(), (12, 0, "finished".into()));
    // Each flow that went past the silent ones counts as a failed dial of theirs.
    for _ in 0..2 {
        drop(pass(&port, &server));
    }
    let ejected = relay.wait_log("next hop ejected: its dials failed");
    assert_eq!((&ejected["next_hop"], &ejected["pause"]), (&to[0].clone().into(), &"10s".into()));
    let state = |hop: usize| states(&relay)[hop]["state"].clone();
    assert_eq!((state(0), state(2)), ("ejected".into(), "up".into()));
    assert!(relay.counters()["hops_lost"].as_u64() >= Some(1));
}

#[test]
fn a_refused_first_hop_is_passed_over_and_then_ejected() {
    let (dead, server) = (Port::reserve("127.0.0.1"), server());
    let Hop { relay, port } = Hop::new(&[dead.address().to_string(), name(&server)], &[NEVER]);
    let flows: Vec<_> = (0..5).map(|_| pass(&port, &server)).collect();
    let states = states(&relay);
    assert_eq!((&states[0]["state"], &states[0]["flows_now"]), (&"ejected".into(), &0.into()), "{states:?}");
    assert_eq!((&states[1]["state"], &states[1]["flows_now"]), (&"up".into(), &5.into()), "{states:?}");
    drop(flows);
    for _ in 0..5 {
        assert_eq!(relay.flow_end(), (4, 4, "finished".into()));
    }
    // The line is written just before the flow is no longer counted.
    wait_until("flows that ended are not counted", || self::states(&relay)[1]["flows_now"] == 0);
}

#[test]
fn a_hop_that_comes_back_is_used_again() {
    let (first, second) = (Port::reserve("127.0.0.1"), server());
    let to = [first.address().to_string(), name(&second)];
    let Hop { relay, port } = Hop::new(&to, &[NEVER]);
    let _flows: Vec<_> = (0..3).map(|_| pass(&port, &second)).collect();
    relay.wait_log("next hop ejected: its dials failed");
    // The other one goes away too. So the ejected hop is tried at once, as the last resort.
    let back = TcpListener::bind(first.address()).unwrap();
    socket2::SockRef::from(&second).shutdown(Shutdown::Both).unwrap();
    drop(second);
    drop(pass(&port, &back));
    assert_eq!(relay.wait_log("next hop answers again")["next_hop"], to[0]);
    assert_eq!(states(&relay)[0]["state"], "slow start");
}

#[test]
fn least_flows_takes_the_hop_with_fewer_flows() {
    let (one, two) = (server(), server());
    let Hop { relay: _relay, port } = Hop::new(&[name(&one), name(&two)], &["--policy=least-flows"]);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(TcpStream::connect(port.address()).unwrap());
        clients.push(TcpStream::connect(port.address()).unwrap());
    }
    let flows: Vec<_> =
        [&one, &one, &one, &one, &two, &two, &two, &two].map(|server| server.accept().unwrap().0).into();
    drop((flows, clients));
}

#[test]
fn source_hash_sends_a_client_to_the_same_hop() {
    let to = [lettered(b'a'), lettered(b'b'), lettered(b'c')];
    let Hop { relay: _relay, port } = Hop::new(&to, &["--policy=source-hash"]);
    let clients: Vec<String> = (1..=30).map(|n| format!("127.0.1.{n}")).collect();
    let all = || clients.iter().map(|client| letter(port.address(), client)).collect::<String>();
    let first = all();
    assert_eq!(all(), first);
    assert!(['a', 'b', 'c'].iter().all(|letter| first.contains(*letter)), "{first}");
}

#[test]
fn a_reload_keeps_the_state_of_the_hops_that_stay() {
    let (dead, server) = (Port::reserve("127.0.0.1"), server());
    let (dead, alive) = (dead.address().to_string(), name(&server));
    let to = vec![dead.clone(), alive.clone()];
    let mut watched = Setup { to, keys: PATIENT, ..Setup::default() }.start();
    let _flows: Vec<_> = (0..3).map(|_| pass(&watched.port, &server)).collect();
    watched.daemon.relay.wait_log("next hop ejected: its dials failed");
    watched.to = vec![alive, dead, "127.0.0.1:1 weight=2".into()];
    watched.reload(PATIENT);
    let states = states(&watched.daemon.relay);
    assert_eq!((&states[0]["state"], &states[0]["flows_now"]), (&"up".into(), &3.into()), "{states:?}");
    assert_eq!((&states[1]["state"], &states[2]["state"]), (&"ejected".into(), &"up".into()), "{states:?}");
}

/// Keys with which no dial ends by its time.
const PATIENT: &str = "connect_timeout = \"10min\"\n";
/// The same, and quick checks. The states of a hop change after the first check.
const QUICK: &str = "connect_timeout = \"10min\"\ncheck = \"tcp\"\ncheck_interval = \"100ms\"\nrise = 1\nfall = 1\n";

#[test]
fn checks_take_a_hop_out_and_back_and_without_any_hop_clients_are_reset_at_once() {
    let (silent, dead) = (Silent::new(), Port::reserve("127.0.0.1"));
    let to = [silent.address().to_string(), dead.address().to_string()];
    let watched = Setup { to: to.to_vec(), keys: QUICK, ..Setup::default() }.start();
    let (port, relay) = (&watched.port, &watched.daemon.relay);
    let down = [(); 2].map(|()| relay.wait_log("next hop down: its checks failed"));
    let why = |hop: &str| {
        let line = down.iter().find(|line| line["next_hop"] == hop).expect("each hop is down");
        line["why"].as_str().unwrap().to_string()
    };
    assert!(why(&to[0]).contains("no answer in 3s") && why(&to[1]).contains("ECONNREFUSED"), "{down:?}");
    reset_by(port.address());
    let why = relay.wait_log("dial failed")["why"].as_str().unwrap().to_string();
    assert!(to.iter().all(|hop| why.contains(hop)), "{why}");
    assert!(states(relay).iter().all(|hop| hop["state"] == "down"));
    // The second one comes back. The first one would not answer a dial.
    lettered_by(TcpListener::bind(dead.address()).unwrap(), b'b');
    assert_eq!(relay.wait_log("next hop up: its checks succeed")["next_hop"], to[1]);
    assert_eq!(letter(port.address(), "127.0.0.1"), 'b');
    // Without checks, nothing keeps a hop down.
    watched.reload(PATIENT);
    let states = states(relay);
    assert!(states.iter().all(|hop| hop["state"] == "slow start"), "{states:?}");
    assert_eq!(letter(port.address(), "127.0.0.1"), 'b');
}
