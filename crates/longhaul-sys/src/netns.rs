//! Namespaces of the calling thread. Nothing here outlives the process: a namespace has no name, and lives as long as a
//! descriptor of it is open or a process is in it.

use crate::{Result, SysError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

/// A network namespace, held open.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
}

impl NetNs {
    /// Creates a network namespace with nothing but a loopback interface that is down, and moves the calling thread
    /// into it.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN. ENOSPC when there are user.max_net_namespaces already.
    pub fn create() -> Result<NetNs> {
        unshare(libc::CLONE_NEWNET, "CLONE_NEWNET")?;
        NetNs::current()
    }

    /// Returns the network namespace of the calling thread.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<NetNs> {
        let path = "/proc/thread-self/ns/net";
        let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        opened.map(|fd| NetNs { fd }).map_err(|errno| SysError::new(format!("open({path})"), errno))
    }

    /// Moves the calling thread, and no other, into this namespace. Threads and processes that it starts are in it too.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: setns(2) takes integers only, and the descriptor is open as long as `self`.
        let done = unsafe { libc::setns(self.fd.as_raw_fd(), libc::CLONE_NEWNET) };
        if done < 0 { Err(SysError::last("setns(CLONE_NEWNET)").hint(NEEDS_ADMIN)) } else { Ok(()) }
    }

    /// Returns the path by which programs such as ip(8) find the namespace while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }
}

/// Moves the process into a user namespace of its own, in which the user is root. The process must have a single
/// thread. In namespaces created later, this root may do what the lab needs. Outside nothing changes.
///
/// # Errors
/// EPERM, ENOSPC or EUSERS when the system forbids this to ordinary users. EINVAL when there are other threads.
pub fn become_root_of_own_user_namespace() -> Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(libc::CLONE_NEWUSER, "CLONE_NEWUSER").map_err(|err| err.hint(USER_NAMESPACES))?;
    // user_namespaces(7): setgroups must be denied before an ordinary user may write gid_map.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {user} 1"))?;
    write("/proc/self/gid_map", &format!("0 {group} 1"))
}

/// Gives the calling thread mounts of its own. Only the thread and what it starts see later mounts. They vanish with
/// the last of these.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub fn own_mounts() -> Result<()> {
    unshare(libc::CLONE_NEWNS, "CLONE_NEWNS")?;
    // mount_namespaces(7): a new namespace shares its mounts with its parent's until it is told not to.
    mount(None, "/", libc::MS_REC | libc::MS_PRIVATE, "")
}

/// Mounts an empty file system in memory on the directory `path`. `options` as in tmpfs(5), such as `size=1g`.
///
/// # Errors
/// ENOENT when there is no such directory. EPERM without CAP_SYS_ADMIN.
pub fn mount_tmpfs(path: &str, options: &str) -> Result<()> {
    mount(Some("tmpfs"), path, libc::MS_NOSUID | libc::MS_NODEV, options)
}

/// Creates a process namespace for the processes that the calling thread starts from now on. The first of them is its
/// init: when the init ends in any way, the kernel kills all others (pid_namespaces(7)).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN. ENOSPC when there are user.max_pid_namespaces already.
pub fn own_processes() -> Result<()> {
    unshare(libc::CLONE_NEWPID, "CLONE_NEWPID")
}

/// Whether the process runs as root of the system or of a user namespace.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn unshare(flag: libc::c_int, name: &str) -> Result<()> {
    // SAFETY: unshare(2) takes one integer. The flags used here change namespaces of the calling thread only.
    let done = unsafe { libc::unshare(flag) };
    if done < 0 { Err(SysError::last(format!("unshare({name})")).hint(NEEDS_ADMIN)) } else { Ok(()) }
}

fn mount(kind: Option<&str>, path: &str, flags: libc::c_ulong, options: &str) -> Result<()> {
    let call = || format!("mount({}, {path:?})", kind.unwrap_or("none"));
    let c_string = |text: &str| CString::new(text).map_err(|_| SysError::new(call(), Errno::INVAL));
    let (source, target, data) = (c_string(kind.unwrap_or("none"))?, c_string(path)?, c_string(options)?);
    // SAFETY: the four pointers are strings that end in 0 and outlive the call. `data` is a string for tmpfs and
    // ignored for a change of propagation.
    let done = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), source.as_ptr(), flags, data.as_ptr().cast()) };
    if done < 0 { Err(SysError::last(call()).hint(NEEDS_ADMIN)) } else { Ok(()) }
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|err| {
        let errno = Errno::from_io_error(&err).unwrap_or(Errno::IO);
        SysError::new(format!("write({path}, {text:?})"), errno).hint(USER_NAMESPACES)
    })
}

const NEEDS_ADMIN: &str = "needs CAP_SYS_ADMIN: run as root or in a user namespace";
const USER_NAMESPACES: &str = "the system does not let ordinary users make user namespaces: run as root, or allow it with \
    `sysctl kernel.unprivileged_userns_clone=1`, `user.max_user_namespaces` above 0, \
    or on Ubuntu `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
