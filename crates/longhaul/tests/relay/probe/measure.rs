//! Tests `longhaul path`, and who answers it: `longhaul responder`, relays with `[probe] measure_from` or a key, and everybody else.
//! Nothing here depends on a rate: benches/path measures paths in the lab.

use crate::harness::*;
use crate::probe::verified::final_host;
use longhaul_core::wire::answer::{Dial, Frame, Next, Report};
use longhaul_core::wire::measure;
use longhaul_core::wire::probe::{self, LENGTH};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use tempfile::TempDir;

/// A `longhaul responder` on a port of its own.
struct Responder {
    process: Running,
    address: SocketAddr,
    stderr: BufReader<ChildStderr>,
    _port: Port,
}

impl Responder {
    fn start(flags: &[&str]) -> Responder {
        let mut command = program();
        let port = Port::reserve("127.0.0.1");
        let address = port.address();
        command.args(["responder", "--listen", &address.to_string()]).args(flags).stderr(Stdio::piped());
        let mut process = Running(command.spawn().unwrap());
        let stderr = BufReader::new(process.0.stderr.take().unwrap());
        let mut responder = Responder { process, address, stderr, _port: port };
        assert!(responder.line().starts_with("answering measurements on"));
        responder
    }

    /// Returns the next line of its log.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }
}

/// Returns `longhaul path` to `address`, which sends little.
fn path(address: SocketAddr, flags: &[&str]) -> Command {
    let mut command = program();
    command.args(["path", &address.to_string(), "--json", "--seconds", "5s", "--max-bytes", "4MB"]).args(flags);
    command
}

/// Returns the document of `longhaul path`, after it has ended well.
pub(super) fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(super) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns what `longhaul path` says when it fails.
pub(super) fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    assert_eq!(stdout(output), "");
    stderr(output)
}

/// A folder with a key.
pub(super) fn key(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    (folder, file)
}

pub(super) fn name(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn a_path_to_a_responder_is_measured_in_both_directions() {
    let mut responder = Responder::start(&[]);
    let found = document(&path(responder.address, &[]).output().unwrap());
    assert_eq!((&found["longhaul"], &found["format"], &found["complete"]), (&"path".into(), &1.into(), &true.into()));
    assert!(found["rtt_ms"]["min"].as_f64().unwrap() >= 0.0);
    let directions = ["up", "down"];
    for direction in directions {
        assert_eq!(found["path_mtu"][direction], 65_535, "that of loopback");
        assert!(found["fragments_arrive"][direction].is_null(), "no packet is larger");
        let runs: Vec<&Value> =
            found["runs"].as_array().unwrap().iter().filter(|run| run["direction"] == direction).collect();
        assert!(runs.len() >= 2 && runs.iter().any(|run| run["connections"] == 8), "{runs:?}");
        for run in runs {
            assert!(run["received_bytes"].as_u64() <= run["sent_bytes"].as_u64() && run["sent_bytes"] != 0, "{run}");
        }
    }
    assert!(found["findings"].as_array().unwrap().iter().all(|finding| finding["leg"].is_null()));
    assert_eq!(responder.line(), "measured with 127.0.0.1\n");
    let sent: u64 = found["runs"].as_array().unwrap().iter().map(|run| run["sent_bytes"].as_u64().unwrap()).sum();
    assert!(sent <= 4_000_000, "--max-bytes bounds both directions together: {sent}");
}

#[test]
fn a_relay_answers_those_of_measure_from_and_those_with_the_key() {
    let (_folder, right) = key(b"0123456789abcdef");
    let (_other, wrong) = key(b"fedcba9876543210");
    let host = final_host();
    let with = |head: &str| Setup { to: vec![host.to_string()], listen: "", head, keys: "" }.start();
    let at = |relay: &Watched, flags: &[&str]| path(relay.port.address(), flags).output().unwrap();

    let open = with("[probe]\nmeasure_from = [\"127.0.0.0/8\"]\n");
    assert_eq!(document(&at(&open, &[]))["complete"], true);
    open.daemon.relay.wait_log("measured");

    let closed = with("");
    let said = refused(&at(&closed, &[]));
    assert!(said.contains("measure_from"), "{said}");
    closed.daemon.relay.wait_log("measurement refused");

    let locked = with(&format!("[probe]\nkey_file = \"{}\"\n", name(&right)));
    let said = refused(&at(&locked, &[]));
    assert!(said.contains("--key-file"), "{said}");
    let said = refused(&at(&locked, &["--key-file", name(&wrong)]));
    assert!(said.contains("the key is wrong"), "{said}");
    assert_eq!(document(&at(&locked, &["--key-file", name(&right)]))["complete"], true);

    locked.reload_with("[probe]\nmeasure_from = [\"127.0.0.1\"]\n", "");
    assert_eq!(document(&at(&locked, &[]))["complete"], true);
}

/// The final host is down: the relay's dial fails, and the path to the relay is measured all the same.
#[test]
fn a_relay_answers_also_while_its_next_hop_is_down() {
    let nobody = Port::reserve("127.0.0.1");
    let head = "[probe]\nmeasure_from = [\"127.0.0.1\"]\n";
    let relay = Setup { to: vec![nobody.address().to_string()], listen: "", head, keys: "" }.start();
    assert_eq!(document(&path(relay.port.address(), &[]).output().unwrap())["complete"], true);
}

#[test]
fn a_second_measurement_is_told_who_measures() {
    let responder = Responder::start(&[]);
    let (first, _stderr) = measuring_to(responder.address, "measuring the path to");
    let said = refused(&path(responder.address, &[]).output().unwrap());
    assert!(said.contains("another client measures now: 127.0.0.1; try again"), "{said}");
    drop(Running(first));
}

#[test]
fn an_interrupted_measurement_reports_what_is_known() {
    let responder = Responder::start(&[]);
    let (measuring, stderr) = measuring_to(responder.address, "path MTU");
    Command::new("kill").args(["-INT", &measuring.id().to_string()]).status().unwrap();
    let (output, found) = ended(measuring, stderr);
    assert_eq!(
        (output.status.code(), &found["ended"], &found["complete"]),
        (Some(1), &"interrupted".into(), &false.into())
    );
    assert_eq!(found["path_mtu"]["up"], 65_535);
    // The answerer is free again.
    assert_eq!(document(&path(responder.address, &[]).output().unwrap())["complete"], true);
}

#[test]
fn an_interrupt_also_ends_the_wait_for_a_far_end_that_says_nothing() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = path(mute.local_addr().unwrap(), &[]);
    let mut measuring = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _client = mute.accept().unwrap();
    Command::new("kill").args(["-INT", &measuring.id().to_string()]).status().unwrap();
    let stderr = BufReader::new(measuring.stderr.take().unwrap());
    let (output, found) = ended(measuring, stderr);
    assert_eq!(
        (output.status.code(), &found["ended"], &found["complete"]),
        (Some(1), &"interrupted".into(), &false.into())
    );
}

/// They hold every thread that a responder has for others.
#[test]
fn others_do_not_break_a_measurement_that_goes_on() {
    let responder = Responder::start(&[]);
    let (measuring, stderr) = measuring_to(responder.address, "measuring the path to");
    let over = AtomicBool::new(false);
    let (output, found) = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let preface = measure::Preface { messages: measure::MESSAGES, run: None, nonce: [9; 16] }.bytes();
                let begin = || {
                    TcpStream::connect(responder.address).and_then(|mut other| {
                        other.set_read_timeout(Some(TIMEOUT))?;
                        other.write_all(&preface).map(|()| other)
                    })
                };
                let others: Vec<TcpStream> = (0..110).filter_map(|_| begin().ok()).collect();
                others.into_iter().for_each(|mut other| drop(other.read_to_end(&mut Vec::new())));
            }
        });
        let ended = ended(measuring, stderr);
        over.store(true, Relaxed);
        ended
    });
    assert_eq!((output.status.code(), &found["complete"]), (Some(0), &true.into()), "{found}");
}

#[test]
fn a_responder_that_dies_leaves_what_is_known() {
    let responder = Responder::start(&[]);
    let (measuring, stderr) = measuring_to(responder.address, "path MTU");
    drop(responder.process);
    let (output, found) = ended(measuring, stderr);
    assert_eq!((output.status.code(), &found["complete"]), (Some(1), &false.into()));
    assert!(found["ended"].is_string() && found["path_mtu"]["up"] == 65_535, "{found}");
}

#[test]
fn a_responder_that_hangs_is_no_dead_path() {
    let responder = Responder::start(&[]);
    let (measuring, stderr) = measuring_to(responder.address, "up, ");
    Command::new("kill").args(["-STOP", &responder.process.0.id().to_string()]).status().unwrap();
    let (output, found) = ended(measuring, stderr);
    assert_eq!(output.status.code(), Some(1), "{found}");
    assert!(found["ended"].as_str().unwrap().contains("the far longhaul hangs"), "{found}");
    assert!(found["findings"].as_array().unwrap().iter().all(|finding| finding["kind"] != "stalled"), "{found}");
}

#[test]
fn whoever_is_no_longhaul_is_named() {
    let nobody = Port::reserve("127.0.0.1");
    let said = refused(&path(nobody.address(), &[]).output().unwrap());
    assert!(said.contains("nobody listens there"), "{said}");

    let greeter = served(|mut client| {
        client.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        drop(client.read(&mut [0; LENGTH]));
    });
    let found = document(&path(greeter, &[]).output().unwrap());
    let notes = found["notes"].to_string();
    assert!(notes.contains("an SSH server answers") && notes.contains("longhaul responder"), "{notes}");
    assert!(found["rtt_ms"]["min"].is_number() && found["rate_mbps"]["up"].is_null(), "{found}");

    // As a relay that knows no measurements: it resets such a preface, and answers a probe.
    let older = served(|mut client| {
        let mut bytes = [0; LENGTH];
        // The client also connects without a byte, for the MSS.
        if client.read_exact(&mut bytes).is_err() {
            return;
        }
        if let Ok(Some(preface)) = probe::read(&bytes) {
            client.write_all(&Frame::Report(older_report(&preface)).bytes()).unwrap();
            drop(client.read(&mut [0]));
        }
    });
    let notes = document(&path(older, &[]).output().unwrap())["notes"].to_string();
    assert!(notes.contains("longhaul 0.0.9") && notes.contains("too old to measure"), "{notes}");
}

#[test]
fn a_responder_answers_a_probe_through_a_tunnel() {
    let (_folder, right) = key(b"0123456789abcdef");
    for flags in [vec![], vec!["--key-file", name(&right)]] {
        let responder = Responder::start(&flags);
        let near = Watched::start_to(&[responder.address], "verify_hops = 1");
        let verified = near.command(&[&["verify", "--json"], &flags[..]].concat());
        assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
    }
    let responder = Responder::start(&["--key-file", name(&right)]);
    let near = Watched::start_to(&[responder.address], "verify_hops = 1");
    let verified = near.command(&["verify"]);
    assert!(verified.status.code() != Some(0) && stdout(&verified).contains("key"), "{}", stdout(&verified));
}

/// The responder does not wait for the rest of the preface for ever, and does not spin while it waits.
#[test]
fn a_part_of_a_preface_and_fin_end_a_connection_to_a_responder() {
    let responder = Responder::start(&[]);
    let mut client = TcpStream::connect(responder.address).unwrap();
    client.write_all(&probe::MAGIC[..10]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    match client.read(&mut [0]) {
        Ok(got) => assert_eq!(got, 0),
        Err(err) => assert_eq!(err.kind(), ErrorKind::ConnectionReset),
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", responder.process.0.id())).unwrap();
    // proc_pid_stat(5): utime and stime, in ticks of 10 ms.
    let ticks: Vec<i64> = stat.rsplit(')').next().unwrap().split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(ticks[10] + ticks[11] < 50, "{stat}");
}

/// Connections that say nothing, or garbage, keep nobody out and cost no thread.
#[test]
fn ten_thousand_garbage_connections_do_not_keep_a_measurement_out() {
    let mut responder = Responder::start(&[]);
    let (mut silent, mut connected) = (Vec::new(), 0);
    for number in 0..10_000 {
        let Ok(mut client) = TcpStream::connect(responder.address) else { continue };
        connected += 1;
        let _ = match number % 3 {
            0 => client.write_all(b"GET / HTTP/1.1\r\n\r\n"),
            // A preface with a wrong checksum.
            1 => client.write_all(&[&probe::MAGIC[..], &[2; 32]].concat()),
            _ => Ok(()),
        };
        silent.push(client);
        if silent.len() > 300 {
            silent.remove(0);
        }
    }
    assert!(connected > 9_000, "{connected}");
    assert_eq!(document(&path(responder.address, &[]).output().unwrap())["complete"], true);
    assert!(responder.line().starts_with("measured with"));
}

#[test]
fn a_client_outside_of_allow_is_reset() {
    let responder = Responder::start(&["--allow", "192.0.2.0/24"]);
    let found = document(&path(responder.address, &[]).output().unwrap());
    assert!(found["notes"].to_string().contains("`allow` does not contain this host"), "{found}");
}

/// Returns the report of a relay of version 0.0.9.
fn older_report(preface: &probe::Preface) -> Report {
    Report {
        nonce: preface.nonce,
        hops: 0,
        dial: Dial::Connected,
        next: Next::Echo,
        clock_us: 0,
        dial_us: 0,
        rtt_us: 0,
        echo_bytes: 0,
        name: "far".into(),
        version: "0.0.9".into(),
        next_hop: String::new(),
        why: String::new(),
    }
}

/// Starts a slow measurement to `address`, and waits until its progress has a line that begins with `beginning`.
fn measuring_to(address: SocketAddr, beginning: &str) -> (Child, BufReader<ChildStderr>) {
    begun(path(address, &["--limit", "1Mbit/s"]), beginning)
}

/// Starts the measurement `command`, and waits until its progress has a line that begins with `beginning`.
pub(super) fn begun(mut command: Command, beginning: &str) -> (Child, BufReader<ChildStderr>) {
    let mut measuring = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(measuring.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(beginning) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0);
    }
    (measuring, stderr)
}

/// Waits until `measuring` has ended. Returns its output and its document.
pub(super) fn ended(measuring: Child, mut stderr: BufReader<ChildStderr>) -> (Output, Value) {
    let rest = thread::spawn(move || drop(stderr.read_to_end(&mut Vec::new())));
    let output = measuring.wait_with_output().unwrap();
    rest.join().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap();
    (output, found)
}

/// Serves each client by `serve`, in a thread that ends with the test.
fn served(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    thread::spawn(move || server.incoming().for_each(|client| serve(client.unwrap())));
    address
}
