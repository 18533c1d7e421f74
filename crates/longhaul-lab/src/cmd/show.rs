//! `longhaul lab show`: prints the file of a scenario that is built in.

use crate::cmd::progress::say;
use crate::scenario::library;
use clap::Args;
use std::io::Write as _;
use std::process::ExitCode;

/// Print the file of a built-in scenario
///
/// Every built-in scenario is a commented file that may be copied and changed:
///
/// longhaul lab show mitre > mine.toml
///
/// longhaul lab run mine.toml
#[derive(Args, Debug, Clone)]
pub(crate) struct Show {
    /// A scenario of `longhaul lab list`
    name: String,
}

impl Show {
    /// Prints it: 0, or 2 when there is no such scenario.
    pub(crate) fn run(self) -> ExitCode {
        match library::text(&self.name) {
            Ok(text) => {
                // A reader who has seen enough, such as `head`, is no failure.
                let _ = std::io::stdout().lock().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(why) => {
                say(&why);
                ExitCode::from(2)
            }
        }
    }
}
