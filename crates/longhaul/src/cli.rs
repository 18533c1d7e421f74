//! The command line: one variant a command; each command is one function in the file that does the work.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "longhaul", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

/// Reads the command line, runs the command and gives its exit code: 0 done, 1 what was asked for failed, 2 wrong usage
/// or configuration.
pub(crate) fn main() -> ExitCode {
    match Cli::parse().command {}
}
