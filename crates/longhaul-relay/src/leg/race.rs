//! Attempts that run beside each other, until one of them has won.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// An attempt. Boxed, because a dial seldom has more than one at a time.
type Attempt<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Attempts under way, the oldest first. Dropping it ends them.
pub(crate) struct Race<'a, T>(Vec<Attempt<'a, T>>);

impl<'a, T> Race<'a, T> {
    /// Returns a race without attempts.
    pub(crate) fn new() -> Race<'a, T> {
        Race(Vec::new())
    }

    /// Whether no attempt is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an attempt. It begins when [`ended`](Race::ended) is next polled.
    pub(crate) fn start(&mut self, attempt: impl Future<Output = T> + Send + 'a) {
        self.0.push(Box::pin(attempt));
    }

    /// Waits until an attempt has ended, removes it and returns its result. If several have ended, returns the oldest.
    /// Never ends while there is no attempt. The wait may be dropped.
    pub(crate) async fn ended(&mut self) -> T {
        poll_fn(|cx| {
            for index in 0..self.0.len() {
                if let Poll::Ready(result) = self.0[index].as_mut().poll(cx) {
                    drop(self.0.remove(index));
                    return Poll::Ready(result);
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn attempts_end_in_the_order_of_their_times() {
        let mut race = Race::new();
        for millis in [30, 10, 20] {
            race.start(async move {
                sleep(Duration::from_millis(millis)).await;
                millis
            });
        }
        assert!(timeout(Duration::from_millis(5), race.ended()).await.is_err(), "the wait was dropped");
        assert_eq!([race.ended().await, race.ended().await, race.ended().await], [10, 20, 30]);
        assert!(race.is_empty());
    }
}
