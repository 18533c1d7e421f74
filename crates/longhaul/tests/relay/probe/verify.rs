//! Tests `longhaul verify` and the relays that answer it: a whole path, each stage broken, bad prefaces, and payload that
//! looks like a preface. The final host records every byte that it gets.

use crate::harness::*;
use longhaul_core::wire::answer::{Dial, Frame, Frames, Next, Receipt, Report};
use longhaul_core::wire::probe::{LENGTH, MAGIC, MAX_ECHO_BYTES, Preface, read};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Runs `longhaul verify` for a tunnel that listens on `near`, with `keys` in its table.
fn verify(near: SocketAddr, keys: &str, flags: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("longhaul.toml");
    // The prober does not dial the next hop, so any will do.
    std::fs::write(&file, tunnel_to("t", near, &["192.0.2.1:1"], keys)).unwrap();
    program().args(["verify", "t", "--size", "200kB", "-c"]).arg(&file).args(flags).output().unwrap()
}

/// Runs `longhaul verify --json`; returns the exit code and the tunnel's part of the document.
pub(crate) fn verdict(near: SocketAddr, keys: &str, flags: &[&str]) -> (Option<i32>, Value) {
    let output = verify(near, keys, &[&["--json"], flags].concat());
    let mut document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {output:?}"));
    (output.status.code(), document["tunnels"][0].take())
}

/// Asserts that `longhaul verify` names `stage` and `kind` and exits with `code`.
fn ends_at(near: SocketAddr, keys: &str, flags: &[&str], want: (i32, &str, &str)) -> String {
    let (code, found) = verdict(near, keys, flags);
    let text = |key: &str| found[key].as_str().unwrap_or_else(|| panic!("{found}")).to_owned();
    assert_eq!((code, &*text("stage"), &*text("cause")), (Some(want.0), want.1, want.2), "{found}");
    text("why")
}

/// The bytes of a connection, and its ending.
type Seen = (Vec<u8>, Ending);

/// A final host. Speaks first if there is a `banner`. Its thread returns the bytes of each of `count` connections, and how
/// each ended.
fn final_host(banner: &'static [u8], count: usize) -> (SocketAddr, JoinHandle<Vec<Seen>>) {
    let server = server();
    let address = server.local_addr().unwrap();
    let one = move |server: &TcpListener| {
        let mut socket = patient(server.accept().expect("the relay dials").0);
        // A relay that refuses a probe may have reset the connection already.
        let _ = socket.write_all(banner);
        read_to_end(&socket)
    };
    (address, spawn(move || (0..count).map(|_| one(&server)).collect()))
}

#[test]
fn a_whole_path_is_whole_and_the_final_host_sees_only_a_connection() {
    for banner in [&b""[..], b"SSH-2.0-test\r\n"] {
        let (host, seen) = final_host(banner, 3);
        let Hop { relay: far, port: far_port } = Hop::new(&[host], &["--verify-hops", "0"]);
        let Hop { relay: near, port: near_port } = Hop::new(&[far_port.address()], &[]);
        let (code, found) = verdict(near_port.address(), "", &[]);
        assert_eq!((code, &found["verdict"]), (Some(0), &"whole".into()), "{found}");
        let stages: Vec<_> = found["relays"].as_array().unwrap().iter().map(|relay| relay["stage"].clone()).collect();
        assert_eq!(stages, ["near relay", "far relay"]);
        assert_eq!(found["relays"][0]["next_hop"], far_port.address().to_string());
        assert_eq!((&found["relays"][1]["dial"], &found["echo"]["bytes"]), (&"connected".into(), &200_000.into()));
        let text = verify(near_port.address(), "", &[]);
        let text = String::from_utf8(text.stdout).unwrap();
        for part in ["t: whole\n", "  near relay  ", "  WAN  ", "  far relay  ", "  final host  ", "CRC-32C"] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        let line = verify(near_port.address(), "", &["--nagios"]);
        assert_eq!(line.status.code(), Some(0));
        assert!(line.stdout.starts_with(b"longhaul OK - t: whole |"), "{line:?}");
        assert_eq!(seen.join().unwrap(), vec![(Vec::new(), Ending::Fin); 3]);
        for relay in [near, far] {
            let counters = relay.counters();
            assert_eq!((&counters["probes"], &counters["probes_refused"]), (&3.into(), &0.into()));
        }
    }
}

#[test]
fn one_relay_and_three_in_a_row_are_whole() {
    let (host, seen) = final_host(b"", 2);
    let Hop { relay: _last, port: last } = Hop::new(&[host], &["--verify-hops", "0"]);
    assert_eq!(verdict(last.address(), "verify_hops = 0", &[]).0, Some(0));
    let Hop { relay: _middle, port: middle } = Hop::new(&[last.address()], &["--verify-hops", "1"]);
    let Hop { relay: _near, port: near } = Hop::new(&[middle.address()], &["--verify-hops", "2"]);
    let (code, found) = verdict(near.address(), "verify_hops = 2", &[]);
    assert_eq!((code, found["relays"][1]["stage"].as_str()), (Some(0), Some("relay 2")), "{found}");
    assert_eq!(seen.join().unwrap(), vec![(Vec::new(), Ending::Fin); 2]);
}

#[test]
fn a_broken_stage_is_named() {
    let nobody = Port::reserve("127.0.0.1");
    let silent = Silent::new();
    let quick = ["--connect-timeout", "300ms"];

    ends_at(nobody.address(), "", &[], (1, "near relay", "refused"));
    let Hop { relay: _near, port: near } = Hop::new(&[nobody.address()], &[]);
    let why = ends_at(near.address(), "", &[], (1, "far relay", "refused"));
    assert!(why.contains("ECONNREFUSED"), "{why}");
    let Hop { relay: _near, port: near } = Hop::new(&[silent.address()], &quick);
    // The host of the silent port answers otherwise.
    ends_at(near.address(), "", &[], (1, "far relay", "no answer"));
    let nagios = verify(near.address(), "", &["--nagios"]);
    assert_eq!(nagios.status.code(), Some(2));
    let line = String::from_utf8_lossy(&nagios.stdout);
    assert!(line.starts_with("longhaul CRITICAL - t: BROKEN at the far relay: no answer: "), "{line}");
    assert!(line.contains(&silent.address().to_string()) && line.lines().count() == 1, "the reason: {line}");

    // Nagios shows only stdout.
    let unknown = verify(near.address(), "", &["--nagios", "--key-file", "/nonexistent.key"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(unknown.stdout.starts_with(b"longhaul UNKNOWN - key file /nonexistent.key"), "{unknown:?}");

    let Hop { relay: _far, port: far } = Hop::new(&[nobody.address()], &["--verify-hops", "0"]);
    let Hop { relay: _near, port: near } = Hop::new(&[far.address()], &[]);
    ends_at(near.address(), "", &[], (1, "final host", "refused"));
    let Hop { relay: _far, port: far } = Hop::new(&[silent.address()], &["--verify-hops", "0", quick[0], quick[1]]);
    let Hop { relay: _near, port: near } = Hop::new(&[far.address()], &[]);
    ends_at(near.address(), "", &[], (1, "final host", "no answer"));
}

#[test]
fn a_relay_that_is_stopped_or_killed_is_named() {
    let (host, _seen) = final_host(b"", 0);
    let Hop { relay: far, port: far_port } = Hop::new(&[host], &["--verify-hops", "0"]);
    let Hop { relay: near, port: near_port } = Hop::new(&[far_port.address()], &[]);
    let short = ["--timeout", "1s"];
    // Its kernel still accepts, so that it could also be somebody who does not know probes.
    far.stop();
    ends_at(near_port.address(), "", &short, (3, "far relay", "no answer"));
    drop(far);
    ends_at(near_port.address(), "", &[], (1, "far relay", "refused"));
    near.stop();
    let why = ends_at(near_port.address(), "", &short, (3, "near relay", "no answer"));
    assert!(why.contains("the tunnel may be full (`max_flows`), or its dials take longer"), "{why}");
    drop(near);
    ends_at(near_port.address(), "", &[], (1, "near relay", "refused"));
}

#[test]
fn a_prober_that_is_not_allowed_cannot_tell() {
    let (host, _seen) = final_host(b"", 0);
    let Hop { relay: _near, port: near } = Hop::new(&[host], &["--allow", "192.0.2.0/24"]);
    let why = ends_at(near.address(), "allow = \"192.0.2.0/24\"", &[], (3, "near relay", "failed"));
    assert!(why.contains("`allow` does not contain 127.0.0.1"), "{why}");
}

/// Its reset may come before the preface, and must not be taken for one of the near relay.
#[test]
fn a_far_relay_that_does_not_allow_the_near_relay_is_named() {
    let (host, _seen) = final_host(b"", 0);
    let Hop { relay: _far, port: far } = Hop::new(&[host], &["--verify-hops", "0", "--allow", "192.0.2.0/24"]);
    let Hop { relay: _near, port: near } = Hop::new(&[far.address()], &[]);
    for _ in 0..15 {
        ends_at(near.address(), "", &[], (1, "far relay", "failed"));
    }
}

/// The prober sends a header that names no client.
#[test]
fn a_tunnel_with_proxy_in_is_verified() {
    let (host, seen) = final_host(b"", 3);
    for accepts in ["v1", "v2", "any"] {
        let flags = ["--verify-hops", "0", "--allow", "127.0.0.1", "--proxy-in", accepts];
        let Hop { relay, port } = Hop::new(&[host], &flags);
        let keys = format!("verify_hops = 0\nallow = \"127.0.0.1\"\nproxy_in = \"{accepts}\"");
        let (code, found) = verdict(port.address(), &keys, &[]);
        assert_eq!(code, Some(0), "{accepts}: {found}");
        assert_eq!(relay.counters()["bad_proxy_headers"], 0);
    }
    assert_eq!(seen.join().unwrap(), vec![(Vec::new(), Ending::Fin); 3]);
}

/// The near relay sends a header of its own before the preface that it passes on.
#[test]
fn a_far_relay_with_proxy_in_is_verified() {
    let (host, _seen) = final_host(b"", 1);
    let Hop { relay: _far, port: far } =
        Hop::new(&[host], &["--verify-hops", "0", "--allow", "127.0.0.1", "--proxy-in", "v2"]);
    let Hop { relay: _near, port: near } = Hop::new(&[far.address()], &["--proxy-out", "v2"]);
    let (code, found) = verdict(near.address(), "", &[]);
    assert_eq!(code, Some(0), "{found}");
}

/// Whoever is there does not know probes.
#[test]
fn nobody_can_tell_what_does_not_answer() {
    let (host, _seen) = final_host(b"220 ready\r\n", 1);
    let why = ends_at(host, "verify_hops = 0", &["--timeout", "1s"], (3, "relay", "no answer"));
    assert!(why.contains("something answers, but not to a probe"), "{why}");
}

#[test]
fn a_prober_without_a_free_port_cannot_tell() {
    in_own_network(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40001").unwrap(); // ip(7)
        let _taken = [40000, 40001].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        let why = ends_at("127.0.0.1:6000".parse().unwrap(), "", &[], (3, "near relay", "failed"));
        assert!(why.contains("no socket at 127.0.0.1: Address already in use"), "{why}");
    });
}

#[test]
fn what_cannot_be_verified_is_named_also_to_nagios() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let missing = folder.path().join("missing.toml").display().to_string();
    let wrong = file("wrong.toml", "[[tunnel]]\nname = \"t\"\nlisten = \"nowhere\"\nto = \"nothing\"\n");
    let good = file("good.toml", &tunnel_to("t", "127.0.0.1:6000", &["192.0.2.1:1"], ""));
    for (file, tunnel, said) in [
        (&missing, "t", &["No such file"][..]),
        (&wrong, "t", &["listen", "1 more error"]),
        (&good, "nosuch", &["has no tunnel `nosuch`; it has: t"]),
    ] {
        let output = |flags: &[&str]| program().args(["verify", tunnel, "-c", file]).args(flags).output().unwrap();
        let (plain, nagios) = (output(&[]), output(&["--nagios"]));
        assert_eq!((plain.status.code(), nagios.status.code()), (Some(2), Some(3)), "{plain:?}");
        let line = stdout(&nagios);
        assert!(line.starts_with(&format!("longhaul UNKNOWN - {file}")), "{line}");
        assert!(said.iter().all(|part| line.contains(part)), "{line}");
    }
}

/// Reads the preface of a prober that connects to `server`, and sends the report of a relay that has dialled so.
pub(crate) fn report_to(server: &TcpListener, dial: Dial, next: Next) -> (TcpStream, Report) {
    let mut socket = accept(server);
    let mut first = [0; LENGTH];
    socket.read_exact(&mut first).unwrap();
    let Ok(Some(Preface { nonce, echo_bytes, .. })) = read(&first) else { panic!("no preface") };
    let report = Report {
        nonce,
        hops: 0,
        dial,
        next,
        clock_us: 0,
        dial_us: 0,
        rtt_us: 0,
        echo_bytes,
        name: "far".into(),
        version: "1".into(),
        next_hop: String::new(),
        why: String::new(),
    };
    socket.write_all(&Frame::Report(report.clone()).bytes()).unwrap();
    (socket, report)
}

/// Like [`report_to`], of a relay that echoes.
fn begin_an_echo(server: &TcpListener) -> (TcpStream, Report) {
    report_to(server, Dial::Connected, Next::Echo)
}

/// A far relay may take away the place of a probe that is slow. The path is not broken then.
#[test]
fn a_relay_that_stops_its_echo_is_not_broken() {
    // In the middle of the payload, and so late that the report is longer than the rest of it.
    for echoed in [5000, 199_990] {
        let server = server();
        let address = server.local_addr().unwrap();
        spawn(move || {
            let (mut socket, report) = begin_an_echo(&server);
            let mut byte = [0; 1];
            for _ in 0..echoed {
                socket.read_exact(&mut byte).and_then(|()| socket.write_all(&byte)).unwrap();
            }
            send_all(&socket, &Frame::Report(Report { next: Next::Busy, ..report }).bytes());
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let why = ends_at(address, "verify_hops = 0", &[], (3, "relay", "failed"));
        assert!(why.contains("it stopped its echo"), "{why}");
    }
}

/// A relay that ends the probe waits for FIN, so that its close discards nothing.
#[test]
fn a_finished_probe_ends_with_fin_and_an_unfinished_one_with_a_reset() {
    let server = server();
    let address = server.local_addr().unwrap();
    let of_probe = |flags: &[&str], code, answer: fn(&TcpListener) -> TcpStream| {
        let server = server.try_clone().unwrap();
        let relay = spawn(move || read_to_end(&answer(&server)).1);
        assert_eq!(verdict(address, "verify_hops = 0", flags).0, Some(code));
        relay.join().unwrap()
    };
    let echoes = |server: &TcpListener| {
        let (mut socket, report) = begin_an_echo(server);
        let (mut left, mut checksum, mut buffer) = (report.echo_bytes as usize, 0, [0; 4096]);
        while left > 0 {
            let got = socket.read(&mut buffer).unwrap();
            socket.write_all(&buffer[..got]).unwrap();
            checksum = crc32c::crc32c_append(checksum, &buffer[..got]);
            left -= got;
        }
        let receipt = Receipt { nonce: report.nonce, bytes: report.echo_bytes, checksum, time_us: 0 };
        socket.write_all(&Frame::Receipt(receipt).bytes()).unwrap();
        socket
    };
    let fails = |server: &TcpListener| report_to(server, Dial::Refused, Next::DialFailed).0;
    assert_eq!([of_probe(&[], 0, echoes), of_probe(&[], 1, fails)], [Ending::Fin; 2]);
    assert_eq!(of_probe(&["--timeout", "300ms"], 3, accept), Ending::Reset);
    assert_eq!(of_probe(&["--timeout", "3s"], 1, |server| begin_an_echo(server).0), Ending::Reset);
}

/// Every dial counts against the next hop, so a probe makes one. In a network of its own, where no relay of another test dials a port
/// that was free a moment ago.
#[test]
fn a_probe_whose_dial_failed_makes_no_other_dial() {
    in_own_network(|| {
        // To connect to a broadcast address fails at once, and not by a refusal.
        for host in ["255.255.255.255:1".parse().unwrap(), Port::reserve("127.0.0.1").address()] {
            let Hop { relay: near, port: near_port } = Hop::new(&[host], &[]);
            assert_eq!(verdict(near_port.address(), "", &[]).0, Some(1));
            // The flow ends after the prober has its answer.
            let has_ended = |counters: &Value| counters["flows_now"] == 0;
            let counters = wait_for_value("its flow has ended", || near.counters(), has_ended);
            assert_eq!(
                (&counters["accepted"], &counters["dials_failed"]),
                (&1.into(), &1.into()),
                "{host}: {counters}"
            );
        }
    });
}

/// Connects to `to` and sends `bytes`.
fn send(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut client = patient(TcpStream::connect(to).unwrap());
    client.write_all(bytes).unwrap();
    client
}

/// Reads up to the end of the first frame.
pub(crate) fn frame(mut socket: &TcpStream) -> Frame {
    let (mut frames, mut byte) = (Frames::default(), [0]);
    loop {
        socket.read_exact(&mut byte).unwrap();
        if let Some(frame) = frames.take(byte[0]).unwrap() {
            return frame;
        }
    }
}

/// Reads up to the first frame, which must be a report.
pub(crate) fn report(socket: &TcpStream) -> Report {
    let Frame::Report(report) = frame(socket) else { panic!("no report") };
    report
}

pub(crate) fn preface(hops: u8) -> Preface {
    Preface { hops, echo_bytes: 1000, nonce: *b"0123456789abcdef" }
}

#[test]
fn a_bad_preface_is_reset_and_never_reaches_the_final_host() {
    let good = preface(0).bytes();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        bytes
    };
    let bad = [
        [&good[..], b"more"].concat(),                                           // oversized
        [&good[..], &pattern(1, 100_000)].concat(),                              // more than one read
        changed(16, 2),                                                          // version
        changed(20, 0xff),                                                       // checksum
        Preface { echo_bytes: MAX_ECHO_BYTES + 1, ..preface(0) }.bytes().into(), // out of range
        [&MAGIC[..], &pattern(2, 5000)].concat(),                                // garbage
        MAGIC.into(),                                                            // truncated
        good[..LENGTH - 1].into(),
    ];
    let garbage = (0..1000).map(|len| [&MAGIC[..], &pattern(len, len as usize)].concat());
    let bad: Vec<Vec<u8>> = bad.into_iter().chain(garbage).collect();
    let (host, seen) = final_host(b"", bad.len());
    let Hop { relay, port } = Hop::new(&[host], &["--verify-hops", "0"]);
    let open = relay.descriptors().len();
    for bytes in &bad {
        let mut client = dial(&port);
        // The reset may come while the client sends.
        let _ = client.write_all(bytes).and_then(|()| client.shutdown(Shutdown::Write));
        let mut got = Vec::new();
        assert!(is_reset(&client.read_to_end(&mut got).unwrap_err()) && got.is_empty(), "{bytes:?}");
    }
    for (bytes, _) in seen.join().unwrap() {
        assert_eq!(bytes, b"");
    }
    assert_eq!(relay.wait_log("probe refused")["why"], "a preface with bytes behind it (52 bytes)");
    let counters = relay.counters();
    assert_eq!((&counters["probes_refused"], &counters["probes"]), (&bad.len().into(), &0.into()));
    wait_until("every flow has ended", || relay.counters()["refused_probe_flows"] == bad.len());
    assert_eq!(relay.counters()["leg_failed"], 0);
    wait_until("every descriptor is closed", || relay.descriptors().len() <= open);
}

#[test]
fn payload_that_begins_like_a_preface_arrives_byte_for_byte() {
    let (host, seen) = final_host(b"", 3 * (MAGIC.len() - 1));
    let Hop { relay, port } = Hop::new(&[host], &[]);
    let mut sent = Vec::new();
    for known in 1..MAGIC.len() {
        let prefix = &MAGIC[..known];
        let other = [prefix, b"!", &pattern(known as u64, 70_000)].concat();
        for bytes in [prefix, &other] {
            send(port.address(), bytes).shutdown(Shutdown::Write).unwrap();
            sent.push(bytes.to_vec());
            relay.flow_end();
        }
        // In two pieces: the relay waits for the second one.
        let client = send(port.address(), prefix);
        send_all(&client, &other[known..]);
        sent.push(other);
        relay.flow_end();
    }
    let got: Vec<_> = seen.join().unwrap().into_iter().map(|(bytes, _)| bytes).collect();
    for (got, sent) in got.iter().zip(&sent) {
        assert_same(got, sent);
    }
    assert_eq!((got.len(), &relay.counters()["probes_refused"]), (sent.len(), &0.into()));
}

/// A client that sends a part of the magic and then waits is not left waiting, and a reset still comes behind its bytes.
#[test]
fn a_prefix_is_held_back_for_a_moment_only() {
    let server = server();
    let Hop { relay: _relay, port } = Hop::new(&[server.local_addr().unwrap()], &[]);
    let mut client = send(port.address(), &MAGIC[..5]);
    let mut accepted = patient(server.accept().unwrap().0);
    // The other direction does not wait.
    accepted.write_all(b"banner").unwrap();
    client.read_exact(&mut [0; 6]).unwrap();
    let mut got = [0; 5];
    accepted.read_exact(&mut got).unwrap();
    assert_eq!(got, MAGIC[..5]);
    talk(&client, &accepted);

    let mut client = patient(TcpStream::connect(port.address()).unwrap());
    let mut accepted = patient(server.accept().unwrap().0);
    // Once this byte has come, the flow is carried. A reset before that would end the dial.
    accepted.write_all(b"!").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client.write_all(&MAGIC[..5]).unwrap();
    reset(client);
    assert_eq!(read_to_end(&accepted), (MAGIC[..5].to_vec(), Ending::Reset));
}

#[test]
fn the_last_relay_answers_even_if_there_are_hops_to_go() {
    let (host, seen) = final_host(b"banner", 1);
    let Hop { relay: _relay, port } = Hop::new(&[host], &["--verify-hops", "0"]);
    let client = send(port.address(), &preface(8).bytes());
    let Report { hops, dial, next, echo_bytes, nonce, .. } = report(&client);
    assert_eq!((hops, dial, next, echo_bytes), (8, Dial::Connected, Next::Echo, 1000));
    assert_eq!(nonce, preface(8).nonce);
    drop(client);
    assert_eq!(seen.join().unwrap(), [(Vec::new(), Ending::Fin)]);
}

/// Many servers log a reset as an error. This one has refused the connection, so no report can be passed back.
#[test]
fn a_final_host_that_ended_before_the_preface_sees_a_connection_that_ends() {
    let server = server();
    let Hop { relay: _relay, port } = Hop::new(&[server.local_addr().unwrap()], &["--verify-hops", "1"]);
    let client = patient(TcpStream::connect(port.address()).unwrap());
    let refuses = accept(&server);
    refuses.shutdown(Shutdown::Write).unwrap();
    assert_eq!((&client).read(&mut [0]).unwrap(), 0, "the FIN has passed");
    (&client).write_all(&preface(1).bytes()).unwrap();
    assert_eq!(read_to_end(&refuses), (Vec::new(), Ending::Fin));
}

#[test]
fn verify_final_false_leaves_the_final_host_alone() {
    let server = server();
    let Hop { relay, port } = Hop::new(&[server.local_addr().unwrap()], &["--verify-hops", "0", "--no-verify-final"]);
    // While the relay is stopped, the preface arrives before the relay looks.
    relay.stop();
    let client = send(port.address(), &preface(0).bytes());
    relay.signal("CONT");
    assert_eq!(report(&client).dial, Dial::NotDialled);
    assert_not_dialled(&server);
    talk(&dial(&port), &accept(&server));
}

/// A relay that says nothing would look broken.
#[test]
fn a_prober_over_the_limit_is_told_so_although_the_dial_has_failed() {
    const COUNT: usize = 300;
    let nobody = Port::reserve("127.0.0.1");
    let hop = Hop::new(&[nobody.address()], &["--verify-hops", "1"]);
    let probes = at_once(&hop, COUNT, 1);
    let mut busy = 0;
    for probe in &probes {
        let next = report(probe).next;
        assert!(matches!(next, Next::DialFailed | Next::Busy), "{next:?}");
        busy += usize::from(next == Next::Busy);
        assert_eq!(read_to_end(probe), (Vec::new(), Ending::Fin));
    }
    assert!(busy > 0 && busy < COUNT, "{busy}");
    let counters = hop.relay.counters();
    assert_eq!((&counters["probes"], &counters["probes_refused"]), (&(COUNT - busy).into(), &busy.into()));
}

/// Sends `count` probes, whose prefaces have all arrived before the relay looks.
fn at_once(Hop { relay, port }: &Hop, count: usize, hops: u8) -> Vec<TcpStream> {
    relay.stop();
    let probes = (0..count).map(|_| send(port.address(), &preface(hops).bytes())).collect();
    relay.signal("CONT");
    probes
}

/// The last relay answers them itself, so they cost no more than others.
#[test]
fn as_many_probers_hear_of_a_failed_dial_as_have_places() {
    const OF_A_SOURCE: usize = 16;
    let nobody = Port::reserve("127.0.0.1");
    let hop = Hop::new(&[nobody.address()], &["--verify-hops", "0"]);
    for probe in &at_once(&hop, OF_A_SOURCE, 0) {
        assert_eq!(report(probe).next, Next::DialFailed);
    }
}

/// A prober that sends no payload keeps its place only until somebody else wants it.
#[test]
fn probes_at_the_same_time_are_bounded_and_idle_ones_keep_nobody_out() {
    const OF_A_SOURCE: usize = 16;
    let server = server();
    let Hop { relay, port } = Hop::new(&[server.local_addr().unwrap()], &["--verify-hops", "0"]);
    let begin = || {
        let probe = send(port.address(), &preface(0).bytes());
        assert_eq!(report(&probe).next, Next::Echo);
        probe
    };
    let idle: Vec<_> = (0..OF_A_SOURCE).map(|_| begin()).collect();
    // An ordinary client is not concerned.
    talk(&patient(TcpStream::connect(port.address()).unwrap()), &last_accepted(&server, OF_A_SOURCE + 1));
    let is_answered = || {
        let (code, found) = verdict(port.address(), "verify_hops = 0", &[]);
        if code != Some(0) {
            assert!(code == Some(3) && found["why"].as_str().unwrap().contains("no more probes"), "{found}");
            quiet_for(&idle[OF_A_SOURCE - 1], Duration::from_millis(200));
        }
        code == Some(0)
    };
    assert!((0..100).any(|_| is_answered()), "idle probes hold every place");
    // Slow is not broken: it is told so.
    assert_eq!(report(&idle[0]).next, Next::Busy);
    assert_eq!(read_to_end(&idle[0]), (Vec::new(), Ending::Fin));
    quiet_for(&idle[OF_A_SOURCE - 1], Duration::from_millis(1));
    assert_eq!(relay.counters()["cut"], 0);
}

/// Accepts `count` connections; returns the last one.
fn last_accepted(server: &TcpListener, count: usize) -> TcpStream {
    let mut accepted: Vec<_> = (0..count).map(|_| server.accept().expect("the relay dials").0).collect();
    patient(accepted.pop().unwrap())
}
