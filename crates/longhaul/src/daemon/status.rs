//! The line that `systemctl status` shows: tunnels, flows, the number of refusals, and why the last reload was refused
//! if it was.
//!
//! The line is sent to systemd only when it has changed. A busy relay sends a message every few seconds, an idle one
//! sends none.

use super::notify::tell;
use crate::control::Refusal;
use longhaul_relay::Counters;
use sd_notify::NotifyState;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// The status line that was last sent to systemd, and the texts of the next one.
#[derive(Debug, Default)]
pub(super) struct StatusLine {
    told: String,
    /// The refusal of the last reload. `None` after a successful one.
    refusal: Option<Refusal>,
    /// Whether a command drains the process.
    drains: bool,
}

impl StatusLine {
    /// Records why a reload was refused, until [`reloaded`](StatusLine::reloaded).
    pub(super) fn refused(&mut self, why: &dyn fmt::Display) {
        self.refusal = Some(Refusal { why: why.to_string(), at: SystemTime::now() });
    }

    /// Returns the refusal of the last reload, or `None` after a successful one.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal.clone()
    }

    /// Forgets the last refusal.
    pub(super) fn reloaded(&mut self) {
        self.refusal = None;
    }

    /// Records whether a command drains the process.
    pub(super) fn drains(&mut self, drains: bool) {
        self.drains = drains;
    }

    /// Returns the status for `tunnels` tunnels. It is one line, because each line of a notification is a message of
    /// its own (sd_notify(3)).
    pub(super) fn line(&mut self, tunnels: usize, counters: &Counters) -> &str {
        self.told.clear();
        if let Some(Refusal { why, .. }) = &self.refusal {
            self.told.push_str("reload refused: ");
            self.told.extend(why.chars().filter(|c| !c.is_control()).take(REFUSAL_CHARS));
            self.told.push_str("; ");
        }
        if self.drains {
            self.told.push_str("draining by command; ");
        }
        self.told.push_str(&numbers(tunnels, counters));
        &self.told
    }

    /// Sends the line to systemd if it has changed since it was last sent.
    pub(super) fn tell_if_changed(&mut self, tunnels: usize, counters: &Counters) {
        let before = std::mem::take(&mut self.told);
        if self.line(tunnels, counters) != before {
            tell(&[NotifyState::Status(&self.told)]);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_tunnels_flows_and_what_is_refused() {
        let (mut status, counters) = (StatusLine::default(), Counters::default());
        assert_eq!(status.line(1, &counters), "1 tunnel, 0 flows");
        counters.flows_now.store(37, Relaxed);
        counters.refused.store(1, Relaxed);
        counters.dials_failed.store(12, Relaxed);
        assert_eq!(
            status.line(2, &counters),
            "2 tunnels, 37 flows; since the start 1 connection refused, 12 dials failed"
        );
        status.refused(&"line 7:\nname is missing");
        assert!(status.line(2, &counters).starts_with("reload refused: line 7:name is missing; 2 tunnels, 37 flows; "));
        status.refused(&"x".repeat(1000));
        assert!(status.line(2, &counters).len() < 400);
        status.reloaded();
        status.drains(true);
        assert!(status.line(2, &counters).starts_with("draining by command; 2 tunnels, 37 flows; "));
        status.drains(false);
        counters.refused.store(0, Relaxed);
        counters.dials_failed.store(0, Relaxed);
        assert_eq!(status.line(0, &counters), "0 tunnels, 37 flows");
    }
}
