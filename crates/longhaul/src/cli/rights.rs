//! The rights and the time that longhaul.service gives the daemon: as the unit is installed here, or else as it is shipped. The
//! rights of the user who runs `longhaul check` say nothing: root has all of them, and most users have none.

use longhaul_relay::verify::key_handover;
use longhaul_sys::limits::{Capability, has_capability};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Returns the rights that the unit on this machine gives.
    pub(super) fn of_the_daemon() -> Rights {
        let read = |folder: &&str| fs::read_to_string(Path::new(folder).join(UNIT)).ok();
        let mut text = FOLDERS.iter().find_map(read).unwrap_or_else(|| SHIPPED.into());
        for path in drop_ins() {
            text.push('\n');
            text += &fs::read_to_string(path).unwrap_or_default();
        }
        Rights { text }
    }

    /// Returns the rights that a unit with this text gives.
    #[cfg(test)]
    pub(super) fn of_text(text: String) -> Rights {
        Rights { text }
    }

    /// Returns the warning for when the daemon will not have `capability`.
    pub(super) fn lack(&self, capability: Capability) -> Option<String> {
        // A process of the unit itself, as `systemctl reload` starts one, has the daemon's rights; root has others.
        let has = self.has(capability) || !has_capability(Capability::SysAdmin) && has_capability(capability);
        let name = name(capability);
        (!has).then(|| match capability {
            Capability::NetAdmin => {
                format!("{UNIT} does not give {name}; the drop-in /usr/share/longhaul/net-admin.conf does")
            }
            _ => format!("{UNIT} does not give {name}"),
        })
    }

    /// Returns how long the daemon may take to end before systemd kills it (systemd.service(5)); `None` where the unit does not
    /// limit it, or says it in a way that is not read here.
    pub(super) fn stop_timeout(&self) -> Option<Duration> {
        let (_, text) = self.settings().rfind(|(key, _)| ["TimeoutStopSec", "TimeoutSec"].contains(key))?;
        let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let number: u64 = digits.trim().parse().ok()?;
        let seconds = match &text[digits.len()..] {
            "" | "s" | "sec" => number,
            "m" | "min" => number.checked_mul(60)?,
            _ => return None,
        };
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Returns the limit of descriptors (systemd.exec(5) LimitNOFILE=); `None` where the unit does not set one, or says it in a way
    /// that is not read here.
    pub(super) fn nofile(&self) -> Option<u64> {
        let value = self.values("LimitNOFILE").last()?;
        // Of `SOFT:HARD`, longhaul uses the second.
        value.rsplit(':').next()?.parse().ok()
    }

    /// Returns the warning for a configuration file that the daemon cannot read, where it runs as a dynamic user: of a file in
    /// /etc, for any other is not the unit's.
    pub(super) fn cannot_read(&self, path: &Path) -> Option<String> {
        let path = fs::canonicalize(path).ok().filter(|path| path.starts_with("/etc")).filter(|_| self.is_dynamic())?;
        let is_closed = |path: &Path, bit| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bit == 0);
        let (closed, remedy) = match path.ancestors().skip(1).find(|folder| is_closed(folder, 0o001)) {
            Some(folder) => (folder, "o+x"),
            None if is_closed(&path, 0o004) => (&*path, "o+r"),
            None => return None,
        };
        let closed = closed.display();
        Some(format!("{UNIT} runs as a dynamic user, which cannot read {closed}; run chmod {remedy} {closed}"))
    }

    /// Returns the warning for a file with the key of probes that only root can read, where the daemon runs as a dynamic user.
    /// Another owner or group may be the unit's.
    pub(super) fn cannot_read_key(&self, path: &Path) -> Option<String> {
        let found = fs::metadata(path).ok().filter(|_| self.is_dynamic())?;
        let only_root = found.uid() == 0 && (found.gid() == 0 || found.mode() & 0o040 == 0);
        only_root.then(|| {
            format!(
                "key file {}: {UNIT} runs as a dynamic user, which cannot read a file of root, so the daemon does not start; {}",
                path.display(),
                key_handover(path)
            )
        })
    }

    /// Whether the daemon runs as a user that exists only while it runs, without another group.
    fn is_dynamic(&self) -> bool {
        let has_user = ["User", "Group", "SupplementaryGroups"].iter().any(|key| self.values(key).next().is_some());
        !has_user && !self.is_root()
    }

    fn is_root(&self) -> bool {
        let last = |key| self.values(key).last();
        match (last("User"), last("DynamicUser")) {
            (Some(user), _) => user == "root" || user == "0",
            (None, dynamic) => !dynamic.is_some_and(|on| matches!(on, "yes" | "true" | "on" | "1")),
        }
    }

    /// systemd.exec(5): lines of AmbientCapabilities= add up, an empty one begins anew, one with `~` takes away. A process of
    /// root has what CapabilityBoundingSet= leaves it.
    fn has(&self, capability: Capability) -> bool {
        let name = name(capability);
        let names = |words: &str| words.split_whitespace().any(|word| word == name);
        let listed = |key| {
            self.values(key).fold(None, |has: Option<bool>, value| match value.strip_prefix('~') {
                Some(taken) => Some(has.unwrap_or(true) && !names(taken)),
                None if value.is_empty() => Some(false),
                None => Some(has.unwrap_or(false) || names(value)),
            })
        };
        match self.is_root() {
            true => listed("CapabilityBoundingSet").unwrap_or(true),
            false => listed("AmbientCapabilities").unwrap_or(false),
        }
    }

    fn values<'t>(&'t self, key: &'t str) -> impl Iterator<Item = &'t str> {
        self.settings().filter_map(move |(name, value)| (name == key).then_some(value))
    }

    /// Returns the keys and values of the unit, in their order.
    fn settings(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.text.lines().filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim()))
    }
}

/// The drop-ins of the unit, in the order in which systemd reads them: by name.
fn drop_ins() -> Vec<PathBuf> {
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
    fn the_time_to_end_is_read() {
        let time = |line: &str| Rights { text: format!("{SHIPPED}\n{line}") }.stop_timeout().map(|time| time.as_secs());
        assert_eq!(time(""), Some(90));
        let times = [
            ("30", Some(30)),
            ("5s", Some(5)),
            ("10min", Some(600)),
            ("infinity", None),
            ("1min 30s", None),
            ("0", None),
        ];
        for (text, seconds) in times {
            assert_eq!(time(&format!("TimeoutStopSec={text}")), seconds, "{text}");
            assert_eq!(time(&format!("TimeoutSec = {text}")), seconds, "{text}");
        }
        assert_eq!(time("TimeoutStopSec=307445734561825861min"), None);
    }

    #[test]
    fn the_limit_of_descriptors_is_the_last_hard_one() {
        let nofile = |line: &str| Rights { text: format!("{SHIPPED}\n{line}") }.nofile();
        assert_eq!((nofile(""), nofile("LimitNOFILE=1024:4096")), (Some(262_144), Some(4096)));
        assert_eq!((nofile("LimitNOFILE=infinity"), nofile("LimitNOFILE=")), (None, None));
    }

    #[test]
    fn a_file_that_the_unit_cannot_read_is_named() {
        let unit = Rights { text: SHIPPED.into() };
        // Every system has both.
        assert_eq!(unit.cannot_read(Path::new("/etc/passwd")), None);
        let said = unit.cannot_read(Path::new("/etc/shadow")).unwrap();
        assert!(said.ends_with("which cannot read /etc/shadow; run chmod o+r /etc/shadow"), "{said}");
        let of_somebody = Rights { text: format!("{SHIPPED}\nUser=longhaul") };
        assert_eq!(of_somebody.cannot_read(Path::new("/etc/shadow")), None, "whose it may be");
        assert_eq!(Rights { text: "[Service]".into() }.cannot_read(Path::new("/etc/shadow")), None, "root can");
    }

    #[test]
    fn a_key_file_of_root_is_handed_over_by_the_unit() {
        let unit = Rights { text: SHIPPED.into() };
        // Every system has this file of root. Its mode is not looked at, because no other user may read a key file.
        let key = Path::new("/etc/passwd");
        let said = unit.cannot_read_key(key).unwrap();
        let want = "write key_file = \"/run/credentials/longhaul.service/passwd\", and LoadCredential=passwd:/etc/passwd in the \
                    unit (systemctl edit longhaul)";
        assert!(
            said.starts_with("key file /etc/passwd: longhaul.service runs as a dynamic user") && said.ends_with(want),
            "{said}"
        );
        for text in [format!("{SHIPPED}\nUser=longhaul"), "[Service]".into()] {
            assert_eq!(Rights { text }.cannot_read_key(key), None);
        }
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
