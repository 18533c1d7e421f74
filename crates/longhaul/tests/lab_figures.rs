//! Tests the causes of the published figures with the quick forms of the built-in scenarios: bytes, the window in force, and
//! ratios with wide margins. The figures themselves need a quiet machine; `longhaul lab run all` checks them.
//!
//! Needs root, of the system or of a user namespace. A test that cannot run here prints SKIP and the reason; it fails if the
//! environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/lab_cli.rs"]
mod common;

use common::{report, runs, skip};
use serde_json::Value;
use std::ffi::OsStr;

/// Runs the quick form of the scenario `name` and asserts that all bytes arrived. Returns the runs; none if no lab can be
/// built.
fn quick(name: &str) -> Vec<Value> {
    quick_by(&["run", name], name)
}

/// As [`quick`], by the subcommand of `lab` that is `words`.
fn quick_by(words: &[&str], name: &str) -> Vec<Value> {
    let words = [words, &["--quick", "--json"]].concat();
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let Some((code, report)) = report(&words) else { return Vec::new() };
    assert_eq!(report["scenario"], name);
    for field in ["kernel", "cpus"] {
        assert!(!report[field].is_null(), "no {field}");
    }
    let runs = runs(&report);
    for run in &runs {
        let text = format!("{} over {}: {}: {}", run["id"], run["carrier"], run["verdict"], run["why"]);
        for field in FIELDS {
            assert!(run.get(field).is_some(), "{text}: no field {field}");
        }
        if run["verdict"] == "skip" {
            skip(&text);
            continue;
        }
        // The speed is not compared with the published one here, because it depends on the machine.
        assert_eq!(run["bytes_ok"], true, "{text}");
        assert!(!text.contains("a defect of the lab"), "{text}");
        // An unclear run has been tried three times.
        assert!(run["verdict"] != "unclear" || run["attempts"] == 3, "{text}");
    }
    let verdicts = |verdict: &str| runs.iter().any(|run| run["verdict"] == verdict);
    let none_took_place = runs.iter().all(|run| run["verdict"] == "skip");
    let expected = if verdicts("fail") || none_took_place { 1 } else { 3 * i32::from(verdicts("unclear")) };
    assert_eq!(code, Some(expected));
    runs
}

/// Returns the run `id`; `None` if the run or the lab could not run here. Asserts that the quick form has the run.
fn found<'a>(runs: &'a [Value], id: &str) -> Option<&'a Value> {
    let run = runs.iter().find(|run| run["id"] == id);
    assert!(run.is_some() || runs.is_empty(), "the quick form has no run {id}");
    run.filter(|run| run["measured_MBps"].is_f64())
}

/// Asserts that the run `fast` is more than `times` as fast as `slow`, or only that it is faster if one of them was disturbed.
fn assert_faster(runs: &[Value], fast: &str, times: f64, slow: &str) {
    let (Some(one), Some(other)) = (found(runs, fast), found(runs, slow)) else { return };
    let speed = |run: &Value| run["measured_MBps"].as_f64().unwrap();
    let is_disturbed = |run: &Value| run["disturbance"]["disturbed"] == true;
    let min = if is_disturbed(one) || is_disturbed(other) { 1.0 } else { times };
    let ratio = speed(one) / speed(other);
    assert!(ratio > min, "{fast} is {ratio:.2} times {slow}: {} and {}", one["why"], other["why"]);
}

/// Asserts that the receiver's window in the run `id` was `bytes`, by TCP_INFO.
fn assert_window(runs: &[Value], id: &str, bytes: u64) {
    let Some(run) = found(runs, id) else { return };
    assert_eq!(run["host_sender"]["window_bytes"], bytes, "{id}: {}", run["why"]);
}

#[test]
fn the_demo_is_the_scenario_of_its_name() {
    let runs = quick_by(&["demo"], "demo");
    assert_window(&runs, "raw", 262_140);
    let carriers = |id: &str| runs.iter().filter(|run| run["id"] == id).map(|run| run["carrier"].clone()).collect();
    for id in ["raw", "answer"].into_iter().filter(|_| !runs.is_empty()) {
        assert_eq!(Value::Array(carriers(id)), serde_json::json!(["direct", "socat", "haproxy", "longhaul"]));
    }
}

#[test]
fn mitre_is_limited_by_the_window_and_relays_lift_the_limit() {
    let runs = quick("mitre");
    for id in ["mitre-direct", "mitre-direct-raw", "mitre-direct-raw-cubic"] {
        assert_window(&runs, id, 262_140);
    }
    assert_faster(&runs, "mitre-relay-scp", 4.0, "mitre-direct");
}

#[test]
fn kurtcms_is_limited_by_the_window() {
    let runs = quick("kurtcms");
    for id in ["kurtcms-100ms", "kurtcms-200ms"] {
        assert_window(&runs, id, 65_535);
    }
}

#[test]
fn ornl_is_limited_by_the_buffer() {
    assert_faster(&quick("ornl"), "ornl-512k", 4.0, "ornl-16k");
}

#[test]
fn ftp_is_limited_by_the_window_and_relays_lift_the_limit() {
    let runs = quick("ornl-ftp");
    assert_window(&runs, "ornl-ftp-put", 16_384);
    assert_faster(&runs, "ornl-ftp-put-relay", 10.0, "ornl-ftp-put");
    let runs = quick("ibmi-ftp");
    assert_window(&runs, "ibmi-ftp-4", 65_535);
    assert_faster(&runs, "ibmi-ftp-4-relay", 2.0, "ibmi-ftp-4");
}

#[test]
fn skytap_slows_down_by_one_byte_of_mss_and_the_relay_cures_it() {
    let runs = quick("skytap");
    assert_faster(&runs, "skytap-mss-1254", 3.0, "skytap-mss-1255");
    assert_faster(&runs, "skytap-mss-1255-relay", 3.0, "skytap-mss-1255");
}

/// Fields of a run that other programs may read.
const FIELDS: [&str; 18] = [
    "id", "carrier", "rtt_ms", "window_bytes", "measured_MBps", "published_MBps", "computed_MBps", "gain_over_direct",
    "verdict", "why", "finding", "link", "series", "relay_cpu_s", "bytes", "bytes_ok", "disturbance", "attempts",
];
