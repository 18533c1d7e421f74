//! `longhaul check`: whether a file is good, and what `longhaul run` would do with it.

use super::file::{File, STDIN};
use super::machine::{self, Here};
use super::{WRONG, logs};
use clap::Args;
use longhaul_config::{Config, Loaded, Message, Refused, Severity};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use tracing::info;

/// The flags of `longhaul check`.
#[derive(Args)]
pub(super) struct CheckFlags {
    #[command(flatten)]
    file: File,
    /// Treat warnings as errors
    ///
    /// Exits with 2 when there is a warning, so that a script can stop before a doubtful file is used. Notes stay notes: a note
    /// is about a known trade-off of an option.
    #[arg(long)]
    strict: bool,
}

/// Writes every error, warning and note to stderr, and what would run to stdout.
pub(super) fn check(flags: &CheckFlags, logs: logs::LogFlags) -> ExitCode {
    let path = flags.file.path();
    let (name, loaded) = match path == Path::new(STDIN) {
        true => ("stdin".to_string(), longhaul_config::load_from("stdin", io::stdin().lock())),
        false => (path.display().to_string(), longhaul_config::load(path)),
    };
    let Loaded { config, warnings: mut messages } = match loaded {
        Ok(loaded) => loaded,
        Err(Refused { messages }) => {
            logs.tell(&messages);
            return ExitCode::from(WRONG);
        }
    };
    let here = machine::look(&config, path);
    messages.extend_from_slice(&here.warnings);
    let has_warning = messages.iter().any(|message| message.severity == Severity::Warning);
    if flags.strict && has_warning {
        messages.iter_mut().filter(|message| message.severity == Severity::Warning).for_each(make_error);
        logs.tell(&messages);
        return ExitCode::from(WRONG);
    }
    logs.tell(&messages);
    let summary = summary(&name, &config, &here);
    logs.result(&summary, || {
        info!(file = name, tunnels = config.tunnels.len(), will_not_start = here.will_not_start, summary, "good");
    })
}

fn summary(name: &str, config: &Config, here: &Here) -> String {
    let mut text = format!("{name}: {}", longhaul_config::summary(config));
    text.extend(here.drain.iter().map(|line| format!("{line}\n")));
    if here.stops_daemon {
        text += &format!("{name}: the daemon will NOT start on this machine\n");
    } else if here.will_not_start > 0 {
        let (count, all) = (here.will_not_start, config.tunnels.len());
        text += &format!(
            "{name}: {count} of {all} tunnels will NOT start on this machine, so the daemon refuses the file\n"
        );
    }
    text
}

fn make_error(message: &mut Message) {
    message.severity = Severity::Error;
}
