//! The order to cut a flow with RST on both legs: a flag, and the waker of the flow's task.
//!
//! Every idle flow waits for this order. A wait by `tokio::sync::Notify` would be 90 bytes larger and would take a lock
//! at each wake-up of the flow.

use crate::live::how::How;
use std::future::poll_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst, fence};
use std::task::{Poll, Waker};

/// The order to cut one flow, given or not.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// The given [`Order`], or `NOT_GIVEN`.
    order: AtomicU8,
    waker: OnceLock<Waker>,
}

/// An order: which flows it cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    /// Every flow, because the process ends.
    All = ALL,
    /// This flow.
    One = ONE,
}

impl Cut {
    /// Gives the order. Later orders change nothing.
    pub(super) fn give(&self, order: Order) {
        if self.order.compare_exchange(NOT_GIVEN, order as u8, SeqCst, SeqCst).is_ok() {
            fence(SeqCst);
            self.waker.get().into_iter().for_each(Waker::wake_by_ref);
        }
    }

    /// Waits until the order is given, and returns why the flow ends. The wait may be dropped. Only the flow's own task
    /// may wait, because the waker is that of the first wait.
    pub(crate) async fn given(&self) -> How {
        poll_fn(|cx| {
            if self.waker.get().is_none() {
                let _ = self.waker.set(cx.waker().clone());
                // Either the load below sees the order, or `give` sees the waker.
                fence(SeqCst);
            }
            match self.order.load(SeqCst) {
                ALL => Poll::Ready(How::Cut),
                ONE => Poll::Ready(How::Killed),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

/// The values of [`Cut::order`]. A new one has the first.
const NOT_GIVEN: u8 = 0;
const ALL: u8 = 1;
const ONE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Bell>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn the_order_is_heard_before_and_after_it_is_given() {
        let (cut, bell) = (Cut::default(), Arc::<Bell>::default());
        let waker = Waker::from(bell.clone());
        let mut cx = Context::from_waker(&waker);
        let mut early = pin!(cut.given());
        assert!(early.as_mut().poll(&mut cx).is_pending());
        cut.give(Order::One);
        cut.give(Order::All);
        assert_eq!(bell.0.load(SeqCst), 1);
        assert_eq!(early.poll(&mut cx), Poll::Ready(How::Killed), "the first order stays");
        assert_eq!(pin!(cut.given()).poll(&mut cx), Poll::Ready(How::Killed));
    }
}
