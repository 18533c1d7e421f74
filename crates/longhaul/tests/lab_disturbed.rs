//! Tests `longhaul lab run` on a busy machine. The report has the processor time that other programs took. If they could
//! explain a missed expectation, the verdict is `unclear`, never `fail`.
//!
//! Needs root, of the system or of a user namespace. A test that cannot run here prints SKIP and the reason; it fails if the
//! environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/lab_cli.rs"]
mod common;

use common::report;
use serde_json::Value;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

/// Held by a test, so that its busy programs do not disturb another.
static ALONE: Mutex<()> = Mutex::new(());

/// Programs that keep every processor busy until dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn machine() -> Busy {
        let cpus = std::thread::available_parallelism().unwrap().get();
        // They end with the test also where it is killed.
        let busy = ["--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"];
        Busy((0..cpus).map(|_| Command::new("setpriv").args(busy).spawn().unwrap()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Runs a scenario with these `runs`. Returns the exit code, the report and the page; `None` if no lab can be built.
fn run(runs: &str) -> Option<(Option<i32>, Vec<Value>, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    let link = "link = { rtt = \"10ms\", rate = \"200Mbit/s\" }";
    std::fs::write(&file, format!("about = \"small\"\nsource = \"the tests\"\n{link}\n{runs}")).unwrap();
    let page = folder.path().join("page.html");
    let (code, report) = report(&["run".as_ref(), "--json".as_ref(), "--html".as_ref(), page.as_ref(), file.as_ref()])?;
    Some((code, common::runs(&report), std::fs::read_to_string(page).unwrap()))
}

#[test]
fn a_miss_on_a_busy_machine_is_unclear_after_three_attempts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _busy = Busy::machine();
    // 200 Mbit/s carry 24 MB/s of payload, so every run misses 26. The busy programs could explain the miss.
    let missed = r#"
[[run]]
id = "missed"
carriers = ["longhaul"]
traffic = { kind = "raw", time = "1s" }
expect = { megabytes_per_s = [26] }
[[run]]
id = "nothing-expected"
carriers = ["longhaul"]
traffic = { kind = "raw", time = "1s" }
"#;
    let Some((code, runs, page)) = run(missed) else { return };
    assert_eq!(code, Some(3), "the exit code of an unclear result");
    let (missed, free) = (&runs[0], &runs[1]);
    assert_eq!((&missed["verdict"], &missed["attempts"]), (&"unclear".into(), &3.into()));
    assert_eq!((&free["verdict"], &free["attempts"]), (&"pass".into(), &1.into()));
    for run in &runs {
        assert_eq!((&run["bytes_ok"], &run["disturbance"]["disturbed"]), (&true.into(), &true.into()));
        assert!(run["why"].as_str().unwrap().contains("other programs took "), "{}", run["why"]);
        let number = |name: &str| run["disturbance"][name].as_f64().unwrap();
        assert!((0.05..=1.0).contains(&number("outside_share")), "{}", run["disturbance"]);
        assert!(number("late_p50_ms") <= number("late_p99_ms") && number("late_p99_ms") <= number("late_max_ms"));
    }
    assert!(page.contains("? unclear") && page.contains("2 runs: 1 without an expectation, 1 unclear."), "{page}");
}

#[test]
fn a_slow_relay_fails_unless_the_machine_was_disturbed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The cap allows 2.5 MB/s with headers; without it the line carries 24.
    let slow = r#"
[[run]]
id = "slow"
carriers = ["longhaul"]
set = ["dial.max-pacing-rate=20Mbit/s"]
traffic = { kind = "raw", time = "2s" }
expect = { megabytes_per_s = [10] }
"#;
    let Some((code, runs, _)) = run(slow) else { return };
    let slow = &runs[0];
    assert_eq!(slow["bytes_ok"], true);
    // This test cannot control the load from other programs. It checks that nothing but such load excuses the relay.
    match slow["verdict"].as_str().unwrap() {
        "fail" => assert_eq!(code, Some(1)),
        "unclear" => {
            assert_eq!((&slow["disturbance"]["disturbed"], &slow["attempts"]), (&true.into(), &3.into()));
            assert_eq!(code, Some(3));
        }
        other => panic!("{other}: {}", slow["why"]),
    }
}
