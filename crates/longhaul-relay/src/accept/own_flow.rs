//! Reads the preface of one of the daemon's own probes before anything is dialled, and then starts its flow.

use crate::accept::proxy_in::Arrived;
use crate::flow;
use crate::live::client::Client;
use crate::probe::answer;
use std::time::{Duration, Instant};
use tracing::warn;

/// Reads the preface of an own probe and starts its flow. Resets the connection if it is not the announced probe.
pub(super) async fn run(arrived: Arrived) {
    let preface = tokio::select! {
        preface = answer::peek_preface(&arrived.accept, PATIENCE) => preface,
        // Dropping the connection resets it.
        () = arrived.relay.is_cut() => return,
    };
    let Arrived { relay, tunnel, accept, peer, permit } = arrived;
    if preface.is_some_and(|preface| relay.own_probes.admit(peer, &preface.nonce)) {
        let client = Client::Own(Box::new(peer));
        tokio::spawn(flow::run(relay, tunnel, accept, client, permit));
        return;
    }
    tunnel.counters.count(|counters| &counters.refused);
    tunnel.counters.count(|counters| &counters.not_allowed);
    tunnel.counters.count(|counters| &counters.probes_refused);
    let name = &tunnel.settings.name;
    if let Some(more) = relay.lines.refused.pass(name, Instant::now()) {
        warn!(tunnel = %name, %peer, more, "refused: not the announced probe");
    }
}

/// Time in which the preface must arrive. The prober sends it at once.
const PATIENCE: Duration = Duration::from_secs(5);
