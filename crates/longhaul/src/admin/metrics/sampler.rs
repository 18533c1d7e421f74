//! Observes the legs of live flows for the distributions of their tunnels. It runs on the admin thread, so the data
//! workers do no work for it.

use longhaul_config::options::Leg;
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
        from = turn(&relay, from, FLOWS_PER_TURN);
    }
}

/// Observes up to `max` flows from number `from` on. Returns the number from which the next turn goes on.
fn turn(relay: &Relay, from: u64, max: usize) -> u64 {
    let views = relay.some_flows(from, max);
    for view in &views {
        for (leg, of) in [(&view.accept, Leg::Accept), (&view.dial, Leg::Dial)] {
            leg.iter().for_each(|leg| view.distributions.sample(of, leg));
        }
    }
    match views.last() {
        Some(last) if views.len() == max => last.number + 1,
        _ => 0,
    }
}

/// Time between two turns.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Number of flows of a turn, which takes some milliseconds: six system calls for each.
pub(super) const FLOWS_PER_TURN: usize = 1000;
