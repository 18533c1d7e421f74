//! Observes the legs of live flows, for the distributions of their tunnels and for what limits each flow. It runs on the admin thread, so
//! the data workers do no work for it.

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

/// Looks for what limits each flow. Never ends; it may be dropped.
pub(crate) async fn diagnose(relay: Arc<Relay>) {
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut from = 0;
    loop {
        ticks.tick().await;
        from = relay.diagnose(from, FLOWS_PER_LOOK);
    }
}

/// Time between two looks at flows for what limits them, and the number of flows of a look: a millisecond, if all carry bytes.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const FLOWS_PER_LOOK: usize = 500;

/// Time between two turns.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Number of flows of a turn, which takes some milliseconds: two system calls for each.
pub(super) const FLOWS_PER_TURN: usize = 1000;
