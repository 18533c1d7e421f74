//! The process around the tunnels: start, reload on SIGHUP, counters on SIGUSR1, drain on SIGTERM, and what systemd wants
//! to be told.
//!
//! A reload builds all that is new before it touches anything that is old. So a bad file, or a port that is in use, is
//! refused whole, and live flows are not touched in either case.

mod status;

use crate::relay::{Activated, BindError, Gate, Handle, LOOKUPS, Listener, Relay, Route, Serving};
use longhaul_config::options::Leg;
use longhaul_config::{Config, Loaded, Message, Refused, Severity, Tunnel};
use longhaul_sys::{activation, limits};
use sd_notify::NotifyState;
use status::Status;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, interval, sleep_until, timeout};
use tracing::{error, info, warn};

/// Why the daemon did not start, or did not go on.
#[derive(Debug)]
pub enum DaemonError {
    /// A tunnel cannot listen, or the kernel refused one of its options.
    Bind(BindError),
    /// Something else that the process needs; the text says what.
    Process(String),
    /// A listener's task has panicked, which is a bug of ours: its tunnel serves nobody any more. The text is the panic's.
    Panicked(String),
}

/// Carries the tunnels of `config` until SIGTERM or SIGINT has drained them. SIGHUP reads `file` again.
///
/// # Errors
/// Nothing was started; or a listener has panicked, and the flows that are left end with the process, by RST.
pub fn run(config: Config, file: Option<PathBuf>) -> Result<(), DaemonError> {
    let process = |what: &'static str| move |err: &dyn fmt::Display| DaemonError::Process(format!("{what}: {err}"));
    // First of all, while no other descriptor can have one of their numbers.
    let passed = activation::sockets();
    let nofile = limits::raise_nofile().map_err(|err| process("descriptors")(&err))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("longhaul")
        .max_blocking_threads(STUCK_TUNNELS * LOOKUPS)
        .build()
        .map_err(|err| process("cannot start threads")(&err))?;
    // A socket of systemd's that no tunnel has takes one more.
    let open = limits::open_descriptors().map_err(|err| process("descriptors")(&err))? + passed.len();
    let tunnels = config.tunnels.len();
    let left = left_for_flows(nofile, open, tunnels);
    if left < ONE_FLOW {
        let least = open + 2 * tunnels + HEADROOM + ONE_FLOW;
        let text = format!(
            "descriptors: a limit of {nofile} leaves none for flows, which begin at {least}; raise \
            RLIMIT_NOFILE: LimitNOFILE= of the unit, or ulimit -n"
        );
        return Err(DaemonError::Process(text));
    }
    let relay = Relay::new(left);
    info!(nofile, most_flows = relay.most_flows(), most_pipes = relay.most_pipes(), "limits");
    let done = runtime.block_on(async {
        let activated = passed.into_iter().filter_map(Activated::new).collect();
        let mut daemon = Daemon {
            relay,
            file,
            open,
            activated,
            running: BTreeMap::new(),
            replaced: Vec::new(),
            listeners: JoinSet::new(),
            drain_timeout: None,
            status: Status::default(),
            readers: Arc::new(Semaphore::new(READERS)),
        };
        // Before the first tunnel listens: from then on a signal means what docs/operations.md says.
        let signals = Signals::new().map_err(|err| process("signals")(&err))?;
        daemon.apply(config).map_err(DaemonError::Bind)?;
        daemon.serve(signals).await
    });
    // Not by dropping it, which waits for names that are still being resolved.
    runtime.shutdown_background();
    done
}

/// The signals that the daemon obeys.
struct Signals {
    reload: Signal,
    report: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// SIGUSR2, which would otherwise end the process and with it every flow.
    unused: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            report: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            unused: signal(SignalKind::user_defined2())?,
        })
    }
}

struct Daemon {
    relay: Arc<Relay>,
    file: Option<PathBuf>,
    /// Descriptors for what is neither tunnel, flow nor pipe, counted at the start.
    open: usize,
    /// Every socket that systemd has passed, whether or not a tunnel listens on it.
    activated: Vec<Activated>,
    running: BTreeMap<String, Running>,
    replaced: Vec<Replaced>,
    /// What serves them, and what has been replaced and serves for a moment more.
    listeners: JoinSet<()>,
    drain_timeout: Option<Duration>,
    /// The state that systemd is told.
    status: Status,
    /// Threads that may read the file at once.
    readers: Arc<Semaphore>,
}

/// A tunnel that is served. Dropping it ends the serving, not the flows.
struct Running {
    tunnel: Arc<Tunnel>,
    gate: Arc<Gate>,
    serving: watch::Sender<Serving>,
    handle: Handle,
}

/// A listener whose addresses others have now, and which serves for a moment more.
struct Replaced {
    listen: SocketAddr,
    serving: watch::Sender<Serving>,
}

/// What a reload is going to do with one tunnel.
struct Change {
    tunnel: Tunnel,
    gate: Arc<Gate>,
    /// Its new listener; without one the old listener stays, and the next connection sees the new settings.
    listener: Option<(Listener, Handle)>,
}

impl Daemon {
    /// Makes what runs what `config` says. All or nothing.
    fn apply(&mut self, config: Config) -> Result<(), BindError> {
        // Before the first listener is made, whose connections begin with what it has.
        let is_auto = |tunnel: &Tunnel| Leg::ALL.into_iter().any(|leg| tunnel.options(leg).is_auto());
        Relay::look_for_bbr(config.tunnels.iter().any(is_auto));
        let changes = self.plan_all(config.tunnels).inspect_err(|_| {
            self.running.values().for_each(|running| running.handle.stay());
        })?;
        self.drain_timeout = config.drain_timeout;
        // Before the first of them listens: a flow that it accepts may dial at once.
        self.relay.serves(changes.iter().map(|change| change.tunnel.clone()));
        self.relay.permit(changes.iter().map(|change| (&change.gate, change.tunnel.max_flows)));
        let mut before = std::mem::take(&mut self.running);
        for Change { tunnel, gate, listener } in changes {
            let name = tunnel.name.clone();
            let running = match listener {
                Some((listener, handle)) => self.start(tunnel, gate, listener, handle),
                None => match before.remove(&name) {
                    Some(running) => running.update(tunnel),
                    None => continue, // `plan` keeps only what runs
                },
            };
            self.running.insert(name, running);
        }
        for name in before.keys().filter(|name| !self.running.contains_key(*name)) {
            info!(tunnel = %name, "tunnel removed; its flows go on");
        }
        // Its listener sees that it is gone before it looks at the next connection, so it takes none that is to be reset.
        self.replace(before.into_values());
        for socket in &mut self.activated {
            match self.running.values().any(|running| running.tunnel.listen == socket.address()) {
                true => socket.serve(),
                false => socket.refuse(&self.relay),
            }
        }
        Ok(())
    }

    /// Lets those of `old` whose address others have now serve for a moment more, ends the rest, and tells every listener
    /// that was replaced which tunnels have its addresses: of this reload or of one before.
    fn replace(&mut self, old: impl Iterator<Item = Running>) {
        for old in old {
            let taken_over = self.running.values().any(|new| new.covers_same(&old.tunnel));
            // systemd's socket is the same for the new listener.
            if taken_over && self.activated(&old.tunnel).is_none() {
                self.replaced.push(Replaced { listen: old.tunnel.listen, serving: old.serving });
            }
        }
        self.replaced.retain(|old| !old.serving.is_closed());
        for old in &self.replaced {
            let heirs = self.running.values().filter(|new| longhaul_config::covers_same(new.tunnel.listen, old.listen));
            let routes = heirs.map(|new| Route { tunnel: new.tunnel.clone(), gate: new.gate.clone() }).collect();
            old.serving.send_replace(Serving { routes, replaced: true });
        }
    }

    /// What to do with each tunnel. What can be refused comes before what touches the old listeners: first every option,
    /// then the addresses that are new, then those that are taken over, and last the sockets of systemd's, which get their
    /// new options at once.
    fn plan_all(&self, mut tunnels: Vec<Tunnel>) -> Result<Vec<Change>, BindError> {
        tunnels.iter().try_for_each(Listener::rehearse)?;
        tunnels.sort_by_key(|tunnel| (self.activated(tunnel).is_some(), self.in_the_way(tunnel).next().is_some()));
        tunnels.into_iter().map(|tunnel| self.plan(tunnel)).collect()
    }

    /// The listeners that `tunnel` would be refused beside.
    fn in_the_way(&self, tunnel: &Tunnel) -> impl Iterator<Item = &Handle> {
        self.running.values().filter(|old| old.covers_same(tunnel)).map(|old| &old.handle)
    }

    /// The socket of systemd's that `tunnel` listens on.
    fn activated(&self, tunnel: &Tunnel) -> Option<&Activated> {
        self.activated.iter().find(|socket| socket.address() == tunnel.listen)
    }

    fn plan(&self, tunnel: Tunnel) -> Result<Change, BindError> {
        let before = self.running.get(&tunnel.name);
        let gate = before.map_or_else(|| self.relay.gate(), |old| old.gate.clone());
        if before.is_some_and(|old| old.listens_alike(&tunnel)) {
            return Ok(Change { tunnel, gate, listener: None });
        }
        let here: Vec<&Handle> = self.in_the_way(&tunnel).collect();
        let leaving = self.replaced.iter().any(|old| longhaul_config::covers_same(old.listen, tunnel.listen));
        let listener = match self.activated(&tunnel) {
            Some(socket) => Listener::adopt(&tunnel, socket)?,
            None if leaving || !here.is_empty() => Listener::replace(&tunnel, &here)?,
            None => Listener::bind(&tunnel)?,
        };
        let handle = listener.handle(&tunnel)?;
        Ok(Change { tunnel, gate, listener: Some((listener, handle)) })
    }

    fn start(&mut self, tunnel: Tunnel, gate: Arc<Gate>, listener: Listener, handle: Handle) -> Running {
        let to: Vec<String> = tunnel.to.iter().map(ToString::to_string).collect();
        info!(tunnel = %tunnel.name, listen = %tunnel.listen, to = %to.join(","), "listening");
        let tunnel = Arc::new(tunnel);
        let (serving, receiver) = watch::channel(Serving::one(tunnel.clone(), gate.clone()));
        self.listeners.spawn(listener.serve(self.relay.clone(), receiver));
        Running { tunnel, gate, serving, handle }
    }

    /// Until SIGTERM or SIGINT; then drains.
    ///
    /// # Errors
    /// A listener has panicked.
    async fn serve(&mut self, mut signals: Signals) -> Result<(), DaemonError> {
        tokio::spawn(watchdog());
        let relay = self.relay.clone();
        tokio::spawn(async move { relay.tell_held_back().await });
        self.tell_ready();
        let mut reading = Reading::default();
        let mut tick = interval(STATUS_EVERY);
        loop {
            // Every arm keeps what it has not given: dropping it loses nothing.
            tokio::select! {
                _ = signals.reload.recv() => self.read(&mut reading),
                Some(read) = reading.settled() => match reading.again {
                    true => self.read(&mut reading),
                    false => self.reload(read),
                },
                Some(ended) = self.listeners.join_next() => ended.map_err(panicked)?,
                _ = signals.report.recv() => self.relay.counters.log(),
                _ = signals.unused.recv() => ignored(),
                _ = tick.tick() => self.status.tell_if_changed(self.running.len(), &self.relay.counters),
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
            }
        }
        self.drain(signals, reading.task.is_some()).await?;
        self.relay.tell_all_held_back();
        self.relay.counters.log();
        Ok(())
    }

    /// Begins to read the file again, on a thread of its own: a FIFO, or a file system that does not answer, holds up no
    /// signal. What is still being read is forgotten, for by now the file says something else; but its thread is not to be
    /// had back, so after a few of them the next SIGHUP waits for the last.
    fn read(&self, reading: &mut Reading) {
        let Some(file) = self.file.clone() else {
            return warn!("SIGHUP: nothing to reload, for the tunnel was told on the command line");
        };
        let Ok(reader) = self.readers.clone().try_acquire_owned() else {
            reading.again = true;
            return warn!(file = %file.display(), "SIGHUP: the file does not answer; it is read again when it does");
        };
        tell_reloading();
        let read = move || {
            let read = longhaul_config::load(&file);
            drop(reader);
            read
        };
        *reading = Reading { task: Some(spawn_blocking(read)), again: false };
    }

    /// Takes what the file says now. What is wrong with it goes to the log, and nothing changes. `systemctl reload` has ended
    /// by then, and well: so `systemctl status` says it too, until a reload goes well.
    fn reload(&mut self, read: Result<Loaded, Refused>) {
        match read {
            Ok(loaded) => {
                loaded.warnings.iter().for_each(log);
                match self.apply(loaded.config) {
                    Ok(()) => {
                        self.share_out();
                        self.status.reloaded();
                        info!(tunnels = self.running.len(), "reloaded");
                    }
                    Err(err) => {
                        error!(%err, "reload refused, the old configuration stays");
                        self.status.refused(&err);
                    }
                }
            }
            Err(refused) => {
                refused.messages.iter().for_each(log);
                error!("reload refused, the old configuration stays");
                let first = refused.messages.iter().find(|message| message.severity == Severity::Error);
                if let Some(first) = first {
                    self.status.refused(first);
                }
            }
        }
        self.tell_ready();
    }

    /// Tells systemd that the daemon is ready, and the line that `systemctl status` shows.
    fn tell_ready(&mut self) {
        let line = self.status.line(self.running.len(), &self.relay.counters);
        tell(&[NotifyState::Status(line), NotifyState::Ready]);
    }

    /// Shares the descriptors out anew: there may be other tunnels, and another limit (prlimit(1)).
    fn share_out(&self) {
        let before = (self.relay.most_flows(), self.relay.most_pipes());
        match limits::raise_nofile() {
            Ok(nofile) => {
                let tunnels = self.running.len();
                self.relay.share_out(left_for_flows(nofile, self.open, tunnels));
                let now = (self.relay.most_flows(), self.relay.most_pipes());
                if now != before {
                    info!(nofile, most_flows = now.0, most_pipes = now.1, "limits");
                }
            }
            Err(err) => warn!(%err, "descriptors stay shared out as they were"),
        }
    }

    /// Stops listening and waits for the flows to end; a second signal or the drain timeout cuts them. `reading` is whether
    /// a reload was begun, which nobody ends now.
    ///
    /// # Errors
    /// A listener has panicked.
    async fn drain(&mut self, mut signals: Signals, reading: bool) -> Result<(), DaemonError> {
        if reading {
            not_reloaded();
        }
        self.running.clear();
        self.replaced.clear();
        let relay = self.relay.clone();
        let status = || format!("draining, {} left", status::flows(&relay.counters));
        tell(&[NotifyState::Stopping, NotifyState::Status(&status())]);
        let flows = || relay.counters.flows_now.load(Relaxed);
        info!(flows = flows(), drain_timeout = %self.drain_timeout.map_or("none".into(), longhaul_units::show_duration), "draining: no new connections; a second signal cuts the flows");
        let deadline = self.drain_timeout.map(|wait| Instant::now() + wait);
        let mut tick = interval(STILL_DRAINING);
        tick.tick().await;
        loop {
            // Every arm may be dropped: `ended` forgets only listeners that have ended, the others keep what they have not given.
            tokio::select! {
                ended = self.ended() => return ended,
                _ = tick.tick() => {
                    tell(&[NotifyState::Status(&status())]);
                    info!(flows = flows(), "still draining");
                }
                _ = signals.reload.recv() => {
                    tell_reloading();
                    not_reloaded();
                    tell(&[NotifyState::Stopping]);
                }
                _ = signals.report.recv() => relay.counters.log(),
                _ = signals.unused.recv() => ignored(),
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => break,
            }
        }
        // A signal that comes with the end of the last flow cuts nothing.
        if flows() > 0 {
            warn!(flows = flows(), "cutting the flows that are left with RST");
        }
        self.relay.cut();
        match timeout(CUT_WITHIN, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => {
                error!(flows = flows(), "flows did not end; exiting resets them");
                Ok(())
            }
        }
    }

    /// Waits until every listener has ended, having started a flow for each connection that waited and may have one, and then
    /// until no flow is left.
    async fn ended(&mut self) -> Result<(), DaemonError> {
        while let Some(ended) = self.listeners.join_next().await {
            ended.map_err(panicked)?;
        }
        self.relay.ended().await;
        Ok(())
    }
}

impl Running {
    /// Whether the listener that is there can serve `tunnel`. A socket of Multipath TCP cannot be told everything.
    fn listens_alike(&self, tunnel: &Tunnel) -> bool {
        let old = &self.tunnel;
        let live = || !tunnel.mptcp(Leg::Accept) && tunnel.accept.follow_live(&old.accept);
        old.listen == tunnel.listen && (old.accept == tunnel.accept || live())
    }

    fn covers_same(&self, tunnel: &Tunnel) -> bool {
        longhaul_config::covers_same(self.tunnel.listen, tunnel.listen)
    }

    fn update(mut self, tunnel: Tunnel) -> Running {
        if *self.tunnel != tunnel {
            info!(tunnel = %tunnel.name, "tunnel changed; its flows keep what they began with");
            self.handle.tell(&self.tunnel.accept, &tunnel);
            self.tunnel = Arc::new(tunnel);
            self.serving.send_replace(Serving::one(self.tunnel.clone(), self.gate.clone()));
        }
        self
    }
}

/// The descriptors that a limit of `nofile` leaves for flows and pipes: each tunnel has a listener and its handle.
fn left_for_flows(nofile: u64, open: usize, tunnels: usize) -> usize {
    let nofile = usize::try_from(nofile).unwrap_or(usize::MAX);
    nofile.saturating_sub(open + 2 * tunnels + HEADROOM)
}

/// A configuration file that is being read.
#[derive(Default)]
struct Reading {
    task: Option<JoinHandle<Result<Loaded, Refused>>>,
    /// Whether another SIGHUP has come since, for which no thread was left.
    again: bool,
}

impl Reading {
    /// Waits for what the file says; `None` when nothing is being read. It is safe to drop the wait.
    async fn settled(&mut self) -> Option<Result<Loaded, Refused>> {
        let read = self.task.as_mut()?.await;
        self.task = None;
        // It fails only when reading has panicked, which no input makes it.
        read.ok()
    }
}

/// Tells systemd's watchdog twice in its time that the runtime still runs (sd_watchdog_enabled(3)).
async fn watchdog() {
    let mut usec = 0;
    if sd_notify::watchdog_enabled(false, &mut usec) {
        let mut tick = interval(Duration::from_micros(usec / 2).max(Duration::from_millis(1)));
        loop {
            tick.tick().await;
            tell(&[NotifyState::Watchdog]);
        }
    }
}

/// Tells systemd that a reload has begun. It wants the time, or waits for it (sd_notify(3), Type=notify-reload).
fn tell_reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Answers a reload that comes too late: `systemctl reload` of a unit with Type=notify-reload waits for READY=1.
fn not_reloaded() {
    info!("draining: not reloaded");
    tell(&[NotifyState::Ready]);
}

/// Answers SIGUSR2.
fn ignored() {
    info!("SIGUSR2 is ignored; SIGUSR1 writes the counters, SIGHUP reloads, SIGTERM drains");
}

/// What the panic of a listener's task said.
fn panicked(err: JoinError) -> DaemonError {
    let said = err.try_into_panic().map_or_else(
        |err| err.to_string(),
        |said| {
            let text = said.downcast_ref::<&str>().map(ToString::to_string);
            text.or_else(|| said.downcast_ref::<String>().cloned()).unwrap_or_default()
        },
    );
    DaemonError::Panicked(said)
}

/// Tells systemd, when it is there.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(err) = sd_notify::notify(false, state) {
        warn!(%err, "cannot tell systemd");
    }
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DaemonError::Bind(err) => write!(f, "{err}"),
            DaemonError::Process(text) => f.write_str(text),
            DaemonError::Panicked(said) => write!(f, "a listener has panicked, which is a bug of longhaul: {said}"),
        }
    }
}

impl std::error::Error for DaemonError {}

/// Writes `message` to the log at the level of its severity.
pub fn log(message: &Message) {
    let Message { severity, place, text } = message;
    match severity {
        Severity::Error => error!("{place}: {text}"),
        Severity::Warning => warn!("{place}: {text}"),
        Severity::Note => info!("{place}: {text}"),
    }
}

/// The descriptors of a flow's two legs.
const ONE_FLOW: usize = 2;
/// Descriptors for what is neither flow nor pipe and is opened after the count at the start: the epoll set of legs that close
/// (1), the sockets of the loop check (2, one of each IP version) and the configuration file (1, while it is read). The other 20
/// are for the lookups of one tunnel (16 at once, with one descriptor each most of the time) and for a few listeners that a reload
/// has replaced and that serve for a second more. Where lookups need more than that while every flow and pipe is in use, because
/// several tunnels look up at once or a lookup has two files open, one fails with EMFILE, and its dial with it. The log says so.
const HEADROOM: usize = 24;
/// How many tunnels may wait for a resolver that does not answer before one of the others has to. A thread begins when a name
/// is looked up and ends when it was idle for 10 s.
const STUCK_TUNNELS: usize = 256;
/// How many threads may be kept by a configuration file that does not answer.
const READERS: usize = 4;
/// Interval at which a changed status line is sent to systemd.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// How often a drain says how many flows are left.
const STILL_DRAINING: Duration = Duration::from_secs(10);
/// How long flows that were cut have for closing their sockets.
const CUT_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_that_panics_ends_the_daemon() {
        let mut daemon = Daemon {
            relay: Relay::new(100),
            file: None,
            open: 0,
            activated: Vec::new(),
            running: BTreeMap::new(),
            replaced: Vec::new(),
            listeners: JoinSet::new(),
            drain_timeout: None,
            status: Status::default(),
            readers: Arc::new(Semaphore::new(READERS)),
        };
        // Ignored by default, so the test's process obeys what it obeyed before.
        let none = || signal(SignalKind::window_change()).unwrap();
        let signals =
            || Signals { reload: none(), report: none(), terminate: none(), interrupt: none(), unused: none() };
        daemon.listeners.spawn(async {});
        daemon.listeners.spawn(async { panic!("as a test, {}", 1) });
        for ended in [timeout(Duration::from_secs(60), daemon.serve(signals())).await.unwrap(), {
            daemon.listeners.spawn(async { panic!("as a test, {}", 1) });
            timeout(Duration::from_secs(60), daemon.drain(signals(), false)).await.unwrap()
        }] {
            assert!(matches!(ended, Err(DaemonError::Panicked(said)) if said == "as a test, 1"));
        }
    }
}
