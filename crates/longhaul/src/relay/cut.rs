//! The order to cut every flow that is still open: given once, and heard by each flow whenever it begins to listen.
//!
//! A flag and a bell, for every idle flow waits for it: a watch channel's wait is 90 bytes larger.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

/// The order.
#[derive(Debug, Default)]
pub(super) struct Cut {
    is_given: AtomicBool,
    bell: Notify,
}

impl Cut {
    /// Gives the order.
    pub(super) fn give(&self) {
        self.is_given.store(true, SeqCst);
        self.bell.notify_waiters();
    }

    /// Waits until the order is given. It is safe to drop the wait.
    pub(super) async fn given(&self) {
        // Before the look: the bell is heard by whoever has this, waiting or not yet.
        let bell = self.bell.notified();
        if !self.is_given.load(SeqCst) {
            bell.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn the_order_is_heard_before_and_after_it_is_given() {
        let cut = Cut::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut early = pin!(cut.given());
        assert!(early.as_mut().poll(&mut cx).is_pending());
        cut.give();
        assert!(early.poll(&mut cx).is_ready());
        assert!(pin!(cut.given()).poll(&mut cx).is_ready());
    }
}
