//! `longhaul lab list`: the scenarios, carriers and kinds of traffic.

use crate::carrier::table as carriers;
use crate::cmd::progress::print_only;
use crate::engine;
use crate::scenario::library;
use crate::traffic as kinds;
use crate::world::requirement::Requirement;
use clap::Args;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Show the built-in scenarios, carriers and traffic
///
/// Shows for each scenario its approximate duration on an idle machine, and the programs without which some of its runs are
/// skipped.
#[derive(Args, Debug, Clone)]
pub(crate) struct List {}

impl List {
    /// Prints the list.
    pub(crate) fn run(self) -> ExitCode {
        let mut text = String::from("Scenarios (longhaul lab run NAME):\n");
        for (name, _) in library::FILES {
            if let Some(Ok(scenario)) = library::load(name) {
                let minutes = engine::duration(&scenario).as_secs().div_ceil(60);
                let minutes = if minutes == 1 { "about 1 minute".into() } else { format!("about {minutes} minutes") };
                let _ = writeln!(text, "  {name:<20} {}", scenario.about);
                let _ = writeln!(text, "  {:<20} {minutes}{}", "", needed(engine::needs(&scenario)));
            }
        }
        text.push_str("\nCarriers (--carrier NAME):\n");
        for carrier in carriers::ROWS {
            let _ = writeln!(text, "  {:<20} {}{}", carrier.name, carrier.what, needed(carrier.needs.iter()));
        }
        text.push_str("\nTraffic (in a scenario's file):\n");
        for kind in kinds::ROWS {
            let _ = writeln!(text, "  {:<20} {}{}", kind.name, kind.what, needed(kind.needs.iter()));
        }
        print_only(&text)
    }
}

/// Returns the programs as the end of a line: `; needs socat, scp`. Each is named once, and a missing one is marked.
fn needed(requirements: impl IntoIterator<Item = &'static Requirement>) -> String {
    let mut names: Vec<String> = Vec::new();
    for requirement in requirements {
        let missing = if requirement.find().is_err() { " (not installed)" } else { "" };
        let name = format!("{}{missing}", requirement.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { String::new() } else { format!("; needs {}", names.join(", ")) }
}
