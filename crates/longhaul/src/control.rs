//! Commands to the daemon: one channel for every client, and one reply to each command. Nothing else reaches into the
//! relay from outside.

pub use longhaul_core::health::Phase;
use longhaul_relay::Measurement;
use std::time::SystemTime;
use tokio::sync::{mpsc, oneshot};

/// A client's handle to the daemon.
#[derive(Clone, Debug)]
pub struct Control(mpsc::Sender<Command>);

/// The daemon's end of the channel.
pub(crate) type Commands = mpsc::Receiver<Command>;

/// The sender of a command's answer. A client that does not wait for the answer has dropped the other end.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A command, with a sender for its answer.
#[derive(Debug)]
pub(crate) enum Command {
    /// Answers with the state of the daemon.
    Status(Reply<Status>),
    /// Cuts the flow with this number, with RST on both legs. Answers whether it exists. It ends a moment later.
    Kill(u64, Reply<bool>),
    /// Begins a measurement through the tunnel with this name. Answers with what gives it its connections, or why there is none.
    Measure(String, Reply<Result<Measurement, String>>),
    /// Writes the counters to the log.
    Report(Reply<()>),
    /// Reads the configuration file again. Answers when it is applied or refused. If another reload begins meanwhile, with the
    /// outcome of the later one.
    Reload(Reply<Reloaded>),
    /// Drains: the process is no longer ready, its listeners close after `drain_grace`, and it stays. Answers when no flow is
    /// left.
    Drain(Reply<Drained>),
    /// Undoes a drain. Answers when every tunnel listens. Without a drain, does nothing.
    Undrain(Reply<Undrained>),
    /// Ends when the last flow has ended. Answers with the number of flows.
    Stop(Reply<u64>),
    /// Ends now, and resets every flow. Answers with the number of flows.
    Cut(Reply<u64>),
}

/// State of the daemon.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether it wants connections.
    pub phase: Phase,
    /// Whether the tunnels listen. In a drain they listen for a moment more.
    pub listens: bool,
    /// Time when the drain began. `None` in other phases.
    pub draining_since: Option<SystemTime>,
    /// The refusal of the last reload, in every phase. `None` after a successful one.
    pub refusal: Option<Refusal>,
}

/// A reload that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why it was refused.
    pub why: String,
    /// Time of the refusal.
    pub at: SystemTime,
}

/// Outcome of a drain: no flow is left, or why the drain has ended before.
pub type Drained = Result<(), DrainUndone>;

/// A drain that was undone before the last flow had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainUndone;

/// Outcome of the command that undoes a drain: every tunnel listens, or the reason why not. In that case the drain goes on.
pub type Undrained = Result<(), String>;

/// Outcome of a reload: the number of tunnels served from now on.
pub type Reloaded = Result<usize, NotReloaded>;

/// Why a reload changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReloaded {
    /// The tunnel was given on the command line, so there is no file.
    NoFile,
    /// The daemon drains. The drain must be undone first.
    Draining,
    /// The daemon stops.
    Stopping,
    /// The file or something that it asks for was refused. The text is the first reason.
    Refused(String),
}

impl Control {
    /// Makes a channel.
    pub(crate) fn new() -> (Control, Commands) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Control(sender), receiver)
    }

    /// Sends a command, and waits for the reply. Returns `None` when the daemon ended before it replied.
    pub(crate) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        self.send(command).await.await.ok()
    }

    /// Sends a command without waiting for the reply. Returns the receiver of the reply.
    pub(crate) async fn send<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        // This fails when the daemon has ended. The reply is dropped with it, which the receiver reports.
        let _ = self.0.send(command(reply)).await;
        answer
    }
}

/// Maximum number of commands in the channel. Clients with further commands wait.
const WAITING: usize = 64;
