//! Signals: the first client of the control channel.

use crate::control::{Command, Control};
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

/// The signals that the daemon obeys.
pub(super) struct Signals {
    reload: Signal,
    report: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// SIGUSR2, which would otherwise end the process and with it every flow.
    unused: Signal,
}

impl Signals {
    /// Replaces the signals' default actions. Signals that come from now on are kept for [`forward`](Signals::forward).
    ///
    /// # Errors
    /// The kernel refused a signal's action.
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            report: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            unused: signal(SignalKind::user_defined2())?,
        })
    }

    /// Sends the command of each signal that comes. SIGHUP reloads, SIGUSR1 writes the counters, the first SIGTERM or
    /// SIGINT stops, and each further one cuts. Never ends.
    pub(super) async fn forward(mut self, control: Control) {
        let mut stops = false;
        loop {
            // A signal stays with its arm until the arm is polled again, so dropping an arm loses none. The replies are
            // not awaited, because the log reports the outcome.
            tokio::select! {
                _ = self.reload.recv() => drop(control.send(Command::Reload).await),
                _ = self.report.recv() => drop(control.send(Command::Report).await),
                _ = self.unused.recv() => ignored(),
                _ = self.terminate.recv() => stop(&control, &mut stops).await,
                _ = self.interrupt.recv() => stop(&control, &mut stops).await,
            }
        }
    }
}

/// Stops at the first call, and cuts at each further one.
async fn stop(control: &Control, stops: &mut bool) {
    match std::mem::replace(stops, true) {
        false => drop(control.send(Command::Stop).await),
        true => drop(control.send(Command::Cut).await),
    }
}

/// Answers SIGUSR2.
fn ignored() {
    info!("SIGUSR2 is ignored; SIGUSR1 writes the counters, SIGHUP reloads, SIGTERM drains");
}
