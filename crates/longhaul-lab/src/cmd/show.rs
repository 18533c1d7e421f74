//! `longhaul lab show`: prints the file of a built-in scenario.

use crate::cmd::progress::{print_only, say};
use crate::scenario::library;
use clap::Args;
use std::process::ExitCode;

/// Print the file of a built-in scenario
///
/// Copy a built-in scenario to change it:
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
    /// Prints the file. Returns 0, or 2 if there is no such scenario.
    pub(crate) fn run(self) -> ExitCode {
        match library::text(&self.name) {
            Ok(text) => print_only(text),
            Err(why) => {
                say(&why);
                ExitCode::from(2)
            }
        }
    }
}
