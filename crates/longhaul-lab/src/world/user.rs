//! The user who runs the lab, and how that user becomes root in it.

use crate::error::LabError;
use crate::world::supervisor::not_started;
use longhaul_sys::netns;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// The user who runs the lab.
#[derive(Clone, Debug)]
pub(crate) struct User {
    /// The login name, as sshd knows it.
    pub(crate) name: String,
    /// User and group number if the lab runs in a user namespace, where the user appears as root.
    pub(crate) mapped: Option<(u32, u32)>,
}

impl User {
    /// Becomes root of a user namespace, unless the user is root already. Must be called before any thread starts.
    ///
    /// # Errors
    /// The kernel refuses a user namespace to this user.
    pub(crate) fn become_root() -> Result<User, LabError> {
        let output = Command::new("id").arg("-un").output().map_err(not_started("id".to_string()))?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if netns::is_root() {
            return Ok(User { name, mapped: None });
        }
        let owner = std::fs::metadata("/proc/self").map_err(LabError::io("reading /proc/self"))?;
        let mapped = Some((owner.uid(), owner.gid()));
        netns::become_root_of_own_user_namespace()?;
        Ok(User { name, mapped })
    }

    /// Checks that sshd would accept the user. sshd needs a login shell, which accounts of services do not have.
    ///
    /// # Errors
    /// sshd would refuse the user.
    pub(crate) fn can_log_in(&self) -> Result<(), LabError> {
        // passwd(5): the shell is the last of seven fields. A user without an entry is known from another source.
        let entry = Command::new("getent").args(["passwd", &self.name]).output().map(|output| output.stdout);
        let entry = String::from_utf8_lossy(&entry.unwrap_or_default()).trim().to_string();
        match entry.split(':').nth(6) {
            Some(shell) if shell.ends_with("/nologin") || shell.ends_with("/false") => Err(LabError::Lacking(format!(
                "sshd refuses logins as {}, because its shell is {shell}; run the lab as root, or as a user who can log in",
                self.name
            ))),
            _ => Ok(()),
        }
    }

    /// Returns a command that runs `program` under the user's own number. As root, sshd would need users that the lab's user
    /// namespace does not have.
    pub(crate) fn command(&self, program: &str) -> Command {
        let Some((user, group)) = self.mapped else { return Command::new(program) };
        let mut command = Command::new("unshare");
        command.args(["--user", &format!("--map-user={user}"), &format!("--map-group={group}"), program]);
        command
    }
}
