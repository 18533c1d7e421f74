//! setsockopt(2) and getsockopt(2), and their values: an int, a word, or a 64-bit number.
//!
//! rustix and socket2 wrap fewer than half of the options that longhaul sets. Two functions here serve all options
//! alike, and their errors name the option and the value.

use crate::{Result, SysError};
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A socket option as the kernel numbers it, and its name in the man page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// Protocol level: `SOL_SOCKET`, `IPPROTO_TCP`.
    pub level: libc::c_int,
    /// Number of the option at its level.
    pub number: libc::c_int,
    /// Name in the man page, for errors.
    pub name: &'static str,
}

impl Opt {
    /// Returns the option `number` of `SOL_SOCKET`.
    pub const fn socket(number: libc::c_int, name: &'static str) -> Opt {
        Opt { level: libc::SOL_SOCKET, number, name }
    }

    /// Returns the option `number` of `IPPROTO_TCP`.
    pub const fn tcp(number: libc::c_int, name: &'static str) -> Opt {
        Opt { level: libc::IPPROTO_TCP, number, name }
    }

    /// Sets an int option.
    ///
    /// # Errors
    /// The kernel refused. EINVAL: `number` has more than 32 bits.
    pub fn set(self, fd: BorrowedFd<'_>, number: u64) -> Result<()> {
        let int = u32::try_from(number).map_err(|_| self.refused(number, libc::EINVAL))?;
        self.set_bytes(fd, &int.to_ne_bytes(), &number)
    }

    /// Sets an int option to 1 or 0.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_switch(self, fd: BorrowedFd<'_>, on: bool) -> Result<()> {
        self.set_bytes(fd, &u32::from(on).to_ne_bytes(), &on)
    }

    /// Reads an int option. The result is unsigned, because marks use all 32 bits.
    ///
    /// # Errors
    /// The kernel does not know the option, or does not support it on this socket.
    pub fn get(self, fd: BorrowedFd<'_>) -> Result<u32> {
        let mut bytes = [0; 4];
        self.get_bytes(fd, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    /// Sets an option whose value is a word.
    pub(super) fn set_word(self, fd: BorrowedFd<'_>, word: &str) -> Result<()> {
        self.set_bytes(fd, word.as_bytes(), &format_args!("{word:?}"))
    }

    /// Reads an option whose value is a word: the bytes before the first NUL.
    pub(super) fn word(self, fd: BorrowedFd<'_>) -> Result<String> {
        let mut bytes = [0; 64];
        let len = self.get_bytes(fd, &mut bytes)?;
        let word = bytes[..len].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(word).into_owned())
    }

    /// Sets an option whose value is 64 bits wide.
    pub(super) fn set_u64(self, fd: BorrowedFd<'_>, value: u64) -> Result<()> {
        self.set_bytes(fd, &value.to_ne_bytes(), &value)
    }

    /// Reads an option whose value is 64 bits wide.
    pub(super) fn u64(self, fd: BorrowedFd<'_>) -> Result<u64> {
        let mut bytes = [0; 8];
        self.get_bytes(fd, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Returns the error of a value that does not fit the option, in the form of a refusal by the kernel.
    pub(super) fn refused(self, value: u64, errno: i32) -> SysError {
        SysError { call: format!("setsockopt({}, {value})", self.name), errno, hint: "".into() }
    }

    /// Sets an option whose value is `bytes`. An error shows the value as `shown`.
    pub(super) fn set_bytes(self, fd: BorrowedFd<'_>, bytes: &[u8], shown: &dyn fmt::Display) -> Result<()> {
        let len = bytes.len() as libc::socklen_t;
        // SAFETY: `fd` is open while it is borrowed, and `bytes` is readable for `len` bytes, which is its own length.
        let done = unsafe { libc::setsockopt(fd.as_raw_fd(), self.level, self.number, bytes.as_ptr().cast(), len) };
        if done == 0 { Ok(()) } else { Err(SysError::last(format!("setsockopt({}, {shown})", self.name))) }
    }

    /// Fills `bytes` as far as the kernel's value reaches. Returns the number of bytes filled.
    fn get_bytes(self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize> {
        let mut len = bytes.len() as libc::socklen_t;
        let into = bytes.as_mut_ptr().cast();
        // SAFETY: `fd` is open while it is borrowed, `into` is writable for `len` bytes, and `len` is ours.
        let done = unsafe { libc::getsockopt(fd.as_raw_fd(), self.level, self.number, into, &mut len) };
        if done == 0 { Ok(len as usize) } else { Err(SysError::last(format!("getsockopt({})", self.name))) }
    }
}
