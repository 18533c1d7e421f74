//! The tunnels that are served, and the change to others.
//!
//! A change builds everything new before it touches anything old. So a port in use refuses the change as a whole. Live
//! flows are not touched in either case.

use super::error::DaemonError;
use crate::control::RelayCommand;
use longhaul_config::options::Leg;
use longhaul_config::{Resolver, Tunnel};
use longhaul_relay::{Activated, BindError, Checks, Handle, Listener, Relay, ServedTunnel, Serving, Verifier};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

/// The tunnels that are served.
pub(super) struct Tunnels {
    /// State that all tunnels share.
    pub(super) relay: Arc<Relay>,
    /// Every socket from systemd, with or without a tunnel that listens on it.
    activated: Vec<Activated>,
    running: BTreeMap<String, Running>,
    /// The tunnels that [`close`](Tunnels::close) has ended.
    closed: Vec<Arc<ServedTunnel>>,
    /// How the names of the tunnels are resolved.
    resolver: Option<Resolver>,
    replaced: Vec<Replaced>,
    /// The tasks of the listeners, including replaced ones that serve for a moment more.
    listeners: JoinSet<()>,
}

/// A tunnel that is served. Dropping it ends the listener, and leaves the flows.
struct Running {
    tunnel: Arc<ServedTunnel>,
    serving: watch::Sender<Serving>,
    handle: Handle,
    /// The active checks of its next hops, if it has some.
    checks: Option<Checks>,
    /// The task that probes it, if it has `verify`.
    verifier: Option<Verifier>,
}

/// A replaced listener, which serves for a moment more.
struct Replaced {
    listen: SocketAddr,
    serving: watch::Sender<Serving>,
}

/// The planned change of one tunnel.
struct Change {
    tunnel: Arc<ServedTunnel>,
    /// Its new listener. `None` keeps the old listener, which uses the new settings from the next connection on.
    listener: Option<(Listener, Handle)>,
}

impl Tunnels {
    /// Returns an object that serves no tunnel yet. `activated` are the sockets from systemd.
    pub(super) fn new(relay: Arc<Relay>, activated: Vec<Activated>) -> Tunnels {
        Tunnels {
            relay,
            activated,
            running: BTreeMap::new(),
            closed: Vec::new(),
            resolver: None,
            replaced: Vec::new(),
            listeners: JoinSet::new(),
        }
    }

    /// Returns the number of tunnels that are served or closed.
    pub(super) fn count(&self) -> usize {
        self.running.len() + self.closed.len()
    }

    /// Returns the tunnels that are served or closed, by name.
    pub(super) fn list(&self) -> Vec<Arc<Tunnel>> {
        let running = self.running.values().map(|running| &running.tunnel);
        running.chain(&self.closed).map(|tunnel| tunnel.settings.clone()).collect()
    }

    /// Serves `tunnels` from now on, and no others. Resolves names by `resolver`. All or nothing.
    ///
    /// # Errors
    /// A tunnel cannot listen, or the kernel refused one of its options. Then nothing has changed.
    pub(super) fn apply(&mut self, tunnels: Vec<Tunnel>, resolver: Option<Resolver>) -> Result<(), BindError> {
        // Before the first listener is opened, because its connections inherit its options.
        Relay::look_for_bbr(&tunnels);
        let changes = self.plan_all(tunnels).inspect_err(|_| {
            self.running.values().for_each(|running| running.handle.stay());
        })?;
        // Before the first tunnel listens, because a flow that it accepts may dial at once.
        let served: Vec<Arc<ServedTunnel>> = changes.iter().map(|change| change.tunnel.clone()).collect();
        self.relay.serves(served.iter().map(|tunnel| (*tunnel.settings).clone()), resolver);
        self.resolver = resolver;
        self.relay.permit(&served);
        self.relay.group(&served);
        let mut before = std::mem::take(&mut self.running);
        for Change { tunnel, listener } in changes {
            let name = tunnel.settings.name.clone();
            let running = match listener {
                Some((listener, handle)) => self.start(tunnel, listener, handle),
                None => match before.remove(&name) {
                    Some(running) => running.update(&self.relay, tunnel),
                    None => continue, // `plan` keeps only what runs
                },
            };
            self.running.insert(name, running);
        }
        self.relay.keep_verified(&self.list());
        self.watch_addresses();
        for name in before.keys().filter(|name| !self.running.contains_key(*name)) {
            info!(tunnel = %name, "tunnel removed; its flows continue");
        }
        // A removed tunnel's listener sees the removal before it accepts the next connection, so no connection is
        // accepted and then reset.
        self.replace(before.into_values());
        for socket in &mut self.activated {
            match self.running.values().any(|running| running.tunnel.settings.listen == socket.address()) {
                true => socket.serve(),
                false => socket.refuse(&self.relay),
            }
        }
        Ok(())
    }

    /// Ends the listeners of `old`. Those whose address other tunnels now have serve for a moment more. Tells every
    /// replaced listener, of this reload or an earlier one, which tunnels have its addresses.
    fn replace(&mut self, old: impl Iterator<Item = Running>) {
        for old in old {
            let taken_over = self.running.values().any(|new| new.covers_same(&old.tunnel.settings));
            // A socket from systemd is the same for the new listener.
            if taken_over && self.activated(&old.tunnel.settings).is_none() {
                self.replaced.push(Replaced { listen: old.tunnel.settings.listen, serving: old.serving });
            }
        }
        self.replaced.retain(|old| !old.serving.is_closed());
        for old in &self.replaced {
            let new = self.running.values().map(|new| &new.tunnel);
            let heirs = new.filter(|new| longhaul_config::covers_same(new.settings.listen, old.listen));
            old.serving.send_replace(Serving { tunnels: heirs.cloned().collect(), replaced: true });
        }
    }

    /// Plans the change of each tunnel. Steps that can be refused come before steps that touch the old listeners. The
    /// order: every option, then new addresses, then addresses that are taken over, and last the sockets from systemd,
    /// which get their new options at once.
    fn plan_all(&self, mut tunnels: Vec<Tunnel>) -> Result<Vec<Change>, BindError> {
        tunnels.iter().try_for_each(Listener::dry_run)?;
        tunnels.sort_by_key(|tunnel| (self.activated(tunnel).is_some(), self.in_the_way(tunnel).next().is_some()));
        tunnels.into_iter().map(|tunnel| self.plan(tunnel)).collect()
    }

    /// Returns the listeners whose addresses conflict with that of `tunnel`.
    fn in_the_way(&self, tunnel: &Tunnel) -> impl Iterator<Item = &Handle> {
        self.running.values().filter(|old| old.covers_same(tunnel)).map(|old| &old.handle)
    }

    /// Returns the socket from systemd that `tunnel` listens on.
    fn activated(&self, tunnel: &Tunnel) -> Option<&Activated> {
        self.activated.iter().find(|socket| socket.address() == tunnel.listen)
    }

    fn plan(&self, tunnel: Tunnel) -> Result<Change, BindError> {
        let before = self.running.get(&tunnel.name);
        let closed = || self.closed.iter().find(|closed| closed.settings.name == tunnel.name);
        let old = before.map(|old| &old.tunnel).or_else(closed);
        let listens_alike = before.is_some_and(|old| old.listens_alike(&tunnel));
        let tunnel = Arc::new(tunnel);
        let served = match old {
            Some(old) if old.settings == tunnel => old.clone(),
            Some(old) => Arc::new(old.with(tunnel.clone())),
            None => self.relay.tunnel(tunnel.clone()),
        };
        if listens_alike {
            return Ok(Change { tunnel: served, listener: None });
        }
        let here: Vec<&Handle> = self.in_the_way(&tunnel).collect();
        let leaving = self.replaced.iter().any(|old| longhaul_config::covers_same(old.listen, tunnel.listen));
        let listener = match self.activated(&tunnel) {
            Some(socket) => Listener::adopt(&tunnel, socket)?,
            None if leaving || !here.is_empty() => Listener::replace(&tunnel, &here)?,
            None => Listener::bind(&tunnel)?,
        };
        let handle = listener.handle(&tunnel)?;
        Ok(Change { tunnel: served, listener: Some((listener, handle)) })
    }

    fn start(&mut self, tunnel: Arc<ServedTunnel>, listener: Listener, handle: Handle) -> Running {
        let Tunnel { name, listen, to, .. } = &*tunnel.settings;
        let to: Vec<String> = to.iter().map(ToString::to_string).collect();
        info!(tunnel = %name, %listen, to = %to.join(","), "listening");
        let (serving, receiver) = watch::channel(Serving::one(tunnel.clone()));
        self.listeners.spawn(listener.serve(self.relay.clone(), receiver));
        let checks = Checks::begin(&self.relay, &tunnel);
        let verifier = Verifier::begin(&self.relay, &tunnel);
        Running { tunnel, serving, handle, checks, verifier }
    }

    /// Tells the relay which addresses the listeners need.
    fn watch_addresses(&self) {
        let needed = |(name, running): (&String, &Running)| Some((name.clone(), running.handle.needed_address()?));
        self.relay.needs_addresses(self.running.iter().filter_map(needed));
    }

    /// Obeys `command`.
    pub(super) fn obey(&self, command: RelayCommand) {
        // A reply fails when the client does not wait for it.
        match command {
            RelayCommand::Kill(number, reply) => drop(reply.send(self.relay.kill(number))),
            RelayCommand::Report(reply) => {
                self.relay.log_groups();
                self.relay.log_counters();
                let _ = reply.send(());
            }
        }
    }

    /// Ends every listener, as [`stop`](Tunnels::stop) does, until [`reopen`](Tunnels::reopen).
    pub(super) fn close(&mut self) {
        self.closed.extend(self.running.values().map(|running| running.tunnel.clone()));
        self.stop();
    }

    /// Resets the connections to the sockets from systemd, after [`close`](Tunnels::close). systemd holds these sockets too,
    /// so they cannot be closed.
    pub(super) fn refuse(&mut self) {
        self.activated.iter_mut().for_each(|socket| socket.refuse(&self.relay));
    }

    /// Serves the tunnels again that [`close`](Tunnels::close) has ended. All or nothing.
    ///
    /// # Errors
    /// A tunnel cannot listen any more.
    pub(super) fn reopen(&mut self) -> Result<(), BindError> {
        let tunnels = self.closed.iter().map(|closed| (*closed.settings).clone()).collect();
        self.apply(tunnels, self.resolver)?;
        self.closed.clear();
        self.relay.drain(false);
        Ok(())
    }

    /// Whether every listener has ended.
    pub(super) fn is_silent(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Ends every listener. Each first starts a flow for the connections in its queue that get a permit.
    pub(super) fn stop(&mut self) {
        self.relay.drain(true);
        self.running.clear();
        self.replaced.clear();
        self.watch_addresses();
    }

    /// Waits until a listener has ended. Returns `None` when there is none. The wait may be dropped.
    ///
    /// # Errors
    /// It has panicked.
    pub(super) async fn listener_ended(&mut self) -> Option<Result<(), DaemonError>> {
        let ended = self.listeners.join_next().await?;
        Some(ended.map_err(DaemonError::panicked))
    }

    /// Waits until every listener has ended, and then until no flow is left. The wait may be dropped.
    ///
    /// # Errors
    /// A listener has panicked.
    pub(super) async fn ended(&mut self) -> Result<(), DaemonError> {
        while let Some(ended) = self.listener_ended().await {
            ended?;
        }
        self.relay.ended().await;
        Ok(())
    }
}

impl Running {
    /// Whether the existing listener can serve `tunnel`. Not every option can be changed on a listening socket of
    /// Multipath TCP.
    fn listens_alike(&self, tunnel: &Tunnel) -> bool {
        let old = &self.tunnel.settings;
        let live = || !tunnel.mptcp(Leg::Accept) && tunnel.accept.follow_live(&old.accept);
        old.listen == tunnel.listen && (old.accept == tunnel.accept || live())
    }

    fn covers_same(&self, tunnel: &Tunnel) -> bool {
        longhaul_config::covers_same(self.tunnel.settings.listen, tunnel.listen)
    }

    fn update(mut self, relay: &Arc<Relay>, tunnel: Arc<ServedTunnel>) -> Running {
        if self.tunnel.settings != tunnel.settings {
            info!(tunnel = %tunnel.settings.name, "tunnel changed; its flows keep their settings");
            self.handle.tell(&self.tunnel.settings.accept, &tunnel.settings);
            self.tunnel = tunnel;
            self.checks = Checks::begin(relay, &self.tunnel);
            self.serving.send_replace(Serving::one(self.tunnel.clone()));
            self.verifier = Verifier::begin(relay, &self.tunnel);
        }
        self
    }
}

#[cfg(test)]
impl Tunnels {
    /// Runs `listener` as the task of a listener.
    pub(super) fn listen_by(&mut self, listener: impl Future<Output = ()> + Send + 'static) {
        self.listeners.spawn(listener);
    }
}
