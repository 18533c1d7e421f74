//! Clients of a tunnel that wait in the listen queue, because the tunnel may not have another flow now.

use crate::lock::lock;
use longhaul_core::health::Wait;
use longhaul_core::permits::Full;
use std::sync::Mutex;
use std::time::SystemTime;

/// The wait of a tunnel's listeners for a permit. Clients are in the listen queue meanwhile.
#[derive(Debug, Default)]
pub(super) struct WaitingClients(Mutex<WaitingListeners>);

#[derive(Debug, Default)]
struct WaitingListeners {
    /// Number of listeners that wait. A replaced listener waits beside the new one.
    listeners: usize,
    /// `None` while no listener waits.
    wait: Option<Wait>,
}

/// The wait of one listener. Dropping it ends the wait.
pub(super) struct Waiting<'a>(&'a WaitingClients);

impl WaitingClients {
    /// Records that a listener waits from now on, because of `full`.
    pub(super) fn wait(&self, full: Full) -> Waiting<'_> {
        let mut waiting = lock(&self.0);
        waiting.listeners += 1;
        waiting.wait.get_or_insert_with(|| Wait { full, since: SystemTime::now() }).full = full;
        Waiting(self)
    }

    /// Returns the wait. `None` while no listener waits.
    pub(super) fn view(&self) -> Option<Wait> {
        lock(&self.0).wait
    }
}

impl Waiting<'_> {
    /// Records why it waits now.
    pub(super) fn because(&self, full: Full) {
        if let Some(wait) = &mut lock(&self.0.0).wait {
            wait.full = full;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.0);
        waiting.listeners -= 1;
        if waiting.listeners == 0 {
            waiting.wait = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_no_listener_waits() {
        let queue = WaitingClients::default();
        assert_eq!(queue.view(), None);
        let first = queue.wait(Full::MaxFlows);
        let began = queue.view().unwrap();
        let second = queue.wait(Full::MaxFlows);
        second.because(Full::Permits);
        drop(first);
        assert_eq!(queue.view(), Some(Wait { full: Full::Permits, since: began.since }));
        drop(second);
        assert_eq!(queue.view(), None);
    }
}
