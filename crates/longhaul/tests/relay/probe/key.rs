//! Tests `[probe] key_file`: who proves the key is answered, and everybody else is refused and counted.

use crate::harness::*;
use crate::probe::verified::{far_relay, final_host};
use crate::probe::verify::{frame, preface, report, verdict};
use longhaul_core::wire::answer::{Frame, Next, PROOF_BYTES, Proof, Report};
use longhaul_core::wire::proof::{Challenge, Key};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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

/// Returns the part of a file that names the key.
fn probe(key_file: &Path) -> String {
    format!("[probe]\nkey_file = \"{}\"\n", key_file.display())
}

/// Starts a relay with the key in `key_file`.
fn daemon(to: SocketAddr, keys: &str, key_file: &Path) -> Watched {
    daemon_at("", to, keys, key_file)
}

/// Like [`daemon`], on the address `listen`.
fn daemon_at(listen: &str, to: SocketAddr, keys: &str, key_file: &Path) -> Watched {
    Setup { to: vec![to.to_string()], listen, head: &probe(key_file), keys }.start()
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
    let far = daemon(final_host(), "verify_hops = 0", &right);
    let near = daemon(far.port.address(), "verify_hops = 1", &right);
    let (code, found) = verify(near.port.address(), "", Some(&right));
    assert_eq!((code, &found["verdict"]), (Some(0), &"whole".into()), "{found}");
    assert_eq!(found["relays"].as_array().unwrap().len(), 2);
    let (code, found) = verify(near.port.address(), "", None);
    assert!(code == Some(3) && found["why"].as_str().unwrap().contains("--key-file"), "{found}");
    assert!(found["relays"].as_array().unwrap().is_empty(), "{found}");
    let (code, found) = verify(near.port.address(), "", Some(&wrong));
    assert_eq!((code, &found["stage"]), (Some(3), &"near relay".into()), "{found}");
    assert!(found["why"].as_str().unwrap().contains("refuses the key"), "{found}");
    assert_eq!(found["relays"][0]["name"], "", "it says nothing about itself");
    assert!(found["relays"][0]["clock_ahead_ms"].is_null(), "{found}");

    // The far relay has another key from now on.
    far.reload_with(&probe(&wrong), "verify_hops = 0");
    let (code, found) = verify(near.port.address(), "", Some(&right));
    assert_eq!((code, &found["stage"]), (Some(3), &"far relay".into()), "{found}");
    assert_eq!(
        (&near.daemon.relay.counters()["probes_unproven"], &far.daemon.relay.counters()["probes_unproven"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn a_relay_without_a_key_asks_for_none_and_a_dead_next_hop_is_named() {
    let keys = Keys::new();
    let key = keys.file("key", KEY);
    let nobody = Port::reserve("127.0.0.1");
    let near = daemon(nobody.address(), "", &key);
    // The relay waits for the preface 20 ms before it dials, and again after a dial that failed. On a busy machine the prober may
    // be later.
    let is_named = |(code, found): &(Option<i32>, Value)| {
        (*code, &found["stage"], &found["cause"]) == (Some(1), &"far relay".into(), &"refused".into())
    };
    wait_for_value("the dead next hop is named", || verify(near.port.address(), "", Some(&key)), is_named);
    let (code, found) = verify(near.port.address(), "", None);
    assert!(code == Some(3) && found["why"].as_str().unwrap().contains("--key-file"), "{found}");
    let plain = Daemon::start(&tunnel_to("t", nobody.address(), &[final_host()], "verify_hops = 0"));
    assert_eq!(verify(near.port.address(), "", Some(&key)).0, Some(0));
    assert_eq!(plain.relay.counters()["probes_refused"], 0);
}

#[test]
fn a_relay_that_refuses_the_probe_is_no_broken_stage() {
    let (keys, far_port, host) = (Keys::new(), Port::reserve("127.0.0.1"), final_host());
    let far = daemon_at(&far_port.address().to_string(), host, "verify_hops = 0", &keys.file("key", KEY));
    let near = Watched::start_to(&[far_port.address()], "verify = \"1s\"");
    let verify = wait_for_value("a refused probe", || near.verify(), |verify| verify["hindrance"].is_string());
    let why = verify["hindrance"].as_str().unwrap();
    // The flags of `longhaul verify` are no remedy for a daemon.
    assert_eq!(why, "far relay: it answers only who proves its key; write `[probe] key_file`");
    assert!(verify["why"].is_null(), "{verify}");
    assert_eq!((&verify["no_newer"], &verify["overdue"]), (&why.into(), &false.into()));
    assert_eq!((&verify["state"], near.status()["ready"].as_bool()), (&"pending".into(), Some(true)));
    let problem = &near.status()["problems"][0];
    let what = problem["what"].as_str().unwrap();
    assert!(what.starts_with("no result for ") && what.contains("s: far relay: it answers only"), "{problem}");
    assert_eq!((&problem["stage"], &problem["fatal"]), (&"verify".into(), &false.into()));
    let line = near.daemon.relay.wait_log("probes of the tunnel have no result");
    assert_eq!(line["why"], why);
    // The refusals end with the relay that made them.
    drop(far);
    let _far = far_relay(&far_port, host);
    near.wait_verify("whole");
    near.daemon.relay.wait_log("probes of the tunnel have results again");
    assert_eq!(near.status()["problems"], Value::Array(Vec::new()));
}

/// The two relays cannot get a new key at the same moment, and no client may suffer meanwhile.
#[test]
fn a_check_whose_probe_is_refused_sees_the_connection() {
    let keys = Keys::new();
    let (right, wrong) = (keys.file("right", KEY), keys.file("wrong", b"fedcba9876543210"));
    let host = final_host();
    let far_port = Port::reserve("127.0.0.1");
    let check = "check = \"verify\"\ncheck_interval = \"100ms\"\nrise = 1\nfall = 1";
    let near = daemon(far_port.address(), check, &wrong);
    near.daemon.relay.wait_log("next hop down: its checks failed");
    let start_far = || daemon_at(&far_port.address().to_string(), host, "verify_hops = 0", &right);
    let far = start_far();
    let line = near.daemon.relay.wait_log(REFUSED);
    assert!(line["why"].as_str().unwrap().starts_with("far relay: it refuses the key"), "{line}");
    near.daemon.relay.wait_log("next hop up: its checks succeed");
    let problem = near.status()["problems"][0].take();
    let what = problem["what"].as_str().unwrap_or_default();
    assert!(what.starts_with("checks see only the connection, because their probes are refused: 127.0.0.1:"), "{what}");
    assert!(what.contains("(far relay: it refuses the key") && problem["fatal"] == false, "{problem}");
    let client = TcpStream::connect(near.port.address()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin), "the final host serves it");
    drop(far);
    near.daemon.relay.wait_log("next hop down: its checks failed");
    let far = start_far();
    near.daemon.relay.wait_line("next hop up, and no second warning", |found| {
        assert_ne!(found, REFUSED);
        found == "next hop up: its checks succeed"
    });
    let up = Instant::now();
    wait_until("three checks that are refused", || far.daemon.relay.counters()["probes_unproven"].as_u64() >= Some(3));
    let since_up = up.elapsed().as_secs_f64();
    let status = near.status();
    let hop = &status["tunnels"][0]["next_hops"][0];
    assert!(hop["last_failure_seconds"].as_f64() >= Some(since_up), "a refused check is no failure: {hop}");
    far.reload_with(&probe(&wrong), "verify_hops = 0");
    wait_until("three checks that are answered", || far.daemon.relay.counters()["probes"].as_u64() >= Some(3));
    assert_eq!(near.status()["problems"], Value::Array(Vec::new()));
    near.daemon.relay.signal("USR1");
    near.daemon.relay.wait_line("the counters, and nothing before them", |found| {
        assert!(found != REFUSED && found != "next hop down: its checks failed", "{found}");
        found == "counters"
    });
}

/// The daemon's own probes pass their listener by the nonce, and prove the key to the far relay.
#[test]
fn the_daemon_proves_the_key_elsewhere() {
    let keys = Keys::new();
    let (right, wrong) = (keys.file("right", KEY), keys.file("wrong", b"fedcba9876543210"));
    let far = daemon(final_host(), "verify_hops = 0", &right);
    let near = daemon(far.port.address(), "verify = \"1s\"\nallow = \"192.0.2.1\"", &right);
    near.daemon.relay.wait_log("tunnel whole");
    far.reload_with(&probe(&wrong), "verify_hops = 0");
    let line = far.daemon.relay.wait_log("probe refused");
    assert!(line["why"].as_str().unwrap().starts_with("wrong proof"), "{line}");
    wait_until("the flow of a refused probe ends", || {
        far.daemon.relay.counters()["refused_probe_flows"].as_u64() > Some(0)
    });
    // Flows are served, so the tunnel is not broken.
    assert_eq!(near.daemon.relay.counters()["verify_failures"], 0);
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
    let relay = daemon(final_host(), "verify_hops = 0", &keys.file("key", KEY));
    let key = Key::new(KEY).unwrap();
    let proof = |challenge| Frame::Proof(Proof { nonce: preface(0).nonce, mac: key.prove(challenge, 1000) }).bytes();
    let (mut client, challenge) = challenged(relay.port.address());
    let good = proof(&challenge);
    client.write_all(&good).unwrap();
    assert_eq!(report(&client).next, Next::Echo);
    drop(client);

    let (_, other) = challenged(relay.port.address());
    assert_ne!(other.random, challenge.random);
    let wrong_size = Frame::Proof(Proof { nonce: preface(0).nonce, mac: key.prove(&challenge, 2000) }).bytes();
    let oversized = [&good[..], &pattern(1, 100_000)].concat();
    for bytes in [good.clone(), wrong_size, pattern(2, PROOF_BYTES), vec![0xfd; PROOF_BYTES], oversized] {
        let (mut client, _) = challenged(relay.port.address());
        // The relay may close while the client sends.
        let _ = client.write_all(&bytes);
        let Report { next, name, version, .. } = report(&client);
        assert_eq!((next, name.as_str(), version.as_str()), (Next::Unproven, "", ""));
    }
    for part in [&good[..0], &good[..PROOF_BYTES - 1]] {
        let (client, _) = challenged(relay.port.address());
        send_all(&client, part);
        assert_eq!(report(&client).next, Next::Unproven);
    }
    // The one that only looked at its challenge has ended too.
    wait_until("every refusal is counted", || relay.daemon.relay.counters()["probes_unproven"] == 8);
    let counters = relay.daemon.relay.counters();
    assert_eq!((&counters["probes"], &counters["probes_refused"]), (&1.into(), &8.into()));
    wait_until("every flow has ended", || relay.daemon.relay.counters()["flows_now"] == 0);
    let counters = relay.daemon.relay.counters();
    assert_eq!((&counters["refused_probe_flows"], &counters["leg_failed"]), (&8.into(), &0.into()), "{counters}");
}

#[test]
fn a_bad_key_file_stops_the_start_and_the_reload() {
    let keys = Keys::new();
    let (good, open) = (keys.file("good", KEY), keys.file("open", KEY));
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let relay = daemon(final_host(), "verify_hops = 0", &good);
    let refused = relay.daemon.reload(&relay.text(&probe(&open), "verify_hops = 0"));
    assert_eq!(refused["message"], "reload refused: the old configuration stays");
    assert!(refused["err"].as_str().unwrap().contains("chmod o= "), "{refused}");
    assert_eq!(verify(relay.port.address(), "verify_hops = 0", Some(&good)).0, Some(0), "the old key stays");
    let file = keys.0.path().join("longhaul.toml");
    let text = probe(&keys.0.path().join("missing")) + &tunnel_to("t", "127.0.0.1:6000", &[final_host()], "");
    fs::write(&file, text).unwrap();
    let said = |command| program().args([command, "-c"]).arg(&file).output().unwrap();
    assert_eq!(said("run").status.code(), Some(1));
    for output in [said("run"), said("check")] {
        assert!(stderr(&output).contains("missing: No such file"), "{output:?}");
    }
}
