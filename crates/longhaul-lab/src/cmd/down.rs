//! `longhaul lab down`: takes down the lab of `lab up` and checks that nothing is left of it.

use crate::cmd::note::{Claim, Claimed, Note};
use crate::cmd::progress::say;
use crate::error::LabError;
use clap::Args;
use longhaul_sys::process::{self, EndSignal};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Take down the lab that `longhaul lab up` left standing
///
/// Ends the lab and every program that still runs on its hosts. Names processes that keep a part of it alive: network
/// namespaces and devices stay as long as a process is in them. Without a lab it says so and exits with 0.
#[derive(Args, Debug, Clone)]
pub(crate) struct Down {}

impl Down {
    /// Takes the lab down. Returns 0 if nothing is left, 1 otherwise.
    pub(crate) fn run(self) -> ExitCode {
        match down() {
            Ok(text) => {
                let _ = writeln!(std::io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(why) => {
                say(&format!("longhaul: {why}"));
                ExitCode::FAILURE
            }
        }
    }
}

fn down() -> Result<String, LabError> {
    let mut note = match Claim::take()? {
        Claimed::Taken(note) => note,
        Claimed::Ours(_claim, None) => return Ok("no lab stands".into()),
        Claimed::Ours(_claim, Some(Note { scenario, process, .. })) => {
            return Ok(format!(
                "no lab stands; that of {scenario}, process {process}, was killed and left nothing behind"
            ));
        }
    };
    let spaces = Spaces::of(&note);
    let start = Instant::now();
    let mut sent = None;
    let _claim = loop {
        let signal = if start.elapsed() > PATIENCE { EndSignal::Kill } else { EndSignal::Term };
        // A new process may not have written its number yet.
        if note.process != 0 && sent != Some(signal) {
            process::end(note.process, signal)?;
            sent = Some(signal);
        }
        std::thread::sleep(EVERY);
        match Claim::take()? {
            Claimed::Ours(claim, _) => break claim,
            Claimed::Taken(_) if start.elapsed() > PATIENCE * 2 => {
                return Err(LabError::NotEnded(format!("process {} does not end", note.process)));
            }
            Claimed::Taken(other) if note.process == 0 => note = other,
            Claimed::Taken(_) => {}
        }
    };
    spaces.wait_until_empty()?;
    Ok(format!("the lab of {}, run {}, is down: nothing is left", note.scenario, note.run))
}

/// The network and process namespaces of a lab, held open so that the kernel does not reuse their numbers meanwhile.
struct Spaces(Vec<(PathBuf, File)>);

impl Spaces {
    fn of(note: &Note) -> Spaces {
        let paths =
            note.anchors.iter().flat_map(|anchor| ["net", "pid"].map(|kind| format!("/proc/{anchor}/ns/{kind}")));
        Spaces(paths.filter_map(|path| Some((std::fs::read_link(&path).ok()?, File::open(&path).ok()?))).collect())
    }

    /// Waits until no other process is in the namespaces or holds them open.
    fn wait_until_empty(self) -> Result<(), LabError> {
        let start = Instant::now();
        loop {
            let left = self.holders();
            if left.is_empty() {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let who = left.join(", ");
                return Err(LabError::NotEnded(format!(
                    "the lab's hosts are still in use by {who}; end these processes"
                )));
            }
            std::thread::sleep(EVERY);
        }
    }

    /// Returns the other processes that are in a namespace or hold one open, with their names, as far as this user may see them.
    fn holders(&self) -> Vec<String> {
        let is_one = |path: PathBuf| {
            std::fs::read_link(path).is_ok_and(|target| self.0.iter().any(|(known, _)| *known == target))
        };
        let own = std::process::id().to_string();
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let path = process.path();
            let name = process.file_name().to_string_lossy().into_owned();
            if self.0.is_empty() || name == own || !name.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
            // A zombie (proc_pid_stat(5)) holds only its number.
            let is_dead = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
            let open = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
            let within = ["ns/net", "ns/pid"].map(|space| path.join(space));
            if !is_dead && within.into_iter().chain(open).any(is_one) {
                let called = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
                found.push(format!("process {name} ({})", called.trim()));
            }
        }
        found
    }
}

/// Time after which the process is killed, and after which processes that hold its namespaces are reported.
const PATIENCE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_millis(10);
