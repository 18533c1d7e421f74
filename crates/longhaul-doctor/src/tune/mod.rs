//! `longhaul tune`.

use crate::path::PathFlags;
use clap::Args;
use std::process::ExitCode;

/// The flags of `longhaul tune`.
#[derive(Args, Debug)]
pub struct Tune {
    #[command(flatten)]
    path: PathFlags,
}

impl Tune {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        match self.path.path(None) {
            Ok(_) => crate::say::print(""),
            Err(why) => crate::say::wrong(&why),
        }
    }
}
