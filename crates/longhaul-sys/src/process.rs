//! System calls about processes.

use crate::{Result, SysError};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Locks an open file for this process, until the process closes the file or ends in any way. Returns `false` when
/// another process holds the lock. The file must be open for writing.
///
/// The lock is that of fcntl(2), F_SETLK, because such a lock belongs to the process: a child that another thread is
/// just starting does not inherit it. The locks of flock(2) and F_OFD_SETLK belong to the open file, and a child holds
/// them until its execve(2), with or without O_CLOEXEC. The disadvantage: the lock is gone as soon as this process
/// closes *any* descriptor of the file, and a process never finds a lock of its own.
///
/// # Errors
/// The file system has no locks. EBADF when the file is not open for writing.
pub fn try_lock(file: impl AsFd) -> Result<bool> {
    match rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        // fcntl(2): the system chooses which of the two it returns.
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(SysError::new("fcntl(F_SETLK, F_WRLCK)", errno)),
    }
}

/// Makes the program that `command` starts end with this process, or rather with the thread that starts it, in whatever way that ends
/// (prctl(2), PR_SET_PDEATHSIG).
pub fn end_with_this(command: &mut Command) {
    let ask = || rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // SAFETY: the closure makes one system call, which is async-signal-safe.
    unsafe { command.pre_exec(move || ask().map_err(Into::into)) };
}

/// Returns the name of this host (uname(2)).
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the processor time that all threads of this process have used (clock_gettime(2) CLOCK_PROCESS_CPUTIME_ID).
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the resident memory of this process in bytes. Returns `None` if /proc does not show it.
pub fn resident_bytes() -> Option<u64> {
    // proc(5) /proc/pid/statm: size and resident, in pages.
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// A signal that ends a process (signal(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGTERM: the process may tidy up first, or ignore the signal.
    Term,
    /// SIGKILL: the kernel ends the process at once.
    Kill,
}

/// Sends `signal` to the process `id`. A process that is gone already is not an error.
///
/// # Errors
/// EPERM when it belongs to another user. EINVAL for 0.
pub fn end(id: u32, signal: EndSignal) -> Result<()> {
    let (signal, name) = match signal {
        EndSignal::Term => (Signal::TERM, "SIGTERM"),
        EndSignal::Kill => (Signal::KILL, "SIGKILL"),
    };
    let call = || format!("kill({id}, {name})");
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(|| SysError::new(call(), Errno::INVAL))?;
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(SysError::new(call(), errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::ffi::CString;
    use std::fs::File;
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn open(path: &Path) -> File {
        File::options().create(true).truncate(false).write(true).open(path).unwrap()
    }

    /// Returns a child process that runs `job` before its execve(2), where only async-signal-safe calls are allowed.
    fn child(job: impl FnMut() -> io::Result<()> + Send + Sync + 'static) -> Command {
        let mut command = Command::new("true");
        // SAFETY: every `job` of these tests makes plain system calls only.
        unsafe { command.pre_exec(job) };
        command
    }

    /// Whether another process could lock the file at `path` now. The file is opened there, because closing it here
    /// would unlock it.
    fn is_free(path: &Path) -> bool {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let locking = child(move || {
            let file = rustix::fs::open(&path, OFlags::WRONLY, Mode::empty())?;
            if try_lock(&file) == Ok(true) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        { locking }.status().is_ok()
    }

    #[test]
    fn a_lock_is_held_by_one_process_and_gone_when_its_file_is_closed() {
        let path = std::env::temp_dir().join(format!("longhaul-lock-{}", std::process::id()));
        let (one, other) = (open(&path), path.with_extension("other"));
        drop(open(&other));
        assert!(is_free(&path));
        assert_eq!(try_lock(&one), Ok(true));
        assert!(!is_free(&path));
        assert!(is_free(&other), "another file");
        drop(one);
        assert!(is_free(&path));
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(other).unwrap();
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let before = cpu_time();
        let memory = vec![1u8; 1 << 20];
        assert!(resident_bytes().unwrap() > memory.iter().map(|byte| u64::from(*byte)).sum());
        assert!(cpu_time() > before);
    }

    #[test]
    fn a_child_that_is_being_started_does_not_keep_the_lock() {
        let path = std::env::temp_dir().join(format!("longhaul-fork-{}", std::process::id()));
        let one = open(&path);
        assert_eq!(try_lock(&one), Ok(true));
        let (is_forked, forked) = rustix::pipe::pipe().unwrap();
        let (may_go_on, go_on) = rustix::pipe::pipe().unwrap();
        // Until its execve, the child has a copy of every descriptor, including that of the lock.
        let mut between = child(move || {
            rustix::io::write(&forked, b"1")?;
            rustix::io::read(&may_go_on, &mut [0; 1])?;
            Ok(())
        });
        let starting = std::thread::spawn(move || between.status());
        rustix::io::read(&is_forked, &mut [0; 1]).unwrap();
        drop(one);
        let was_free = is_free(&path);
        rustix::io::write(&go_on, b"1").unwrap();
        assert!(starting.join().unwrap().unwrap().success());
        std::fs::remove_file(path).unwrap();
        assert!(was_free, "a child between fork and execve holds the lock");
    }

    #[test]
    fn a_process_is_ended_once_and_nobody_is_no_process() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        end(child.id(), EndSignal::Term).unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
        assert_eq!(end(0, EndSignal::Term).unwrap_err().errno, libc::EINVAL);
    }
}
