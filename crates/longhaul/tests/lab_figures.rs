//! The published figures, reproduced: the quick forms of the scenarios that are built in, with the programs they need.
//!
//! Needs root, of the system or of a user namespace. What cannot run prints SKIP and why, and fails where the environment
//! variable CI is set. A missed expectation fails everywhere.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

use serde_json::Value;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One lab at a time: two cores cannot carry several and be on time.
static ALONE: Mutex<()> = Mutex::new(());

/// The runs of the quick form of the scenario `name`, every one of which came out as expected; none where no lab can be
/// built.
fn quick(name: &str) -> Vec<Value> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let output = command.args(["lab", "run", name, "--quick", "--json"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        let cannot = ["EPERM", "/dev/net/tun", "user namespaces"];
        assert!(cannot.iter().any(|word| stderr.contains(word)), "{stderr}");
        skip(&stderr);
        return Vec::new();
    };
    assert_eq!(report["scenario"], name);
    for field in ["kernel", "cpus"] {
        assert!(!report[field].is_null(), "no {field}");
    }
    let runs = report["runs"].as_array().unwrap();
    for run in runs {
        let text = format!("{} over {}: {}", run["id"], run["carrier"], run["why"]);
        println!("{text}");
        match run["verdict"].as_str() {
            Some("pass") => assert_eq!(run["bytes_ok"], true, "{text}"),
            Some("skip") => skip(&text),
            _ => panic!("{text}"),
        }
        for field in FIELDS {
            assert!(run.get(field).is_some(), "{text}: no field {field}");
        }
    }
    runs.clone()
}

fn skip(text: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {text}");
    println!("SKIP: {text}");
}

/// The MB/s of a run, which must be there; nothing when it, or the lab, could not run.
fn speed(runs: &[Value], id: &str) -> Option<f64> {
    let run = runs.iter().find(|run| run["id"] == id);
    assert!(run.is_some() || runs.is_empty(), "the quick form has no run {id}");
    run?["measured_MBps"].as_f64()
}

#[test]
fn mitre_is_the_window_and_relays_lift_it() {
    let runs = quick("mitre");
    if let (Some(direct), Some(relay)) = (speed(&runs, "mitre-direct"), speed(&runs, "mitre-relay-scp")) {
        assert!(relay > 6.0 * direct, "direct {direct} MB/s, through relays {relay} MB/s");
    }
    if let (Some(reno), Some(cubic)) = (speed(&runs, "mitre-direct-raw"), speed(&runs, "mitre-direct-raw-cubic")) {
        assert!((cubic / reno - 1.0).abs() < 0.15, "CUBIC {cubic} MB/s, Reno {reno} MB/s, the same window");
    }
}

#[test]
fn kurtcms_is_the_window_over_the_round_trip() {
    let runs = quick("kurtcms");
    if let (Some(short), Some(long)) = (speed(&runs, "kurtcms-100ms"), speed(&runs, "kurtcms-200ms")) {
        assert!((short / long - 2.0).abs() < 0.3, "{short} and {long} MB/s");
    }
}

#[test]
fn ornl_is_the_buffer_over_the_round_trip() {
    let runs = quick("ornl");
    if let (Some(small), Some(large)) = (speed(&runs, "ornl-16k"), speed(&runs, "ornl-512k")) {
        assert!((large / small / 32.0 - 1.0).abs() < 0.2, "{small} and {large} MB/s");
    }
}

#[test]
fn skytap_has_a_cliff_of_one_byte_and_the_relay_cures_it() {
    let runs = quick("skytap");
    let [over, fits, cured] =
        ["skytap-mss-1255", "skytap-mss-1254", "skytap-mss-1255-relay"].map(|id| speed(&runs, id));
    if let (Some(over), Some(fits), Some(cured)) = (over, fits, cured) {
        assert!(fits > 5.0 * over, "MSS 1254 {fits} MB/s, MSS 1255 {over} MB/s");
        assert!(cured > 5.0 * over, "relays with an MSS of 1254 {cured} MB/s, without {over} MB/s");
    }
}

/// What programs read of a run.
const FIELDS: [&str; 15] = [
    "id",
    "carrier",
    "rtt_ms",
    "window_bytes",
    "measured_MBps",
    "published_MBps",
    "computed_MBps",
    "gain_over_direct",
    "verdict",
    "why",
    "link",
    "series",
    "relay_cpu_s",
    "bytes",
    "bytes_ok",
];
