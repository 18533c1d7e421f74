//! The daemon from its start to its end: obeys commands, watches listeners, updates the line that `systemctl status` shows.

use super::descriptors::share_out;
use super::drain::{Drain, DrainStep};
use super::error::DaemonError;
use super::log::log;
use super::notify::{not_reloaded, tell, tell_reloading, watchdog};
use super::reload::Reload;
use super::status;
use crate::admin::Admin;
use crate::control::{
    Command, Commands, DrainUndone, Drained, NotReloaded, Phase, Refusal, Reloaded, Reply, Status, Undrained,
};
use longhaul_config::{Config, Loaded, Refused, Severity};
use longhaul_relay::{Applied, Relay};
use longhaul_units::show_duration;
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, Interval, interval, interval_at, timeout};
use tracing::{error, info, warn};

/// The process around the tunnels.
pub(super) struct Daemon {
    relay: Arc<Relay>,
    /// Number of descriptors used at the start for anything but tunnels, flows and pipes.
    open: usize,
    drain_timeout: Option<Duration>,
    drain_grace: Duration,
    /// The drain that a command or a stop has begun.
    drain: Option<Drain>,
    /// Maximum number of flows of all tunnels.
    max_flows: Option<usize>,
    reload: Reload,
    /// The control socket and the HTTP listener.
    admin: Option<Admin>,
    /// The refusal of the last reload. `None` after a successful one.
    refusal: Option<Refusal>,
    /// The status that systemd was last told.
    told: String,
    /// When to tell it again, if it has changed.
    tick: Interval,
}

/// How a stop came to its end.
enum Stopped {
    /// The last flow has ended.
    NoFlowLeft,
    /// Its time is over, or a command says so: the flows that are left are cut.
    TimeIsOver,
}

impl Daemon {
    /// Returns a daemon around `relay`, which has no tunnels yet. `file` is read at each reload.
    /// `open` as in [`Descriptors`](super::descriptors::Descriptors). Call it in a runtime.
    pub(super) fn new(relay: Arc<Relay>, file: Option<PathBuf>, open: usize) -> Daemon {
        Daemon {
            relay,
            open,
            drain_timeout: None,
            drain_grace: Config::DRAIN_GRACE,
            drain: None,
            max_flows: None,
            reload: Reload::new(file),
            admin: None,
            refusal: None,
            told: String::new(),
            tick: interval(STATUS_INTERVAL),
        }
    }

    /// Uses `admin` from now on. Its listeners open with the next configuration.
    pub(super) fn administrate(&mut self, admin: Admin) {
        self.admin = Some(admin);
    }

    /// Applies `config`, all or nothing.
    ///
    /// # Errors
    /// A tunnel cannot listen, or the kernel refused one of its options. Or a listener of the admin part cannot be opened, or
    /// the key of probes cannot be read.
    pub(super) fn apply(&mut self, config: Config) -> Result<Applied, DaemonError> {
        let plan = self.admin.as_ref().map(|admin| admin.plan(&config.admin));
        let plan = plan.transpose().map_err(DaemonError::Process)?;
        let applied = self.relay.apply(&config).map_err(DaemonError::Refused)?;
        self.drain_timeout = config.drain_timeout;
        self.max_flows = config.max_flows;
        self.drain_grace = config.drain_grace;
        if let (Some(admin), Some(plan)) = (&mut self.admin, plan) {
            admin.apply(plan);
        }
        Ok(applied)
    }

    /// Serves until a command ends it, and then stops.
    ///
    /// # Errors
    /// A listener has panicked.
    pub(super) async fn serve(&mut self, mut commands: Commands) -> Result<(), DaemonError> {
        let relay = self.relay.clone();
        tokio::spawn({
            let relay = relay.clone();
            // Only a listener that accepts nothing is repaired by a restart. A broken WAN or host is not.
            watchdog(move || !relay.tunnels.is_stuck())
        });
        tokio::spawn({
            let relay = relay.clone();
            async move { relay.tell_held_back().await }
        });
        match self.obey(&mut commands).await? {
            Stopped::NoFlowLeft => {}
            Stopped::TimeIsOver => self.cut().await?,
        }
        self.drain.iter_mut().for_each(|drain| drain.answer(&Ok(())));
        if let Some(admin) = &mut self.admin {
            admin.finish();
        }
        relay.tell_all_held_back();
        relay.log_counters();
        Ok(())
    }

    /// Obeys commands until a stop has come to its end.
    async fn obey(&mut self, commands: &mut Commands) -> Result<Stopped, DaemonError> {
        self.tell_ready();
        let relay = self.relay.clone();
        loop {
            // Every arm keeps what it has not returned, so dropping it loses nothing.
            tokio::select! {
                Some(command) = commands.recv() => self.take(command),
                Some(read) = self.reload.settled() => self.reloaded(read),
                Some(ended) = relay.listener_ended() => {
                    ended.map_err(DaemonError::panicked)?;
                    self.close_if_silent();
                }
                Some(step) = Drain::step(&self.drain, &relay) => match step {
                    DrainStep::Close => self.close(),
                    DrainStep::Ended if self.phase() == Phase::Draining => self.drained(),
                    DrainStep::Ended => return Ok(Stopped::NoFlowLeft),
                    DrainStep::Cut => return Ok(Stopped::TimeIsOver),
                },
                _ = self.tick.tick() => self.on_tick(),
            }
        }
    }

    /// Obeys `command`.
    fn take(&mut self, command: Command) {
        // A reply fails when the client does not wait for it.
        match command {
            Command::Status(reply) => drop(reply.send(self.state())),
            Command::Kill(number, reply) => drop(reply.send(self.relay.kill(number))),
            Command::Measure(tunnel, reply) => drop(reply.send(match self.phase() {
                Phase::Serving => self.relay.measure(&tunnel),
                phase => Err(format!("the daemon is {}, so it begins no measurement", phase.text())),
            })),
            Command::Report(reply) => {
                self.relay.report();
                let _ = reply.send(());
            }
            Command::Reload(reply) => self.reload(reply),
            Command::Drain(reply) => self.begin_drain(reply),
            Command::Undrain(reply) => drop(reply.send(self.undrain())),
            Command::Stop(reply) => {
                let _ = reply.send(self.flows());
                if self.phase() != Phase::Stopping {
                    let limit = self.drain_timeout;
                    self.stop(limit.map(|limit| Instant::now() + limit));
                    info!(flows = self.flows(), drain_timeout = %limit.map_or("none".into(), show_duration),
                        "draining: no new connections; a second signal cuts the flows");
                }
            }
            Command::Cut(reply) => {
                let _ = reply.send(self.flows());
                self.stop(Some(Instant::now()));
            }
        }
    }

    fn phase(&self) -> Phase {
        match &self.drain {
            None => Phase::Serving,
            Some(drain) if drain.stops => Phase::Stopping,
            Some(_) => Phase::Draining,
        }
    }

    fn state(&self) -> Status {
        let drain = self.drain.as_ref();
        Status {
            phase: self.phase(),
            listens: drain.is_none_or(Drain::listens),
            draining_since: drain.filter(|drain| !drain.stops).map(|drain| drain.since),
            refusal: self.refusal.clone(),
        }
    }

    fn flows(&self) -> u64 {
        self.relay.counters.flows_now.load(Relaxed)
    }

    fn reload(&mut self, reply: Reply<Reloaded>) {
        match self.phase() {
            Phase::Serving => self.reload.begin(reply),
            Phase::Draining => {
                not_reloaded();
                let _ = reply.send(Err(NotReloaded::Draining));
            }
            Phase::Stopping => {
                tell_reloading();
                not_reloaded();
                tell(&[NotifyState::Stopping]);
                let _ = reply.send(Err(NotReloaded::Stopping));
            }
        }
    }

    /// Begins a drain, or joins the one that goes on.
    fn begin_drain(&mut self, reply: Reply<Drained>) {
        if self.drain.is_none() {
            info!(flows = self.flows(), drain_grace = %show_duration(self.drain_grace),
                "draining by command: not ready; the listeners close after the grace");
        }
        self.drain.get_or_insert_with(|| Drain::new(self.drain_grace)).waiting.push(reply);
    }

    /// Begins to stop, or changes the time when the flows that are left are cut. `None`: never.
    fn stop(&mut self, cut_at: Option<Instant>) {
        self.reload.stop();
        let drain = self.drain.get_or_insert_with(|| Drain::new(Duration::ZERO));
        (drain.stops, drain.cut_at) = (true, cut_at);
        self.close();
        self.told = self.line();
        tell(&[NotifyState::Stopping, NotifyState::Status(&self.told)]);
        self.tick = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
    }

    /// Closes the listeners in a drain.
    fn close(&mut self) {
        self.drain.iter_mut().for_each(Drain::closing);
        self.relay.close();
        self.close_if_silent();
    }

    /// Notes the end of the last listener in a drain.
    fn close_if_silent(&mut self) {
        let is_closed = self.relay.is_silent() && self.drain.as_mut().is_some_and(Drain::closed);
        if is_closed && self.phase() == Phase::Draining {
            info!(flows = self.flows(), "drain: every listener is closed");
            self.relay.refuse();
        }
    }

    /// Tells the clients that wait in a drain that no flow is left.
    fn drained(&mut self) {
        info!("drained: no flow is left");
        self.drain.iter_mut().for_each(|drain| drain.answer(&Ok(())));
    }

    /// Cuts the remaining flows, and gives them a moment to end.
    async fn cut(&self) -> Result<(), DaemonError> {
        // If the last flow ends while the command arrives, there is nothing to cut.
        if self.flows() > 0 {
            warn!(flows = self.flows(), "cutting the remaining flows with RST");
        }
        self.relay.cut();
        timeout(CUT_TIMEOUT, self.ended()).await.unwrap_or_else(|_| {
            error!(flows = self.flows(), "flows did not end in time: exiting resets them");
            Ok(())
        })
    }

    /// Waits until every listener has ended, and then until no flow is left.
    async fn ended(&self) -> Result<(), DaemonError> {
        while let Some(ended) = self.relay.listener_ended().await {
            ended.map_err(DaemonError::panicked)?;
        }
        self.relay.ended().await;
        Ok(())
    }

    /// Undoes a drain, if there is one.
    fn undrain(&mut self) -> Undrained {
        if self.phase() == Phase::Stopping {
            return Err("the daemon stops".into());
        }
        let Some(mut drain) = self.drain.take() else { return Ok(()) };
        if let Err(why) = self.listen_again(&drain) {
            error!(err = %why, "the drain cannot be undone");
            self.drain = Some(drain);
            return Err(why);
        }
        info!("drain undone");
        drain.answer(&Err(DrainUndone));
        Ok(())
    }

    fn listen_again(&mut self, drain: &Drain) -> Result<(), String> {
        match (drain.listens(), self.relay.is_silent()) {
            (true, _) => Ok(()),
            (false, true) => self.relay.reopen().map_err(|err| err.to_string()),
            (false, false) => Err("the listeners are just closing; try again".into()),
        }
    }

    /// Applies the result of reading the file. Errors go to the log, and then nothing changes. `systemctl reload` has
    /// reported success by then, so `systemctl status` shows the refusal until a reload succeeds.
    fn reloaded(&mut self, read: Result<Loaded, Refused>) {
        let outcome = self.take_over(read);
        match &outcome {
            Ok(tunnels) => {
                self.refusal = None;
                info!(tunnels, "reloaded");
            }
            Err(NotReloaded::Refused(why)) => self.refusal = Some(Refusal { why: why.clone(), at: SystemTime::now() }),
            Err(_) => {}
        }
        self.tell_ready();
        self.reload.answer(&outcome);
    }

    fn take_over(&mut self, read: Result<Loaded, Refused>) -> Reloaded {
        match read {
            // The drain has begun while the file was read.
            Ok(_) if self.drain.is_some() => {
                not_reloaded();
                Err(NotReloaded::Draining)
            }
            Ok(loaded) => {
                loaded.warnings.iter().for_each(log);
                let Applied { tunnels } = self.apply(loaded.config).map_err(|err| {
                    error!(%err, "reload refused: the old configuration stays");
                    NotReloaded::Refused(err.to_string())
                })?;
                share_out(&self.relay, self.open, tunnels, self.max_flows);
                Ok(tunnels)
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
        self.told = self.line();
        tell(&[NotifyState::Status(&self.told), NotifyState::Ready]);
    }

    /// Sends the status to systemd if it has changed. Logs the number of flows that a stop waits for.
    fn on_tick(&mut self) {
        let line = self.line();
        if line != self.told {
            tell(&[NotifyState::Status(&line)]);
            self.told = line;
        }
        if self.phase() == Phase::Stopping {
            info!(flows = self.flows(), "still draining");
        }
    }

    fn line(&self) -> String {
        let tunnels = self.relay.tunnels.count();
        status::line(tunnels, &self.relay.counters, self.refusal.as_ref(), self.phase())
    }
}

/// Interval at which a changed status line is sent to systemd.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which a stop reports the number of remaining flows.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Time that cut flows have to close their sockets.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use longhaul_config::{NextHop, Tunnel};
    use std::net::SocketAddr;

    const LONG: Duration = Duration::from_secs(60);

    fn daemon() -> Daemon {
        Daemon::new(Relay::new(100), None, 0)
    }

    #[tokio::test]
    async fn a_listener_that_panics_ends_the_daemon() {
        for stops in [false, true] {
            let mut daemon = daemon();
            let (_control, commands) = Control::new();
            daemon.relay.listen_by(async {});
            daemon.relay.listen_by(async { panic!("as a test, {}", 1) });
            if stops {
                daemon.stop(None);
            }
            let ended = timeout(LONG, daemon.serve(commands)).await.unwrap();
            assert!(matches!(ended, Err(DaemonError::Panicked(said)) if said == "as a test, 1"));
        }
    }

    #[tokio::test]
    async fn every_command_is_answered() {
        let mut daemon = daemon();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let tunnel = Tunnel::new("one", listen, vec![NextHop::new("127.0.0.1", 9)]);
        daemon.apply(Config { tunnels: vec![tunnel], ..Config::default() }).unwrap();
        let relay = daemon.relay.clone();
        let (control, commands) = Control::new();
        let serving = tokio::spawn(async move { daemon.serve(commands).await });
        let status = control.ask(Command::Status).await.unwrap();
        assert_eq!((status.phase, status.refusal), (Phase::Serving, None));
        assert_eq!(relay.tunnels.views()[0].settings.name, "one");
        assert_eq!(control.ask(|reply| Command::Kill(1, reply)).await, Some(false));
        assert_eq!(control.ask(Command::Report).await, Some(()));
        assert_eq!(control.ask(Command::Reload).await, Some(Err(NotReloaded::NoFile)));
        assert_eq!(control.ask(Command::Undrain).await, Some(Ok(())));
        assert_eq!(control.ask(Command::Stop).await, Some(0));
        timeout(LONG, serving).await.unwrap().unwrap().unwrap();
        assert_eq!(control.ask(Command::Cut).await, None, "it has ended");
    }

    #[tokio::test]
    async fn a_drain_waits_for_the_grace_and_can_be_undone() {
        let mut daemon = daemon();
        // An address that no other test has: one of them could listen on the port while nobody does here.
        let listener = std::net::TcpListener::bind("127.86.0.1:0").unwrap();
        let listen = listener.local_addr().unwrap();
        drop(listener);
        let tunnel = Tunnel::new("one", listen, vec![NextHop::new("127.0.0.1", 9)]);
        let grace = Duration::from_secs(3600);
        daemon.apply(Config { tunnels: vec![tunnel], drain_grace: grace, ..Config::default() }).unwrap();
        let (control, commands) = Control::new();
        let serving = tokio::spawn(async move { daemon.serve(commands).await });
        let waiting = control.send(Command::Drain).await;
        let status = control.ask(Command::Status).await.unwrap();
        assert_eq!((status.phase, status.listens), (Phase::Draining, true));
        assert_eq!(control.ask(Command::Reload).await, Some(Err(NotReloaded::Draining)));
        assert_eq!(control.ask(Command::Undrain).await, Some(Ok(())));
        assert_eq!(waiting.await.unwrap(), Err(DrainUndone));
        assert_eq!(control.ask(Command::Status).await.unwrap().phase, Phase::Serving);
        let waiting = control.send(Command::Drain).await;
        tokio::time::pause();
        tokio::time::advance(grace).await;
        assert_eq!(waiting.await.unwrap(), Ok(()), "no flow is left");
        tokio::time::resume();
        let status = control.ask(Command::Status).await.unwrap();
        assert_eq!((status.phase, status.listens), (Phase::Draining, false));
        // A child that another test is just starting has a copy of the listener until its execve(2).
        let nobody_listens = async {
            while std::net::TcpStream::connect(listen).is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, nobody_listens).await.unwrap();
        assert_eq!(control.ask(Command::Undrain).await, Some(Ok(())));
        assert!(std::net::TcpStream::connect(listen).is_ok());
        let waiting = control.send(Command::Drain).await;
        assert!(control.ask(Command::Stop).await.is_some());
        timeout(LONG, serving).await.unwrap().unwrap().unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(()), "the process has stopped");
    }

    #[tokio::test]
    async fn a_stop_tells_why_the_last_reload_was_refused() {
        let mut daemon = daemon();
        let (control, commands) = Control::new();
        daemon.refusal = Some(Refusal { why: "line 7: name is missing".into(), at: SystemTime::now() });
        // A listener that serves until `last` is dropped.
        let (last, served) = tokio::sync::oneshot::channel::<()>();
        daemon.relay.listen_by(async { drop(served.await) });
        let serving = tokio::spawn(async move { daemon.serve(commands).await });
        assert_eq!(control.ask(Command::Stop).await, Some(0));
        let status = control.ask(Command::Status).await.unwrap();
        let why = status.refusal.map(|refusal| refusal.why);
        assert_eq!((status.phase, why.as_deref()), (Phase::Stopping, Some("line 7: name is missing")));
        assert_eq!(control.ask(|reply| Command::Kill(1, reply)).await, Some(false));
        drop(last);
        timeout(LONG, serving).await.unwrap().unwrap().unwrap();
    }
}
