//! OpenSSH with the lab's own keys and configuration, for copies between the hosts and for a tunnel between the relays.

use crate::error::LabError;
use crate::plan::place::Host;
use crate::world::requirement::Requirement;
use crate::world::supervisor::{Program, WORKSHOP};
use crate::world::user::User;
use crate::world::wan::Wan;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

/// An sshd of the lab. The drop ends it.
pub(crate) struct Server {
    /// The process.
    pub(crate) program: Program,
    /// The configuration, as the report shows it.
    pub(crate) shown: String,
    user: String,
}

impl Server {
    /// Starts sshd on `host`, listening on `listen`. `user`, who runs the lab, can log in with the lab's key.
    ///
    /// # Errors
    /// OpenSSH is not installed, sshd would refuse the user, or sshd does not start.
    pub(crate) fn start(wan: &Wan, host: Host, listen: SocketAddr, user: &User) -> Result<Server, LabError> {
        // Checked first: with `unshare`, the error would not say that sshd is missing.
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
        // The name includes the port, because a host may run one sshd for copies and one for a tunnel.
        let path = wan.write(&format!("sshd_config-{}-{}", host.name(), listen.port()), &config)?;
        let mut command = user.command(&sshd.to_string_lossy());
        command.args(["-D", "-e", "-f", &path]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let program = wan.spawn(host, command)?.wait_for("Server listening")?;
        let shown = format!("{}: {}\n{config}", host.name(), program.name());
        Ok(Server { program, shown, user: user.name.clone() })
    }

    /// Writes the file `ssh_config` for commands typed on a host. In it, `b` is this server, reached through `entry`.
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

/// Returns the options for a client to log in with the lab's key. They disable the user's own configuration, agents and known
/// hosts.
pub(crate) fn client_options() -> Vec<String> {
    let mut words = ["-F", "none", "-i", &format!("{WORKSHOP}/user_key")].map(str::to_string).to_vec();
    words.extend(OPTIONS.iter().flat_map(|option| ["-o".to_string(), (*option).to_string()]));
    words
}

/// Returns a command for the client `program` with [`client_options`]. It prints only errors.
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
