//! Waits for sockets (poll(2)), and reads the time that a thread has computed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Waits until one of `sockets` can be read, at most `time`. Returns for each whether a read does not block: there are bytes, the
/// end of the stream, or an error.
///
/// # Errors
/// ENOMEM; EINVAL: more sockets than descriptors are allowed.
pub fn readable(sockets: &[BorrowedFd<'_>], time: Duration) -> io::Result<Vec<bool>> {
    wait(sockets, PollFlags::IN, time)
}

/// Waits until `socket` takes bytes, at most `time`. Returns whether a write does not block.
///
/// # Errors
/// ENOMEM.
pub fn writable(socket: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    Ok(wait(&[socket], PollFlags::OUT, time)?[0])
}

fn wait(sockets: &[BorrowedFd<'_>], event: PollFlags, time: Duration) -> io::Result<Vec<bool>> {
    let mut asked: Vec<PollFd<'_>> = sockets.iter().map(|socket| PollFd::from_borrowed_fd(*socket, event)).collect();
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut asked, Some(&time)) {
        // A signal: nothing is ready so far.
        Ok(_) | Err(Errno::INTR) => Ok(asked.iter().map(|asked| !asked.revents().is_empty()).collect()),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns the time for which the calling thread has computed (clock_gettime(2) CLOCK_THREAD_CPUTIME_ID).
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_can_be_read_is_told_of_each_socket() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (silent, _kept) = UnixStream::pair().unwrap();
        far.write_all(b"x").unwrap();
        let ready = readable(&[silent.as_fd(), near.as_fd()], Duration::from_secs(60)).unwrap();
        assert_eq!(ready, [false, true]);
        assert_eq!(readable(&[silent.as_fd()], Duration::ZERO).unwrap(), [false]);
        assert!(writable(near.as_fd(), Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn a_thread_that_computes_has_computed_longer() {
        let began = thread_cpu_time();
        let mut sum = 0u64;
        while thread_cpu_time() <= began {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_cpu_time() > began);
    }
}
