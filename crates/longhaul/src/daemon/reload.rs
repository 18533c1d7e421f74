//! Reads the configuration file again, on a thread of its own. So a FIFO or a file system that does not answer delays
//! no command.

use super::notify::{not_reloaded, tell_reloading};
use crate::control::{NotReloaded, Reloaded, Reply};
use longhaul_config::{Loaded, Message, Refused, Severity};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::warn;

/// The file, and whether it is being read.
pub(super) struct Reload {
    file: Option<PathBuf>,
    /// Limits the number of threads that read the file.
    readers: Arc<Semaphore>,
    task: Option<JoinHandle<Result<Loaded, Refused>>>,
    /// Whether another reload was asked for while no thread was free.
    again: bool,
    /// Clients that wait for the outcome.
    waiting: Vec<Reply<Reloaded>>,
}

impl Reload {
    /// Returns a reload of `file`. `None` if the tunnel was given on the command line.
    pub(super) fn new(file: Option<PathBuf>) -> Reload {
        Reload { file, readers: Arc::new(Semaphore::new(MAX_READERS)), task: None, again: false, waiting: Vec::new() }
    }

    /// Begins to read the file. A read that is still going on is forgotten, because the file may have changed. Its
    /// thread cannot be stopped, so after [`MAX_READERS`] of them the next reload waits for the last read.
    pub(super) fn begin(&mut self, reply: Reply<Reloaded>) {
        if self.file.is_none() {
            warn!("nothing to reload: the tunnel was given on the command line");
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
            return warn!(file = %file.display(), "reload: the file does not answer; it is read again once it does");
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

    /// Waits for the result of reading the file. Returns `None` when nothing is being read. The wait may be dropped.
    pub(super) async fn settled(&mut self) -> Option<Result<Loaded, Refused>> {
        loop {
            let read = self.task.as_mut()?.await;
            self.task = None;
            if self.again {
                self.read();
                continue;
            }
            return Some(read.unwrap_or_else(|_| Err(self.panicked())));
        }
    }

    /// Returns the refusal of a file whose reading has panicked. No known input causes it, but clients and systemd wait
    /// for an answer in every case.
    fn panicked(&self) -> Refused {
        let place = self.file.as_deref().unwrap_or(Path::new("")).display().to_string();
        let text = "reading this file has panicked, which is a bug of longhaul; report it with the file".into();
        Refused { messages: vec![Message { severity: Severity::Error, place, text }] }
    }

    /// Answers every client that waits for a reload.
    pub(super) fn answer(&mut self, outcome: &Reloaded) {
        // Sending fails for clients that no longer wait.
        self.waiting.drain(..).for_each(|reply| drop(reply.send(outcome.clone())));
    }

    /// Forgets a read that is going on, because the daemon stops.
    pub(super) fn stop(&mut self) {
        if self.task.take().is_some() {
            not_reloaded();
        }
        self.answer(&Err(NotReloaded::Stopping));
    }
}

/// Maximum number of threads that a configuration file can block when it does not answer.
const MAX_READERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_reload_whose_reading_panics_is_refused() {
        let (reply, answer) = oneshot::channel();
        let mut reload = Reload::new(Some("/etc/longhaul.toml".into()));
        reload.waiting.push(reply);
        reload.task = Some(spawn_blocking(|| panic!("as a test")));
        let refused = reload.settled().await.unwrap().unwrap_err();
        let message = &refused.messages[0];
        assert_eq!((message.place.as_str(), message.severity), ("/etc/longhaul.toml", Severity::Error));
        assert!(message.text.contains("has panicked"), "{}", message.text);
        reload.answer(&Err(NotReloaded::Refused(message.text.clone())));
        assert_eq!(answer.await.unwrap(), Err(NotReloaded::Refused(message.text.clone())));
    }
}
