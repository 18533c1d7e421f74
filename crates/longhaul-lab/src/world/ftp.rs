//! vsftpd with the lab's own configuration, for files that a client puts and gets without a password.

use crate::error::LabError;
use crate::plan::place::Host;
use crate::world::requirement::Requirement;
use crate::world::supervisor::{Program, WORKSHOP};
use crate::world::wan::Wan;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};

/// Starts vsftpd on `host`. It listens on `listen`, and on ports of `data` for passive data connections. Its files are those of
/// [`WORKSHOP`].
///
/// # Errors
/// vsftpd is not installed, or does not start.
pub(crate) fn start(
    wan: &Wan,
    host: Host,
    listen: SocketAddr,
    data: &RangeInclusive<u16>,
) -> Result<Program, LabError> {
    let vsftpd = VSFTPD.find()?;
    let config = CONFIG
        .replace("ADDRESS", &listen.ip().to_string())
        .replace("PORT", &listen.port().to_string())
        .replace("FIRST", &data.start().to_string())
        .replace("LAST", &data.end().to_string())
        .replace("WORKSHOP", WORKSHOP);
    let path = wan.write(&format!("vsftpd-{}.conf", host.name()), &config)?;
    let mut command = Command::new(vsftpd);
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    wan.until_it_listens(host, wan.spawn(host, command)?, listen.port())
}

/// The server. Debian's packages of FTP servers exclude each other, and start a service. So `scripts/deps` only unpacks this one,
/// below `target`: the second place, seen from `target/debug` or `target/release`.
pub(crate) const VSFTPD: Requirement = Requirement {
    name: "vsftpd",
    places: &["/usr/sbin/vsftpd", "../servers/vsftpd/usr/sbin/vsftpd"],
    debian: "vsftpd",
    rhel: "vsftpd",
};

/// vsftpd.conf(5). vsftpd runs as the lab's root, because a user namespace has no other user. It wants an account for anonymous
/// users, and not every machine has `ftp`. It sets no buffer of a socket, so the host's windows hold for its data connections.
const CONFIG: &str = "\
listen=YES
listen_address=ADDRESS
listen_port=PORT
pasv_min_port=FIRST
pasv_max_port=LAST
background=NO
run_as_launching_user=YES
seccomp_sandbox=NO
secure_chroot_dir=WORKSHOP
connect_from_port_20=NO
max_clients=0
max_per_ip=0
local_enable=NO
anonymous_enable=YES
ftp_username=root
nopriv_user=root
no_anon_password=YES
anon_root=WORKSHOP
anon_world_readable_only=NO
write_enable=YES
anon_upload_enable=YES
xferlog_enable=NO
";
