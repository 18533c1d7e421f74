//! A real scp to a real sshd, both with keys and configuration of the lab's own.

use super::{Drive, Kind, Measured};
use crate::lab::keeper::{self, Program, WORKSHOP};
use crate::lab::problem::Problem;
use crate::lab::spec::Host;
use crate::lab::user::User;
use crate::lab::wan::Wan;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Copies of one file, at once.
pub(super) const SCP: Kind = Kind { name: "scp", what: "scp", laws: &["window", "openssh"], run: scp };

fn scp(drive: &Drive<'_>) -> Result<Measured, Problem> {
    let Drive { wan, running, traffic, .. } = drive;
    let ssh = Ssh::start(wan, drive.server(), drive.user)?;
    let size = drive.copy_size();
    make_file(wan, "empty", 0)?;
    let login = ssh.copy(wan, running.entry, "empty", "empty.copy")?;
    make_file(wan, "file", size)?;
    (drive.began)();
    let copies: Vec<String> = (0..traffic.connections).map(|number| format!("file.{number}")).collect();
    let took = std::thread::scope(|scope| {
        let ssh = &ssh;
        let running: Vec<_> =
            copies.iter().map(|copy| scope.spawn(move || ssh.copy(wan, running.entry, "file", copy))).collect();
        let ended = running.into_iter().map(|copy| copy.join().unwrap_or_else(|_| Err(lost())));
        ended.collect::<Result<Vec<Duration>, Problem>>()
    })?;
    for copy in &copies {
        check_copy(wan, "file", copy)?;
    }
    let bytes = size * u64::from(traffic.connections);
    let longest = took.into_iter().max().unwrap_or_default();
    // Logging in takes several round trips and some computing, and is not what is asked for.
    let moved = longest.saturating_sub(login).max(Duration::from_millis(1));
    let figures = vec![("login_s", login.as_secs_f64())];
    Ok(Measured { bytes, checked: true, speed: bytes as f64 / moved.as_secs_f64(), figures })
}

fn lost() -> Problem {
    Problem::Bytes("a thread of the copy ended early".into())
}

/// An sshd on host B, and what scp on host A needs to log in there.
pub(in crate::lab) struct Ssh {
    /// Here to be killed.
    _server: Program,
    user: String,
}

impl Ssh {
    /// Makes keys and starts the server on `listen`; `user` is who runs the lab, as the system knows him.
    pub(in crate::lab) fn start(wan: &Wan, listen: SocketAddr, user: &User) -> Result<Ssh, Problem> {
        // What starts it as the user himself would only say that it failed.
        keeper::installed(SSHD)?;
        user.can_log_in()?;
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
        let mut command = user.command(SSHD);
        command.args(["-D", "-e", "-f", &format!("{WORKSHOP}/sshd_config")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let server = wan.spawn(Host::B, command)?.wait_for("Server listening")?;
        Ok(Ssh { _server: server, user: user.name.clone() })
    }

    /// For whoever stands on host A: `ssh_config`, in which `b` is B behind `entry`, and a file `sample` of `bytes` bytes.
    pub(in crate::lab) fn prepare(&self, wan: &Wan, entry: SocketAddr, bytes: u64) -> Result<(), Problem> {
        let mut config = format!(
            "Host b\n  HostName {}\n  Port {}\n  User {}\n  IdentityFile {WORKSHOP}/user_key\n",
            entry.ip(),
            entry.port(),
            self.user
        );
        SSH_OPTIONS.iter().for_each(|option| config += &format!("  {}\n", option.replace('=', " ")));
        write(wan, "ssh_config", config.as_bytes())?;
        make_file(wan, "sample", bytes)
    }

    /// Copies the file `name` of `wan`'s workshop from A to B as `copy`, through `entry`; how long scp took.
    pub(super) fn copy(&self, wan: &Wan, entry: SocketAddr, name: &str, copy: &str) -> Result<Duration, Problem> {
        let mut command = Command::new("scp");
        command.args(["-q", "-B", "-F", "none", "-P", &entry.port().to_string(), "-i"]);
        command.arg(format!("{WORKSHOP}/user_key"));
        for option in SSH_OPTIONS {
            command.args(["-o", option]);
        }
        command.arg(format!("{WORKSHOP}/{name}"));
        command.arg(format!("{}@{}:{WORKSHOP}/{copy}", self.user, entry.ip()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let start = Instant::now();
        wan.spawn(Host::A, command)?.finish()?;
        Ok(start.elapsed())
    }
}

/// Makes a file of `bytes` bytes that do not compress.
fn make_file(wan: &Wan, name: &str, bytes: u64) -> Result<(), Problem> {
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

/// Compares the file `name` on A with its `copy` on B by the SHA-256 that each host computes, and removes the copy.
fn check_copy(wan: &Wan, name: &str, copy: &str) -> Result<(), Problem> {
    let hash = |host, name: &str| {
        let text = wan.output(host, "sha256sum", &[&format!("{WORKSHOP}/{name}")])?;
        Ok::<_, Problem>(text.split_whitespace().next().unwrap_or_default().to_string())
    };
    let (sent, arrived) = (hash(Host::A, name)?, hash(Host::B, copy)?);
    let path = wan.path(&format!("{WORKSHOP}/{copy}"));
    std::fs::remove_file(path).map_err(Problem::io(format!("removing the lab's {copy}")))?;
    match sent == arrived {
        true => Ok(()),
        false => Err(Problem::Bytes(format!("the copy differs: SHA-256 {arrived}, sent {sent}"))),
    }
}

fn write(wan: &Wan, name: &str, bytes: &[u8]) -> Result<(), Problem> {
    std::fs::write(wan.path(&format!("{WORKSHOP}/{name}")), bytes)
        .map_err(Problem::io(format!("writing the lab's {name}")))
}

const SSHD: &str = "/usr/sbin/sshd";

/// Nothing of the user's own configuration, agents or known hosts.
const SSH_OPTIONS: &[&str] = &[
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "GlobalKnownHostsFile=/dev/null",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "LogLevel=ERROR",
];
