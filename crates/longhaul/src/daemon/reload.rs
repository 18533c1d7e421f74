//! Reading the configuration file again, on a thread of its own: a FIFO, or a file system that does not answer, holds up no
//! command.

use super::control::{NotReloaded, Reloaded, Reply};
use super::notify::tell_reloading;
use longhaul_config::{Loaded, Refused};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::warn;

/// The file, and whether it is being read.
pub(super) struct Reload {
    file: Option<PathBuf>,
    /// Threads that may read the file at once.
    readers: Arc<Semaphore>,
    task: Option<JoinHandle<Result<Loaded, Refused>>>,
    /// Whether another reload was asked for since, for which no thread was left.
    again: bool,
    /// Those who wait for the outcome.
    waiting: Vec<Reply<Reloaded>>,
}

impl Reload {
    /// Of `file`; `None` where the tunnel was given on the command line.
    pub(super) fn new(file: Option<PathBuf>) -> Reload {
        Reload { file, readers: Arc::new(Semaphore::new(READERS)), task: None, again: false, waiting: Vec::new() }
    }

    /// Begins to read the file. A reading that goes on is forgotten, because by now the file says something else. Its thread
    /// cannot be had back, so after a few of them the next reload waits for the last.
    pub(super) fn begin(&mut self, reply: Reply<Reloaded>) {
        if self.file.is_none() {
            warn!("SIGHUP: nothing to reload, for the tunnel was told on the command line");
            let _ = reply.send(Err(NotReloaded::NoFile));
            return;
        }
        self.waiting.push(reply);
        self.read();
    }

    fn read(&mut self) {
        let Some(file) = self.file.clone() else { return };
        let Ok(reader) = self.readers.clone().try_acquire_owned() else {
            self.again = true;
            return warn!(file = %file.display(), "SIGHUP: the file does not answer; it is read again when it does");
        };
        tell_reloading();
        let read = move || {
            let read = longhaul_config::load(&file);
            drop(reader);
            read
        };
        self.task = Some(spawn_blocking(read));
        self.again = false;
    }

    /// Waits for what the file says; `None` when nothing is being read. It is safe to drop the wait.
    pub(super) async fn settled(&mut self) -> Option<Result<Loaded, Refused>> {
        loop {
            let read = self.task.as_mut()?.await;
            self.task = None;
            if self.again {
                self.read();
                continue;
            }
            // It fails only when reading has panicked, which no input makes it.
            return read.ok();
        }
    }

    /// Answers all who wait for a reload.
    pub(super) fn answer(&mut self, outcome: &Reloaded) {
        // It fails for those who do not wait any more.
        self.waiting.drain(..).for_each(|reply| drop(reply.send(outcome.clone())));
    }

    /// Whether the file is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.task.is_some()
    }
}

/// Number of threads that a configuration file which does not answer may keep.
const READERS: usize = 4;
