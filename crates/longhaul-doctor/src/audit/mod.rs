//! `longhaul audit`: from pastes of hosts' settings to what limits them on a path.
//!
//! [`paste`] gives the lines of a source, [`host`] reads them with the reader of each system, [`finding`] compares what they
//! show with the path, and `text`, `json`, `migration` and `page` show that.

mod change;
mod collect;
mod finding;
mod host;
mod json;
mod local;
mod migration;
mod page;
mod paste;
mod reader;
mod source;
mod systems;
mod text;

use crate::first::First;
use crate::path::{Path, PathFlags, help, read_system};
use crate::say;
use clap::Args;
use finding::Audited;
use longhaul_core::advice::{LINUX, System};
use longhaul_units::Rate;
use source::Source;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The flags of `longhaul audit`.
#[derive(Args, Debug)]
pub struct Audit {
    /// Pastes: files, a folder, or `-` for standard input
    ///
    /// A file has the settings of one host: the output of one command, or of several one after the other. Prompts, colours,
    /// wrapped lines and the frames of 5250 screens do no harm. Of a folder, each file is a host; folders in it are not read.
    #[arg(value_name = "FILE")]
    pastes: Vec<PathBuf>,
    #[arg(long, value_name = "SYSTEM", value_parser = read_system, help = OS, long_help = os())]
    os: Option<&'static System>,
    /// Read this Linux machine itself
    ///
    /// It runs the commands that `--collect linux` prints, without `ss`.
    #[arg(long, conflicts_with_all = ["pastes", "os"])]
    local: bool,
    /// Print a script that collects the settings
    ///
    /// It has the commands to run on a host of this system, and changes nothing.
    #[arg(long, value_name = "SYSTEM", value_parser = read_system, exclusive = true)]
    collect: Option<&'static System>,
    #[command(flatten)]
    path: PathFlags,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Write the table of the hosts as CSV
    ///
    /// `-` is standard output, in place of the report. Rates are in 10^6 bit/s.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write an HTML page to this file
    ///
    /// The page shows the table, and for each host its window, its rate, and what to change. It is a single file for any browser,
    /// and it can be printed. It loads nothing from elsewhere.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Audit {
    /// Prints what limits the hosts, or a script. Returns 0, 1 if nothing in the pastes is understood, or 2 for wrong usage.
    pub fn run(self) -> ExitCode {
        if let Some(system) = self.collect {
            return say::print(collect::script(system));
        }
        match self.audit() {
            Ok((path, first, hosts)) => self.show(&path, first.as_ref(), &hosts),
            Err(why) => say::wrong(&why),
        }
    }

    /// Returns the path, the change that lifts its measured limit, and the hosts, those that gain most first.
    ///
    /// # Errors
    /// A flag or a paste is missing: a sentence that says what to write.
    fn audit(&self) -> Result<(Path, Option<First>, Vec<Audited>), String> {
        if self.is_stdout_twice() {
            return Err("--json and --csv - both write to standard output: name a file for --csv".into());
        }
        if self.pastes.is_empty() && !self.local {
            return Err(
                "no paste: name files or a folder, or `-` for standard input; `longhaul audit --collect aix` prints \
                what to run on a host"
                    .into(),
            );
        }
        let (path, limited) = self.path.read(None)?;
        limited.iter().for_each(say::note);
        let first = limited.as_ref().and_then(|limited| limited.first(&path));
        let audited = |host| {
            let mut audited = Audited::new(host, &path);
            limited.iter().for_each(|limited| audited.begin_with(limited, &path));
            audited
        };
        let (sources, os) = match self.local {
            true => (vec![Source::Local], Some(&LINUX)),
            false => (source::sources(&self.pastes)?, self.os),
        };
        let is_only = sources.len() == 1;
        let mut hosts = Vec::new();
        for source in sources {
            match source.open().and_then(|paste| host::read(paste, &source.name(), os)) {
                Ok(Some(host)) => hosts.push((source.title(), audited(host))),
                Ok(None) => say::note(format_args!("note: {}: nothing in it is understood", source.title())),
                Err(err) if is_only => return Err(format!("{}: {err}", source.title())),
                // The others of a migration are still worth a table.
                Err(err) => say::note(format_args!("note: {}: left out: {err}", source.title())),
            }
        }
        let mut hosts = with_different_names(hosts);
        migration::sort(&mut hosts);
        Ok((path, first, hosts))
    }

    fn show(&self, path: &Path, first: Option<&First>, hosts: &[Audited]) -> ExitCode {
        if hosts.is_empty() {
            let why = self.os.map_or_else(nothing_understood, not_understood);
            if self.json {
                say::print(&json::text(path, first, hosts, Some(&why)));
            }
            return say::failed(&why);
        }
        let is_csv_printed = self.csv.as_deref().is_some_and(is_stdout);
        match self.write(path, first, hosts) {
            Err(why) => say::wrong(&why),
            Ok(()) if is_csv_printed => say::print(&migration::csv(hosts)),
            Ok(()) if self.json => say::print(&json::text(path, first, hosts, None)),
            Ok(()) => say::print(&text::text(path, first, hosts)),
        }
    }

    /// Writes the table and the page to the files that were named.
    ///
    /// # Errors
    /// A file cannot be written.
    fn write(&self, path: &Path, first: Option<&First>, hosts: &[Audited]) -> Result<(), String> {
        if let Some(file) = self.csv.as_ref().filter(|file| !is_stdout(file)) {
            crate::page::write(file, &migration::csv(hosts)).map_err(|why| format!("--csv: {why}"))?;
        }
        match &self.html {
            Some(file) => {
                crate::page::write(file, &page::page(path, first, hosts)).map_err(|why| format!("--html: {why}"))
            }
            None => Ok(()),
        }
    }

    fn is_stdout_twice(&self) -> bool {
        self.json && self.csv.as_deref().is_some_and(is_stdout)
    }
}

/// The reports about one paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// The report for a terminal.
    pub text: String,
    /// The JSON document.
    pub json: String,
    /// The table as CSV.
    pub csv: String,
    /// The HTML page.
    pub html: String,
}

/// Audits one paste, as `longhaul audit` does, for a path with this round trip and this rate. Returns `None` if nothing in it is
/// understood. Any bytes may be in it.
pub fn audit_text(paste: &[u8], rtt: Duration, rate: Rate) -> Option<Reports> {
    let path = Path::new(rtt, rate);
    // Reading from memory does not fail.
    let host = host::read(paste, "paste", None).ok().flatten()?;
    let hosts = [Audited::new(host, &path)];
    let (text, json) = (text::text(&path, None, &hosts), json::text(&path, None, &hosts, None));
    Some(Reports { text, json, csv: migration::csv(&hosts), html: page::page(&path, None, &hosts) })
}

/// Returns the hosts, with the paste behind a name that several of them have.
fn with_different_names(hosts: Vec<(String, Audited)>) -> Vec<Audited> {
    let mut count: HashMap<String, usize> = HashMap::new();
    hosts.iter().for_each(|(_, audited)| *count.entry(audited.host.name.clone()).or_default() += 1);
    let named = hosts.into_iter().map(|(paste, mut audited)| {
        if count[&audited.host.name] > 1 {
            audited.host.name += &format!(" ({paste})");
        }
        audited
    });
    named.collect()
}

fn is_stdout(file: &std::path::Path) -> bool {
    file.as_os_str() == "-"
}

fn nothing_understood() -> String {
    let systems: Vec<&str> = systems::READERS.iter().map(|row| row.system).collect();
    let systems = systems.join(" or ");
    format!("nothing is understood: paste the output of the commands that `longhaul audit --collect {systems}` prints")
}

fn not_understood(system: &System) -> String {
    format!("nothing is understood as output of {}: leave --os out for a guess, or name another system", system.title)
}

fn os() -> String {
    let more = "The guess is the system whose output most lines are.";
    help(OS, systems::READERS.iter().map(|row| row.system), more)
}

const OS: &str = "System of the hosts [default: a guess]";
