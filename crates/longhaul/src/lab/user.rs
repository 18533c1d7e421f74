//! Who runs the lab, and how he becomes root in it.

use super::keeper::not_started;
use super::problem::Problem;
use longhaul_sys::netns;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Who runs the lab.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The name under which sshd knows him.
    pub(super) name: String,
    /// User and group number when the lab runs in a user namespace, where he appears to be root.
    pub(super) mapped: Option<(u32, u32)>,
}

impl User {
    /// Becomes root of a user namespace when not root already; must be called before any thread is started.
    ///
    /// # Errors
    /// The kernel lets this user have no user namespace.
    pub(super) fn become_root() -> Result<User, Problem> {
        let output = Command::new("id").arg("-un").output().map_err(not_started("id".to_string()))?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if netns::is_root() {
            return Ok(User { name, mapped: None });
        }
        let owner = std::fs::metadata("/proc/self").map_err(Problem::io("reading /proc/self"))?;
        let mapped = Some((owner.uid(), owner.gid()));
        netns::become_root_of_own_user_namespace()?;
        Ok(User { name, mapped })
    }

    /// A command that runs as the user himself: sshd, finding itself root, would want users that the lab's user
    /// namespace does not have.
    pub(super) fn command(&self, program: &str) -> Command {
        let Some((user, group)) = self.mapped else { return Command::new(program) };
        let mut command = Command::new("unshare");
        command.args(["--user", &format!("--map-user={user}"), &format!("--map-group={group}"), program]);
        command
    }
}
