//! The end of the process: accepts no new connections, and waits until every flow has ended or is cut.

use super::error::DaemonError;
use super::notify::{not_reloaded, tell, tell_reloading};
use super::status;
use crate::control::{Command, Commands, Drained, NotReloaded, Phase, Refusal, RelayCommand, Reply, Status};
use longhaul_relay::Relay;
use longhaul_units::show_duration;
use sd_notify::NotifyState;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until, timeout};
use tracing::{error, info, warn};

/// When to cut the remaining flows, unless a command cuts them earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// At once.
    Now,
    /// After this time, or never with `None`.
    After(Option<Duration>),
}

/// Result of the wait for the flows.
enum Waited {
    /// No flow is left.
    Ended,
    /// The remaining flows are to be cut.
    Cut,
}

/// State of the process when it stops.
pub(super) struct Ending {
    /// When to cut the remaining flows.
    pub(super) limit: Limit,
    /// The refusal of the last reload, if it was refused.
    pub(super) refusal: Option<Refusal>,
    /// Clients that wait for the last flow.
    pub(super) waiting: Vec<Reply<Drained>>,
}

/// Stops listening and waits for the flows to end. A command or the limit cuts them. Then answers the waiting clients.
///
/// # Errors
/// A listener has panicked.
pub(super) async fn stop(relay: &Arc<Relay>, commands: &mut Commands, mut ending: Ending) -> Result<(), DaemonError> {
    relay.close();
    tell(&[NotifyState::Stopping, NotifyState::Status(&status_line(relay))]);
    let waited = match ending.limit {
        Limit::Now => Waited::Cut,
        Limit::After(limit) => wait(relay, commands, limit, &mut ending).await?,
    };
    if let Waited::Cut = waited {
        cut(relay).await?;
    }
    // A reply fails when the client does not wait for it.
    ending.waiting.into_iter().for_each(|reply| drop(reply.send(Ok(()))));
    Ok(())
}

async fn wait(
    relay: &Arc<Relay>,
    commands: &mut Commands,
    limit: Option<Duration>,
    ending: &mut Ending,
) -> Result<Waited, DaemonError> {
    info!(flows = flows(relay), drain_timeout = %limit.map_or("none".into(), show_duration),
        "draining: no new connections; a second signal cuts the flows");
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut tick = interval(REPORT_INTERVAL);
    tick.tick().await;
    loop {
        // Every arm may be dropped: `ended` forgets only listeners that have ended, and the other arms lose nothing.
        tokio::select! {
            ended = ended(relay) => return ended.map(|()| Waited::Ended),
            _ = tick.tick() => {
                tell(&[NotifyState::Status(&status_line(relay))]);
                info!(flows = flows(relay), "still draining");
            }
            Some(command) = commands.recv() => {
                if obey(command, relay, ending).is_break() {
                    return Ok(Waited::Cut);
                }
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => return Ok(Waited::Cut),
        }
    }
}

/// Obeys `command`. Returns `Break` when the remaining flows are to be cut.
fn obey(command: Command, relay: &Relay, ending: &mut Ending) -> ControlFlow<()> {
    // A reply fails when the client does not wait for it.
    match command {
        Command::Status(reply) => {
            let _ = reply.send(Status {
                phase: Phase::Stopping,
                listens: false,
                draining_since: None,
                refusal: ending.refusal.clone(),
            });
        }
        Command::Relay(command) => obey_relay(command, relay),
        Command::Reload(reply) => {
            tell_reloading();
            not_reloaded();
            tell(&[NotifyState::Stopping]);
            let _ = reply.send(Err(NotReloaded::Stopping));
        }
        Command::Drain(reply) => ending.waiting.push(reply),
        Command::Undrain(reply) => drop(reply.send(Err("the daemon stops".into()))),
        Command::Stop(reply) => drop(reply.send(flows(relay))),
        Command::Cut(reply) => {
            let _ = reply.send(flows(relay));
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

/// Cuts the remaining flows, and gives them a moment to end.
async fn cut(relay: &Relay) -> Result<(), DaemonError> {
    // If the last flow ends while the command arrives, there is nothing to cut.
    if flows(relay) > 0 {
        warn!(flows = flows(relay), "cutting the remaining flows with RST");
    }
    relay.cut();
    match timeout(CUT_TIMEOUT, ended(relay)).await {
        Ok(ended) => ended,
        Err(_) => {
            error!(flows = flows(relay), "flows did not end in time: exiting resets them");
            Ok(())
        }
    }
}

/// Obeys `command`, as in every phase.
pub(super) fn obey_relay(command: RelayCommand, relay: &Relay) {
    // A reply fails when the client does not wait for it.
    match command {
        RelayCommand::Kill(number, reply) => drop(reply.send(relay.kill(number))),
        RelayCommand::Report(reply) => {
            relay.report();
            let _ = reply.send(());
        }
    }
}

/// Waits until every listener has ended, and then until no flow is left. The wait may be dropped.
///
/// # Errors
/// A listener has panicked.
async fn ended(relay: &Relay) -> Result<(), DaemonError> {
    while let Some(ended) = relay.listener_ended().await {
        ended.map_err(DaemonError::panicked)?;
    }
    relay.ended().await;
    Ok(())
}

fn flows(relay: &Relay) -> u64 {
    relay.counters.flows_now.load(Relaxed)
}

fn status_line(relay: &Relay) -> String {
    format!("draining, {} left", status::flows(&relay.counters))
}

/// Interval at which a drain reports the number of remaining flows.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Time that cut flows have to close their sockets.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);
