//! The process around the tunnels: start, reload on SIGHUP, counters on SIGUSR1, drain on SIGTERM, and what systemd wants
//! to be told.
//!
//! A reload builds all that is new before it touches anything that is old. So a bad file, or a port that is in use, is
//! refused whole, and live flows are not touched in either case.

use crate::config::{self, Config, Loaded, Message, Refused, Severity, Tunnel};
use crate::relay::{Activated, BindError, Handle, LOOKUPS, Listener, Relay};
use longhaul_core::units;
use longhaul_sys::sockopt::Leg;
use longhaul_sys::{activation, limits};
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, interval, sleep_until, timeout};
use tracing::{error, info, warn};

/// Why the daemon did not start.
#[derive(Debug)]
pub enum StartError {
    /// A tunnel cannot listen, or the kernel refused one of its options.
    Bind(BindError),
    /// Something else that the process needs; the text says what.
    Process(String),
}

/// Carries the tunnels of `config` until SIGTERM or SIGINT has drained them. SIGHUP reads `file` again.
///
/// # Errors
/// Nothing was started.
pub fn run(config: Config, file: Option<PathBuf>) -> Result<(), StartError> {
    let process = |what: &'static str| move |err: &dyn fmt::Display| StartError::Process(format!("{what}: {err}"));
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
        return Err(StartError::Process(text));
    }
    let relay = Relay::new(left, tunnels);
    info!(nofile, most_flows = relay.most_flows(), most_pipes = relay.most_pipes(), "limits");
    let done = runtime.block_on(async {
        let activated = passed.into_iter().filter_map(Activated::new).collect();
        let mut daemon = Daemon {
            relay,
            file,
            open,
            activated,
            running: BTreeMap::new(),
            listeners: JoinSet::new(),
            drain_timeout: None,
            readers: Arc::new(Semaphore::new(READERS)),
        };
        // Before the first tunnel listens: from then on a signal means what docs/operations.md says.
        let signals = Signals::new().map_err(|err| process("signals")(&err))?;
        daemon.apply(config).map_err(StartError::Bind)?;
        daemon.serve(signals).await;
        Ok(())
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
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            report: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
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
    /// What serves them, and what has been replaced and serves for a moment more.
    listeners: JoinSet<()>,
    drain_timeout: Option<Duration>,
    /// Threads that may read the file at once.
    readers: Arc<Semaphore>,
}

/// A tunnel that is served. Dropping it ends the serving, not the flows.
struct Running {
    tunnel: watch::Sender<Arc<Tunnel>>,
    handle: Handle,
}

/// What a reload is going to do with one tunnel.
enum Change {
    /// Its listener stays; the next connection sees the new settings.
    Keep(Tunnel),
    /// It gets a new listener.
    Listen(Tunnel, Listener, Handle),
}

impl Change {
    fn tunnel(&self) -> &Tunnel {
        let (Change::Keep(tunnel) | Change::Listen(tunnel, ..)) = self;
        tunnel
    }
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
        self.relay.serves(changes.iter().map(|change| change.tunnel().clone()));
        let mut before = std::mem::take(&mut self.running);
        for change in changes {
            let (name, running) = match change {
                Change::Keep(tunnel) => match before.remove(&tunnel.name) {
                    Some(running) => (tunnel.name.clone(), running.update(tunnel)),
                    None => continue, // `plan` keeps only what runs
                },
                Change::Listen(tunnel, listener, handle) => {
                    // Connections come by the listener that is replaced too, until it has closed.
                    for old in before.values().filter(|old| old.covers_same(&tunnel)) {
                        old.tunnel.send_replace(Arc::new(tunnel.clone()));
                    }
                    (tunnel.name.clone(), self.start(tunnel, listener, handle))
                }
            };
            self.running.insert(name, running);
        }
        for name in before.keys().filter(|name| !self.running.contains_key(*name)) {
            info!(tunnel = %name, "tunnel removed; its flows go on");
        }
        // Its listener sees this before it looks at the next connection, so it takes none that is to be reset.
        drop(before);
        for socket in &mut self.activated {
            match self.running.values().any(|running| running.tunnel.borrow().listen == socket.address()) {
                true => socket.serve(),
                false => socket.refuse(&self.relay),
            }
        }
        Ok(())
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
        if self.running.get(&tunnel.name).is_some_and(|old| old.listens_alike(&tunnel)) {
            return Ok(Change::Keep(tunnel));
        }
        let before = self.running.get(&tunnel.name);
        let here: Vec<&Handle> = self.in_the_way(&tunnel).collect();
        let mut listener = match self.activated(&tunnel) {
            Some(socket) => Listener::adopt(&tunnel, socket)?,
            None if !here.is_empty() => Listener::replace(&tunnel, &here)?,
            None => Listener::bind(&tunnel)?,
        };
        if let Some(before) = before {
            listener.succeed(&before.handle);
        }
        let handle = listener.handle(&tunnel)?;
        Ok(Change::Listen(tunnel, listener, handle))
    }

    fn start(&mut self, tunnel: Tunnel, listener: Listener, handle: Handle) -> Running {
        let to: Vec<String> = tunnel.to.iter().map(ToString::to_string).collect();
        info!(tunnel = %tunnel.name, listen = %tunnel.listen, to = %to.join(","), "listening");
        let (sender, receiver) = watch::channel(Arc::new(tunnel));
        while self.listeners.try_join_next().is_some() {} // those that have ended are forgotten
        self.listeners.spawn(listener.serve(self.relay.clone(), receiver));
        Running { tunnel: sender, handle }
    }

    /// Until SIGTERM or SIGINT; then drains.
    async fn serve(&mut self, mut signals: Signals) {
        tokio::spawn(watchdog());
        tell(&[NotifyState::Ready]);
        let mut reading = Reading::default();
        loop {
            // Every arm keeps what it has not given: dropping it loses nothing.
            tokio::select! {
                _ = signals.reload.recv() => self.read(&mut reading),
                Some(read) = reading.settled() => match reading.again {
                    true => self.read(&mut reading),
                    false => self.reload(read),
                },
                _ = signals.report.recv() => self.relay.counters.log(),
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
            }
        }
        self.drain(signals).await;
        self.relay.counters.log();
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
        // RELOADING wants the time, or systemd waits for it (sd_notify(3), Type=notify-reload).
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
        let read = move || {
            let read = config::load(&file);
            drop(reader);
            read
        };
        *reading = Reading { task: Some(spawn_blocking(read)), again: false };
    }

    /// Takes what the file says now. What is wrong with it goes to the log, and nothing changes. `systemctl reload` has ended
    /// by then, and well: so `systemctl status` says it too, until a reload goes well.
    fn reload(&mut self, read: Result<Loaded, Refused>) {
        let mut status = String::new();
        match read {
            Ok(loaded) => {
                loaded.warnings.iter().for_each(Message::log);
                match self.apply(loaded.config) {
                    Ok(()) => {
                        self.share_out();
                        info!(tunnels = self.running.len(), "reloaded");
                    }
                    Err(err) => {
                        error!(%err, "reload refused, the old configuration stays");
                        status = refusal(&err);
                    }
                }
            }
            Err(refused) => {
                refused.messages.iter().for_each(Message::log);
                error!("reload refused, the old configuration stays");
                let first = refused.messages.iter().find(|message| message.severity == Severity::Error);
                status = first.map(|message| refusal(message)).unwrap_or_default();
            }
        }
        tell(&[NotifyState::Status(&status), NotifyState::Ready]);
    }

    /// Shares the descriptors out anew: there may be other tunnels, and another limit (prlimit(1)).
    fn share_out(&self) {
        let before = (self.relay.most_flows(), self.relay.most_pipes());
        match limits::raise_nofile() {
            Ok(nofile) => {
                let tunnels = self.running.len();
                self.relay.share_out(left_for_flows(nofile, self.open, tunnels), tunnels);
                self.running.values().for_each(|running| running.handle.look_again());
                let now = (self.relay.most_flows(), self.relay.most_pipes());
                if now != before {
                    info!(nofile, most_flows = now.0, most_pipes = now.1, "limits");
                }
            }
            Err(err) => warn!(%err, "descriptors stay shared out as they were"),
        }
    }

    /// Stops listening and waits for the flows to end; a second signal or the drain timeout cuts them.
    async fn drain(&mut self, mut signals: Signals) {
        tell(&[NotifyState::Stopping]);
        self.running.clear();
        let relay = self.relay.clone();
        let flows = || relay.counters.flows_now.load(Relaxed);
        info!(flows = flows(), drain_timeout = %self.drain_timeout.map_or("none".into(), units::show_duration), "draining: no new connections; a second signal cuts the flows");
        let deadline = self.drain_timeout.map(|wait| Instant::now() + wait);
        let mut tick = interval(STILL_DRAINING);
        tick.tick().await;
        loop {
            // Every arm may be dropped: `ended` forgets only listeners that have ended, the others keep what they have not given.
            tokio::select! {
                () = self.ended() => return,
                _ = tick.tick() => {
                    tell(&[NotifyState::Status(&format!("draining, {} flows left", flows()))]);
                    info!(flows = flows(), "still draining");
                }
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => break,
            }
        }
        warn!(flows = flows(), "cutting the flows that are left with RST");
        self.relay.cut();
        if timeout(CUT_WITHIN, self.ended()).await.is_err() {
            error!(flows = flows(), "flows did not end; exiting resets them");
        }
    }

    /// Waits until every listener has ended, having started a flow for each connection that waited and may have one, and then
    /// until no flow is left.
    async fn ended(&mut self) {
        while self.listeners.join_next().await.is_some() {}
        self.relay.ended().await;
    }
}

impl Running {
    /// Whether the listener that is there can serve `tunnel`. A socket of Multipath TCP cannot be told everything.
    fn listens_alike(&self, tunnel: &Tunnel) -> bool {
        let old = self.tunnel.borrow();
        let live = || !tunnel.mptcp(Leg::Accept) && tunnel.accept.follow_live(&old.accept);
        old.listen == tunnel.listen && (old.accept == tunnel.accept || live())
    }

    fn covers_same(&self, tunnel: &Tunnel) -> bool {
        config::covers_same(self.tunnel.borrow().listen, tunnel.listen)
    }

    fn update(self, tunnel: Tunnel) -> Running {
        if **self.tunnel.borrow() != tunnel {
            info!(tunnel = %tunnel.name, "tunnel changed; its flows keep what they began with");
            self.handle.tell(&self.tunnel.borrow().accept, &tunnel);
            self.tunnel.send_replace(Arc::new(tunnel));
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

/// What `systemctl status` says after a reload that was refused for `why`: one short line, for each line of a notification
/// is a message of its own (sd_notify(3)).
fn refusal(why: &dyn fmt::Display) -> String {
    format!("reload refused: {why}").chars().filter(|c| !c.is_control()).take(STATUS_MAX).collect()
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

/// Tells systemd, when it is there.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(err) = sd_notify::notify(false, state) {
        warn!(%err, "cannot tell systemd");
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(err) => write!(f, "{err}"),
            StartError::Process(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StartError {}

/// The descriptors of a flow's two legs.
const ONE_FLOW: usize = 2;
/// Descriptors for what is neither flow nor pipe: a resolver's sockets and files, one or two for each lookup, the log, and a
/// few listeners that a reload has replaced and that serve for a second more. Enough for the lookups of one tunnel; where
/// more run at once with every flow and pipe there, one more fails with EMFILE, and so its dial, which the log says.
const HEADROOM: usize = 24;
/// How many tunnels may wait for a resolver that does not answer before one of the others has to. A thread begins when a name
/// is looked up and ends when it was idle for 10 s.
const STUCK_TUNNELS: usize = 256;
/// How many threads may be kept by a configuration file that does not answer.
const READERS: usize = 4;
/// Characters of a refusal for `systemctl status`; the log has all of it.
const STATUS_MAX: usize = 250;
/// How often a drain says how many flows are left.
const STILL_DRAINING: Duration = Duration::from_secs(10);
/// How long flows that were cut have for closing their sockets.
const CUT_WITHIN: Duration = Duration::from_secs(5);
