//! Clients of a tunnel that wait in the listen queue, because the tunnel may not have another flow now.

use crate::lock::lock;
use longhaul_core::permits::Full;
use std::sync::Mutex;
use std::time::SystemTime;

/// The wait of a tunnel's listeners for a permit. Clients are in the listen queue meanwhile.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Option<Wait>>);

#[derive(Debug)]
struct Wait {
    /// Number of listeners that wait. A replaced listener waits beside the new one.
    listeners: usize,
    view: WaitView,
}

/// A wait for a permit at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitView {
    /// Why the tunnel may not have another flow.
    pub full: Full,
    /// Time when the wait began.
    pub since: SystemTime,
}

/// The wait of one listener. Dropping it ends the wait.
pub(super) struct Waiting<'a>(&'a Queue);

impl Queue {
    /// Records that a listener waits from now on, because of `full`.
    pub(super) fn wait(&self, full: Full) -> Waiting<'_> {
        let mut wait = lock(&self.0);
        match &mut *wait {
            Some(wait) => {
                wait.listeners += 1;
                wait.view.full = full;
            }
            None => *wait = Some(Wait { listeners: 1, view: WaitView { full, since: SystemTime::now() } }),
        }
        Waiting(self)
    }

    /// Returns the wait. `None` while no listener waits.
    pub(super) fn view(&self) -> Option<WaitView> {
        lock(&self.0).as_ref().map(|wait| wait.view)
    }
}

impl Waiting<'_> {
    /// Records why it waits now.
    pub(super) fn because(&self, full: Full) {
        if let Some(wait) = &mut *lock(&self.0.0) {
            wait.view.full = full;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut wait = lock(&self.0.0);
        *wait =
            wait.take().filter(|wait| wait.listeners > 1).map(|wait| Wait { listeners: wait.listeners - 1, ..wait });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_no_listener_waits() {
        let queue = Queue::default();
        assert_eq!(queue.view(), None);
        let first = queue.wait(Full::MaxFlows);
        let began = queue.view().unwrap();
        let second = queue.wait(Full::MaxFlows);
        second.because(Full::Permits);
        drop(first);
        assert_eq!(queue.view(), Some(WaitView { full: Full::Permits, since: began.since }));
        drop(second);
        assert_eq!(queue.view(), None);
    }
}
