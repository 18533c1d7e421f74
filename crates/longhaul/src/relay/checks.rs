//! Active checks of a tunnel's next hops: one task a tunnel, off the flows' way.
//!
//! A check connects to the next hop as a dial does, with the same options and the same source, and resets the connection.
//! A hop whose name has several addresses passes when one of them answers.

use super::connect;
use super::permits::Gate;
use super::shared::Relay;
use longhaul_config::{CheckBy, Tunnel};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

/// The task that checks a tunnel's next hops. Dropping it ends the checks.
#[derive(Debug)]
pub struct Checks(JoinHandle<()>);

impl Checks {
    /// Begins to check the next hops of `tunnel`, if it has checks. If it has none, the states that earlier checks have set
    /// end.
    pub fn begin(relay: &Arc<Relay>, gate: &Arc<Gate>, tunnel: &Arc<Tunnel>) -> Option<Checks> {
        match tunnel.check.by {
            Some(CheckBy::Tcp) => Some(Checks(tokio::spawn(run(relay.clone(), gate.clone(), tunnel.clone())))),
            None => {
                gate.hops.unchecked();
                None
            }
        }
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Checks every next hop in each interval, all at the same time.
async fn run(relay: Arc<Relay>, gate: Arc<Gate>, tunnel: Arc<Tunnel>) {
    let mut ticks = interval(tunnel.check.interval);
    // A round that lasts longer than the interval delays the next one.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut round = JoinSet::new();
        for hop in 0..tunnel.to.len() {
            let (relay, gate, tunnel) = (relay.clone(), gate.clone(), tunnel.clone());
            round.spawn(async move {
                // A check needs a descriptor that no flow needs. Without one, the hop keeps its state.
                let Some(_spare) = gate.spare() else { return };
                if let Some(result) = check(&relay, &gate, &tunnel, hop).await {
                    gate.hops.checked(&gate.counters, &tunnel, hop, &result);
                }
            });
        }
        while round.join_next().await.is_some() {}
    }
}

/// Returns the time of the handshake with next hop `hop`, or why no address answered. Returns `None` when only this host
/// is at fault, because then the check says nothing about the hop.
async fn check(relay: &Relay, gate: &Gate, tunnel: &Tunnel, hop: usize) -> Option<Result<Duration, String>> {
    let timeout = tunnel.check.timeout;
    let addresses = match relay.addresses(&tunnel.to[hop], timeout, &gate.counters).await {
        Ok(addresses) if !addresses.is_empty() => addresses,
        Ok(_) => return Some(Err("its name has no address".into())),
        Err(err) => return Some(Err(format!("cannot be resolved: {err}"))),
    };
    let mut why = None;
    for address in addresses {
        let began = Instant::now();
        let failure = match connect::begin(relay, tunnel, address, &[]) {
            Err(failure) => failure,
            Ok((stream, _)) => match connect::finish(relay, &stream, address, timeout).await {
                Ok(()) => return Some(Ok(began.elapsed())),
                Err(failure) => failure,
            },
        };
        if failure.is_of_hop {
            why = Some(Err(format!("{address}: {failure}")));
        }
    }
    why
}
