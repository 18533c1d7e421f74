//! `longhaul advise`.

use crate::path::PathFlags;
use clap::Args;
use std::process::ExitCode;

/// The flags of `longhaul advise`.
#[derive(Args, Debug)]
pub struct Advise {
    #[command(flatten)]
    path: PathFlags,
}

impl Advise {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        match self.path.path() {
            Ok(_) => crate::say::print(""),
            Err(why) => crate::say::wrong(&why),
        }
    }
}
