//! `longhaul drain`.

use super::control::{Target, failed};
use super::{complain, print};
use clap::Args;
use longhaul::admin::client::{Ask, NoAnswer};
use std::process::ExitCode;

/// The flags of `longhaul drain`.
#[derive(Args)]
pub(super) struct DrainFlags {
    #[command(flatten)]
    target: Target,
    /// Undo the drain: listen again
    #[arg(long)]
    undo: bool,
}

/// Drains the daemon and waits for its last flow, or undoes the drain.
pub(super) fn drain(flags: &DrainFlags) -> ExitCode {
    if flags.undo {
        return match flags.target.ask(Ask::Undrain) {
            Ok(_) => print("the tunnels listen\n"),
            Err(NoAnswer::Refused(why)) => failed(&format!("the drain cannot be undone: {why}")),
            Err(err) => failed(&format!("error: {err}")),
        };
    }
    let mut said = None;
    let drained = flags.target.drain(|progress| {
        if said.replace(progress.flows) != Some(progress.flows) {
            complain(&[format!("draining, flows left: {}", progress.flows)]);
        }
    });
    match drained {
        Ok(()) => print("drained: no flow is left. SIGTERM ends the daemon; `longhaul drain --undo` listens again\n"),
        Err(err) => failed(&format!("error: {err}")),
    }
}
