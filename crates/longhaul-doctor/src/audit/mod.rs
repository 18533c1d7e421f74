//! `longhaul audit`.

mod paste;
mod reader;
mod systems;

use crate::path::PathFlags;
use clap::Args;
use std::process::ExitCode;

/// The flags of `longhaul audit`.
#[derive(Args, Debug)]
pub struct Audit {
    #[command(flatten)]
    path: PathFlags,
}

impl Audit {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        match self.path.path(None) {
            Ok(_) => crate::say::print(""),
            Err(why) => crate::say::wrong(&why),
        }
    }
}
