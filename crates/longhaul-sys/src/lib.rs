//! The system calls of longhaul, and the only crate with `unsafe`. Every function is one system call, or a few that
//! belong together. None decides anything.
//!
//! [`splice`] moves bytes, [`sockopt`] sets and reads socket options, [`tcp_info`] reads the kernel's state of a
//! connection, [`hangups`] reports FIN and close, [`poll`] waits for sockets, [`icmp`] tells which host sent an ICMP error, [`route`] queries the routing
//! tables, [`sockets`] finds a connection of this host, [`limits`] reads the limits of the process, [`activation`] takes the sockets that systemd opened, [`unix`] makes
//! the control socket. For the lab, [`netns`] creates namespaces, [`tun`] creates network devices that vanish with the
//! process, and [`process`] has the calls of a background process.
//! Every failure is a [`SysError`]: the call, its argument, the errno and a hint.

pub mod activation;
pub mod cgroup;
mod error;
pub mod hangups;
pub mod icmp;
pub mod limits;
pub mod netns;
pub mod poll;
pub mod process;
pub mod route;
pub mod sockets;
pub mod sockopt;
pub mod splice;
pub mod tcp_info;
pub mod tun;
pub mod unix;

pub use error::{Result, SysError, errno_text};

/// Repeats `call` while it fails with EINTR. Once a process was stopped, frozen or briefly traced, the kernel does not
/// restart a blocking call on a socket with a timeout (SO_RCVTIMEO, SO_SNDTIMEO), even without a signal handler:
/// signal(7), "Interruption of system calls and library functions by stop signals".
///
/// # Errors
/// Those of `call`, but never `Interrupted`.
pub fn uninterrupted<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Version of the glibc that this process runs with, such as `2.36`: gnu_get_libc_version(3). `None` with another libc.
pub fn glibc_version() -> Option<&'static str> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes nothing, and returns a constant string.
        let version = unsafe { libc::gnu_get_libc_version() };
        // SAFETY: the string ends with NUL, and is never freed or changed.
        unsafe { std::ffi::CStr::from_ptr(version) }.to_str().ok()
    }
    #[cfg(not(target_env = "gnu"))]
    None
}
