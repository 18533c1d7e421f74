//! The error type of this crate. It names the call, its argument, the errno and, if known, the remedy:
//! `setsockopt(TCP_CONGESTION, "bbr"): ENOENT: No such file or directory (module tcp_bbr not loaded?)`.

use std::borrow::Cow;
use std::{fmt, io};

/// The error of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysError {
    /// The call with its arguments, as in its man page: `setsockopt(TCP_CONGESTION, "bbr")`.
    pub call: String,
    /// The errno.
    pub errno: i32,
    /// The remedy. Empty when none is known.
    pub hint: Cow<'static, str>,
}

/// The result of every function here that can fail.
pub type Result<T> = std::result::Result<T, SysError>;

impl SysError {
    /// Returns the error of `call`, without a hint.
    pub fn new(call: impl Into<String>, errno: rustix::io::Errno) -> SysError {
        SysError { call: call.into(), errno: errno.raw_os_error(), hint: Cow::Borrowed("") }
    }

    /// Returns the error of `call` with the `errno` of the last libc call of this thread, without a hint.
    pub fn last(call: impl Into<String>) -> SysError {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        SysError { call: call.into(), errno, hint: Cow::Borrowed("") }
    }

    /// Returns the same error with a remedy.
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> SysError {
        self.hint = hint.into();
        self
    }

    /// Returns the errno as an error of the standard library, without call and hint.
    pub fn to_io(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, errno_text(self.errno))?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, " ({})", self.hint) }
    }
}

impl std::error::Error for SysError {}

impl From<SysError> for io::Error {
    fn from(err: SysError) -> io::Error {
        io::Error::new(err.to_io().kind(), err)
    }
}

/// Returns the name and text of an errno: `EADDRINUSE: Address already in use`.
pub fn errno_text(errno: i32) -> String {
    let words = io::Error::from_raw_os_error(errno).to_string();
    let words = words.split(" (os error").next().unwrap_or_default().to_string();
    match NAMES.iter().find(|(number, _)| *number == errno) {
        Some((_, name)) => format!("{name}: {words}"),
        None => format!("errno {errno}: {words}"),
    }
}

/// Names of the errnos that sockets, pipes and namespaces return (errno(3)).
const NAMES: &[(i32, &str)] = &[
    (libc::EACCES, "EACCES"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EBADF, "EBADF"),
    (libc::EBUSY, "EBUSY"),
    (libc::ECONNABORTED, "ECONNABORTED"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::EEXIST, "EEXIST"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::EINVAL, "EINVAL"),
    (libc::EIO, "EIO"),
    (libc::EMFILE, "EMFILE"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ENFILE, "ENFILE"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENOENT, "ENOENT"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EPERM, "EPERM"),
    (libc::EPIPE, "EPIPE"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::EUSERS, "EUSERS"),
];
