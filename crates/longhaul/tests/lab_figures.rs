//! What decides the published figures, in the quick forms of the scenarios that are built in: bytes, the window in force, and
//! ratios with wide margins. The figures themselves need a quiet machine: `longhaul lab run all` judges them.
//!
//! Needs root, of the system or of a user namespace. What cannot run prints SKIP and why, and fails where the environment
//! variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

use serde_json::Value;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One lab at a time: two cores are few for several.
static ALONE: Mutex<()> = Mutex::new(());

/// The runs of the quick form of the scenario `name`, whose bytes all arrived; none where no lab can be built.
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
        let text = format!("{} over {}: {}: {}", run["id"], run["carrier"], run["verdict"], run["why"]);
        println!("{text}");
        for field in FIELDS {
            assert!(run.get(field).is_some(), "{text}: no field {field}");
        }
        if run["verdict"] == "skip" {
            skip(&text);
            continue;
        }
        // Whether the speed is the published one is not asked here: it depends on the machine.
        assert_eq!(run["bytes_ok"], true, "{text}");
        assert!(!text.contains("a defect of the lab"), "{text}");
        // What cannot be judged was tried three times.
        assert!(run["verdict"] != "unclear" || run["attempts"] == 3, "{text}");
    }
    let verdicts = |verdict: &str| runs.iter().any(|run| run["verdict"] == verdict);
    let code = if verdicts("fail") { 1 } else { 3 * i32::from(verdicts("unclear")) };
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    runs.clone()
}

fn skip(text: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {text}");
    println!("SKIP: {text}");
}

/// The run called `id`, which must be there; nothing when it, or the lab, could not run.
fn found<'a>(runs: &'a [Value], id: &str) -> Option<&'a Value> {
    let run = runs.iter().find(|run| run["id"] == id);
    assert!(run.is_some() || runs.is_empty(), "the quick form has no run {id}");
    run.filter(|run| run["measured_MBps"].is_f64())
}

/// That the run `fast` is at least `times` as fast as `slow`; that it is faster, where the machine was too busy to tell.
fn assert_faster(runs: &[Value], fast: &str, times: f64, slow: &str) {
    let (Some(one), Some(other)) = (found(runs, fast), found(runs, slow)) else { return };
    let speed = |run: &Value| run["measured_MBps"].as_f64().unwrap();
    let is_disturbed = |run: &Value| run["disturbance"]["disturbed"] == true;
    let least = if is_disturbed(one) || is_disturbed(other) { 1.0 } else { times };
    let ratio = speed(one) / speed(other);
    assert!(ratio > least, "{fast} is {ratio:.2} times {slow}: {} and {}", one["why"], other["why"]);
}

/// That the receiver's window in force, by TCP_INFO, was `bytes` in the run `id`.
fn assert_window(runs: &[Value], id: &str, bytes: u64) {
    let Some(run) = found(runs, id) else { return };
    assert_eq!(run["host_sender"]["window_bytes"], bytes, "{id}: {}", run["why"]);
}

#[test]
fn mitre_is_the_window_and_relays_lift_it() {
    let runs = quick("mitre");
    for id in ["mitre-direct", "mitre-direct-raw", "mitre-direct-raw-cubic"] {
        assert_window(&runs, id, 262_140);
    }
    assert_faster(&runs, "mitre-relay-scp", 4.0, "mitre-direct");
}

#[test]
fn kurtcms_is_the_window_over_the_round_trip() {
    let runs = quick("kurtcms");
    for id in ["kurtcms-100ms", "kurtcms-200ms"] {
        assert_window(&runs, id, 65_535);
    }
}

#[test]
fn ornl_is_the_buffer_over_the_round_trip() {
    assert_faster(&quick("ornl"), "ornl-512k", 4.0, "ornl-16k");
}

#[test]
fn skytap_has_a_cliff_of_one_byte_and_the_relay_cures_it() {
    let runs = quick("skytap");
    assert_faster(&runs, "skytap-mss-1254", 3.0, "skytap-mss-1255");
    assert_faster(&runs, "skytap-mss-1255-relay", 3.0, "skytap-mss-1255");
}

/// What programs read of a run.
const FIELDS: [&str; 17] = [
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
    "disturbance",
    "attempts",
];
