//! A drain by command: the process is not ready at once, its listeners close after a grace, and its flows go on. It stays
//! until SIGTERM, and another command undoes the drain.

use crate::control::{DrainUndone, Drained, Reply};
use longhaul_relay::Relay;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep_until};

/// A drain.
pub(super) struct Drain {
    stage: Stage,
    since: SystemTime,
    /// Clients that wait for the last flow.
    waiting: Vec<Reply<Drained>>,
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
pub(super) enum Step {
    /// The grace is over: close the listeners.
    Close,
    /// No flow is left: tell the clients.
    Tell,
}

impl Drain {
    /// Returns a drain whose listeners close after `grace`.
    pub(super) fn new(grace: Duration) -> Drain {
        Drain { stage: Stage::Grace(Instant::now() + grace), since: SystemTime::now(), waiting: Vec::new() }
    }

    /// Waits for the next step. Returns `None` when there is none before another event. The wait may be dropped.
    pub(super) async fn step(drain: &Option<Drain>, relay: &Relay) -> Option<Step> {
        let drain = drain.as_ref()?;
        match drain.stage {
            Stage::Grace(end) => {
                sleep_until(end).await;
                Some(Step::Close)
            }
            Stage::Closed if !drain.waiting.is_empty() => {
                relay.ended().await;
                Some(Step::Tell)
            }
            Stage::Closing | Stage::Closed => None,
        }
    }

    /// Returns the time when it began.
    pub(super) fn since(&self) -> SystemTime {
        self.since
    }

    /// Whether the listeners still accept connections.
    pub(super) fn listens(&self) -> bool {
        matches!(self.stage, Stage::Grace(_))
    }

    /// Adds a client that waits for the last flow.
    pub(super) fn wait(&mut self, reply: Reply<Drained>) {
        self.waiting.push(reply);
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

    /// Tells the waiting clients that no flow is left.
    pub(super) fn tell(&mut self) {
        self.answer(&Ok(()));
    }

    /// Tells the waiting clients that the drain is undone.
    pub(super) fn undo(mut self) {
        self.answer(&Err(DrainUndone));
    }

    /// Returns the waiting clients.
    pub(super) fn into_waiting(self) -> Vec<Reply<Drained>> {
        self.waiting
    }

    fn answer(&mut self, outcome: &Drained) {
        // A reply fails when the client does not wait for it.
        self.waiting.drain(..).for_each(|reply| drop(reply.send(outcome.clone())));
    }
}
