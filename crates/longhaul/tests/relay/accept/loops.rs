//! Tests tunnels whose flows come back through another relay, and clients that only look so. Each test has a network of its own,
//! because clients on loopback are no relay elsewhere.

use crate::harness::*;
use serde_json::Value;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The primary address and a virtual one of each relay's host.
const OWN: [&str; 3] = ["10.7.0.1", "10.7.0.2", "10.7.0.3"];
const VIRTUAL: [&str; 3] = ["10.7.0.11", "10.7.0.12", "10.7.0.13"];

/// Runs `test` in a network with these addresses, one of a client's host, and one of a final host.
fn with_addresses(test: impl FnOnce() + Send) {
    in_own_network(|| {
        let others = ["10.7.0.9", "10.7.0.20"];
        OWN.iter().chain(&VIRTUAL).chain(&others).for_each(|own| ip(&format!("address add {own}/32 dev lo")));
        test();
    });
}

/// Starts a relay on `host` that listens on `listen` and leads to `to`, and serves a tunnel `other` on loopback, too.
fn relay_on(host: usize, listen: &str, to: &str, keys: &str, other: (&Port, &TcpListener)) -> Watched {
    // Between two hosts, the routing table would choose this source.
    let more = tunnel("other", other.0.address(), other.1, "");
    let keys = format!("source = \"{}\"\n{keys}\n{more}", OWN[host]);
    Setup { to: vec![format!("{to}:6000")], listen: &format!("{listen}:6000"), keys: &keys, ..Setup::default() }.start()
}

/// Returns the text of the problems of the tunnel `one`.
fn problems(relay: &Watched) -> Vec<String> {
    let status = relay.status();
    let all = status["problems"].as_array().unwrap().iter();
    all.filter(|problem| problem["tunnel"] == "one").map(|problem| problem["what"].as_str().unwrap().into()).collect()
}

fn wait_named(relay: &Watched, want: &str) {
    wait_for_value(want, || problems(relay), |found| found.iter().any(|text| text == want));
}

/// Each relay leads to the next one by these addresses, and the last one to the first. Asserts that all name the loop, refuse its flows,
/// and serve other tunnels.
fn is_named_and_bounded(addresses: &[&str], keys: &str) {
    with_addresses(|| {
        let (count, server) = (addresses.len(), server());
        let ports: Vec<Port> = addresses.iter().map(|_| Port::reserve("127.0.0.1")).collect();
        let on =
            |host: usize| relay_on(host, addresses[host], addresses[(host + 1) % count], keys, (&ports[host], &server));
        let relays: Vec<Watched> = (0..count).map(on).collect();
        let entry = |host: usize| format!("{}:6000", addresses[host]).parse().unwrap();
        let clients: Vec<TcpStream> = (0..3).map(|_| dial_from("10.7.0.9", entry(0)).unwrap()).collect();
        // A client that is reset tries again, so a relay that was too late for the first flows has others.
        let is_named = Arc::new(AtomicBool::new(false));
        let (stop, again) = (is_named.clone(), entry(0));
        let retrying = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                let _ = dial_from("10.7.0.9", again).map(|mut client| client.read(&mut [0]));
            }
        });
        for (host, relay) in relays.iter().enumerate() {
            let from = OWN[(host + count - 1) % count];
            let (next, to): (SocketAddr, SocketAddr) = (entry((host + 1) % count), entry(host));
            wait_named(
                relay,
                &format!(
                    "flows go round in a loop: this tunnel dials {next}, and {from} dials {to}, which is this tunnel; \
                     one of the two `to` is wrong"
                ),
            );
        }
        is_named.store(true, Relaxed);
        ports.iter().for_each(|port| talk(&dial(port), &accept(&server)));
        retrying.join().unwrap();
        clients.iter().for_each(|client| assert_eq!(read_to_end(client), (Vec::new(), Ending::Reset)));
        let late = dial_from("10.7.0.9", entry(1)).unwrap();
        assert_eq!(read_to_end(&late), (Vec::new(), Ending::Reset), "a new flow is bounded, too");
        let logs: Vec<Vec<Value>> = relays.iter().map(|relay| relay.daemon.relay.lines_to_last_flow_end()).collect();
        let counters: Vec<&Value> = logs.iter().map(|lines| lines.last().unwrap()).collect();
        let is_told = |line: &&Value| {
            let message = line["message"].as_str().unwrap();
            message.starts_with("flows seem to come back") || message.starts_with("flows go round in a loop")
        };
        let told = logs.iter().map(|lines| lines.iter().filter(is_told).count());
        assert!(
            told.clone().all(|lines| lines <= 2),
            "in doubt and for certain, once each: {:?}",
            told.collect::<Vec<_>>()
        );
        let of_all = |name: &str| counters.iter().map(|counters| counters[name].as_u64().unwrap()).sum::<u64>();
        assert!(of_all("looped") >= 2, "{counters:?}");
        assert_eq!((of_all("looped"), of_all("not_allowed")), (of_all("refused"), 0), "{counters:?}");
        let (text, (code, ready)) = (stdout(&relays[0].command(&["status"])), relays[0].get("/readyz"));
        assert!(text.starts_with("WHOLE, but DOUBTFUL: ") && text.contains("tunnel one, next hop"), "{text}");
        assert_eq!(code, 200, "a client that imitates a loop moves no address: {ready}");
    });
}

#[test]
fn a_loop_through_primary_addresses_is_named_by_both_relays_and_other_tunnels_serve() {
    is_named_and_bounded(&OWN[..2], "");
}

/// The source of a dial is the primary address then, which is no next hop. And no preface may be sent to a final host.
#[test]
fn a_loop_through_virtual_addresses_is_named_by_both_relays_and_other_tunnels_serve() {
    is_named_and_bounded(&VIRTUAL[..2], "verify_hops = 0");
}

#[test]
fn a_ring_of_three_relays_is_named_by_each_and_other_tunnels_serve() {
    is_named_and_bounded(&VIRTUAL, "");
}

/// So many clients make the relays slow the loop by most of a second. Each goes round by itself, and fills a part of both relays.
#[test]
fn a_loop_of_many_clients_is_named_and_ends() {
    with_addresses(|| {
        let (ports, server) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let on = |host: usize| relay_on(host, VIRTUAL[host], VIRTUAL[1 - host], "", (&ports[host], &server));
        let relays = [on(0), on(1)];
        let entry = format!("{}:6000", VIRTUAL[0]).parse().unwrap();
        let clients: Vec<TcpStream> = (0..40).map(|_| dial_from("10.7.0.9", entry).unwrap()).collect();
        let is_loop = |text: &String| text.starts_with("flows go round in a loop: ");
        wait_until("one names it", || relays.iter().any(|relay| problems(relay).iter().any(is_loop)));
        clients.iter().for_each(|client| assert_eq!(read_to_end(client), (Vec::new(), Ending::Reset)));
        let flows = |relay: &Watched| relay.status()["tunnels"][0]["flows_now"].as_u64().unwrap();
        wait_until("the flows have ended", || relays.iter().all(|relay| flows(relay) <= 16));
    });
}

/// The newest flows of the process are those of the other tunnel.
#[test]
fn a_loop_is_named_beside_many_flows_of_another_tunnel() {
    with_addresses(|| {
        let (ports, server) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let on = |host: usize| relay_on(host, VIRTUAL[host], VIRTUAL[1 - host], "", (&ports[host], &server));
        let relays = [on(0), on(1)];
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut flows = VecDeque::new();
                while !stop.load(Relaxed) {
                    for port in &ports {
                        flows.push_back((dial(port), accept(&server)));
                    }
                    flows.drain(..flows.len().saturating_sub(200));
                }
            });
            // A client that is reset tries again, so a relay that was too late for the first flows has others.
            scope.spawn(|| {
                let entry = format!("{}:6000", VIRTUAL[0]).parse().unwrap();
                while !stop.load(Relaxed) {
                    let _ = dial_from("10.7.0.9", entry).map(|mut client| client.read(&mut [0]));
                }
            });
            let is_named = || {
                let is_loop = |text: &String| text.starts_with("flows go round in a loop: ");
                relays.iter().all(|relay| problems(relay).iter().any(is_loop))
            };
            let named = std::panic::catch_unwind(|| wait_until("both name it", is_named));
            stop.store(true, Relaxed);
            named.unwrap();
        });
    });
}

#[test]
fn a_loop_that_was_mended_is_over_without_a_client() {
    with_addresses(|| {
        let (ports, unused) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let near = relay_on(0, VIRTUAL[0], VIRTUAL[1], "", (&ports[0], &unused));
        let mut far = relay_on(1, VIRTUAL[1], VIRTUAL[0], "", (&ports[1], &unused));
        let entry = format!("{}:6000", VIRTUAL[0]).parse().unwrap();
        let client = dial_from("10.7.0.9", entry).unwrap();
        wait_until("it is named", || problems(&near).iter().any(|text| text.starts_with("flows go round in a loop: ")));
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        let (host, bytes) = echoing("10.7.0.20");
        far.to = vec![host.local_addr().unwrap().to_string()];
        far.reload("");
        wait_until("it is over", || problems(&near).is_empty());
        near.daemon.relay.wait_line("its end", |line| line.contains("flows no longer come back to the tunnel"));
        assert_eq!(bytes.load(Relaxed), 0, "a test sends no byte");
        round_trip(dial_from("10.7.0.9", entry).unwrap(), b"it serves");
    });
}

/// Carries each connection to `server` on to `next_hop`, as a simple relay does: it passes FIN on, and no reset.
fn relay_simply(server: TcpListener, next_hop: SocketAddr) {
    let from = server.local_addr().unwrap().ip().to_string();
    std::thread::spawn(move || {
        while let Ok((client, _)) = server.accept() {
            let Ok(dialled) = dial_from(&from, next_hop) else { continue };
            for (mut from, mut to) in [(&client, &dialled), (&dialled, &client)]
                .map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap()))
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

#[test]
fn a_loop_through_a_relay_that_passes_no_reset_on_is_doubtful_while_it_has_flows() {
    with_addresses(|| {
        let (port, unused) = (Port::reserve("127.0.0.1"), server());
        let simple = server_at("10.7.0.20");
        let more = tunnel("other", port.address(), &unused, "");
        let (to, listen) = (vec![simple.local_addr().unwrap().to_string()], format!("{}:6000", OWN[0]));
        let relay = Setup { to, listen: &listen, keys: &more, ..Setup::default() }.start();
        let (entry, listener) = (listen.parse().unwrap(), simple.try_clone().unwrap());
        relay_simply(simple, entry);
        let client = dial_from("10.7.0.9", entry).unwrap();
        let doubt = "a connection to the next hop came back from 10.7.0.20: does its `to` lead back here?";
        wait_named(&relay, doubt);
        talk(&dial(&port), &accept(&unused));
        // Its flows end. Nobody answers one, and nobody makes others.
        SockRef::from(&listener).shutdown(Shutdown::Both).unwrap();
        drop(client);
        wait_for_value(
            "the doubt ends with them",
            || problems(&relay),
            |found| !found.iter().any(|text| text == doubt),
        );
    });
}

/// While the relay tests whether a connection of its own comes back, one or the other of these clients ends just as that one does.
#[test]
fn clients_that_half_close_without_a_byte_are_no_loop_and_their_server_gets_none() {
    with_addresses(|| {
        let host = server_at("10.7.0.20");
        let (to, listen) = (vec![host.local_addr().unwrap().to_string()], format!("{}:6000", OWN[0]));
        let (port, unused) = (Port::reserve("127.0.0.1"), server());
        let more = tunnel("other", port.address(), &unused, "");
        let relay = Setup { to, listen: &listen, keys: &more, ..Setup::default() }.start();
        let (dials, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (dials.clone(), bytes.clone());
        std::thread::spawn(move || {
            while let Ok((mut socket, _)) = host.accept() {
                counted.0.fetch_add(1, Relaxed);
                let bytes = counted.1.clone();
                std::thread::spawn(move || {
                    let mut read = Vec::new();
                    let _ = socket.read_to_end(&mut read);
                    bytes.fetch_add(read.len(), Relaxed);
                    std::thread::sleep(Duration::from_millis(300)); // a server that takes its time
                });
            }
        });
        let (mut open, mut ending) = (VecDeque::new(), Vec::new());
        for _ in 0..200 {
            open.push_back(dial_from("10.7.0.9", listen.parse().unwrap()).unwrap());
            std::thread::sleep(Duration::from_millis(20)); // their pace
            if open.len() > 40 {
                let client = open.pop_front().unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                ending.push(client);
            }
        }
        open.iter().for_each(|client| client.shutdown(Shutdown::Write).unwrap());
        ending.iter().chain(&open).for_each(|client| assert_eq!(read_to_end(client), (Vec::new(), Ending::Fin)));
        let counters = relay.daemon.relay.counters();
        assert_eq!((bytes.load(Relaxed), &counters["refused"]), (0, &0.into()));
        wait_until("a doubt ends with their flows", || problems(&relay).is_empty());
        assert!(dials.load(Relaxed) > 200, "the relay has made a test");
    });
}

/// Without a suspicion, too: the probe finds it.
#[test]
fn a_probe_that_comes_back_names_the_loop() {
    with_addresses(|| {
        let (ports, server) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let near = relay_on(0, VIRTUAL[0], VIRTUAL[1], "verify = \"1s\"", (&ports[0], &server));
        let _far = relay_on(1, VIRTUAL[1], VIRTUAL[0], "verify_hops = 0", (&ports[1], &server));
        near.wait_broken("far relay", "failed");
        let want =
            "the probe came back: 10.7.0.2 dials 10.7.0.11:6000, which is this tunnel; one of the two `to` is wrong";
        // Others may end earlier, by the reset of the flows that they make.
        wait_for_value("a probe that came back", || near.verify(), |verify| verify["why"] == want);
        talk(&dial(&ports[0]), &accept(&server));
    });
}

/// Each probe goes round as flows of the loop. Their clients are relays, which nobody waits for.
#[test]
fn probes_in_a_loop_leave_no_line_once_it_is_named_and_their_refusals_one() {
    with_addresses(|| {
        let (ports, server) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let on = |host: usize, keys| relay_on(host, OWN[host], OWN[1 - host], keys, (&ports[host], &server));
        let relays = [on(0, "verify = \"1s\""), on(1, "")];
        for relay in &relays {
            let is_named =
                |found: &Vec<String>| found.iter().any(|text| text.starts_with("flows go round in a loop: "));
            wait_for_value("the loop is named", || problems(relay), is_named);
        }
        let sum =
            |name: &str| relays.iter().map(|relay| relay.status()["counters"][name].as_u64().unwrap()).sum::<u64>();
        let counted = || (sum("accepted"), sum("refused"));
        let lines = || relays.each_ref().map(|relay| relay.daemon.relay.lines_to_counters());
        let before = wait_for_value("a refusal", counted, |now| now.1 > 0);
        let first = lines();
        wait_for_value("more probes go round", counted, |now| now.0 > before.0 + 100 && now.1 > before.1 + 2);
        let more = lines();
        let of = |lines: &[Vec<Value>; 2], message: &str| {
            lines.iter().flatten().filter(|line| line["message"] == message).count()
        };
        assert_eq!((of(&more, "flow ended"), of(&more, "lines held back")), (0, 0), "{more:?}");
        let refusal = "refused: too many flows that may be this tunnel's own; do two relays point at each other?";
        assert!((1..=2).contains(&(of(&first, refusal) + of(&more, refusal))), "one of each relay: {first:?} {more:?}");
    });
}

/// A final host that echoes, and counts the bytes that it has got.
fn echoing(address: &str) -> (TcpListener, Arc<AtomicUsize>) {
    let (server, bytes) = (server_at(address), Arc::new(AtomicUsize::new(0)));
    let (accepting, counted) = (server.try_clone().unwrap(), bytes.clone());
    std::thread::spawn(move || {
        while let Ok((socket, _)) = accepting.accept() {
            let counted = counted.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 100];
                while let Ok(got) = (&socket).read(&mut buffer) {
                    counted.fetch_add(got, Relaxed);
                    if got == 0 || std::io::Write::write_all(&mut &socket, &buffer[..got]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (server, bytes)
}

/// Opens many silent flows from `from` at once. Asserts that all of them are served, and that neither a problem nor a byte of a
/// probe is left.
fn are_served(from: &str, relays: &[&Watched], entry: SocketAddr, bytes: &AtomicUsize) {
    const FLOWS: usize = 60;
    let clients: Vec<TcpStream> = (0..FLOWS).map(|_| dial_from(from, entry).unwrap()).collect();
    let near = relays[0];
    let flows = || near.daemon.relay.counters()["flows_now"].as_u64();
    wait_for_value("every flow is accepted", flows, |flows| *flows >= Some(FLOWS as u64));
    // A test makes a flow of its own at the next hop, or the last relay sees that its flows are not answered.
    wait_until("the doubt has ended", || relays.iter().all(|relay| problems(relay).is_empty()));
    clients.iter().for_each(|mut client| {
        std::io::Write::write_all(&mut client, b"ping").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
    });
    for relay in relays {
        assert_eq!((problems(relay), &relay.daemon.relay.counters()["refused"]), (Vec::new(), &0.into()));
    }
    assert_eq!(bytes.load(Relaxed), 4 * FLOWS, "no preface reaches a final host");
}

#[test]
fn a_host_that_is_client_and_next_hop_is_no_loop() {
    with_addresses(|| {
        let (port, unused) = (Port::reserve("127.0.0.1"), server());
        let (host, bytes) = echoing("10.7.0.20");
        let listen = format!("{}:6000", OWN[0]);
        let to = vec![host.local_addr().unwrap().to_string()];
        let more = tunnel("other", port.address(), &unused, "");
        let relay = Setup { to, listen: &listen, keys: &more, ..Setup::default() }.start();
        let entry = listen.parse().unwrap();
        let first = dial_from("10.7.0.20", entry).unwrap();
        wait_named(&relay, "10.7.0.20 is this tunnel's next hop, and connects to it: does its `to` lead back here?");
        let of_tunnel = relay.status()["problems"][0].clone();
        assert_eq!((&of_tunnel["doubtful"], &of_tunnel["fatal"]), (&true.into(), &false.into()), "{of_tunnel}");
        round_trip(first, b"it is answered");
        wait_until("the doubt has ended", || problems(&relay).is_empty());
        bytes.store(0, Relaxed);
        are_served("10.7.0.20", &[&relay], entry, &bytes);
    });
}

#[test]
fn many_clients_behind_one_address_are_no_loop() {
    with_addresses(|| {
        let (ports, unused) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let (host, bytes) = echoing("10.7.0.20");
        let to = host.local_addr().unwrap();
        let more = tunnel("other", ports[1].address(), &unused, "");
        let keys = format!("source = \"{}\"\n{more}", OWN[1]);
        let far = Setup { to: vec![to.to_string()], listen: "10.7.0.2:6000", keys: &keys, ..Setup::default() }.start();
        let near = relay_on(0, OWN[0], OWN[1], "", (&ports[0], &unused));
        are_served("10.7.0.9", &[&near, &far], format!("{}:6000", OWN[0]).parse().unwrap(), &bytes);
    });
}
