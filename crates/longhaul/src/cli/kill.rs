//! `longhaul kill`.

use super::control::{Target, failed};
use super::{complain, print};
use clap::Args;
use longhaul::admin::client::{Ask, NoAnswer};
use std::process::ExitCode;

/// The flags of `longhaul kill`.
#[derive(Args)]
pub(super) struct KillFlags {
    #[command(flatten)]
    target: Target,
    /// Number of each flow, as in `longhaul status` and in the log
    ///
    /// Numbers begin again with 1 when the daemon starts again.
    #[arg(value_name = "FLOW", required = true, value_parser = number)]
    flows: Vec<u64>,
}

/// Cuts the flows, one after the other, and prints the outcome of each. Goes on after a flow that does not exist.
pub(super) fn kill(flags: &KillFlags) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for flow in &flags.flows {
        code = match flags.target.ask(Ask::Kill(*flow)) {
            Ok(_) if print(&format!("flow {flow}: killed\n")) == ExitCode::SUCCESS => code,
            Ok(_) => return ExitCode::FAILURE,
            Err(NoAnswer::Refused(why)) => {
                complain(&[format!("flow {flow}: {why}")]);
                ExitCode::FAILURE
            }
            Err(err) => return failed(&format!("error: {err}")),
        };
    }
    code
}

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "write the number of a live flow, as in `longhaul status`")
}
