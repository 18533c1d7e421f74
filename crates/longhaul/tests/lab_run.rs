//! Tests `longhaul lab run` over small links: every carrier and every kind of traffic, for a short time each.
//!
//! Needs root, of the system or of a user namespace, and the programs that are compared. A test that cannot run here prints
//! SKIP and the reason; it fails if the environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/lab_cli.rs"]
mod common;

use common::{lacking, report, runs, skip};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Runs a scenario of these `runs` with `lab run --json`; returns the reports of the runs that could run here.
fn run(runs: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    // A link is refused if no run has a WAN.
    let has_wan = runs.split("[[run]]").skip(1).any(|run| !run.contains("one-hop"));
    let link = if has_wan { "link = { rtt = \"5ms\", rate = \"200Mbit/s\" }\n" } else { "" };
    std::fs::write(&file, format!("about = \"small\"\nsource = \"the tests\"\n{link}{runs}")).unwrap();
    run_file(&file, &[])
}

/// Runs the scenario in `file` with `lab run --json` and `options`; returns the reports of the runs that could run here.
fn run_file(file: &Path, options: &[&str]) -> Vec<Value> {
    let words =
        [OsStr::new("run"), OsStr::new("--json"), file.as_os_str()].into_iter().chain(options.iter().map(OsStr::new));
    let Some((_, report)) = report(&words.collect::<Vec<_>>()) else { return Vec::new() };
    let (done, not): (Vec<Value>, Vec<Value>) = runs(&report).into_iter().partition(|run| run["verdict"] == "pass");
    for run in not {
        let text = format!("{} over {}: {}", run["id"], run["carrier"], run["why"]);
        if run["verdict"] == "skip" { skip(&text) } else { lacking(&text) }
    }
    done
}

fn number(run: &Value, name: &str) -> f64 {
    run[name].as_f64().unwrap_or_else(|| panic!("no {name} in {run:#}"))
}

/// Returns a figure of the traffic.
fn figure(run: &Value, name: &str) -> f64 {
    number(&run["figures"], name)
}

/// Asserts that bytes arrived, at most at the speed of a line of 200 Mbit/s: 24.3 MB/s in segments without timestamps.
fn assert_is_possible(run: &Value) {
    let (bytes, speed) = (number(run, "bytes"), number(run, "measured_MBps"));
    assert!(bytes > 0.0 && speed <= 24.34, "{} over {}: {bytes} bytes, {speed} MB/s", run["id"], run["carrier"]);
}

#[test]
fn every_carrier_carries_every_byte_over_a_link() {
    let carriers =
        r#"["direct", "tuned", "socat", "socat-nodelay", "ssh", "haproxy", "nginx", "socket-proxyd", "longhaul"]"#;
    let traffic = r#"{ kind = "raw", time = "600ms" }"#;
    for run in run(&format!("[[run]]\nid = \"raw\"\ncarriers = {carriers}\ntraffic = {traffic}\n")) {
        let name = run["carrier"].as_str().unwrap().to_string();
        assert_eq!(run["bytes_ok"], true, "{run:#}");
        assert_is_possible(&run);
        let shown = run["shown"].as_array().unwrap();
        assert_eq!(shown.is_empty(), ["direct", "tuned"].contains(&name.as_str()), "{run:#}");
        let words = shown.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
        let known = [("haproxy", "option splice-request"), ("nginx", "proxy_pass"), ("ssh", "-L 10.10.10.20:6000")];
        for (_, word) in known.iter().filter(|(carrier, _)| *carrier == name) {
            assert!(words.contains(word), "{name} does not show {word}: {words}");
        }
    }
}

#[test]
fn every_carrier_works_on_one_hop() {
    let carriers = r#"["direct", "socat", "ssh", "haproxy", "nginx", "socket-proxyd", "longhaul"]"#;
    let traffic = r#"{ kind = "raw", size = "5MB", connections = 2 }"#;
    let runs = format!("[[run]]\nid = \"hop\"\ntopology = \"one-hop\"\ncarriers = {carriers}\ntraffic = {traffic}\n");
    for run in run(&runs) {
        assert_eq!((&run["bytes_ok"], number(&run, "bytes")), (&Value::Bool(true), 10e6), "{run:#}");
        assert!(number(&run, "measured_MBps") > 0.0);
        assert_eq!(run["link"].as_object().unwrap().len(), 0, "there is no link: {run:#}");
    }
}

#[test]
fn transfers_of_a_given_size_arrive_whole_in_both_directions() {
    let mut runs = String::new();
    for (kind, direction) in [
        ("raw", "up"),
        ("raw", "down"),
        ("scp", "up"),
        ("sftp", "up"),
        ("sftp", "down"),
        ("rsync", "up"),
        ("ftp", "up"),
        ("ftp", "down"),
    ] {
        runs += &format!("[[run]]\nid = \"{kind}-{direction}\"\ncarriers = [\"longhaul\"]\n");
        runs += &format!(
            "traffic = {{ kind = \"{kind}\", size = \"1MB\", connections = 2, direction = \"{direction}\" }}\n"
        );
    }
    for run in run(&runs) {
        assert_eq!((&run["bytes_ok"], number(&run, "bytes")), (&Value::Bool(true), 2e6), "{run:#}");
        assert!(number(&run, "measured_MBps") > 0.0);
    }
}

#[test]
fn iperf3_measures_both_directions_without_checking_bytes() {
    let of = |id: &str, direction: &str| {
        format!(
            "[[run]]\nid = \"{id}\"\ncarriers = [\"longhaul\"]\n\
             traffic = {{ kind = \"iperf3\", time = \"2s\", connections = 2, direction = \"{direction}\" }}\n"
        )
    };
    for run in run(&(of("up", "up") + &of("down", "down"))) {
        assert_eq!(run["bytes_ok"], Value::Null, "{run:#}");
        assert_is_possible(&run);
    }
}

#[test]
fn small_messages_are_counted_and_timed() {
    let runs = r#"
[[run]]
id = "ping-pong"
carriers = ["longhaul"]
traffic = { kind = "request", time = "500ms" }
[[run]]
id = "paced"
carriers = ["longhaul"]
traffic = { kind = "request", time = "1s", size = "1kB", connections = 4, rate = 40 }
[[run]]
id = "mix"
carriers = ["longhaul"]
traffic = { kind = "mix", time = "1s", connections = 2 }
"#;
    for run in run(runs) {
        assert_eq!(run["bytes_ok"], true, "{run:#}");
        let id = run["id"].as_str().unwrap();
        if id == "mix" {
            let (base, loaded) = (figure(&run, "base_ms"), figure(&run, "p99_ms"));
            // No message is faster than the round trip of the path.
            assert!(base >= 5.0 && loaded >= 5.0, "{base} ms, {loaded} ms");
            assert_is_possible(&run);
            continue;
        }
        assert!(figure(&run, "p50_us") >= 5000.0 && figure(&run, "p99_us") >= figure(&run, "p50_us"), "{run:#}");
        let max = if id == "paced" { 44.0 } else { 200.0 };
        assert!(figure(&run, "count") >= 1.0 && figure(&run, "per_second") <= max, "{run:#}");
    }
}

#[test]
fn new_connections_and_idle_flows_are_counted() {
    let runs = r#"
[[run]]
id = "connections"
carriers = ["longhaul"]
topology = "one-hop"
traffic = { kind = "connections", time = "500ms", connections = 8 }
[[run]]
id = "idle"
carriers = ["direct", "longhaul"]
traffic = { kind = "idle", time = "500ms", connections = 100 }
"#;
    for run in run(runs) {
        if run["id"] == "connections" {
            assert_eq!(figure(&run, "failed"), 0.0);
            assert!(figure(&run, "per_second") > 0.0 && figure(&run, "p99_us") >= figure(&run, "p50_us"));
            continue;
        }
        assert_eq!(figure(&run, "count"), 100.0);
        if run["carrier"] == "longhaul" {
            // An idle flow has two sockets and no pipe.
            let descriptors = figure(&run, "descriptors_per_flow");
            assert!((2.0..2.2).contains(&descriptors), "{descriptors} descriptors");
            assert!(figure(&run, "user_bytes_per_flow") < 20_000.0, "{run:#}");
        }
    }
}

#[test]
fn the_scenario_of_lab_init_can_be_run_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let init = command.args(["lab", "init", "--rtt", "10ms", "--rate", "100Mbit/s", "--window", "64KiB"]).output();
    std::fs::write(&file, init.unwrap().stdout).unwrap();
    for run in run_file(&file, &["--quick", "--carrier", "direct", "--start-at", "today"]) {
        assert_eq!((&run["id"], &run["carrier"], &run["bytes_ok"]), (&"today".into(), &"direct".into(), &true.into()));
    }
}
