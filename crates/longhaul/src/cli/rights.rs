//! The rights and limits that longhaul.service gives the daemon, as systemd tells them. The rights of the user who runs `longhaul
//! check` say nothing: root has all of them, and most users have none. Where systemd does not answer, or has no such unit, nothing is
//! known, and no warning comes from here.

use super::systemd::{Properties, UNIT};
use longhaul_config::key_file::handover;
use longhaul_sys::limits::Capability;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// The rights and limits of the unit.
pub(super) struct Rights {
    /// [`PROPERTIES`]; `None` if systemd does not answer.
    unit: Option<Properties>,
}

impl Rights {
    /// Asks systemd of this machine.
    pub(super) fn of_the_daemon() -> Rights {
        Rights { unit: Properties::ask(PROPERTIES) }
    }

    /// Returns the rights of a unit of which `systemctl show` prints `shown`.
    #[cfg(test)]
    pub(super) fn of_text(shown: &str) -> Rights {
        Rights { unit: Properties::read(shown) }
    }

    /// Returns the warning for when the daemon will not have `capability`.
    pub(super) fn lack(&self, capability: Capability) -> Option<String> {
        // systemd.exec(5): root has what the bounding set leaves it, and another user what the ambient set gives.
        let is_root = matches!(self.value("User")?, "" | "root" | "0");
        let set = self.value(if is_root { "CapabilityBoundingSet" } else { "AmbientCapabilities" })?;
        let name = name(capability);
        let has = set.split(' ').any(|word| word.eq_ignore_ascii_case(name));
        (!has).then(|| match capability {
            Capability::NetAdmin => {
                format!("{UNIT} does not give {name}; the drop-in /usr/share/longhaul/net-admin.conf does")
            }
            _ => format!("{UNIT} does not give {name}"),
        })
    }

    /// Returns how long the daemon may take to end before systemd kills it (systemd.service(5)); `None` if that is not limited.
    pub(super) fn stop_timeout(&self) -> Option<Duration> {
        // `1min 30s`, or `infinity`.
        self.value("TimeoutStopUSec")?.split(' ').map(|part| longhaul_units::duration(part).ok()).sum()
    }

    /// Returns the limit of descriptors, the hard one; `None` if there is none.
    pub(super) fn nofile(&self) -> Option<u64> {
        self.value("LimitNOFILE")?.parse().ok()
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
                handover(path)
            )
        })
    }

    /// Whether the daemon runs as a user that exists only while it runs, without another group.
    fn is_dynamic(&self) -> bool {
        let has = |property, value: &str| self.value(property) == Some(value);
        // systemd.exec(5): without User= and Group=, the user and the group have the name of the unit. A user of that name in
        // /etc/passwd is used instead, and the file may be that user's.
        let is_own =
            ["User", "Group"].iter().all(|property| has(property, "longhaul")) && has("SupplementaryGroups", "");
        let passwd = || fs::read_to_string("/etc/passwd").unwrap_or_default();
        has("DynamicUser", "yes") && is_own && !passwd().lines().any(|line| line.starts_with("longhaul:"))
    }

    fn value(&self, property: &str) -> Option<&str> {
        self.unit.as_ref()?.value(property)
    }
}

/// What is asked (org.freedesktop.systemd1(5)).
const PROPERTIES: &str = "LoadState,User,Group,SupplementaryGroups,DynamicUser,AmbientCapabilities,CapabilityBoundingSet,\
                          TimeoutStopUSec,LimitNOFILE";

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

    /// The unit as it is shipped, as systemd 252 shows it. The value of a property that `more` repeats is that of `more`.
    fn shipped(more: &str) -> Rights {
        Rights::of_text(&format!(
            "TimeoutStopUSec=1min 30s\nLimitNOFILE=262144\nCapabilityBoundingSet=cap_net_bind_service cap_sys_resource\n\
             AmbientCapabilities=cap_net_bind_service cap_sys_resource\nUser=longhaul\nGroup=longhaul\nDynamicUser=yes\n\
             SupplementaryGroups=\nLoadState=loaded\n{more}\n"
        ))
    }

    const ROOT: &str = "User=\nGroup=\nDynamicUser=no";

    #[test]
    fn a_user_has_the_ambient_capabilities_and_root_those_of_the_bounding_set() {
        let unit = shipped("");
        assert_eq!((unit.lack(NetBindService), unit.lack(SysResource)), (None, None));
        let why = "longhaul.service does not give CAP_NET_ADMIN; the drop-in /usr/share/longhaul/net-admin.conf does";
        assert_eq!(unit.lack(NetAdmin).as_deref(), Some(why));
        assert_eq!(shipped("AmbientCapabilities=cap_net_bind_service cap_net_admin").lack(NetAdmin), None);
        let bounded = "AmbientCapabilities=\nCapabilityBoundingSet=cap_net_admin";
        assert!(shipped(bounded).lack(NetAdmin).is_some());
        for root in [ROOT, "User=root"] {
            let unit = shipped(&format!("{bounded}\n{root}"));
            assert!(unit.lack(NetAdmin).is_none() && unit.lack(NetBindService).is_some());
        }
    }

    #[test]
    fn the_time_to_end_and_the_limit_of_descriptors_are_read() {
        let time = |shown: &str| shipped(&format!("TimeoutStopUSec={shown}")).stop_timeout().map(|time| time.as_secs());
        assert_eq!((time("1min 30s"), time("5s"), time("1h 2min 3s")), (Some(90), Some(5), Some(3723)));
        assert_eq!((time("infinity"), time("")), (None, None));
        assert_eq!((shipped("").nofile(), shipped("LimitNOFILE=infinity").nofile()), (Some(262_144), None));
    }

    #[test]
    fn without_an_answer_nothing_is_said() {
        let unit = Rights::of_text("");
        assert_eq!((unit.lack(NetAdmin), unit.stop_timeout(), unit.nofile()), (None, None, None));
        let of_root = Path::new("/etc/shadow");
        assert_eq!((unit.cannot_read(of_root), unit.cannot_read_key(of_root)), (None, None));
    }

    #[test]
    fn a_file_that_the_unit_cannot_read_is_named() {
        // Every system has both.
        assert_eq!(shipped("").cannot_read(Path::new("/etc/passwd")), None);
        let said = shipped("").cannot_read(Path::new("/etc/shadow")).unwrap();
        assert!(said.ends_with("which cannot read /etc/shadow; run chmod o+r /etc/shadow"), "{said}");
        for more in ["User=relay", "SupplementaryGroups=keys", ROOT] {
            assert_eq!(shipped(more).cannot_read(Path::new("/etc/shadow")), None, "{more}");
        }
    }

    #[test]
    fn a_key_file_of_root_is_handed_over_by_the_unit() {
        // Every system has this file of root. Its mode is not looked at, because no other user may read a key file.
        let key = Path::new("/etc/passwd");
        let said = shipped("").cannot_read_key(key).unwrap();
        let want = "write key_file = \"/run/credentials/longhaul.service/passwd\", and LoadCredential=passwd:/etc/passwd in the \
                    unit (systemctl edit longhaul)";
        assert!(
            said.starts_with("key file /etc/passwd: longhaul.service runs as a dynamic user") && said.ends_with(want),
            "{said}"
        );
        assert_eq!(shipped("User=relay").cannot_read_key(key), None);
        assert_eq!(shipped(ROOT).cannot_read_key(key), None);
    }
}
