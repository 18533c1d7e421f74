//! Observes the legs of live flows for the distributions of their tunnels. It runs on the admin thread, so the data
//! workers do no work for it.

use longhaul_relay::Relay;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Observes up to [`FLOWS_PER_TURN`] flows in each [`INTERVAL`], the oldest first, and begins again after the last. Never
/// ends; it may be dropped.
pub(crate) async fn run(relay: Arc<Relay>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut from = 0;
    loop {
        ticks.tick().await;
        from = relay.sample_legs(from, FLOWS_PER_TURN);
    }
}

/// Time between two turns.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Number of flows of a turn, which takes some milliseconds: two system calls for each.
pub(super) const FLOWS_PER_TURN: usize = 1000;
