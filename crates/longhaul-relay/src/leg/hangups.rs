//! Wakes a flow's task when the peer of one of its legs sends FIN or when the leg is closed.
//!
//! tokio reports a closed connection only once. It takes a leg for closed as soon as both FINs have passed, although
//! the last bytes are not acknowledged yet, and so it does not report their acknowledgement. The few legs that need
//! that report are therefore in an epoll set of their own, which is one descriptor for the process.

use crate::leg::stream::{Stream, watched};
use crate::lock::lock;
use longhaul_sys::hangups::HangupSet;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use tokio::io::Interest;

/// The legs that are watched.
#[derive(Debug, Default)]
pub(crate) struct Hangups {
    /// Created when the first leg is watched. Empty while the kernel has no descriptor for it.
    set: OnceLock<Arc<HangupSet>>,
    legs: Mutex<WatchedLegs>,
}

#[derive(Debug, Default)]
struct WatchedLegs {
    next: u64,
    watched: HashMap<u64, Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    has_changed: bool,
    waker: Option<Waker>,
}

/// One watched leg. Dropping it ends the watch. The socket leaves the set when it is closed.
#[derive(Debug)]
pub(super) struct Watch {
    hangups: Arc<Hangups>,
    key: u64,
}

impl Hangups {
    /// Watches `leg`, which must not be watched already. Returns `None` when the kernel has no room for it.
    pub(super) fn watch(self: &Arc<Hangups>, leg: &Stream) -> Option<Watch> {
        let watch = {
            let mut legs = self.legs();
            // Under the lock, so that only one set is created. If that fails, the next leg tries again.
            if self.set.get().is_none() {
                let _ = self.set.set(self.start()?);
            }
            legs.next += 1;
            let key = legs.next;
            legs.watched.insert(key, Watched::default());
            Watch { hangups: self.clone(), key }
        };
        self.set.get()?.add(leg.as_fd(), watch.key).is_ok().then_some(watch)
    }

    /// Creates the set and the task that reads it.
    fn start(self: &Arc<Hangups>) -> Option<Arc<HangupSet>> {
        let set = Arc::new(HangupSet::new().ok()?);
        let readable = watched(set.clone(), Interest::READABLE).ok()?;
        let hangups = Arc::downgrade(self);
        tokio::spawn(async move {
            while let (Ok(mut ready), Some(hangups)) = (readable.readable().await, hangups.upgrade()) {
                // Before the set is read, so that a later change makes it readable again.
                ready.clear_ready();
                hangups.wake(readable.get_ref());
            }
        });
        Some(set)
    }

    fn wake(&self, set: &HangupSet) {
        let mut keys = Vec::new();
        while set.take(&mut keys) == Ok(true) {}
        let mut legs = self.legs();
        for key in keys {
            if let Some(watched) = legs.watched.get_mut(&key) {
                watched.has_changed = true;
                watched.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    fn legs(&self) -> MutexGuard<'_, WatchedLegs> {
        lock(&self.legs)
    }
}

impl Watch {
    /// Ready once for all changes since the last call. If the leg had a FIN when the watch began, the first call is
    /// ready.
    pub(super) fn poll_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut legs = self.hangups.legs();
        let Some(watched) = legs.watched.get_mut(&self.key) else { return Poll::Pending };
        if std::mem::take(&mut watched.has_changed) {
            return Poll::Ready(());
        }
        watched.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hangups.legs().watched.remove(&self.key);
    }
}
