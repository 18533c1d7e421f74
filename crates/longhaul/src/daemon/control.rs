//! Commands to the daemon: one channel for every client, and one reply to each command. Nothing else reaches into the relay
//! from outside.

use crate::relay::FlowView;
use longhaul_config::Tunnel;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// A client's way to the daemon. Each method waits for the reply; `None` when the daemon has ended before it replied.
#[derive(Clone, Debug)]
pub struct Control(mpsc::Sender<Command>);

/// The daemon's end of the channel.
pub(super) type Commands = mpsc::Receiver<Command>;

/// Takes the answer to a command. A client that does not wait for it has dropped the other end.
pub(super) type Reply<T> = oneshot::Sender<T>;

/// A command. Each has its answer's type.
#[derive(Debug)]
pub(super) enum Command {
    /// Says what the daemon does.
    Status(Reply<Status>),
    /// Lists the live flows, the oldest first.
    Flows(Reply<Vec<FlowView>>),
    /// Cuts the flow with this number. The answer is whether there is such a flow.
    Kill(u64, Reply<bool>),
    /// Writes the counters to the log.
    Report(Reply<()>),
    /// Reads the configuration file again.
    Reload(Reply<Reloaded>),
    /// Ends when the last flow has ended. The answer is the number of flows.
    Drain(Reply<u64>),
    /// Ends now, and resets every flow. The answer is the number of flows.
    Cut(Reply<u64>),
}

/// State of the daemon.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether it accepts connections.
    pub phase: Phase,
    /// The tunnels that it serves, by their names. None while it drains.
    pub tunnels: Vec<Arc<Tunnel>>,
    /// Number of flows that are open.
    pub flows: u64,
    /// Why the last reload was refused; `None` after one that went well.
    pub refusal: Option<String>,
}

/// Phase of the daemon's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It accepts connections.
    Serving,
    /// It waits for its flows to end.
    Draining,
}

/// Outcome of a reload: the number of tunnels that are served from now on.
pub type Reloaded = Result<usize, NotReloaded>;

/// Why a reload has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReloaded {
    /// The tunnel was given on the command line, so there is no file.
    NoFile,
    /// The daemon drains.
    Draining,
    /// The file, or what it asks for, was refused. The text is the first reason.
    Refused(String),
}

impl Control {
    /// Makes a channel.
    pub(super) fn new() -> (Control, Commands) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Control(sender), receiver)
    }

    /// Returns the state of the daemon.
    pub async fn status(&self) -> Option<Status> {
        self.ask(Command::Status).await
    }

    /// Returns the live flows, the oldest first.
    pub async fn flows(&self) -> Option<Vec<FlowView>> {
        self.ask(Command::Flows).await
    }

    /// Cuts flow `number` with RST on both legs. Returns whether there is such a flow; it has ended a moment later.
    pub async fn kill(&self, number: u64) -> Option<bool> {
        self.ask(|reply| Command::Kill(number, reply)).await
    }

    /// Writes the counters to the log.
    pub async fn report(&self) -> Option<()> {
        self.ask(Command::Report).await
    }

    /// Reads the configuration file again, and waits until it is in force or refused. Where another reload begins meanwhile, the
    /// answer is that of the later one.
    pub async fn reload(&self) -> Option<Reloaded> {
        self.ask(Command::Reload).await
    }

    /// Begins to drain: no new connections, and the process ends when the last flow has ended. Returns the number of flows that
    /// are left.
    pub async fn drain(&self) -> Option<u64> {
        self.ask(Command::Drain).await
    }

    /// Resets every flow and ends the process. Returns the number of flows that were left.
    pub async fn cut(&self) -> Option<u64> {
        self.ask(Command::Cut).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        self.send(command).await.await.ok()
    }

    /// Sends a command and does not wait for the reply, which comes by what this returns.
    pub(super) async fn send<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        // It fails when the daemon has ended; the reply is dropped with it, which the receiver reports.
        let _ = self.0.send(command(reply)).await;
        answer
    }
}

/// Number of commands that may wait for the daemon. A client waits while there are more.
const WAITING: usize = 64;
