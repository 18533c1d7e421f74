//! Asks systemd about longhaul.service.

use std::collections::HashMap;
use std::process::{Command, Stdio};

/// The unit of the daemon.
pub(super) const UNIT: &str = "longhaul.service";

/// Properties of longhaul.service, by their names in org.freedesktop.systemd1(5).
pub(super) struct Properties(HashMap<String, String>);

impl Properties {
    /// Asks systemd for `names`, which are separated by commas and contain `LoadState`. Returns `None` if this machine has no
    /// systemd, if systemd does not answer, or if it has no such unit.
    pub(super) fn ask(names: &str) -> Option<Properties> {
        let mut command = Command::new("systemctl");
        command.args(["show", UNIT, "--property", names]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        Properties::read(&String::from_utf8_lossy(&output.stdout))
    }

    /// Reads the output of `systemctl show`, one `NAME=VALUE` a line. Returns `None` if no unit is loaded.
    pub(super) fn read(shown: &str) -> Option<Properties> {
        let pairs = shown.lines().filter_map(|line| line.split_once('='));
        let properties = Properties(pairs.map(|(name, value)| (name.into(), value.into())).collect());
        (properties.value("LoadState") == Some("loaded")).then_some(properties)
    }

    /// Returns the value of a property that systemd has told.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Returns one line about longhaul.service, or `None` if systemd does not know it.
pub(super) fn state_of_the_unit() -> Option<String> {
    Properties::ask(STATE).as_ref().map(describe)
}

fn describe(unit: &Properties) -> String {
    let value = |name| unit.value(name).unwrap_or_default();
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
    text + "; see journalctl -u longhaul"
}

/// systemd.service(5): the properties that tell why nothing runs.
const STATE: &str = "LoadState,ActiveState,SubState,Result,NRestarts,ActiveEnterTimestamp,ActiveExitTimestamp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_restarts_without_end_says_so() {
        let said = |shown| Properties::read(shown).as_ref().map(describe);
        let shown = "Result=exit-code\nNRestarts=14\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n\
                     ActiveEnterTimestamp=Sun 2026-11-22 20:00:00 UTC\nActiveExitTimestamp=Sun 2026-11-22 21:00:00 UTC\n";
        assert_eq!(
            said(shown).unwrap(),
            "longhaul.service is activating (auto-restart), not started since Sun 2026-11-22 21:00:00 UTC, 14 restarts, \
             result exit-code; see journalctl -u longhaul"
        );
        let never = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\nNRestarts=0\n\
                     ActiveEnterTimestamp=\nActiveExitTimestamp=\n";
        assert_eq!(
            said(never).unwrap(),
            "longhaul.service is inactive (dead), never started; see journalctl -u longhaul"
        );
        assert_eq!(said("LoadState=not-found\nActiveState=inactive\n"), None);
        assert_eq!(said("garbage"), None);
    }
}
