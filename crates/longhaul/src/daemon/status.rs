//! The line that `systemctl status` shows: tunnels, flows, the number of refusals, and why the last reload was refused
//! if it was.
//!
//! The line is sent to systemd only when it has changed. A busy relay sends a message every few seconds, an idle one
//! sends none.

use crate::control::{Phase, Refusal};
use longhaul_core::text::printable;
use longhaul_relay::Counters;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the status of a daemon with this many tunnels. It is one line, because each line of a notification is a message of its own
/// (sd_notify(3)). `refusal`: that of the last reload.
pub(super) fn line(tunnels: usize, counters: &Counters, refusal: Option<&Refusal>, phase: Phase) -> String {
    let flows = count(counters.flows_now.load(Relaxed), "flow");
    if phase == Phase::Stopping {
        return format!("draining, {flows} left");
    }
    let mut line = String::new();
    if let Some(Refusal { why, .. }) = refusal {
        line.push_str("reload refused: ");
        line.extend(printable(why).take(REFUSAL_CHARS));
        line.push_str("; ");
    }
    if phase == Phase::Draining {
        line.push_str("draining by command; ");
    }
    line += &format!("{}, {flows}", count(tunnels as u64, "tunnel"));
    let since_start = [
        (counters.refused.load(Relaxed), "connection", "refused"),
        (counters.dials_failed.load(Relaxed), "dial", "failed"),
    ];
    let some = since_start.into_iter().filter(|(number, ..)| *number > 0);
    let some: Vec<String> = some.map(|(number, what, how)| format!("{} {how}", count(number, what))).collect();
    if !some.is_empty() {
        line += &format!("; since the start {}", some.join(", "));
    }
    line
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Maximum number of characters of a refusal. The log has the whole text.
const REFUSAL_CHARS: usize = 250;
