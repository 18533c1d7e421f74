//! `longhaul reload`.

use super::control::{Target, failed};
use super::print;
use longhaul::admin::client::{Ask, NoAnswer};
use std::process::ExitCode;

/// Lets the daemon read its file again, and prints the outcome.
pub(super) fn reload(target: &Target) -> ExitCode {
    match target.ask(Ask::Reload) {
        Ok(bytes) => {
            let answer: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
            print(&format!("reloaded, tunnels: {}\n", answer["tunnels"]))
        }
        Err(NoAnswer::Refused(why)) => failed(&format!("reload refused: {why}")),
        Err(err) => failed(&format!("error: {err}")),
    }
}
