//! The kernel that brought something, and whether this one has it.

use longhaul_sys::Result;
use socket2::{Domain, Protocol, Socket, Type};
use std::os::fd::{AsFd, BorrowedFd};

/// Something that newer kernels have.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// The first Linux that has it, such as `5.4`.
    pub linux: &'static str,
    /// What happens without it, in a sentence without a full stop.
    pub without: &'static str,
    /// Returns whether this kernel lacks it. False if that cannot be told.
    pub is_missing: fn() -> bool,
}

/// Whether the kernel does not know what `call` asks of a TCP socket.
pub(super) fn lacks<T>(call: impl FnOnce(BorrowedFd<'_>) -> Result<T>) -> bool {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)) else { return false };
    call(socket.as_fd()).is_err_and(|err| matches!(err.errno, libc::ENOPROTOOPT | libc::ENOENT))
}

/// Whether no socket of Multipath TCP can be made.
pub(super) fn lacks_mptcp() -> bool {
    let made = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP));
    // EINVAL: before 5.6, and without MPTCP in the kernel, the number of the protocol is out of range.
    made.is_err_and(|err| matches!(err.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EINVAL)))
}
