//! setsockopt(2) and getsockopt(2) once each, and what is built on them: ints, words, and a u64.
//!
//! rustix and socket2 wrap fewer than half of the options of the table. Two calls of our own serve every row alike, and
//! their errors name option and value.

use super::Value;
use crate::{Result, SysError};
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A socket option as the kernel numbers it, and its name in the man page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// Whose it is: `SOL_SOCKET`, `IPPROTO_TCP`.
    pub level: libc::c_int,
    /// Which of them.
    pub number: libc::c_int,
    /// As the man page writes it, for errors.
    pub name: &'static str,
}

/// The congestion controls that the kernel offers (`available`) and those that an ordinary user may set (`allowed`), as
/// the kernel lists them: names with a space between. Modules that are not loaded are in neither.
pub fn congestion_controls(list: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{list}_congestion_control")).ok()?;
    Some(text.trim().to_string())
}

/// Lets bind(2) to an address leave the port to connect(2), which may then use one port for many peers
/// (ip(7) IP_BIND_ADDRESS_NO_PORT). Not a row: it is how a source address is used, not a choice.
///
/// # Errors
/// ENOPROTOOPT before kernel 4.2.
pub fn set_bind_address_no_port(fd: BorrowedFd<'_>) -> Result<()> {
    let opt = Opt { level: libc::IPPROTO_IP, number: libc::IP_BIND_ADDRESS_NO_PORT, name: "IP_BIND_ADDRESS_NO_PORT" };
    set(fd, opt, &Value::Switch(true))
}

/// Lets poll(2) and epoll(7) call a socket readable only from `bytes` on (socket(7) SO_RCVLOWAT); its end and its errors
/// at once. Not a row: the relay sets it from the rate that it measures.
///
/// # Errors
/// The descriptor is no socket.
pub fn set_receive_low_water(fd: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    set(fd, RCVLOWAT, &Value::Number(bytes.into()))
}

/// From how many bytes on the kernel calls the socket readable.
///
/// # Errors
/// The descriptor is no socket.
pub fn receive_low_water(fd: BorrowedFd<'_>) -> Result<u32> {
    get(fd, RCVLOWAT)
}

const RCVLOWAT: Opt = Opt { level: libc::SOL_SOCKET, number: libc::SO_RCVLOWAT, name: "SO_RCVLOWAT" };

/// Sets an int option; `true` is 1.
pub(super) fn set(fd: BorrowedFd<'_>, opt: Opt, value: &Value) -> Result<()> {
    let number = match value {
        Value::Switch(on) => Some(u32::from(*on)),
        Value::Number(number) => u32::try_from(*number).ok(),
        Value::Name(_) => None,
    };
    let number = number.ok_or_else(|| refused(opt, value, libc::EINVAL))?;
    set_bytes(fd, opt, &number.to_ne_bytes(), value)
}

/// Reads an int option. The kernel's ints that are not counts (marks) use all 32 bits, so it comes unsigned.
pub(super) fn get(fd: BorrowedFd<'_>, opt: Opt) -> Result<u32> {
    let mut bytes = [0; 4];
    get_bytes(fd, opt, &mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

/// Sets an option whose value is a word.
pub(super) fn set_word(fd: BorrowedFd<'_>, opt: Opt, word: &str) -> Result<()> {
    set_bytes(fd, opt, word.as_bytes(), &format_args!("{word:?}"))
}

/// Reads an option whose value is a word: what stands before the first NUL.
pub(super) fn get_word(fd: BorrowedFd<'_>, opt: Opt) -> Result<String> {
    let mut bytes = [0; 64];
    let len = get_bytes(fd, opt, &mut bytes)?;
    let word = bytes[..len].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(word).into_owned())
}

/// Sets an option whose value is 64 bits wide.
pub(super) fn set_u64(fd: BorrowedFd<'_>, opt: Opt, value: u64) -> Result<()> {
    set_bytes(fd, opt, &value.to_ne_bytes(), &value)
}

/// Reads an option whose value is 64 bits wide.
pub(super) fn get_u64(fd: BorrowedFd<'_>, opt: Opt) -> Result<u64> {
    let mut bytes = [0; 8];
    get_bytes(fd, opt, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn set_bytes(fd: BorrowedFd<'_>, opt: Opt, bytes: &[u8], shown: &dyn fmt::Display) -> Result<()> {
    let len = bytes.len() as libc::socklen_t;
    // SAFETY: `fd` is open while it is borrowed, and `bytes` is readable for `len` bytes, which is its own length.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), opt.level, opt.number, bytes.as_ptr().cast(), len) };
    if done == 0 { Ok(()) } else { Err(SysError::last(format!("setsockopt({}, {shown})", opt.name))) }
}

/// Fills `bytes` as far as the kernel has something to say, and gives the number of bytes filled.
fn get_bytes(fd: BorrowedFd<'_>, opt: Opt, bytes: &mut [u8]) -> Result<usize> {
    let mut len = bytes.len() as libc::socklen_t;
    let into = bytes.as_mut_ptr().cast();
    // SAFETY: `fd` is open while it is borrowed, `into` is writable for `len` bytes, and `len` is ours.
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), opt.level, opt.number, into, &mut len) };
    if done == 0 { Ok(len as usize) } else { Err(SysError::last(format!("getsockopt({})", opt.name))) }
}

/// The error of a value that does not fit the option, as the kernel would have worded it.
pub(super) fn refused(opt: Opt, value: &Value, errno: i32) -> SysError {
    SysError { call: format!("setsockopt({}, {value})", opt.name), errno, hint: "".into() }
}
