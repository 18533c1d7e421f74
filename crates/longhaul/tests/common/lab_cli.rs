//! Helpers for tests that run `longhaul lab` with `--json`.

use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Runs `longhaul lab` with `words`, alone: two cores are too few for several labs. Returns the exit code and the document that it
/// prints; `None` if no lab can be built on this machine.
pub(crate) fn report(words: &[&OsStr]) -> Option<(Option<i32>, Value)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul")).arg("lab").args(words).output().unwrap();
    let Ok(report) = serde_json::from_slice(&output.stdout) else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        lacking(&stderr);
        return None;
    };
    Some((output.status.code(), report))
}

/// Skips a test, or a part of it, if `why` says that no lab can be built on this machine; fails otherwise.
pub(crate) fn lacking(why: &str) {
    let cannot = ["EPERM", "/dev/net/tun", "user namespaces"];
    assert!(cannot.iter().any(|word| why.contains(word)), "{why}");
    skip(why);
}

/// Prints that this machine cannot run a test, or a part of it, and why; fails in CI.
pub(crate) fn skip(text: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {text}");
    println!("SKIP: {text}");
}

/// Returns the runs of a report. Prints each.
pub(crate) fn runs(report: &Value) -> Vec<Value> {
    let runs = report["runs"].as_array().unwrap();
    for run in runs {
        println!("{} over {}: {}: {}: {}", run["id"], run["carrier"], run["verdict"], run["why"], run["disturbance"]);
    }
    runs.clone()
}
