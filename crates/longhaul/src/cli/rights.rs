//! The rights that the daemon will have: those that longhaul.service gives it, as it is installed here or else as it is
//! shipped. The user who runs `longhaul check` is another one: root has every right, and most others have none.

use longhaul_sys::limits::{Capability, has_capability};
use std::fs;
use std::path::Path;

/// The unit as it is installed.
const SHIPPED: &str = include_str!("../../../../packaging/longhaul.service");
/// Where systemd looks for units, the first that has it wins (systemd.unit(5)).
const FOLDERS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"];
const UNIT: &str = "longhaul.service";

/// The rights that the unit gives its process.
pub(super) struct Rights {
    /// The unit's text, with its drop-ins behind it.
    text: String,
}

impl Rights {
    /// Of the unit of this machine.
    pub(super) fn of_the_daemon() -> Rights {
        let read = |folder: &&str| fs::read_to_string(Path::new(folder).join(UNIT)).ok();
        let mut text = FOLDERS.iter().find_map(read).unwrap_or_else(|| SHIPPED.into());
        for path in drop_ins() {
            text.push('\n');
            text += &fs::read_to_string(path).unwrap_or_default();
        }
        Rights { text }
    }

    /// Returns the warning for when the daemon will not have `capability`.
    pub(super) fn lack(&self, capability: Capability) -> Option<String> {
        // A process of the unit itself, as `systemctl reload` starts one, knows best; root knows nothing.
        let has = self.has(capability) || !has_capability(Capability::SysAdmin) && has_capability(capability);
        let name = name(capability);
        (!has).then(|| match capability {
            Capability::NetAdmin => format!("{UNIT} does not give {name}; the drop-in net-admin.conf does"),
            _ => format!("{UNIT} does not give {name}"),
        })
    }

    /// systemd.exec(5): lines of AmbientCapabilities= add up, an empty one begins anew, one with `~` takes away. A process of
    /// root has what CapabilityBoundingSet= leaves it.
    fn has(&self, capability: Capability) -> bool {
        let last = |key| self.values(key).last();
        let is_root = match (last("User="), last("DynamicUser=")) {
            (Some(user), _) => user == "root" || user == "0",
            (None, dynamic) => !dynamic.is_some_and(|on| matches!(on, "yes" | "true" | "on" | "1")),
        };
        let name = name(capability);
        let names = |words: &str| words.split_whitespace().any(|word| word == name);
        let listed = |key| {
            self.values(key).fold(None, |has: Option<bool>, value| match value.strip_prefix('~') {
                Some(taken) => Some(has.unwrap_or(true) && !names(taken)),
                None if value.is_empty() => Some(false),
                None => Some(has.unwrap_or(false) || names(value)),
            })
        };
        match is_root {
            true => listed("CapabilityBoundingSet=").unwrap_or(true),
            false => listed("AmbientCapabilities=").unwrap_or(false),
        }
    }

    fn values<'t>(&'t self, key: &'t str) -> impl Iterator<Item = &'t str> {
        self.text.lines().filter_map(move |line| line.trim().strip_prefix(key)).map(str::trim)
    }
}

/// The drop-ins of the unit, in the order in which systemd reads them: by name.
fn drop_ins() -> Vec<std::path::PathBuf> {
    let entries = FOLDERS.iter().filter_map(|folder| fs::read_dir(Path::new(folder).join(format!("{UNIT}.d"))).ok());
    let paths = entries.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "conf")).collect();
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found
}

fn name(capability: Capability) -> &'static str {
    match capability {
        Capability::NetBindService => "CAP_NET_BIND_SERVICE",
        Capability::NetAdmin => "CAP_NET_ADMIN",
        Capability::SysAdmin => "CAP_SYS_ADMIN",
        Capability::SysResource => "CAP_SYS_RESOURCE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{NetAdmin, NetBindService, SysResource};

    #[test]
    fn the_shipped_unit_gives_what_the_manual_says() {
        let unit = Rights { text: SHIPPED.into() };
        assert!(unit.has(NetBindService) && unit.has(SysResource) && !unit.has(NetAdmin));
        let with = Rights { text: format!("{SHIPPED}\n{}", include_str!("../../../../packaging/net-admin.conf")) };
        assert!(with.has(NetBindService) && with.has(SysResource) && with.has(NetAdmin));
    }

    #[test]
    fn changed_units_are_read_as_systemd_reads_them() {
        let has = |more: &str| Rights { text: format!("{SHIPPED}\n[Service]\n{more}") }.has(NetBindService);
        assert!(!has("AmbientCapabilities="));
        assert!(!has("AmbientCapabilities=~CAP_NET_BIND_SERVICE"));
        assert!(has("AmbientCapabilities=\nAmbientCapabilities=CAP_NET_BIND_SERVICE"));
        assert!(has("DynamicUser=no\nAmbientCapabilities="), "root, and the bounding set has it");
        assert!(!has("User=longhaul\nAmbientCapabilities="));
        assert!(!Rights { text: "[Service]\nCapabilityBoundingSet=~CAP_NET_ADMIN".into() }.has(NetAdmin));
    }
}
