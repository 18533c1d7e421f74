//! Unix sockets with a path (unix(7)), as the admin part uses them, and descriptors that pass through them.

use crate::{Result, SysError};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
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

/// Sends `bytes` on the stream socket `to`, and copies of `descriptors` with the first byte (unix(7) SCM_RIGHTS), at most
/// [`MAX_DESCRIPTORS`]. Returns the number of bytes that were sent.
///
/// # Errors
/// EAGAIN: there is no room. EINVAL: there are too many descriptors.
pub fn send_descriptors(to: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL.into());
    }
    Ok(sendmsg(to, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)?)
}

/// Receives bytes from the stream socket `from`, and the descriptors that came with them. Returns the number of bytes, 0 at the end of the
/// stream.
///
/// # Errors
/// EAGAIN: there is nothing.
pub fn receive_descriptors(from: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let rights = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, rights.flatten().collect()))
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
/// Descriptors of one message at most.
pub const MAX_DESCRIPTORS: usize = 64;
/// Bytes of the control message with so many.
const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_with_the_bytes() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        let many = vec![other.as_fd(); MAX_DESCRIPTORS];
        assert_eq!(send_descriptors(near.as_fd(), b"here\n", &many).unwrap(), 5);
        assert!(send_descriptors(near.as_fd(), b"x", &vec![other.as_fd(); MAX_DESCRIPTORS + 8]).is_err());
        let mut bytes = [0; 100];
        let (got, descriptors) = receive_descriptors(far.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..got], descriptors.len()), (&b"here\n"[..], MAX_DESCRIPTORS));
        drop(many);
        drop((descriptors, other));
        assert_eq!(one.read(&mut [0]).unwrap(), 0, "no copy is left");
        assert_eq!(send_descriptors(near.as_fd(), b"alone", &[]).unwrap(), 5);
        assert_eq!(receive_descriptors(far.as_fd(), &mut bytes).unwrap().0, 5);
        drop(near);
        assert_eq!(receive_descriptors(far.as_fd(), &mut bytes).unwrap().0, 0);
    }

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
