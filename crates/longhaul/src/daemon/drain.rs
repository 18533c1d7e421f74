//! A drain: the process is not ready at once, its listeners close after a grace, and its flows go on. A drain by command can be
//! undone. At a stop, there is no grace, and the process ends with its last flow.

use crate::control::{Drained, Reply};
use longhaul_relay::Relay;
use std::future::pending;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep_until};

/// A drain.
pub(super) struct Drain {
    stage: Stage,
    /// Time when it began.
    pub(super) since: SystemTime,
    /// Clients that wait for the last flow.
    pub(super) waiting: Vec<Reply<Drained>>,
    /// Whether the process ends with the last flow.
    pub(super) stops: bool,
    /// Time when a stop cuts the flows that are left.
    pub(super) cut_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The listeners still accept, until this time.
    Grace(Instant),
    /// The listeners serve what waits in their queues.
    Closing,
    /// No listener is left.
    Closed,
}

/// The next step of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainStep {
    /// The grace is over: close the listeners.
    Close,
    /// No flow is left.
    Ended,
    /// The time of a stop is over: cut the flows.
    Cut,
}

impl Drain {
    /// Returns a drain whose listeners close after `grace`.
    pub(super) fn new(grace: Duration) -> Drain {
        let stage = Stage::Grace(Instant::now() + grace);
        Drain { stage, since: SystemTime::now(), waiting: Vec::new(), stops: false, cut_at: None }
    }

    /// Waits for the next step. Without a drain, returns `None`. The wait may be dropped.
    pub(super) async fn step(drain: &Option<Drain>, relay: &Relay) -> Option<DrainStep> {
        let drain = drain.as_ref()?;
        let last_flow = async {
            match drain.stage {
                Stage::Closed if drain.stops || !drain.waiting.is_empty() => relay.ended().await,
                _ => pending().await,
            }
        };
        let time = match drain.stage {
            Stage::Grace(end) => Some((end, DrainStep::Close)),
            Stage::Closing | Stage::Closed => drain.cut_at.map(|end| (end, DrainStep::Cut)),
        };
        let time = async {
            let Some((at, step)) = time else { return pending().await };
            sleep_until(at).await;
            step
        };
        // Both arms may be dropped.
        Some(tokio::select! {
            biased;
            () = last_flow => DrainStep::Ended,
            step = time => step,
        })
    }

    /// Whether the listeners still accept connections.
    pub(super) fn listens(&self) -> bool {
        matches!(self.stage, Stage::Grace(_))
    }

    /// Records that the listeners were told to end.
    pub(super) fn closing(&mut self) {
        self.stage = Stage::Closing;
    }

    /// Records that no listener is left. Returns false if that is not news.
    pub(super) fn closed(&mut self) -> bool {
        let is_news = self.stage == Stage::Closing;
        if is_news {
            self.stage = Stage::Closed;
        }
        is_news
    }

    /// Tells the waiting clients the outcome.
    pub(super) fn answer(&mut self, outcome: &Drained) {
        // A reply fails when the client does not wait for it.
        self.waiting.drain(..).for_each(|reply| drop(reply.send(outcome.clone())));
    }
}
