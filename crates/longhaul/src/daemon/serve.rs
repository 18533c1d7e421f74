//! The daemon while it serves: obeys commands, watches listeners, updates the line that `systemctl status` shows.

use super::control::{Command, Commands, NotReloaded, Phase, Reloaded, Status};
use super::descriptors::share_out;
use super::drain::{Limit, drain};
use super::error::DaemonError;
use super::log::log;
use super::notify::{not_reloaded, tell, watchdog};
use super::reload::Reload;
use super::status::StatusLine;
use super::tunnels::Tunnels;
use crate::relay::{Activated, BindError, Relay};
use longhaul_config::{Config, Loaded, Refused, Severity};
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::interval;
use tracing::{error, info};

/// The process around the tunnels.
pub(super) struct Daemon {
    tunnels: Tunnels,
    /// Number of descriptors used at the start for anything but tunnels, flows and pipes.
    open: usize,
    drain_timeout: Option<Duration>,
    reload: Reload,
    /// The status line for systemd.
    status: StatusLine,
}

impl Daemon {
    /// Returns a daemon without tunnels. `activated` are the sockets from systemd. `file` is read at each reload.
    /// `open` as in [`Descriptors`](super::descriptors::Descriptors).
    pub(super) fn new(relay: Arc<Relay>, activated: Vec<Activated>, file: Option<PathBuf>, open: usize) -> Daemon {
        Daemon {
            tunnels: Tunnels::new(relay, activated),
            open,
            drain_timeout: None,
            reload: Reload::new(file),
            status: StatusLine::default(),
        }
    }

    /// Applies `config`, all or nothing.
    ///
    /// # Errors
    /// A tunnel cannot listen, or the kernel refused one of its options.
    pub(super) fn apply(&mut self, config: Config) -> Result<(), BindError> {
        self.tunnels.apply(config.tunnels, config.resolver)?;
        self.drain_timeout = config.drain_timeout;
        Ok(())
    }

    /// Serves until a command ends it, and then drains.
    ///
    /// # Errors
    /// A listener has panicked.
    pub(super) async fn serve(&mut self, mut commands: Commands) -> Result<(), DaemonError> {
        let relay = self.tunnels.relay.clone();
        tokio::spawn(watchdog());
        tokio::spawn({
            let relay = relay.clone();
            async move { relay.tell_held_back().await }
        });
        let limit = self.obey(&mut commands).await?;
        if self.reload.is_reading() {
            not_reloaded();
        }
        self.reload.answer(&Err(NotReloaded::Draining));
        drain(&mut self.tunnels, &mut commands, limit, self.status.refusal()).await?;
        relay.tell_all_held_back();
        relay.log_counters();
        Ok(())
    }

    /// Obeys commands until one ends the daemon. Returns when to cut the remaining flows.
    async fn obey(&mut self, commands: &mut Commands) -> Result<Limit, DaemonError> {
        self.tell_ready();
        let mut tick = interval(STATUS_INTERVAL);
        loop {
            // Every arm keeps what it has not returned, so dropping it loses nothing.
            tokio::select! {
                Some(command) = commands.recv() => {
                    if let Some(limit) = self.take(command) {
                        return Ok(limit);
                    }
                }
                Some(read) = self.reload.settled() => self.reloaded(read),
                Some(ended) = self.tunnels.listener_ended() => ended?,
                _ = tick.tick() => self.status.tell_if_changed(self.tunnels.count(), &self.tunnels.relay.counters),
            }
        }
    }

    /// Obeys `command`. Returns the limit of the drain that the command asks for, if it does.
    fn take(&mut self, command: Command) -> Option<Limit> {
        // A reply fails when the client does not wait for it.
        match command {
            Command::Status(reply) => drop(reply.send(self.state())),
            Command::Relay(command) => self.tunnels.obey(command),
            Command::Reload(reply) => self.reload.begin(reply),
            Command::Drain(reply) => {
                let _ = reply.send(self.flows());
                return Some(Limit::After(self.drain_timeout));
            }
            Command::Cut(reply) => {
                let _ = reply.send(self.flows());
                return Some(Limit::Now);
            }
        }
        None
    }

    fn state(&self) -> Status {
        Status {
            phase: Phase::Serving,
            tunnels: self.tunnels.list(),
            flows: self.flows(),
            refusal: self.status.refusal(),
        }
    }

    fn flows(&self) -> u64 {
        self.tunnels.relay.counters.flows_now.load(Relaxed)
    }

    /// Applies the result of reading the file. Errors go to the log, and then nothing changes. `systemctl reload` has
    /// reported success by then, so `systemctl status` shows the refusal until a reload succeeds.
    fn reloaded(&mut self, read: Result<Loaded, Refused>) {
        let outcome = self.take_over(read);
        match &outcome {
            Ok(tunnels) => {
                self.status.reloaded();
                info!(tunnels, "reloaded");
            }
            Err(NotReloaded::Refused(why)) => self.status.refused(why),
            Err(_) => {}
        }
        self.tell_ready();
        self.reload.answer(&outcome);
    }

    fn take_over(&mut self, read: Result<Loaded, Refused>) -> Reloaded {
        match read {
            Ok(loaded) => {
                loaded.warnings.iter().for_each(log);
                self.apply(loaded.config).map_err(|err| {
                    error!(%err, "reload refused: the old configuration stays");
                    NotReloaded::Refused(err.to_string())
                })?;
                share_out(&self.tunnels.relay, self.open, self.tunnels.count());
                Ok(self.tunnels.count())
            }
            Err(refused) => {
                refused.messages.iter().for_each(log);
                error!("reload refused: the old configuration stays");
                let first = refused.messages.iter().find(|message| message.severity == Severity::Error);
                Err(NotReloaded::Refused(first.map_or_else(String::new, ToString::to_string)))
            }
        }
    }

    /// Tells systemd that the daemon is ready, and sends the line that `systemctl status` shows.
    fn tell_ready(&mut self) {
        let line = self.status.line(self.tunnels.count(), &self.tunnels.relay.counters);
        tell(&[NotifyState::Status(line), NotifyState::Ready]);
    }
}

/// Interval at which a changed status line is sent to systemd.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::control::Control;
    use longhaul_config::{NextHop, Tunnel};
    use std::net::SocketAddr;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(60);

    fn daemon() -> Daemon {
        Daemon::new(Relay::new(100), Vec::new(), None, 0)
    }

    #[tokio::test]
    async fn a_listener_that_panics_ends_the_daemon() {
        let mut daemon = daemon();
        let (_control, mut commands) = Control::new();
        daemon.tunnels.listen_by(async {});
        daemon.tunnels.listen_by(async { panic!("as a test, {}", 1) });
        let serving = timeout(LONG, daemon.obey(&mut commands)).await.unwrap().map(|_| ());
        daemon.tunnels.listen_by(async { panic!("as a test, {}", 1) });
        let never = Limit::After(None);
        let draining = timeout(LONG, drain(&mut daemon.tunnels, &mut commands, never, None)).await.unwrap();
        for ended in [serving, draining] {
            assert!(matches!(ended, Err(DaemonError::Panicked(said)) if said == "as a test, 1"));
        }
    }

    #[tokio::test]
    async fn every_command_is_answered() {
        let mut daemon = daemon();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let tunnel = Tunnel::new("one", listen, vec![NextHop { host: "127.0.0.1".into(), port: 9 }]);
        daemon.apply(Config { tunnels: vec![tunnel], ..Config::default() }).unwrap();
        let (control, commands) = Control::new();
        let serving = tokio::spawn(async move { daemon.serve(commands).await });
        let status = control.status().await.unwrap();
        assert_eq!((status.phase, status.flows, status.refusal), (Phase::Serving, 0, None));
        assert_eq!(status.tunnels[0].name, "one");
        assert!(control.flows().await.unwrap().is_empty());
        assert_eq!(control.kill(1).await, Some(false));
        assert_eq!(control.report().await, Some(()));
        assert_eq!(control.reload().await, Some(Err(NotReloaded::NoFile)));
        assert_eq!(control.drain().await, Some(0));
        timeout(LONG, serving).await.unwrap().unwrap().unwrap();
        assert_eq!(control.cut().await, None, "it has ended");
    }

    #[tokio::test]
    async fn a_drain_tells_why_the_last_reload_was_refused() {
        let mut daemon = daemon();
        let (control, commands) = Control::new();
        daemon.status.refused(&"line 7: name is missing");
        // A listener that serves until `last` is dropped.
        let (last, served) = tokio::sync::oneshot::channel::<()>();
        daemon.tunnels.listen_by(async { drop(served.await) });
        let serving = tokio::spawn(async move { daemon.serve(commands).await });
        assert_eq!(control.drain().await, Some(0));
        let status = control.status().await.unwrap();
        assert_eq!((status.phase, status.refusal.as_deref()), (Phase::Draining, Some("line 7: name is missing")));
        assert_eq!(control.kill(1).await, Some(false));
        drop(last);
        timeout(LONG, serving).await.unwrap().unwrap().unwrap();
    }
}
