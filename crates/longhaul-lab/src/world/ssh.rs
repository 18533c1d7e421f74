//! OpenSSH with keys and configuration of the lab's own: for copies between the hosts, and for a tunnel between the relays.

use crate::error::LabError;
use crate::plan::place::Host;
use crate::world::requirement::Requirement;
use crate::world::supervisor::{Program, WORKSHOP};
use crate::world::user::User;
use crate::world::wan::Wan;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

/// An sshd of the lab; it ends when dropped.
pub(crate) struct Server {
    /// The process.
    pub(crate) program: Program,
    /// Its configuration, as the report shows it.
    pub(crate) shown: String,
    user: String,
}

impl Server {
    /// Starts sshd on `host`, listening on `listen`; `user`, who runs the lab, may log in with the lab's key.
    ///
    /// # Errors
    /// OpenSSH is not installed, or does not start.
    pub(crate) fn start(wan: &Wan, host: Host, listen: SocketAddr, user: &User) -> Result<Server, LabError> {
        // What starts it as the user himself would only say that it failed.
        let sshd = SSHD.find()?;
        user.can_log_in()?;
        for name in ["host_key", "user_key"] {
            let path = format!("{WORKSHOP}/{name}");
            if !wan.path(&path).exists() {
                wan.output(host, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path])?;
            }
        }
        let config = format!(
            "ListenAddress {listen}\nHostKey {WORKSHOP}/host_key\nAuthorizedKeysFile {WORKSHOP}/user_key.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n\
             Subsystem sftp internal-sftp\n"
        );
        // By port too: a host may have one for itself and one for a tunnel.
        let path = wan.write(&format!("sshd_config-{}-{}", host.name(), listen.port()), &config)?;
        let mut command = user.command(&sshd.to_string_lossy());
        command.args(["-D", "-e", "-f", &path]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let program = wan.spawn(host, command)?.wait_for("Server listening")?;
        let shown = format!("{}: {}\n{config}", host.name(), program.name());
        Ok(Server { program, shown, user: user.name.clone() })
    }

    /// For whoever stands on a host: the file `ssh_config`, in which `b` is this server behind `entry`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn configure(&self, wan: &Wan, entry: SocketAddr) -> Result<(), LabError> {
        let mut config = format!(
            "Host b\n  HostName {}\n  Port {}\n  User {}\n  IdentityFile {WORKSHOP}/user_key\n  LogLevel ERROR\n",
            entry.ip(),
            entry.port(),
            self.user
        );
        OPTIONS.iter().for_each(|option| config += &format!("  {}\n", option.replace('=', " ")));
        wan.write("ssh_config", &config).map(drop)
    }

    /// Returns the login at `address`, as ssh(1) and scp(1) take it.
    pub(crate) fn login(&self, address: IpAddr) -> String {
        format!("{}@{address}", self.user)
    }
}

/// Returns the options with which a client logs in with the lab's key, without the user's own configuration, agents and
/// known hosts.
pub(crate) fn client_options() -> Vec<String> {
    let mut words = ["-F", "none", "-i", &format!("{WORKSHOP}/user_key")].map(str::to_string).to_vec();
    words.extend(OPTIONS.iter().flat_map(|option| ["-o".to_string(), (*option).to_string()]));
    words
}

/// A client, `program`, with [`client_options`], that says nothing but errors.
pub(crate) fn client(program: &str) -> Command {
    let mut command = Command::new(program);
    command.args(client_options()).args(["-o", "LogLevel=ERROR"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The client.
pub(crate) const SSH: Requirement = Requirement::program("ssh", "openssh-client", "openssh-clients");
/// The program that makes keys.
pub(crate) const KEYGEN: Requirement = Requirement::program("ssh-keygen", "openssh-client", "openssh");
/// The server, which ordinary users do not have in PATH.
pub(crate) const SSHD: Requirement =
    Requirement { name: "sshd", places: &["/usr/sbin/sshd"], debian: "openssh-server", rhel: "openssh-server" };
const OPTIONS: &[&str] = &[
    "BatchMode=yes",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "GlobalKnownHostsFile=/dev/null",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
];
