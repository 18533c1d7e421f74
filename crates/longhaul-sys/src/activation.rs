//! Listening sockets that systemd opened for us (sd_listen_fds(3), socket activation), and accept4(2).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketFlags;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Returns the sockets that were passed to this process, from descriptor 3 on. Returns none at the second call, or when
/// LISTEN_PID names another process.
pub fn sockets() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) || TAKEN.swap(true, Relaxed) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).min(MAX_SOCKETS) as RawFd;
    (FIRST..FIRST + count).filter_map(adopt).collect()
}

/// Returns the next connection in `listener`'s queue, O_NONBLOCK and O_CLOEXEC, with the address of its client.
///
/// # Errors
/// `WouldBlock`: the queue is empty. EMFILE, ENFILE, ENOBUFS, ENOMEM: no resources for the connection, which stays in
/// the queue. ECONNABORTED: it is gone already (accept(2)).
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    peer.map(|peer| (socket, peer)).ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted))
}

/// Whether a connection is in `listener`'s queue.
///
/// # Errors
/// ENOMEM (poll(2)).
pub fn has_connection(listener: BorrowedFd<'_>) -> io::Result<bool> {
    let mut asked = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
    Ok(poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

/// Takes ownership of descriptor `fd` if it is open. Sets close-on-exec, which systemd does not.
fn adopt(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: fcntl on a number that may not be open fails with EBADF and changes nothing.
    let done = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: it is open, and it is ours by the protocol: systemd opened it for this process (LISTEN_PID) before the
    // start, no other code here knows its number, and `TAKEN` lets this happen once.
    (done == 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// SD_LISTEN_FDS_START (sd_listen_fds(3)).
const FIRST: RawFd = 3;
/// Maximum number of sockets that are taken. More than any unit passes.
const MAX_SOCKETS: u32 = 1024;
