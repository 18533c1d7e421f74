//! Unix sockets with a path (unix(7)), as the admin part uses them.

use crate::{Result, SysError};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Returns a non-blocking socket that listens at `path`. Only root and the user of this process may connect: the file
/// has mode 0600 from the moment it exists, whatever the umask. The caller removes the file.
///
/// # Errors
/// EADDRINUSE: there is a file at `path`, whether anybody listens there or not. ENOENT, EACCES, EROFS: its folder does
/// not exist or cannot be written.
pub fn listen(path: &Path) -> Result<OwnedFd> {
    let (socket, address) = (stream(path)?, address(path)?);
    // net/unix/af_unix.c, unix_bind_bsd: the file gets the mode of the socket, less the umask.
    let owner = Mode::RUSR | Mode::WUSR;
    rustix::fs::fchmod(&socket, owner).map_err(|errno| failed("fchmod(0600)", path, errno))?;
    rustix::net::bind(&socket, &address).map_err(|errno| failed("bind", path, errno))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed("listen", path, errno))?;
    Ok(socket)
}

/// Whether a process listens at `path`. The kernel completes the connection by itself, so a stopped process counts too.
///
/// # Errors
/// EACCES: this process may not connect there.
pub fn is_answered(path: &Path) -> Result<bool> {
    match rustix::net::connect(stream(path)?, &address(path)?) {
        // connect(2): EAGAIN is a full listen queue.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(errno) => Err(failed("connect", path, errno)),
    }
}

fn stream(path: &Path) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| failed("socket", path, errno))
}

fn address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|errno| failed("sockaddr_un", path, errno))
}

fn failed(call: &str, path: &Path, errno: Errno) -> SysError {
    SysError::new(format!("{call}({})", path.display()), errno)
}

/// Length of the listen queue.
const BACKLOG: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_the_owner_s_alone_and_is_answered_while_it_listens() {
        let path = std::env::temp_dir().join(format!("longhaul-unix-{}", std::process::id()));
        assert_eq!(is_answered(&path), Ok(false));
        let socket = listen(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(is_answered(&path), Ok(true));
        assert_eq!(listen(&path).unwrap_err().errno, libc::EADDRINUSE);
        drop(socket);
        assert_eq!(is_answered(&path), Ok(false), "the file is left over");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(listen(&path.join("below")).unwrap_err().errno, libc::ENOENT);
    }
}
