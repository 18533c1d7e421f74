//! Tests tunnels with `verify`: the daemon's own probes, their results in `/status.json`, `/readyz`, `status` and the log.

use crate::harness::*;
use crate::probe::verify::{preface, report, report_to, verdict};
use longhaul_core::wire::answer::{Dial, Next};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Adds 10.99.0.9 to this network (`add`), or takes it away (`del`).
fn address(change: &str) {
    ip(&format!("address {change} 10.99.0.9/32 dev lo"));
}

/// Starts a daemon whose tunnel listens on 10.99.0.9, and leads to `to`.
fn on_a_moving_address(to: SocketAddr, keys: &str) -> Watched {
    Setup { to: vec![to.to_string()], listen: "10.99.0.9:6000", keys, ..Setup::default() }.start()
}

/// Starts a far relay on `port` that dials `host`.
pub(crate) fn far_relay(port: &Port, host: SocketAddr) -> Relay {
    let args = ["relay", "--listen", &port.address().to_string(), "--to", &host.to_string(), "--verify-hops", "0"];
    Relay::start(&args)
}

/// A final host that accepts and closes every connection, while it lives.
pub(crate) fn final_host() -> SocketAddr {
    final_host_at("127.0.0.1:0".parse().unwrap())
}

fn final_host_at(address: SocketAddr) -> SocketAddr {
    let server = TcpListener::bind(address).unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || server.incoming().for_each(|socket| drop(socket.map(|socket| read_to_end(&socket)))));
    address
}

/// As keepalived does: it takes the address away because the tunnel is broken, and gives it back when the relay is ready.
#[test]
fn a_broken_tunnel_is_not_fatal_while_its_address_is_elsewhere_and_is_probed_when_it_comes_back() {
    in_own_network(|| {
        let (host, far_port) = (final_host(), Port::reserve("127.0.0.1"));
        let near = on_a_moving_address(far_port.address(), "verify = \"1h\"\naccept = { freebind = true }");
        let readyz = || near.get("/readyz");
        let is_elsewhere = || near.verify()["hindrance"] == "10.99.0.9 is not an address of this host now";
        wait_until("the first look", is_elsewhere);
        assert_eq!(readyz(), (200, "ready\n".into()));
        address("add");
        near.wait_broken("far relay", "refused");
        address("del");
        wait_until("the daemon has noticed", is_elsewhere);
        let (code, body) = readyz();
        assert_eq!((code, &near.verify()["state"]), (200, &"broken".into()));
        assert!(
            body.starts_with("ready\ntunnel one, far relay: refused") && body.contains(", no newer one: "),
            "{body}"
        );
        assert_eq!(near.verify()["elsewhere"], true);
        // The first probe after the return is under way for long. Until its result, nobody knows how the tunnel is.
        let silent = TcpListener::bind(far_port.address()).unwrap();
        address("add");
        let probe = silent.accept().unwrap();
        let status = near.status();
        let (problem, verify) = (&status["problems"][0], &status["tunnels"][0]["verify"]);
        assert_eq!((&verify["state"], &verify["elsewhere"]), (&"broken".into(), &false.into()), "{status}");
        assert_eq!(verify["no_newer"], "10.99.0.9 has come to this host, and the first probe is under way");
        assert_eq!(
            (&problem["fatal"], &problem["doubtful"], readyz().0),
            (&false.into(), &true.into(), 200),
            "{status}"
        );
        drop((silent, probe));
        wait_until("the probe's result is fatal", || readyz().0 == 503);
        assert_eq!(near.verify()["no_newer"], Value::Null);
        address("del");
        wait_until("the daemon has noticed", is_elsewhere);
        let _far = far_relay(&far_port, host);
        address("add");
        near.wait_verify("whole");
        assert_eq!(near.status()["problems"], serde_json::json!([]));
        let metrics = || near.get("/metrics").1;
        assert!(metrics().contains("longhaul_verify_elsewhere_seconds{tunnel=\"one\"} 0.0\n"));
        // Long before the next probe, because alerts depend on it.
        address("del");
        wait_until("the daemon has noticed", is_elsewhere);
        wait_until("time passes", || {
            let metrics = metrics();
            let line =
                metrics.lines().find(|line| line.starts_with("longhaul_verify_elsewhere_seconds{tunnel=\"one\"}"));
            line.unwrap().split_once(' ').unwrap().1.parse::<f64>().unwrap() > 0.0
        });
    });
}

/// A probe under way would have its result only when its time is over, here 1 min 15 s.
#[test]
fn a_probe_ends_when_its_address_leaves() {
    in_own_network(|| {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        address("add");
        let keys = "verify = \"1h\"\nconnect_timeout = \"1min\"";
        let near = on_a_moving_address(silent.local_addr().unwrap(), keys);
        let _probe = silent.accept().unwrap();
        address("del");
        wait_until("the daemon has noticed", || {
            near.verify()["hindrance"] == "10.99.0.9 is not an address of this host now"
        });
    });
}

/// Without `verify`, too: its socket listens on, and no client reaches it.
#[test]
fn a_listener_whose_address_leaves_is_a_fatal_problem_until_it_is_back() {
    in_own_network(|| {
        let nonlocal_bind = |on: &str| std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", on).unwrap();
        nonlocal_bind("0");
        address("add");
        let near = on_a_moving_address(final_host(), "");
        let readyz = || near.get("/readyz");
        let is_ready = || readyz() == (200, "ready\n".into());
        let is_told = || {
            let (code, body) = readyz();
            code == 503 && body.contains("tunnel one, listener: 10.99.0.9 is not an address of this host any more: ")
        };
        assert!(is_ready());
        for _ in 0..2 {
            address("del");
            wait_until("the address is gone", is_told);
            address("add");
            wait_until("the address is back", is_ready);
        }
        address("del");
        wait_until("the address is gone once more", is_told);
        // Now somebody is meant to bring it later.
        nonlocal_bind("1");
        wait_until("any address may be listened on", is_ready);
        nonlocal_bind("0");
        wait_until("none but those of this host", is_told);
        near.reload("accept = { freebind = true }");
        wait_until("a backup relay", is_ready);
    });
}

#[test]
fn every_view_names_the_broken_stage_until_the_tunnel_is_whole_again() {
    let (host, far_port) = (final_host(), Port::reserve("127.0.0.1"));
    let far = far_relay(&far_port, host);
    // Neither `allow`, nor a limit of a source, nor `proxy_in` keeps the daemon's own probes out.
    let keys = "verify = \"1s\"\nallow = [\"192.0.2.0/24\"]\nmax_flows_per_source = 1\nnew_flows_per_second_per_source = 1\nproxy_in = \"v2\"";
    let near = Watched::start_to(&[far_port.address()], keys);
    let whole = near.wait_verify("whole");
    assert_eq!(whole["interval_seconds"], 1.0);
    let first = &whole["history"][0];
    assert!(first["whole"] == true && first["rtt_ms"].as_f64() > Some(0.0), "{first}");
    assert!(first["goodput_bits_per_second"].as_u64() > Some(0), "{first}");
    assert_eq!(near.get("/readyz"), (200, "ready\n".into()));
    reset_by(near.port.address());
    // Probes leave one line at each change, and none for their flows, on any relay.
    let counters_without_a_flow = |relay: &Relay| {
        let mut lines = relay.lines_to_counters();
        assert!(lines.iter().all(|line| line["message"] != "flow ended"), "{lines:?}");
        lines.pop().unwrap()
    };
    counters_without_a_flow(&far);
    drop(far);
    near.wait_broken("far relay", "refused");
    let far = far_relay(&far_port, host);
    near.wait_verify("whole");
    assert_eq!(near.get("/readyz"), (200, "ready\n".into()));
    counters_without_a_flow(&far);
    let counters = counters_without_a_flow(&near.daemon.relay);
    assert!(counters["verify_failures"].as_u64() > Some(0), "{counters}");
    drop(far);
    let _far = far_relay(&far_port, Port::reserve("127.0.0.1").address());
    near.wait_broken("final host", "refused");
}

/// A line for each probe of a broken tunnel would look like a client that was reset.
#[test]
fn a_probe_whose_dial_fails_is_no_warning_on_any_relay() {
    let (nobody, far_port) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let near = Watched::start_to(&[nobody.address()], "verify = \"1s\"");
    near.wait_broken("far relay", "refused");
    let failed = || near.status()["counters"]["dials_failed"].as_u64();
    let before = failed();
    wait_until("another probe fails", || failed() > before);

    let far = far_relay(&far_port, nobody.address());
    // The preface is there before the dial fails, on any machine.
    far.stop();
    let mut probe = patient(TcpStream::connect(far_port.address()).unwrap());
    probe.write_all(&preface(0).bytes()).unwrap();
    far.signal("CONT");
    assert_eq!(report(&probe).next, Next::DialFailed);

    for relay in [&near.daemon.relay, &far] {
        let lines = relay.lines_to_counters();
        assert!(lines.iter().all(|line| line["message"] != "dial failed"), "{lines:?}");
    }
    reset_by(far_port.address());
    assert_eq!(far.wait_log("dial failed")["more"], 0, "a client was reset");
}

/// A prober has less patience than a dial of several addresses.
#[test]
fn a_probe_that_ends_before_the_dial_has_no_line() {
    let silent = Silent::new();
    let port = Port::reserve("127.0.0.1");
    let far = far_relay(&port, silent.address());
    for (bytes, has_line) in [(&preface(0).bytes()[..], false), (b"a client", true)] {
        let mut client = patient(TcpStream::connect(port.address()).unwrap());
        client.write_all(bytes).unwrap();
        wait_until("the flow dials", || far.counters()["flows_now"] == 1);
        reset(client);
        let lines = far.lines_to_last_flow_end();
        assert_eq!(lines.iter().any(|line| line["message"] == "flow ended"), has_line, "{lines:?}");
    }
}

#[test]
fn checks_that_find_every_next_hop_down_do_not_hide_the_broken_stage() {
    let quick = "verify = \"1s\"\ncheck_interval = \"100ms\"\nrise = 1\nfall = 1\n";
    let far_port = Port::reserve("127.0.0.1");
    let near = Watched::start_to(&[far_port.address()], &format!("check = \"verify\"\n{quick}"));
    let is_broken_at = |stage| {
        wait_until("a next hop that is down", || near.status()["tunnels"][0]["next_hops"][0]["state"] == "down");
        let last = near.verify()["last_unix_seconds"].as_f64();
        wait_until("a later probe", || near.verify()["last_unix_seconds"].as_f64() > last);
        near.wait_broken(stage, "refused");
        let (code, found) = verdict(near.port.address(), "", &[]);
        assert_eq!((code, &found["stage"], &found["cause"]), (Some(1), &stage.into(), &"refused".into()), "{found}");
    };
    is_broken_at("far relay");
    let _far = far_relay(&far_port, Port::reserve("127.0.0.1").address());
    is_broken_at("final host");
}

#[test]
fn probes_of_others_do_not_keep_the_daemon_s_own_out() {
    const OF_A_SOURCE: usize = 16;
    let near = Watched::start_to(&[final_host()], "verify = \"1s\"\nverify_hops = 0");
    near.wait_verify("whole");
    let begin = || {
        let mut probe = patient(TcpStream::connect(near.port.address()).unwrap());
        probe.write_all(&preface(0).bytes()).unwrap();
        assert_eq!(report(&probe).next, Next::Echo);
        probe
    };
    let others: Vec<_> = (0..OF_A_SOURCE).map(|_| begin()).collect();
    for _ in 0..4 {
        let last = near.verify()["last_unix_seconds"].as_f64();
        wait_until("another result", || near.verify()["last_unix_seconds"].as_f64() > last);
    }
    let verify = near.verify();
    assert!(verify["state"] == "whole" && verify["why"].is_null(), "{verify}");
    // They take no place either.
    others.iter().for_each(|other| quiet_for(other, Duration::from_millis(1)));
}

/// The far relay sees all probes as those of the near relay.
#[test]
fn a_flood_of_prefaces_keeps_neither_own_probes_nor_a_prober_of_another_address_out() {
    const AT_ONCE: usize = 150;
    const PER_SECOND: u32 = 21;
    let far_port = Port::reserve("127.0.0.1");
    let far = far_relay(&far_port, final_host());
    let near = Watched::start_to(&[far_port.address()], "verify = \"1s\"\nverify_hops = 1");
    near.wait_verify("whole");
    let (stop, stopped) = channel::<()>();
    std::thread::scope(|scope| {
        let entry = near.port.address();
        let begin = move || {
            let mut probe = dial_from("127.0.0.2", entry).unwrap();
            probe.write_all(&preface(1).bytes()).unwrap();
            probe
        };
        // Silent from then on, so that they hold their places.
        let mut probes: VecDeque<TcpStream> = (0..AT_ONCE).map(|_| begin()).collect();
        scope.spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1) / PER_SECOND) == Err(RecvTimeoutError::Timeout) {
                probes.pop_front();
                probes.push_back(begin());
            }
        });
        for _ in 0..15 {
            let (code, found) = verdict(entry, "verify_hops = 1", &[]);
            assert_eq!(code, Some(0), "a prober of another address: {found}");
            let verify = near.verify();
            assert_eq!((&verify["state"], &verify["hindrance"]), (&"whole".into(), &Value::Null), "{verify}");
        }
        let results = || near.verify()["history"].as_array().unwrap().len();
        let before = results();
        wait_until("three more of its own probes", || results() >= before + 3);
        drop(stop);
    });
    assert!(near.daemon.relay.try_log("probes of the tunnel have no result").is_none());
    let refused = |relay: &Relay| relay.counters()["probes_refused"].as_u64();
    assert_eq!(refused(&far), Some(0), "the near relay passes on no more than the far one answers");
    assert!(refused(&near.daemon.relay) > Some(0));
}

/// An attacker who keeps the probes out would bring clients back to a tunnel that serves none.
#[test]
fn a_broken_tunnel_stays_fatal_while_its_probes_are_refused() {
    let far_port = Port::reserve("127.0.0.1");
    let near = Watched::start_to(&[far_port.address()], "verify = \"1s\"");
    near.wait_broken("far relay", "refused");
    let busy = TcpListener::bind(far_port.address()).unwrap();
    std::thread::spawn(move || {
        loop {
            drop(report_to(&busy, Dial::NotDialled, Next::Busy));
        }
    });
    let is_refused = |verify: &Value| verify["hindrance"].as_str().is_some_and(|why| why.contains("no more probes"));
    let verify = wait_for_value("a refused probe", || near.verify(), is_refused);
    assert_eq!((&verify["state"], &verify["health"]), (&"broken".into(), &"broken".into()), "{verify}");
    let (code, ready) = near.get("/readyz");
    assert!(code == 503 && ready.contains(", no newer one: far relay: it answers no more probes"), "{code} {ready}");
}

/// A next hop that hangs never ends the flow of a probe. If the flow outlived its probe, such flows would fill the tunnel.
#[test]
fn no_flow_outlives_its_probe() {
    let (hangs, stays) = (server(), "max_flows = 2\n");
    let to = [hangs.local_addr().unwrap()];
    let near = Watched::start_to(&to, stays);
    let ending = |probe| read_to_end(&patient(probe)).1;
    for _ in 0..3 {
        near.reload(&format!("verify = \"1s\"\n{stays}"));
        let probe = hangs.accept().expect("a probe").0;
        // The reload ends the probe before its time.
        near.reload(stays);
        assert_eq!(ending(probe), Ending::Reset);
    }
    assert_eq!(verdict(near.port.address(), "", &["--timeout", "300ms"]).0, Some(3));
    assert_eq!(ending(hangs.accept().expect("a probe of the command").0), Ending::Reset);
    wait_until("no flow is left", || near.daemon.relay.counters()["flows_now"] == 0);
    let check = "check = \"verify\"\ncheck_interval = \"200ms\"";
    near.reload(&format!("{check}\n{stays}"));
    assert_eq!(ending(hangs.accept().expect("a check").0), Ending::Reset);
}

#[test]
fn a_reload_begins_and_ends_the_probes_and_keeps_their_results() {
    let (host, far_port) = (final_host(), Port::reserve("127.0.0.1"));
    let _far = far_relay(&far_port, host);
    let near = Watched::start_to(&[far_port.address()], "");
    assert!(near.verify().is_null());
    near.reload("verify = \"1s\"");
    let before = near.wait_verify("whole")["history"][0]["unix_seconds"].clone();
    near.reload("verify = \"1h\"");
    let after = near.verify();
    assert_eq!((&after["history"][0]["unix_seconds"], &after["interval_seconds"]), (&before, &3600.0.into()));
    near.reload("");
    assert!(near.verify().is_null());
}

/// A client of the tunnel does not get in with a nonce that somebody else announced, and the tunnel's flows go on.
#[test]
fn probes_and_flows_do_not_disturb_each_other() {
    let keys = "verify = \"1s\"\nverify_hops = 0\nverify_final = false\nmax_flows_per_source = 1";
    let near = Watched::start(keys);
    let (client, accepted) = near.flow();
    talk(&client, &accepted);
    let results = || near.verify()["history"].as_array().unwrap().len();
    let before = results();
    wait_until("two more probes are made beside the only flow of this source", || results() >= before + 2);
    assert_eq!(near.verify()["state"], "whole");
    talk(&client, &accepted);
    reset_by(near.port.address());
}

#[test]
fn a_tunnel_on_a_link_local_address_is_verified() {
    in_own_network(|| {
        let veth = "link add e0 type veth peer name e1".split(' ');
        if !Command::new("ip").args(veth).status().unwrap().success() {
            return skip("ip(8) cannot make a veth device here");
        }
        ["address add fe80::9/64 dev e0 nodad", "link set e0 up", "link set e1 up"].into_iter().for_each(ip);
        let keys = "verify = \"1s\"\nverify_hops = 0\naccept = { bind-device = \"e0\" }";
        let to = vec![final_host().to_string()];
        Setup { to, listen: "[fe80::9]:6000", keys, ..Setup::default() }.start().wait_verify("whole");
    });
}

/// The virtual address of keepalived, with the prefix of the LAN, is a secondary address. A connection from its host to it comes
/// from the primary address, unless it is bound.
#[test]
fn a_tunnel_on_a_secondary_address_is_verified() {
    in_own_network(|| {
        for own in ["10.1.0.1/24", "10.1.0.9/24"] {
            ip(&format!("address add {own} dev lo"));
        }
        let far_port = Port::reserve("127.0.0.1");
        let far = far_relay(&far_port, final_host());
        let (to, keys) = (vec![far_port.address().to_string()], "verify = \"1s\"\nallow = [\"10.1.0.9\"]");
        let near = Setup { to, listen: "10.1.0.9:6000", keys, ..Setup::default() }.start();
        near.wait_verify("whole");
        // `longhaul verify` comes from the address that `allow` names.
        let (code, found) = verdict("10.1.0.9:6000".parse().unwrap(), "", &[]);
        assert_eq!((code, &found["verdict"]), (Some(0), &"whole".into()), "{found}");
        let (code, found) = verdict("10.2.0.77:6000".parse().unwrap(), "", &[]);
        assert_eq!((code, &found["stage"]), (Some(1), &"near relay".into()), "{found}");
        assert!(found.to_string().contains("Network is unreachable"), "{found}");
        drop(far);
        near.wait_broken("far relay", "refused");
    });
}

/// Both relays answer, and one of them cannot reach its final host.
#[test]
fn a_check_by_probes_takes_out_a_hop_whose_final_host_is_down() {
    let (host, gone) = (final_host(), Port::reserve("127.0.0.1"));
    let ports = [Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")];
    let _first = far_relay(&ports[0], gone.address());
    let _second = far_relay(&ports[1], host);
    let to = [ports[0].address(), ports[1].address()];
    let quick = "check_interval = \"200ms\"\nrise = 1\nfall = 1\nverify = \"1s\"";
    let near = Watched::start_to(&to, &format!("check = \"verify\"\n{quick}"));
    let line = near.daemon.relay.wait_log("next hop down: its checks failed");
    assert_eq!(line["next_hop"], to[0].to_string());
    let why = line["why"].as_str().unwrap();
    assert!(why.contains("final host: refused"), "{why}");
    // The tunnel serves flows over the other hop.
    near.wait_verify("whole");
    assert_eq!(near.get("/readyz").0, 200);
    let hops = near.status()["tunnels"][0]["next_hops"].take();
    assert_eq!((&hops[0]["state"], &hops[1]["state"]), (&"down".into(), &"up".into()), "{hops}");
    // Its host comes back.
    final_host_at(gone.address());
    assert_eq!(near.daemon.relay.wait_log("next hop up: its checks succeed")["next_hop"], to[0].to_string());
}
