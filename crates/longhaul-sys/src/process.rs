//! Processes: what a program that stays in the background needs.

use crate::{Result, SysError};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::os::fd::AsFd;

/// Makes the calling process the leader of a session of its own, without a terminal: no Ctrl-C and no hang-up of the
/// terminal that it was started from reaches it.
///
/// # Errors
/// EPERM when it leads a process group already.
pub fn own_session() -> Result<()> {
    rustix::process::setsid().map(drop).map_err(|errno| SysError::new("setsid()", errno))
}

/// Locks an open file for this process, until it closes it or ends in whatever way; `false` when another holds it.
///
/// # Errors
/// The file system has no locks.
pub fn try_lock(file: impl AsFd) -> Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(SysError::new("flock(LOCK_EX)", errno)),
    }
}

/// Asks the process `id` to end: SIGTERM, or SIGKILL with `now`. A process that is gone already is no error.
///
/// # Errors
/// EPERM when it is somebody else's, EINVAL for 0.
pub fn end(id: u32, now: bool) -> Result<()> {
    let (signal, name) = if now { (Signal::KILL, "SIGKILL") } else { (Signal::TERM, "SIGTERM") };
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

    #[test]
    fn a_lock_is_held_by_one_and_gone_when_its_file_is_closed() {
        let path = std::env::temp_dir().join(format!("longhaul-lock-{}", std::process::id()));
        let open = || std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path).unwrap();
        let (one, other) = (open(), open());
        assert_eq!(try_lock(&one), Ok(true));
        assert_eq!(try_lock(&other), Ok(false));
        drop(one);
        assert_eq!(try_lock(&other), Ok(true));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_process_is_ended_once_and_nobody_is_no_process() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        end(child.id(), false).unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
        assert_eq!(end(0, false).unwrap_err().errno, libc::EINVAL);
    }
}
