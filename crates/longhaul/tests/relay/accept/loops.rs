//! Tests tunnels whose flows come back through another relay, and clients that only look so. Each test has a network of its own,
//! because clients on loopback are no relay elsewhere.

use crate::harness::*;
use serde_json::Value;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The primary address and a virtual one of each relay's host.
const OWN: [&str; 2] = ["10.7.0.1", "10.7.0.2"];
const VIRTUAL: [&str; 2] = ["10.7.0.11", "10.7.0.12"];

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

/// Two relays lead to each other by these addresses. Asserts that both name the loop, refuse its flows, and serve other tunnels.
fn is_named_and_bounded(addresses: [&str; 2]) {
    with_addresses(|| {
        let (ports, server) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        let on = |host: usize| relay_on(host, addresses[host], addresses[1 - host], "", (&ports[host], &server));
        let relays = [on(0), on(1)];
        let clients: Vec<TcpStream> =
            (0..3).map(|_| dial_from("10.7.0.9", format!("{}:6000", addresses[0]).parse().unwrap()).unwrap()).collect();
        for (here, there) in [(0, 1), (1, 0)] {
            let named = format!(
                "flows go round in a loop: this tunnel dials {}:6000, and {} dials {}:6000, which is this tunnel; \
                 one of the two `to` is wrong",
                addresses[there], OWN[there], addresses[here]
            );
            wait_named(&relays[here], &named);
        }
        ports.iter().for_each(|port| talk(&dial(port), &accept(&server)));
        clients.iter().for_each(|client| assert_eq!(read_to_end(client), (Vec::new(), Ending::Reset)));
        let late = dial_from("10.7.0.9", format!("{}:6000", addresses[1]).parse().unwrap()).unwrap();
        assert_eq!(read_to_end(&late), (Vec::new(), Ending::Reset), "a new flow is bounded, too");
        let counters = || relays.each_ref().map(|relay| relay.daemon.relay.counters());
        let have_ended = |counters: &[Value; 2]| counters.iter().all(|counters| counters["flows_now"] == 0);
        let counters = wait_for_value("every flow has ended", counters, have_ended);
        let of_both = |name: &str| counters.each_ref().map(|counters| counters[name].as_u64().unwrap());
        assert!(of_both("looped").iter().sum::<u64>() >= 2, "{counters:?}");
        assert_eq!((of_both("looped"), of_both("not_allowed")), (of_both("refused"), [0, 0]), "{counters:?}");
        let status = relays[0].command(&["status"]);
        assert!(stdout(&status).contains("DOUBTFUL: tunnel one, next hop: flows go round in a loop: "), "{status:?}");
    });
}

#[test]
fn a_loop_through_primary_addresses_is_named_by_both_relays_and_other_tunnels_serve() {
    is_named_and_bounded(OWN);
}

/// The source of a dial is the primary address then, which is no next hop.
#[test]
fn a_loop_through_virtual_addresses_is_named_by_both_relays_and_other_tunnels_serve() {
    is_named_and_bounded(VIRTUAL);
}

/// A relay sends no preface to what its administrator calls a final host.
#[test]
fn a_loop_that_no_probe_may_prove_is_doubtful_and_ends_by_the_limit_of_next_hops() {
    with_addresses(|| {
        let (ports, server) = ([Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")], server());
        // A quarter of them come from a next hop.
        let (keys, head) = ("verify_hops = 0", "max_flows = 200");
        let on = |host: usize| {
            let more = tunnel("other", ports[host].address(), &server, "");
            let keys = format!("source = \"{}\"\n{keys}\n{more}", OWN[host]);
            let to = vec![format!("{}:6000", VIRTUAL[1 - host])];
            Setup { to, listen: &format!("{}:6000", VIRTUAL[host]), keys: &keys, head }.start()
        };
        let relays = [on(0), on(1)];
        let client = dial_from("10.7.0.9", format!("{}:6000", VIRTUAL[0]).parse().unwrap()).unwrap();
        for (here, there) in [(0, 1), (1, 0)] {
            let question = "does its `to` lead back here?";
            wait_named(
                &relays[here],
                &format!("a connection to the next hop came back from {}: {question}", OWN[there]),
            );
        }
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        ports.iter().for_each(|port| talk(&dial(port), &accept(&server)));
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
        let refusal = "refused: too many flows from this tunnel's own next hop; do two relays point at each other?";
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
