//! `longhaul lab list`: what there is to run.

use crate::scenario::library;
use crate::{carrier, traffic};
use clap::Args;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Show the built-in scenarios, carriers and traffic
#[derive(Args, Debug, Clone)]
pub(crate) struct List {}

impl List {
    /// Prints it.
    pub(crate) fn run(self) -> ExitCode {
        let mut text = String::from("Scenarios (longhaul lab run NAME):\n");
        for (name, _) in library::FILES {
            if let Some(Ok(scenario)) = library::load(name) {
                let _ = writeln!(text, "  {name:<20} {}", scenario.about);
            }
        }
        text.push_str("\nCarriers (--carrier NAME):\n");
        for carrier in carrier::ROWS {
            let _ = writeln!(text, "  {:<20} {}", carrier.name, carrier.what);
        }
        text.push_str("\nTraffic (in a scenario's file):\n");
        for kind in traffic::ROWS {
            let _ = writeln!(text, "  {:<20} {}", kind.name, kind.what);
        }
        // A reader who has seen enough, such as `head`, is no failure.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        ExitCode::SUCCESS
    }
}
