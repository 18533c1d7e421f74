//! The limits of longhaul's own unit: `systemctl show longhaul.service -p LoadState -p LimitNOFILE ..`.

use crate::audit::reader::{Facts, Shown};
use crate::audit::systems::values::{Bad, keep, number};

/// The limits that a paste shows.
#[derive(Default)]
pub(super) struct Unit {
    limits: Vec<Shown>,
    /// systemd does not know the unit. Then it shows its defaults.
    is_missing: bool,
}

impl Unit {
    /// Reads `LimitNOFILE=262144`.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.trim().split_once('=') else { return false };
        if name == "LoadState" {
            self.is_missing = value != "loaded";
            return true;
        }
        let is_limit = LIMITS.contains(&name) && (value == "infinity" || number(value).is_some());
        if is_limit {
            keep(&mut self.limits, name, value, UNIT);
        }
        is_limit
    }

    /// Adds the limits, and the finding that there are few descriptors.
    pub(super) fn add_to(&self, facts: &mut Facts) {
        for shown in self.limits.iter().filter(|_| !self.is_missing) {
            facts.settings.push(shown.clone());
            let is_few = shown.name == FEW.setting && number(&shown.value).is_some_and(|limit| limit < MIN_DESCRIPTORS);
            facts.hints.extend(is_few.then(|| FEW.hint(&shown.value, UNIT)));
        }
    }
}

const UNIT: &str = "longhaul.service";
const LIMITS: &[&str] = &["LimitNOFILE", "MemoryMax", "TasksMax"];
const FEW: Bad = Bad {
    setting: "LimitNOFILE",
    value: "",
    what: "A flow takes two descriptors, and two more for each direction with bulk: further connections wait.",
    costs_rate: false,
};
/// longhaul@.service has as many, longhaul.service more.
const MIN_DESCRIPTORS: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Facts {
        let (mut unit, mut facts) = (Unit::default(), Facts::default());
        for line in text.lines() {
            assert!(unit.read(line), "{line}");
        }
        unit.add_to(&mut facts);
        facts
    }

    #[test]
    fn few_descriptors_are_a_finding_of_an_installed_unit() {
        let found = facts("LoadState=loaded\nLimitNOFILE=1024\nMemoryMax=infinity\nTasksMax=4915");
        assert_eq!((found.settings.len(), found.hints.len(), found.hints[0].value.as_str()), (3, 1, "1024"));
        assert!(facts("LimitNOFILE=262144\nLoadState=loaded").hints.is_empty());
        assert!(facts("LimitNOFILE=1024\nLoadState=not-found").settings.is_empty());
        assert!(!Unit::default().read("LimitNOFILE=many") && !Unit::default().read("Restart=always"));
    }
}
