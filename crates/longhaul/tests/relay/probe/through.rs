//! Tests `longhaul path --tunnel`: the near daemon gives the connections, and the far relay answers. Nothing here depends on a rate: a cap
//! is checked by the bytes that pass, over a wide ratio.

use super::measure::{begun, document, ended, key, name, refused, stderr};
use crate::harness::*;
use crate::probe::verified::final_host;
use longhaul_core::wire::probe::{LENGTH, MAGIC};
use serde_json::Value;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;

const PROBE: &str = "[probe]\nmeasure_from = [\"127.0.0.0/8\"]\n";

/// Returns a far relay with these parts of its file.
fn far(head: &str, keys: &str) -> Watched {
    Setup { to: vec![final_host().to_string()], listen: "", head, keys }.start()
}

/// Returns a near relay with a tunnel to `far`.
fn near(far: &Watched, keys: &str) -> Watched {
    Watched::start_to(&[far.port.address()], keys)
}

/// Returns `longhaul path --tunnel one` of `near`, which sends little.
fn path(near: &Watched, flags: &[&str]) -> Command {
    let mut command = program();
    command.args(["path", "--tunnel", "one", "--admin"]).arg(near.socket());
    command.args(["--json", "--seconds", "5s", "--max-bytes", "4MB"]).args(flags);
    command
}

fn measured(near: &Watched, flags: &[&str]) -> Output {
    path(near, flags).output().unwrap()
}

/// Returns the bytes of the runs of `found` that arrived in `direction`, and their time in seconds.
fn arrived(found: &Value, direction: &str) -> (f64, f64) {
    let runs = found["runs"].as_array().unwrap().iter().filter(|run| run["direction"] == direction);
    let bytes = |run: &Value| run["series"].as_array().unwrap().last().map_or(0.0, |last| last[1].as_f64().unwrap());
    let each = runs.map(|run| (bytes(run), run["seconds"].as_f64().unwrap()));
    each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn a_tunnel_is_measured_between_its_relays() {
    let far = far(PROBE, "");
    let near = near(&far, "source = \"127.0.0.9\"");
    let output = measured(&near, &[]);
    let found = document(&output);
    assert_eq!((&found["complete"], &found["tunnel"]), (&true.into(), &"one".into()), "{found}");
    assert_eq!((&found["to"], &found["address"]), (&near.to[0].clone().into(), &near.to[0].clone().into()));
    assert!(found["command"].as_str().unwrap().starts_with("longhaul path --tunnel one "), "{found}");
    assert!(found["path_mtu"]["up"] == 65_535 && found["path_mtu"]["down"] == 65_535, "{found}");
    for direction in ["up", "down"] {
        assert!(arrived(&found, direction).0 > 0.0, "{found}");
    }
    // The daemon has dialled with the tunnel's source, and the far relay has measured with it.
    let line = far.daemon.relay.wait_log("measured");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.9:"), "{line}");
    near.daemon.relay.wait_log("the measurement through the tunnel has ended");
    assert_eq!(document(&measured(&near, &["--rfc6349"]))["complete"], true, "again");
}

/// As a server that is busy with another client: it sends a byte that is no text, and ends.
fn curt_host() -> SocketAddr {
    let server = server();
    let address = server.local_addr().unwrap();
    let say_no = |mut client: TcpStream| drop(client.write_all(b"\xff"));
    thread::spawn(move || server.incoming().for_each(|client| client.map(say_no).unwrap_or_default()));
    address
}

#[test]
fn a_final_host_that_speaks_and_ends_at_once_does_not_hide_the_far_relay() {
    for (accepts, sends) in [("", ""), ("proxy_in = \"any\"\nallow = [\"127.0.0.1\"]", "proxy_out = \"v2\"")] {
        let far = Setup { to: vec![curt_host().to_string()], listen: "", head: PROBE, keys: accepts }.start();
        let near = near(&far, sends);
        let found = document(&measured(&near, &[]));
        assert_eq!(found["complete"], true, "{found}");
    }
}

/// So no final host is faster. The kernel waits 200 ms for the bytes, which a near host that is very busy may miss: then it is tried again.
#[test]
fn the_preface_comes_with_the_end_of_the_handshake() {
    for (keys, header) in [("", 0), ("proxy_out = \"v2\"\n", 16)] {
        let far = server();
        let near = Watched::start_to(&[far.local_addr().unwrap()], &format!("{keys}verify_hops = 0"));
        let mut bytes = [0; 256];
        let (measuring, mut client, got) = (0..20)
            .find_map(|_| {
                let measuring = path(&near, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
                let mut client = accept(&far);
                client.set_nonblocking(true).unwrap();
                match client.read(&mut bytes) {
                    Ok(got) => Some((measuring, client, got)),
                    Err(_) => {
                        drop(client);
                        measuring.wait_with_output().unwrap();
                        None
                    }
                }
            })
            .expect("the preface was never there");
        assert_eq!((got - header, &bytes[header..][..MAGIC.len()]), (LENGTH, &MAGIC[..]));
        client.write_all(b"\xff\xfe").unwrap();
        drop(client);
        let found = document(&measuring.wait_with_output().unwrap());
        let said = found["notes"][0].as_str().unwrap();
        assert!(said.contains("sends bytes that are no text: ff fe in hexadecimal, and ends"), "{said}");
        assert!(said.contains("or the server behind the far longhaul's tunnel was faster"), "{said}");
    }
}

#[test]
fn a_measurement_stays_in_its_half_of_the_cap_and_a_flow_beside_it_is_whole() {
    let (far, server) = (far(PROBE, ""), server());
    // The kernel paces from the eleventh segment on, and those of loopback are long.
    let (bandwidth, mss) = ("bandwidth = \"16Mbit/s\"", "dial = { mss = 1400 }");
    let (port, other) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let head = format!("{bandwidth}\n[admin]\nsocket = \"{}\"\n", socket.display());
    let text = head
        + &tunnel_to("one", port.address(), &[far.port.address()], mss)
        + &tunnel("two", other.address(), &server, "");
    let daemon = Daemon::start(&text);
    let bytes = pattern(5, 3_000_000);
    let (client, end) = (dial(&other), accept(&server));
    let output = thread::scope(|scope| {
        scope.spawn(|| send_all(&client, &bytes));
        let reading = scope.spawn(|| assert_whole(&end, &bytes));
        let mut command = program();
        command.args(["path", "--tunnel", "one", "--json", "--seconds", "8s", "--admin"]).arg(&socket);
        let output = command.output().unwrap();
        reading.join().unwrap();
        output
    });
    let said = stderr(&output);
    assert!(said.contains("8Mbit/s at most: half of the daemon's bandwidth, 16Mbit/s"), "{said}");
    let found = document(&output);
    for direction in ["up", "down"] {
        let (bytes, seconds) = arrived(&found, direction);
        // 1 MB a second. A run lasts longer than it was asked to on a busy machine, and its beginning is a burst.
        assert!(bytes > 0.0 && bytes < seconds * 3e6 + 3e6, "{direction}: {bytes} in {seconds} s");
    }
    assert!(found["notes"].to_string().contains("half of the daemon's bandwidth"), "{found}");
    drop(daemon);
}

#[test]
fn a_lower_limit_of_the_command_line_holds() {
    let far = far(PROBE, "");
    let near = near(&far, "flow_bandwidth = \"40Mbit/s\"");
    let output = measured(&near, &["--limit", "10Mbit/s"]);
    assert!(stderr(&output).contains("10Mbit/s at most"), "{}", stderr(&output));
    assert!(!document(&output)["notes"].to_string().contains("flow_bandwidth"));
    let said = stderr(&measured(&near, &["--limit", "1Gbit/s"]));
    assert!(said.contains("40Mbit/s at most: the tunnel's flow_bandwidth"), "{said}");
}

#[test]
fn the_daemon_proves_its_key() {
    let (_folder, right) = key(b"0123456789abcdef");
    let (_other, wrong) = key(b"fedcba9876543210");
    let with = |file| format!("[probe]\nkey_file = \"{}\"\n", name(file));
    let far = far(&with(&right), "");
    let near = near(&far, "");
    let said = refused(&measured(&near, &[]));
    assert!(said.contains("wants a key: write the same `[probe] key_file` in the file of this daemon"), "{said}");
    assert_eq!(document(&measured(&near, &["--key-file", name(&right)]))["complete"], true);
    near.reload_with(&with(&wrong), "");
    let said = refused(&measured(&near, &[]));
    assert!(said.contains("the key is wrong"), "{said}");
    near.reload_with(&with(&right), "");
    assert_eq!(document(&measured(&near, &[]))["complete"], true);
}

#[test]
fn a_proxy_header_comes_before_the_session() {
    for version in ["v1", "v2"] {
        let far = far(PROBE, "proxy_in = \"any\"\nallow = [\"127.0.0.1\"]");
        let near = near(&far, &format!("proxy_out = \"{version}\""));
        assert_eq!(document(&measured(&near, &[]))["complete"], true, "{version}");
    }
}

#[test]
fn of_several_next_hops_the_one_in_use_is_measured_and_named() {
    let (far, nobody) = (far(PROBE, ""), Port::reserve("127.0.0.1"));
    let near = Watched::start_to(&[nobody.address(), far.port.address()], "");
    let output = measured(&near, &[]);
    let said = stderr(&output);
    let used = far.port.address().to_string();
    assert!(said.contains(&format!("tunnel one has 2 next hops; a flow would have {used} now")), "{said}");
    assert_eq!(document(&output)["address"], used);
}

#[test]
fn each_refusal_says_what_to_do() {
    let far = far("", "");
    let near = near(&far, "");
    let said = refused(&measured(&near, &[]));
    let remedy = "measure_from`; in its longhaul.toml, write `measure_from = [\"127.0.0.1\"]` below `[probe]`";
    assert!(said.contains(remedy), "{said}");

    let asked = |tunnel: &str| near.command(&["path", "--tunnel", tunnel]);
    let said = refused(&asked("onee"));
    assert!(said.contains("the daemon has no tunnel `onee`; did you mean `one`?"), "{said}");
    let said = refused(&asked("elsewhere"));
    assert!(said.contains("it has: one"), "{said}");

    let no_daemon = program().args(["path", "--tunnel", "one", "--admin", "/nonexistent/admin.sock"]).output().unwrap();
    let said = refused(&no_daemon);
    assert!(said.contains("no daemon at /nonexistent/admin.sock: start it"), "{said}");

    let usage = |args: &[&str]| {
        let output = program().arg("path").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(usage(&["127.0.0.1:1", "--admin", "/x"]).contains("write --tunnel"));
    assert!(usage(&["127.0.0.1:1", "--tunnel", "one"]).contains("cannot be used with"));
    assert!(usage(&["--tunnel", "a b"]).contains("letters, digits"));

    let nobody = Port::reserve("127.0.0.1");
    let lost = Watched::start_to(&[nobody.address()], "");
    let said = refused(&measured(&lost, &[]));
    assert!(said.contains("no next hop of tunnel `one` answers") && said.contains("refused"), "{said}");
    // Nothing is left of it.
    let said = refused(&measured(&lost, &[]));
    assert!(said.contains("no next hop of tunnel `one` answers"), "{said}");
    let (code, body) = near.get("/measure");
    assert!(code == 405, "{code} {body}");
}

#[test]
fn without_longhaul_at_the_next_hop_one_end_is_measured() {
    let near = Watched::start_to(&[final_host()], "verify_hops = 0");
    let found = document(&measured(&near, &[]));
    assert!(found["notes"].to_string().contains("longhaul responder"), "{found}");
    assert!(found["rate_mbps"]["up"].is_null() && found["tunnel"] == "one", "{found}");
}

/// Starts a slow measurement, and waits until it has found the path MTU.
fn measuring(near: &Watched, limit: &str) -> (Child, BufReader<ChildStderr>) {
    begun(path(near, &["--limit", limit]), "path MTU")
}

/// Waits for the end of `measuring`. Returns why it ended before its time.
fn why_ended(measuring: Child, stderr: BufReader<ChildStderr>) -> String {
    let (output, found) = ended(measuring, stderr);
    assert_eq!((output.status.code(), &found["complete"]), (Some(1), &false.into()), "{found}");
    found["ended"].as_str().unwrap().into()
}

#[test]
fn a_second_measurement_is_refused_by_name_and_a_reload_ends_the_first() {
    let far = far(PROBE, "");
    let mut near = near(&far, "");
    let (first, its_stderr) = measuring(&near, "1Mbit/s");
    let said = refused(&measured(&near, &[]));
    assert!(said.contains("another `longhaul path` measures through tunnel `one` at the moment"), "{said}");
    // A reload without a change leaves it alone, one of the tunnel does not.
    near.reload("");
    near.reload("bandwidth = \"1Gbit/s\"");
    assert_eq!(why_ended(first, its_stderr), "a reload has changed tunnel `one`");

    let (second, its_stderr) = measuring(&near, "1Mbit/s");
    near.kill();
    assert_eq!(why_ended(second, its_stderr), "the daemon has ended");
}

/// Whether a connection to `port` of 127.0.0.1 waits for the answer to its SYN (TCP_SYN_SENT in proc_net_tcp(5)).
fn is_dialled(port: u16) -> bool {
    fs::read_to_string("/proc/net/tcp").unwrap().contains(&format!("0100007F:{port:04X} 02"))
}

#[test]
fn a_program_that_goes_away_during_a_dial_keeps_nobody_out() {
    let silent = Silent::new();
    let (address, port) = (silent.address(), silent.address().port());
    let near = Watched::start_to(&[address], "connect_timeout = \"10min\"");
    let begin = || {
        let mut measuring = path(&near, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let has_begun = wait_for("it is dialled, or refused", || match is_dialled(port) {
            true => Ok(true),
            false => measuring.try_wait().unwrap().map(|_| false).ok_or("neither"),
        });
        if has_begun { Ok(measuring) } else { Err(refused(&measuring.wait_with_output().unwrap())) }
    };
    let first = begin().unwrap();
    let said = refused(&measured(&near, &[]));
    assert!(said.contains("another `longhaul path` measures through tunnel `one`"), "{said}");
    Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(refused(&first.wait_with_output().unwrap()).contains("interrupted"));
    wait_until("the dial has ended", || !is_dialled(port));

    // The daemon forgets the measurement a moment after the dial.
    let second = wait_for("a second one", begin);
    near.reload("connect_timeout = \"9min\"");
    let said = refused(&second.wait_with_output().unwrap());
    assert!(said.contains("a reload has changed tunnel `one`"), "{said}");
    wait_until("the dial has ended", || !is_dialled(port));
    drop(Running(wait_for("a third one", begin)));
}

#[test]
fn a_daemon_that_hangs_is_noticed_by_the_time_of_a_dial() {
    let far = far(PROBE, "");
    let near = near(&far, "connect_timeout = \"100ms\"");
    let (measuring, its_stderr) = measuring(&near, "1Mbit/s");
    near.daemon.relay.stop();
    assert_eq!(why_ended(measuring, its_stderr), "the daemon does not answer; it hangs or is stopped");
    near.daemon.relay.signal("CONT");
}

#[test]
fn a_removed_tunnel_ends_its_measurement() {
    let far = far(PROBE, "");
    let near = near(&far, "");
    let (first, its_stderr) = measuring(&near, "1Mbit/s");
    let text = near.text("", "").replace("name = \"one\"", "name = \"two\"");
    assert_eq!(near.daemon.reload(&text)["message"], "reloaded");
    assert_eq!(why_ended(first, its_stderr), "a reload has removed tunnel `one`");
}

#[test]
fn a_measurement_takes_its_part_from_the_cap_of_the_flows_and_gives_it_back() {
    let far = far(PROBE, "");
    let near = near(&far, "bandwidth = \"16Mbit/s\"");
    let _client = dial(&near.port);
    let cap = || near.status()["flows"][0]["dial"]["cap_bits_per_second"].as_f64().unwrap_or_default() / 1e6;
    wait_for_value("the whole cap", cap, |cap| (14.0..18.0).contains(cap));
    let (first, its_stderr) = measuring(&near, "6Mbit/s");
    wait_for_value("the rest", cap, |cap| (9.0..11.0).contains(cap));
    Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert_eq!(why_ended(first, its_stderr), "interrupted");
    near.daemon.relay.wait_log("the measurement through the tunnel has ended");
    wait_for_value("the whole cap", cap, |cap| (14.0..18.0).contains(cap));
    assert_eq!(document(&measured(&near, &[]))["complete"], true);
}
