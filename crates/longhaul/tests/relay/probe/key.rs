//! Tests `[probe] key_file`: who proves the key is answered, and everybody else is refused and counted.

use crate::admin::{by_socket, socket};
use crate::daemon::Daemon;
use crate::harness::*;
use crate::probe::verified::final_host;
use crate::probe::verify::{frame, preface, report, verdict};
use longhaul_core::wire::answer::{Frame, Next, PROOF_BYTES, Proof, Report};
use longhaul_core::wire::proof::{Challenge, Key};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

/// The log line when checks see only the connection.
const REFUSED: &str = "checks see only the next hop's connection: the probe is refused";

const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A folder for key files.
struct Keys(TempDir);

impl Keys {
    fn new() -> Keys {
        Keys(tempfile::tempdir().unwrap())
    }

    /// Returns a file with `key` that only its owner may read.
    fn file(&self, name: &str, key: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, key).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }
}

/// Returns a file with one tunnel `t` and a key.
fn config(listen: SocketAddr, to: SocketAddr, keys: &str, key_file: &Path) -> String {
    let key_file = key_file.display();
    format!(
        "[probe]\nkey_file = \"{key_file}\"\n[[tunnel]]\nname = \"t\"\nlisten = \"{listen}\"\nto = \"{to}\"\n{keys}\n"
    )
}

fn daemon(to: SocketAddr, keys: &str, key_file: &Path) -> (Daemon, Port) {
    let port = Port::reserve("127.0.0.1");
    (Daemon::start(&config(port.address(), to, keys, key_file)), port)
}

/// Runs `longhaul verify` for the tunnel on `near`, with the key in `key_file`; returns the exit code and the verdict.
fn verify(near: SocketAddr, keys: &str, key_file: Option<&Path>) -> (Option<i32>, Value) {
    let path = key_file.map(|key| key.display().to_string());
    verdict(near, keys, &path.iter().flat_map(|path| ["--key-file", path]).collect::<Vec<_>>())
}

#[test]
fn every_relay_of_the_path_asks_for_the_key() {
    let keys = Keys::new();
    let (right, wrong) = (keys.file("right", KEY), keys.file("wrong", b"fedcba9876543210"));
    let (far, far_port) = daemon(final_host(), "verify_hops = 0", &right);
    let (near, near_port) = daemon(far_port.address(), "verify_hops = 1", &right);
    let (code, found) = verify(near_port.address(), "", Some(&right));
    assert_eq!((code, &found["verdict"]), (Some(0), &"whole".into()), "{found}");
    assert_eq!(found["relays"].as_array().unwrap().len(), 2);
    let (code, found) = verify(near_port.address(), "", None);
    assert!(code == Some(3) && found["why"].as_str().unwrap().contains("--key-file"), "{found}");
    assert!(found["relays"].as_array().unwrap().is_empty(), "{found}");
    let (code, found) = verify(near_port.address(), "", Some(&wrong));
    assert_eq!((code, &found["stage"]), (Some(3), &"near relay".into()), "{found}");
    assert!(found["why"].as_str().unwrap().contains("refuses the key"), "{found}");
    assert_eq!(found["relays"][0]["name"], "", "it says nothing about itself");
    assert!(found["relays"][0]["clock_ahead_ms"].is_null(), "{found}");

    // The far relay has another key from now on.
    far.reload(&config(far_port.address(), final_host(), "verify_hops = 0", &wrong));
    let (code, found) = verify(near_port.address(), "", Some(&right));
    assert_eq!((code, &found["stage"]), (Some(3), &"far relay".into()), "{found}");
    assert_eq!(
        (&near.relay.counters()["probes_unproven"], &far.relay.counters()["probes_unproven"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn a_relay_without_a_key_asks_for_none_and_a_dead_next_hop_is_named() {
    let keys = Keys::new();
    let key = keys.file("key", KEY);
    let nobody = Port::reserve("127.0.0.1");
    let (_near, near) = daemon(nobody.address(), "", &key);
    // The relay waits for the preface 20 ms before it dials, and again after a dial that failed. On a busy machine the prober may
    // be later.
    wait_for("the dead next hop is named", || {
        let (code, found) = verify(near.address(), "", Some(&key));
        let named = (code, &found["stage"], &found["cause"]) == (Some(1), &"far relay".into(), &"refused".into());
        if named { Ok(()) } else { Err(found) }
    });
    let (code, found) = verify(near.address(), "", None);
    assert!(code == Some(3) && found["why"].as_str().unwrap().contains("--key-file"), "{found}");
    let plain = Daemon::start(&format!(
        "[[tunnel]]\nname = \"t\"\nlisten = \"{}\"\nto = \"{}\"\nverify_hops = 0\n",
        nobody.address(),
        final_host()
    ));
    assert_eq!(verify(near.address(), "", Some(&key)).0, Some(0));
    assert_eq!(plain.relay.counters()["probes_refused"], 0);
}

/// The two relays cannot get a new key at the same moment, and no client may suffer meanwhile.
#[test]
fn a_check_whose_probe_is_refused_sees_the_connection() {
    let keys = Keys::new();
    let (right, wrong) = (keys.file("right", KEY), keys.file("wrong", b"fedcba9876543210"));
    let host = final_host();
    let far_port = Port::reserve("127.0.0.1");
    let socket = socket(&keys.0);
    let check = "check = \"verify\"\ncheck_interval = \"100ms\"\nrise = 1\nfall = 1";
    let admin = format!("{check}\n[admin]\nsocket = \"{}\"", socket.display());
    let (near, near_port) = daemon(far_port.address(), &admin, &wrong);
    near.relay.wait_log("next hop down: its checks failed");
    let start_far = || Daemon::start(&config(far_port.address(), host, "verify_hops = 0", &right));
    let far = start_far();
    let line = near.relay.wait_log(REFUSED);
    assert!(line["why"].as_str().unwrap().starts_with("far relay: it refuses the key"), "{line}");
    near.relay.wait_log("next hop up: its checks succeed");
    let status = || serde_json::from_str::<Value>(&by_socket(&socket, "GET", "/status.json").1).unwrap();
    let problem = status()["problems"][0].take();
    let what = problem["what"].as_str().unwrap_or_default();
    assert!(what.starts_with("checks see only the connection, because their probes are refused: 127.0.0.1:"), "{what}");
    assert!(what.contains("(far relay: it refuses the key") && problem["fatal"] == false, "{problem}");
    let client = TcpStream::connect(near_port.address()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin), "the final host serves it");
    drop(far);
    near.relay.wait_log("next hop down: its checks failed");
    let far = start_far();
    near.relay.wait_line("next hop up, and no second warning", |found| {
        assert_ne!(found, REFUSED);
        found == "next hop up: its checks succeed"
    });
    let up = Instant::now();
    wait_until("three checks that are refused", || far.relay.counters()["probes_unproven"].as_u64() >= Some(3));
    let since_up = up.elapsed().as_secs_f64();
    let status_now = status();
    let hop = &status_now["tunnels"][0]["next_hops"][0];
    assert!(hop["last_failure_seconds"].as_f64() >= Some(since_up), "a refused check is no failure: {hop}");
    far.reload(&config(far_port.address(), host, "verify_hops = 0", &wrong));
    wait_until("three checks that are answered", || far.relay.counters()["probes"].as_u64() >= Some(3));
    assert_eq!(status()["problems"], Value::Array(Vec::new()));
    near.relay.signal("USR1");
    near.relay.wait_line("the counters, and nothing before them", |found| {
        assert!(found != REFUSED && found != "next hop down: its checks failed", "{found}");
        found == "counters"
    });
}

/// The daemon's own probes pass their listener by the nonce, and prove the key to the far relay.
#[test]
fn the_daemon_proves_the_key_elsewhere() {
    let keys = Keys::new();
    let (right, wrong) = (keys.file("right", KEY), keys.file("wrong", b"fedcba9876543210"));
    let (far, far_port) = daemon(final_host(), "verify_hops = 0", &right);
    let (near, _port) = daemon(far_port.address(), "verify = \"1s\"\nallow = \"192.0.2.1\"", &right);
    near.relay.wait_log("tunnel whole");
    let listen = far_port.address();
    far.reload(&config(listen, final_host(), "verify_hops = 0", &wrong));
    let line = far.relay.wait_log("probe refused");
    assert!(line["why"].as_str().unwrap().starts_with("wrong proof"), "{line}");
    wait_until("the flow of a refused probe ends", || far.relay.flow_end().2 == "probe refused");
    // Flows are served, so the tunnel is not broken.
    assert_eq!(near.relay.counters()["verify_failures"], 0);
}

/// Sends a preface; returns the connection and the challenge.
fn challenged(relay: SocketAddr) -> (TcpStream, Challenge) {
    let mut client = patient(TcpStream::connect(relay).unwrap());
    client.write_all(&preface(0).bytes()).unwrap();
    let Frame::Challenge(challenge) = frame(&client) else { panic!("no challenge") };
    (client, challenge)
}

#[test]
fn a_replay_and_anything_else_that_is_no_proof_is_refused_and_counted() {
    let keys = Keys::new();
    let (relay, port) = daemon(final_host(), "verify_hops = 0", &keys.file("key", KEY));
    let key = Key::new(KEY).unwrap();
    let proof = |challenge| Frame::Proof(Proof { nonce: preface(0).nonce, mac: key.prove(challenge, 1000) }).bytes();
    let (mut client, challenge) = challenged(port.address());
    let good = proof(&challenge);
    client.write_all(&good).unwrap();
    assert_eq!(report(&client).next, Next::Echo);
    drop(client);

    let (_, other) = challenged(port.address());
    assert_ne!(other.random, challenge.random);
    let wrong_size = Frame::Proof(Proof { nonce: preface(0).nonce, mac: key.prove(&challenge, 2000) }).bytes();
    let oversized = [&good[..], &pattern(1, 100_000)].concat();
    for bytes in [good.clone(), wrong_size, pattern(2, PROOF_BYTES), vec![0xfd; PROOF_BYTES], oversized] {
        let (mut client, _) = challenged(port.address());
        // The relay may close while the client sends.
        let _ = client.write_all(&bytes);
        let Report { next, name, version, .. } = report(&client);
        assert_eq!((next, name.as_str(), version.as_str()), (Next::Unproven, "", ""));
    }
    for part in [&good[..0], &good[..PROOF_BYTES - 1]] {
        let (mut client, _) = challenged(port.address());
        client.write_all(part).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(report(&client).next, Next::Unproven);
    }
    // The one that only looked at its challenge has ended too.
    wait_until("every refusal is counted", || relay.relay.counters()["probes_unproven"] == 8);
    let counters = relay.relay.counters();
    assert_eq!((&counters["probes"], &counters["probes_refused"]), (&1.into(), &8.into()));
    wait_until("every flow has ended", || relay.relay.counters()["flows_now"] == 0);
    let counters = relay.relay.counters();
    assert_eq!((&counters["refused_probe_flows"], &counters["leg_failed"]), (&8.into(), &0.into()), "{counters}");
}

#[test]
fn a_bad_key_file_stops_the_start_and_the_reload() {
    let keys = Keys::new();
    let (good, open) = (keys.file("good", KEY), keys.file("open", KEY));
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let (relay, port) = daemon(final_host(), "verify_hops = 0", &good);
    let refused = relay.reload(&config(port.address(), final_host(), "verify_hops = 0", &open));
    assert_eq!(refused["message"], "reload refused: the old configuration stays");
    assert!(refused["err"].as_str().unwrap().contains("chmod o= "), "{refused}");
    assert_eq!(verify(port.address(), "verify_hops = 0", Some(&good)).0, Some(0), "the old key stays");
    let other = Port::reserve("127.0.0.1");
    let file = keys.0.path().join("longhaul.toml");
    fs::write(&file, config(other.address(), final_host(), "", &keys.0.path().join("missing"))).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["run", "-c"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing: No such file"), "{output:?}");
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["check", "-c"]).arg(&file).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing: No such file"), "{output:?}");
}
