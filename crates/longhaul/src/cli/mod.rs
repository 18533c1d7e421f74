//! The command line: one variant a command, one file below `cli/` for each command with flags of its own.
//!
//! Exit codes: 0 done, 1 what was asked for failed, 2 wrong usage or configuration.

mod check;
mod hints;
mod log_queue;
mod logs;
mod machine;
mod options;
mod pages;
mod relay;
mod rights;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use longhaul::daemon::{self, DaemonError};
use longhaul_config::Loaded;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing::error;

/// Makes TCP fast over long fat networks for hosts that cannot be changed
///
/// Two machines, one at each site, split every TCP connection: the hosts talk to the machine beside them, and the two
/// machines talk to each other over the WAN with a modern congestion control and windows as large as the path needs.
#[derive(Parser)]
#[command(name = "longhaul", version, max_term_width = 80, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: logs::Flags,
}

#[derive(Subcommand)]
enum Command {
    /// Carry one tunnel, told on the command line
    ///
    /// Listens, and dials a next hop for every connection that comes in. It runs until SIGTERM, then lets flows end.
    Relay(Box<relay::Flags>),
    /// Carry every tunnel of a configuration file
    ///
    /// The daemon. SIGHUP reads the file again: live flows are not touched, and a bad file is refused whole. SIGTERM
    /// stops listening and lets flows end; a second SIGTERM cuts them.
    Run(File),
    /// Say whether a configuration file is good
    ///
    /// Exits with 0 when it is, and with 2 when it is not: then every error is named with file, line, column, key, the
    /// value and what to write instead. Warnings, also of what this machine and the rights of longhaul.service lack, leave
    /// the exit code at 0 unless --strict is given.
    Check(check::Flags),
    /// Emulate a WAN on this machine
    #[cfg(feature = "lab")]
    Lab(longhaul_lab::Lab),
    /// List the socket options of a leg
    Options(options::Flags),
    /// Write a shell's completion script to stdout
    Completions(pages::Shell),
    /// Write manual pages
    Man(pages::Man),
}

#[derive(Args)]
struct File {
    /// The file
    #[arg(short, long, value_name = "FILE", default_value = longhaul_config::DEFAULT_PATH)]
    config: PathBuf,
}

/// Reads the command line, runs the command and gives its exit code.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|err| hints::meant(err, Cli::command()).exit());
    let logs = cli.logs;
    match cli.command {
        Command::Relay(flags) => match flags.load() {
            Ok(loaded) => serve(loaded, None, logs),
            Err(why) => wrong_usage("relay", &why),
        },
        Command::Run(file) => match longhaul_config::load(&file.config) {
            Ok(loaded) => serve(loaded, Some(file.config), logs),
            Err(refused) => complain(&refused.messages),
        },
        Command::Check(flags) => check::check(&flags),
        #[cfg(feature = "lab")]
        Command::Lab(lab) => lab.run(),
        Command::Options(flags) => say(options::text(&flags)),
        Command::Completions(shell) => shell.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    }
}

/// Carries the tunnels of what was read until it is told to end. `file` is what SIGHUP reads again.
fn serve(loaded: Loaded, file: Option<PathBuf>, logs: logs::Flags) -> ExitCode {
    let log = match logs.start() {
        Ok(log) => log,
        Err(err) => {
            complain(&[format!("error: cannot start a thread for the log: {err}")]);
            return ExitCode::FAILURE;
        }
    };
    loaded.warnings.iter().for_each(daemon::log);
    let ended = daemon::run(loaded.config, file);
    match &ended {
        Ok(()) => {}
        Err(err @ DaemonError::Panicked(_)) => error!(%err, "ending, which resets every flow"),
        Err(err) => error!(%err, "not started"),
    }
    log.flush();
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends as clap does when it refuses a value itself: `why`, and how `command` is used.
fn wrong_usage(command: &str, why: &str) -> ! {
    let mut cli = Cli::command();
    cli.build();
    let mut fallback = cli.clone();
    let command = cli.find_subcommand_mut(command).unwrap_or(&mut fallback);
    command.error(ErrorKind::ValueValidation, why).exit()
}

/// Writes a text to stdout, or on stderr why there is none.
fn say(text: Result<String, String>) -> ExitCode {
    text.map_or_else(|why| complain(&[why]), |text| print(&text))
}

/// Says `lines` on stderr: wrong usage or configuration.
fn complain(lines: &[impl Display]) -> ExitCode {
    // Nobody is left to tell when stderr is closed.
    lines.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}")));
    ExitCode::from(2)
}

/// Writes `text` to stdout. A reader who has seen enough, such as `head`, is no failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => {
            complain(&[format!("error: stdout: {err}")]);
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 what was asked for failed; 2 wrong usage or configuration.
`longhaul lab run` has more of them: `longhaul lab run --help`.";
