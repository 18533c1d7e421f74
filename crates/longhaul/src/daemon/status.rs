//! The line that `systemctl status` shows: tunnels, flows, the number of refusals, and why the last reload was refused
//! if it was.
//!
//! The line is sent to systemd only when it has changed. A busy relay sends a message every few seconds, an idle one
//! sends none.

use crate::control::Refusal;
use longhaul_relay::Counters;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the status of a daemon with this many tunnels. It is one line, because each line of a notification is a message of its own
/// (sd_notify(3)). `refusal`: that of the last reload. `drains`: whether a command drains the process.
pub(super) fn line(tunnels: usize, counters: &Counters, refusal: Option<&Refusal>, drains: bool) -> String {
    let mut line = String::new();
    if let Some(Refusal { why, .. }) = refusal {
        line.push_str("reload refused: ");
        line.extend(why.chars().filter(|c| !c.is_control()).take(REFUSAL_CHARS));
        line.push_str("; ");
    }
    if drains {
        line.push_str("draining by command; ");
    }
    line + &numbers(tunnels, counters)
}

/// Returns `2 tunnels, 37 flows`, and the numbers of refused connections and failed dials since the start, if any.
fn numbers(tunnels: usize, counters: &Counters) -> String {
    let mut text = format!("{}, {}", count(tunnels as u64, "tunnel"), flows(counters));
    let since_start = [
        (counters.refused.load(Relaxed), "connection", "refused"),
        (counters.dials_failed.load(Relaxed), "dial", "failed"),
    ];
    let some = since_start.into_iter().filter(|(number, ..)| *number > 0);
    let some: Vec<String> = some.map(|(number, what, how)| format!("{} {how}", count(number, what))).collect();
    if !some.is_empty() {
        text.push_str("; since the start ");
        text.push_str(&some.join(", "));
    }
    text
}

/// Returns `1 flow` or `37 flows`.
pub(super) fn flows(counters: &Counters) -> String {
    count(counters.flows_now.load(Relaxed), "flow")
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Maximum number of characters of a refusal. The log has the whole text.
const REFUSAL_CHARS: usize = 250;
