//! An epoll set that reports only when a peer sends FIN and when a connection is closed (epoll(7)).

use crate::{Result, SysError};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The set. Its descriptor is readable when a connection in it has changed.
#[derive(Debug)]
pub struct HangupSet(OwnedFd);

impl HangupSet {
    /// Creates an empty set.
    ///
    /// # Errors
    /// EMFILE, ENFILE: no more descriptors.
    pub fn new() -> Result<HangupSet> {
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| SysError::new("epoll_create1", errno))?;
        Ok(HangupSet(set))
    }

    /// Adds `socket`. Its changes are reported as `key` until it is closed. Its current state is reported first.
    ///
    /// # Errors
    /// EEXIST: it is in the set already. ENOSPC: fs.epoll.max_user_watches. ENOMEM.
    pub fn add(&self, socket: BorrowedFd<'_>, key: u64) -> Result<()> {
        // Edge-triggered, because a socket with both FINs reports EPOLLHUP as long as it is open.
        let events = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ET;
        epoll::add(&self.0, socket, EventData::new_u64(key), events)
            .map_err(|errno| SysError::new("epoll_ctl(EPOLL_CTL_ADD)", errno))
    }

    /// Appends the keys of the connections that changed since the last call to `keys`. Does not wait. Returns whether
    /// there may be more.
    ///
    /// # Errors
    /// None is known for an open set.
    pub fn take(&self, keys: &mut Vec<u64>) -> Result<bool> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.0, spare_capacity(&mut events), Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(SysError::new("epoll_wait", errno)),
        }
        keys.extend(events.iter().map(|event| event.data.u64()));
        Ok(events.len() == EVENTS_PER_WAIT)
    }
}

impl AsRawFd for HangupSet {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Number of events per call of epoll_wait(2).
const EVENTS_PER_WAIT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn a_fin_and_the_close_are_reported_and_bytes_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = listener.accept().unwrap().0;
        let set = HangupSet::new().unwrap();
        set.add(ours.as_fd(), 7).unwrap();
        let take = || {
            let mut keys = Vec::new();
            assert_eq!(set.take(&mut keys), Ok(false));
            keys
        };
        let wait = |what| {
            let start = Instant::now();
            while take() != [7] {
                assert!(start.elapsed() < Duration::from_secs(60), "not reported: {what}");
                std::thread::yield_now();
            }
        };
        assert_eq!(take(), []);
        peer.write_all(b"bytes").unwrap();
        ours.peek(&mut [0; 5]).unwrap(); // they have arrived
        assert_eq!(take(), []);
        peer.shutdown(Shutdown::Write).unwrap();
        wait("the FIN");
        assert_eq!(take(), [], "once for each change");
        ours.shutdown(Shutdown::Write).unwrap();
        drop(peer);
        wait("the close");
    }
}
