//! `longhaul check`: whether a file is good, and what `longhaul run` would do with it.

use super::{File, machine};
use clap::Args;
use longhaul::config::{self, Loaded, Message, Refused, Severity};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Flags {
    #[command(flatten)]
    file: File,
    /// Warnings are errors
    ///
    /// For scripts that must not put a doubtful file in force: exits with 2 where there is a warning.
    #[arg(long)]
    strict: bool,
}

/// Says on stderr what is wrong or doubtful in the file, and on stdout what would run.
pub(super) fn check(flags: &Flags) -> ExitCode {
    let path = &flags.file.config;
    let Loaded { config, warnings: mut said } = match config::load(path) {
        Ok(loaded) => loaded,
        Err(Refused { messages }) => return super::complain(&messages),
    };
    said.extend(machine::warnings(&config));
    if flags.strict && !said.is_empty() {
        let errors: Vec<Message> =
            said.into_iter().map(|message| Message { severity: Severity::Error, ..message }).collect();
        return super::complain(&errors);
    }
    super::complain(&said);
    super::print(&format!("{}: {}", path.display(), config::summary(&config)))
}
