//! `longhaul tune`: this Linux host for a path, and back.
//!
//! Each file uses only those below it in this list:
//!
//! - `text`: the plan and the end of a rollback as text;
//! - `apply`: makes the changes of a plan, all or none, and undoes those of the record;
//! - `plan`: the changes that a path asks for;
//! - `record`: the values before, on disk, and the lock;
//! - `files`: the files that set sysctls at boot;
//! - `place`: sysctls, routes and the file, read and set step by step; `route`; `values`; `program`.

mod apply;
mod files;
mod place;
mod plan;
mod program;
mod record;
mod route;
#[cfg(test)]
mod tests;
mod text;
mod values;

use crate::path::{Limited, Path, PathFlags};
use crate::say;
use apply::RolledBack;
use clap::Args;
use longhaul_core::advice::LINUX;
use place::Host;
use plan::Plan;
use record::{FOLDER, Lock, Record};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// The flags of `longhaul tune`.
#[derive(Args, Debug)]
pub struct Tune {
    #[command(flatten)]
    path: PathFlags,
    /// Also set the packet size of the route to NETWORK
    ///
    /// NETWORK is a destination as `ip route` shows it, such as 10.20.0.0/16 or default. The route changes only if packets of 1500
    /// bytes do not fit into the path: see --mtu and --encap. The change lasts until the next boot.
    #[arg(long, value_name = "NETWORK", value_parser = route::read_network)]
    route: Option<String>,
    /// Make the changes without a question
    ///
    /// Also without a terminal. An answer is never read from a pipe.
    #[arg(long, short)]
    yes: bool,
    /// Only show the changes [default without a terminal]
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Restore the values before the first tune
    ///
    /// It does not ask. With --dry-run it only shows them. A value that is neither that of tune nor the one before stays as it is.
    /// It is named, and the exit code is 1.
    #[arg(long, conflicts_with_all = ["route", "rtt", "rate", "loss", "mtu", "encap", "from", "direction"])]
    rollback: bool,
}

impl Tune {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        let done = match self.path.read(None) {
            _ if self.rollback => self.roll_back(),
            Ok((path, limited)) => {
                if let Some(limited) = &limited {
                    say::print(&text::measured(limited, &path, self.route.is_some()));
                }
                self.tune(&path, limited.as_ref())
            }
            Err(why) => return say::wrong(&why),
        };
        done.map_or_else(|why| say::failed(&why), |()| ExitCode::SUCCESS)
    }

    fn tune(&self, path: &Path, limited: Option<&Limited>) -> Result<(), String> {
        let network = self.route.as_deref();
        let lifts = |name: &str| {
            let row = LINUX.setting(name).zip(limited);
            row.is_some_and(|(row, limited)| limited.is_lifted_by(row, &LINUX, path))
        };
        // A pipe is never read as an answer.
        if !self.yes && (self.dry_run || !io::stdin().is_terminal()) {
            let plan = Plan::new(path, network, Record::read()?.as_ref())?;
            say::print(&text::plan(&plan, lifts));
            say::print(if plan.is_empty() { NOTHING } else { DRY_RUN });
            return Ok(());
        }
        need_root("tune")?;
        let is_agreed = |plan: &Plan| {
            say::print(&text::plan(plan, lifts));
            self.yes || plan.is_empty() || is_agreed()
        };
        say::print(if tune(&host(), path, network, is_agreed)? { DONE } else { NOTHING });
        Ok(())
    }

    fn roll_back(&self) -> Result<(), String> {
        if self.dry_run {
            let record = Record::read()?.ok_or(NO_RECORD)?;
            apply::check_file(&record)?;
            let foreseen = apply::foresee(record);
            say::print(&text::restored("To restore", &foreseen));
            text::left(&foreseen).iter().for_each(say::note);
            say::print("Dry run: nothing was restored.\n");
            return Ok(());
        }
        need_root("tune --rollback")?;
        let ended = roll_back(&host())?;
        say::print(&text::restored("Restored", &ended));
        match text::left(&ended) {
            left if left.is_empty() => Ok(()),
            left => Err(left.join("\nerror: ")),
        }
    }
}

/// Makes the changes for `path`, and for the route to `network`, if there are any and `is_agreed`. Returns whether there were any.
///
/// # Errors
/// They were not made: a sentence that says why, and what could not be restored.
fn tune(
    host: &Host,
    path: &Path,
    network: Option<&str>,
    is_agreed: impl FnOnce(&Plan) -> bool,
) -> Result<bool, String> {
    locked(host, || {
        let record = Record::read()?;
        let plan = Plan::new(path, network, record.as_ref())?;
        if !is_agreed(&plan) {
            return Err("nothing was changed".into());
        }
        if !plan.is_empty() {
            apply::apply(host, &plan, record.as_ref())?;
        }
        Ok(!plan.is_empty())
    })
}

/// Undoes the changes of the record.
///
/// # Errors
/// There is no record, or it cannot be read or written; or tune's file is not as tune wrote it, and nothing was restored.
fn roll_back(host: &Host) -> Result<RolledBack, String> {
    // A tune that was stopped before its record was written has left the folder.
    if !std::path::Path::new(FOLDER).exists() {
        return Err(NO_RECORD.into());
    }
    locked(host, || {
        let record = Record::read()?.ok_or(NO_RECORD)?;
        apply::check_file(&record)?;
        apply::roll_back(host, record).map_err(|err| format!("{FOLDER}: {err}"))
    })
}

/// Runs `job` while no other process may change this host.
fn locked<T>(host: &Host, job: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let lock = Lock::take(host)?;
    let done = job();
    // An empty file that stays does no harm.
    drop(lock.release(host));
    done
}

/// Asks on the terminal.
fn is_agreed() -> bool {
    let mut answer = String::new();
    let asked = write!(io::stderr(), "Make these changes? [y/N] ").and_then(|()| io::stdin().read_line(&mut answer));
    asked.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

fn need_root(command: &str) -> Result<(), String> {
    match longhaul_sys::netns::is_root() {
        true => Ok(()),
        false => Err(format!(
            "`longhaul {command}` changes this host and needs root: write sudo before it, or add --dry-run"
        )),
    }
}

/// Returns this host, on which nothing stops a step.
fn host() -> Host<'static> {
    Host::new(&|_| Ok(()))
}

const NOTHING: &str = "Nothing to change.\n";
const DRY_RUN: &str = "Dry run: nothing was changed. As root with --yes, or on a terminal, the changes are made.\n";
const DONE: &str = "Every change was made and read back. New connections use the new values.\n\
    To restore the values before: sudo longhaul tune --rollback\n";
const NO_RECORD: &str = "there is no record of a tune on this host, so there is nothing to restore";
