//! A real scp to a real sshd, both with keys and configuration of the lab's own.

use super::keeper::{Program, WORKSHOP};
use super::problem::Problem;
use super::spec::Host;
use super::wan::Wan;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An sshd on host B, and what scp on host A needs to log in there.
pub(super) struct Ssh {
    /// Here to be killed.
    _server: Program,
    user: String,
}

impl Ssh {
    /// Makes keys and starts the server on `listen`; `user` is who runs the lab, as the system knows him.
    pub(super) fn start(wan: &Wan, listen: SocketAddr, user: &User) -> Result<Ssh, Problem> {
        for name in ["host_key", "user_key"] {
            let path = format!("{WORKSHOP}/{name}");
            wan.output(Host::B, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path])?;
        }
        let config = format!(
            "ListenAddress {listen}\nHostKey {WORKSHOP}/host_key\nAuthorizedKeysFile {WORKSHOP}/user_key.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n\
             Subsystem sftp internal-sftp\n"
        );
        write(wan, "sshd_config", config.as_bytes())?;
        let mut command = user.command("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f", &format!("{WORKSHOP}/sshd_config")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let server = wan.spawn(Host::B, command)?.wait_for("Server listening")?;
        Ok(Ssh { _server: server, user: user.name.clone() })
    }

    /// Copies the file `name` of `wan`'s workshop from A to B as `name.copy`, through `entry`; how long scp took.
    pub(super) fn copy(&self, wan: &Wan, entry: SocketAddr, name: &str) -> Result<Duration, Problem> {
        let mut command = Command::new("scp");
        command.args(["-q", "-B", "-F", "none", "-P", &entry.port().to_string(), "-i"]);
        command.arg(format!("{WORKSHOP}/user_key"));
        for option in SSH_OPTIONS {
            command.args(["-o", option]);
        }
        command.arg(format!("{WORKSHOP}/{name}"));
        command.arg(format!("{}@{}:{WORKSHOP}/{name}.copy", self.user, entry.ip()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let start = Instant::now();
        wan.spawn(Host::A, command)?.finish()?;
        Ok(start.elapsed())
    }
}

/// Who runs the lab.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The name under which sshd knows him.
    pub(super) name: String,
    /// User and group number when the lab runs in a user namespace, where he appears to be root.
    pub(super) mapped: Option<(u32, u32)>,
}

impl User {
    /// A command that runs as the user himself: sshd, finding itself root, would want users that the lab's user
    /// namespace does not have.
    fn command(&self, program: &str) -> Command {
        let Some((user, group)) = self.mapped else { return Command::new(program) };
        let mut command = Command::new("unshare");
        command.args(["--user", &format!("--map-user={user}"), &format!("--map-group={group}"), program]);
        command
    }
}

/// Makes a file of `bytes` bytes that do not compress.
pub(super) fn make_file(wan: &Wan, name: &str, bytes: u64) -> Result<(), Problem> {
    let fail = || format!("writing {bytes} bytes to the lab's {name}");
    let mut file = BufWriter::new(File::create(wan.path(&format!("{WORKSHOP}/{name}"))).map_err(Problem::io(fail()))?);
    let block = super::raw::block();
    let mut left = bytes;
    while left > 0 {
        let length = (block.len() as u64).min(left);
        file.write_all(&block[..length as usize]).map_err(Problem::io(fail()))?;
        left -= length;
    }
    file.flush().map_err(Problem::io(fail()))
}

/// Compares the file `name` on A with its copy on B by the SHA-256 that each host computes, and removes both.
pub(super) fn check_copy(wan: &Wan, name: &str) -> Result<(), Problem> {
    let hash = |host, name: &str| {
        let text = wan.output(host, "sha256sum", &[&format!("{WORKSHOP}/{name}")])?;
        Ok::<_, Problem>(text.split_whitespace().next().unwrap_or_default().to_string())
    };
    let copy = format!("{name}.copy");
    let (sent, arrived) = (hash(Host::A, name)?, hash(Host::B, &copy)?);
    for name in [name, &copy] {
        let path = wan.path(&format!("{WORKSHOP}/{name}"));
        std::fs::remove_file(path).map_err(Problem::io(format!("removing the lab's {name}")))?;
    }
    match sent == arrived {
        true => Ok(()),
        false => Err(Problem::Bytes(format!("the copy differs: SHA-256 {arrived}, sent {sent}"))),
    }
}

/// How long the copy `name` on B is by now.
pub(super) fn copied(wan: &Wan, name: &str) -> u64 {
    std::fs::metadata(wan.path(&format!("{WORKSHOP}/{name}.copy"))).map_or(0, |metadata| metadata.len())
}

fn write(wan: &Wan, name: &str, bytes: &[u8]) -> Result<(), Problem> {
    std::fs::write(wan.path(&format!("{WORKSHOP}/{name}")), bytes)
        .map_err(Problem::io(format!("writing the lab's {name}")))
}

/// Nothing of the user's own configuration, agents or known hosts.
const SSH_OPTIONS: &[&str] = &[
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "GlobalKnownHostsFile=/dev/null",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "LogLevel=ERROR",
];
