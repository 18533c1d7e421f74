//! `longhaul check`: whether a file is good, and what `longhaul run` would do with it.

use super::{File, machine};
use clap::Args;
use longhaul_config::{Loaded, Message, Refused, Severity};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Flags {
    #[command(flatten)]
    file: File,
    /// Warnings are errors
    ///
    /// For scripts that must not put a doubtful file in force: exits with 2 where there is a warning. A note, about a known
    /// trade-off of an option, stays a note.
    #[arg(long)]
    strict: bool,
}

/// Says on stderr what is wrong or doubtful in the file, and on stdout what would run.
pub(super) fn check(flags: &Flags) -> ExitCode {
    let path = &flags.file.config;
    let Loaded { config, warnings: mut said } = match longhaul_config::load(path) {
        Ok(loaded) => loaded,
        Err(Refused { messages }) => return super::complain(&messages),
    };
    let here = machine::look(&config, path);
    said.extend(here.warnings);
    if flags.strict && said.iter().any(|message| message.severity == Severity::Warning) {
        said.iter_mut().filter(|message| message.severity == Severity::Warning).for_each(make_error);
        return super::complain(&said);
    }
    super::complain(&said);
    let mut text = format!("{}: {}", path.display(), longhaul_config::summary(&config));
    if here.will_not_start > 0 {
        let count = here.will_not_start;
        let plural = if count == 1 { "" } else { "s" };
        text += &format!("{}: good, but {count} tunnel{plural} will not start on this machine\n", path.display());
    }
    super::print(&text)
}

fn make_error(message: &mut Message) {
    message.severity = Severity::Error;
}
