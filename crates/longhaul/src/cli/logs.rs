//! The log and its flags, which every command has.

use super::log_fields::Fields;
use super::log_queue::Queue;
use clap::{Args, ValueEnum};
use longhaul::daemon;
use longhaul_config::Message;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tracing::{Dispatch, dispatcher, warn};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Form of a log line.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Clone, Copy, Args)]
#[command(next_help_heading = "Logging, on stderr")]
pub(super) struct LogFlags {
    /// Form of log lines
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT", hide_possible_values = true)]
    #[arg(help = "text or json")]
    log_format: Format,
    /// Lowest level that is logged
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

impl LogFlags {
    /// Sends the log to stderr from here on.
    ///
    /// # Errors
    /// There is no thread to write it.
    pub(super) fn start(self) -> io::Result<Log> {
        // An error may have been among the lines that were lost, so they are told at every level.
        let direct = LogFlags { log_level: self.log_level.max(LevelFilter::WARN), ..self }.dispatch(io::stderr);
        let queue = Queue::start(io::stderr(), move |lines| {
            dispatcher::with_default(&direct, || warn!(lines, "log lines were lost: stderr was full or not writable"));
        })?;
        let log = Log(queue.clone());
        // A log is started once; a second start keeps the first.
        let _ = self.dispatch(move || queue.clone()).try_init();
        Ok(log)
    }

    /// Writes `messages` to stderr, whatever the level: a line each, or with `--log-format json` one JSON object each, in the
    /// form of the log.
    pub(super) fn tell(self, messages: &[Message]) {
        match self.log_format {
            // Nobody is left to tell when stderr is closed.
            Format::Text => messages.iter().for_each(|message| drop(writeln!(io::stderr(), "{message}"))),
            Format::Json => self.as_json(|| messages.iter().for_each(daemon::log)),
        }
    }

    /// Writes `text`, the result of a command: to stdout, or with `--log-format json` to stderr, where `log` logs it as one JSON
    /// object.
    pub(super) fn result(self, text: &str, log: impl FnOnce()) -> ExitCode {
        match self.log_format {
            Format::Text => super::print(text),
            Format::Json => {
                self.as_json(log);
                ExitCode::SUCCESS
            }
        }
    }

    /// Writes what `log` logs to stderr, and waits until it is written.
    fn as_json(self, log: impl FnOnce()) {
        let log_level = self.log_level.max(LevelFilter::INFO);
        dispatcher::with_default(&LogFlags { log_level, ..self }.dispatch(io::stderr), log);
    }

    fn dispatch(self, writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static) -> Dispatch {
        // Colours are for people: a journal or a file would keep their escape sequences.
        let colours = io::stderr().is_terminal();
        let log = tracing_subscriber::fmt().with_writer(writer).with_ansi(colours).with_max_level(self.log_level);
        // It would say them with eprintln!, which panics where stderr is what fails.
        let log = log.log_internal_errors(false);
        // Libraries report what they do to the code that calls them; their own lines would be a second report.
        let ours = Targets::new().with_target("longhaul", self.log_level);
        match self.log_format {
            Format::Text => log.fmt_fields(Fields).with_target(false).finish().with(ours).into(),
            Format::Json => log.json().finish().with(ours).into(),
        }
    }
}

/// The log of this process.
pub(super) struct Log(Queue);

impl Log {
    /// Waits until the last lines are written, for a second at most: a stderr that nobody reads must not keep the process.
    pub(super) fn flush(&self) {
        self.0.flush(FLUSH_WITHIN);
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "error" | "warn" | "info" | "debug" | "trace" => text.parse().map_err(|_| "unknown".into()),
        _ => Err("write error, warn, info, debug or trace".into()),
    }
}

const FLUSH_WITHIN: Duration = Duration::from_secs(1);
