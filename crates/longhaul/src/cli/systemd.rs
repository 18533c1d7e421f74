//! Asks systemd about longhaul.service when there is no daemon to ask.

use std::collections::HashMap;
use std::process::{Command, Stdio};

/// Returns one line about longhaul.service, or `None` if this machine has no systemd or no such unit.
pub(super) fn state_of_the_unit() -> Option<String> {
    let mut command = Command::new("systemctl");
    command.args(["show", UNIT, "--property", PROPERTIES]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    describe(&String::from_utf8_lossy(&output.stdout))
}

/// Describes the properties that `systemctl show` has printed, one `NAME=VALUE` a line.
fn describe(shown: &str) -> Option<String> {
    let properties: HashMap<&str, &str> = shown.lines().filter_map(|line| line.split_once('=')).collect();
    let value = |name| properties.get(name).copied().unwrap_or_default();
    if value("LoadState") != "loaded" {
        return None;
    }
    let mut text = format!("{UNIT} is {} ({})", value("ActiveState"), value("SubState"));
    match (value("ActiveEnterTimestamp"), value("ActiveExitTimestamp")) {
        ("", _) => text += ", never started",
        (_, "") => {}
        (_, exit) => text += &format!(", not started since {exit}"),
    }
    match value("NRestarts") {
        "" | "0" => {}
        "1" => text += ", 1 restart",
        count => text += &format!(", {count} restarts"),
    }
    match value("Result") {
        "" | "success" => {}
        result => text += &format!(", result {result}"),
    }
    Some(text + "; see journalctl -u longhaul")
}

const UNIT: &str = "longhaul.service";
/// systemd.service(5), org.freedesktop.systemd1(5): the properties that tell why nothing runs.
const PROPERTIES: &str = "LoadState,ActiveState,SubState,Result,NRestarts,ActiveEnterTimestamp,ActiveExitTimestamp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_restarts_without_end_says_so() {
        let shown = "Result=exit-code\nNRestarts=14\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n\
                     ActiveEnterTimestamp=Sun 2026-11-22 20:00:00 UTC\nActiveExitTimestamp=Sun 2026-11-22 21:00:00 UTC\n";
        assert_eq!(
            describe(shown).unwrap(),
            "longhaul.service is activating (auto-restart), not started since Sun 2026-11-22 21:00:00 UTC, 14 restarts, \
             result exit-code; see journalctl -u longhaul"
        );
        let never = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\nNRestarts=0\n\
                     ActiveEnterTimestamp=\nActiveExitTimestamp=\n";
        assert_eq!(
            describe(never).unwrap(),
            "longhaul.service is inactive (dead), never started; see journalctl -u longhaul"
        );
        assert_eq!(describe("LoadState=not-found\nActiveState=inactive\n"), None);
        assert_eq!(describe("garbage"), None);
    }
}
