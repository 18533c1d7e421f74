//! `longhaul lab down`: takes the standing lab down, and sees that nothing is left of it.

use super::problem::Problem;
use super::standing::{Claim, Claimed, Note};
use clap::Args;
use longhaul_sys::process;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Take down the lab that `longhaul lab up` left standing
///
/// Ends it, with everything that still runs on its hosts, and says who holds on to it if something is left: namespaces,
/// and with them devices, stay as long as a process is in them. When none stands it says so, and exits with 0.
#[derive(Args, Debug, Clone)]
pub struct Down {}

impl Down {
    /// Takes it down: 0 when nothing is left, 1 otherwise.
    pub fn run(self) -> ExitCode {
        match down() {
            Ok(text) => {
                let _ = writeln!(std::io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "longhaul: {why}");
                ExitCode::FAILURE
            }
        }
    }
}

fn down() -> Result<String, Problem> {
    let mut note = match Claim::take()? {
        Claimed::Taken(note) => note,
        Claimed::Ours(_claim, None) => return Ok("no lab stands".into()),
        Claimed::Ours(_claim, Some(note)) => {
            // Its namespaces' numbers may be others' by now, so that nobody can be asked for them.
            let Note { scenario, process, .. } = note;
            return Ok(format!(
                "no lab stands; that of {scenario}, process {process}, had been killed, and went with it"
            ));
        }
    };
    let start = Instant::now();
    let mut asked = None;
    let _claim = loop {
        // Its process may be so young that it has not said who it is.
        let now = start.elapsed() > PATIENCE;
        if note.process != 0 && asked != Some(now) {
            process::end(note.process, now)?;
            asked = Some(now);
        }
        match Claim::take()? {
            Claimed::Ours(claim, _) => break claim,
            Claimed::Taken(_) if start.elapsed() > PATIENCE * 2 => {
                return Err(Problem::Bytes(format!("process {} does not end", note.process)));
            }
            Claimed::Taken(other) if note.process == 0 => note = other,
            Claimed::Taken(_) => {}
        }
        std::thread::sleep(EVERY);
    };
    gone(&note)?;
    Ok(format!("the lab of {}, run {}, is down: nothing is left", note.scenario, note.run))
}

/// Waits until no process is in the lab's namespaces or holds them open.
fn gone(note: &Note) -> Result<(), Problem> {
    let start = Instant::now();
    loop {
        let left = holders(&note.namespaces);
        if left.is_empty() {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let who = left.join(", ");
            return Err(Problem::Bytes(format!("the lab's namespaces are still held by {who}; end what holds them")));
        }
        std::thread::sleep(EVERY);
    }
}

/// The processes that are in one of `namespaces` or hold one open, with their names. Only what this user may see.
fn holders(namespaces: &[String]) -> Vec<String> {
    let is_one = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| namespaces.iter().any(|known| target.as_os_str() == known.as_str()))
    };
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let (path, name) = (process.path(), process.file_name().to_string_lossy().into_owned());
        if namespaces.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let open = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        if ["ns/net", "ns/pid"].map(|space| path.join(space)).into_iter().chain(open).any(is_one) {
            let called = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            found.push(format!("process {name} ({})", called.trim()));
        }
    }
    found
}

/// How long the process may take before it is killed, and what it held before somebody is told.
const PATIENCE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_millis(10);
