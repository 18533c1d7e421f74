//! Where the log goes and how it looks: the flags of every command that runs.

use clap::{Args, ValueEnum};
use std::io::{self, IsTerminal};
use tracing_subscriber::filter::LevelFilter;

/// How a log line looks.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Clone, Copy, Args)]
#[command(next_help_heading = "Logging, on stderr")]
pub(super) struct Flags {
    /// How log lines look
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT", hide_possible_values = true)]
    #[arg(help = "text or json")]
    log_format: Format,
    /// The least that is logged
    #[arg(
        long,
        global = true,
        default_value = "info",
        value_name = "LEVEL",
        help = "error, warn, info, debug or trace"
    )]
    #[arg(value_parser = level)]
    log_level: LevelFilter,
}

impl Flags {
    /// Sends the log to stderr from here on.
    pub(super) fn start(self) {
        // Colours are for people: a journal or a file would keep their escape sequences.
        let colours = io::stderr().is_terminal();
        let log = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(colours).with_max_level(self.log_level);
        // A log is started once; a second start keeps the first.
        let _ = match self.log_format {
            Format::Text => log.with_target(false).try_init(),
            Format::Json => log.json().try_init(),
        };
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "error" | "warn" | "info" | "debug" | "trace" => text.parse().map_err(|_| "unknown".into()),
        _ => Err("write error, warn, info, debug or trace".into()),
    }
}
