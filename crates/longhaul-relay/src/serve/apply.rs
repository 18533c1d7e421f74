//! Applies a configuration: carries out the plan of [`longhaul_core::reload`].
//!
//! Everything new is opened before anything old is touched. So a port in use refuses the configuration as a whole, and the old
//! one goes on. Live flows are not touched in either case, but for their bandwidth caps.

use super::open::{self, BindError};
use crate::accept::listener;
use crate::leg::setup;
use crate::lock::lock;
use crate::probe::verifier;
use crate::reach::checks;
use crate::state::listeners::{Activated, Listeners};
use crate::state::listening::Listening;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::key_file::{self, KeyError};
use longhaul_config::options::Leg;
use longhaul_config::{Config, Resolver, Tunnel};
use longhaul_core::reload::{Opens, Plan, ReloadStep};
use longhaul_sys::limits;
use std::fmt;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::task::JoinError;
use tracing::{info, warn};

/// A configuration that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Number of tunnels that are served now.
    pub tunnels: usize,
}

/// Why a configuration was not applied. Nothing has changed then.
#[derive(Clone, Debug)]
pub enum Refused {
    /// The key of probes cannot be read.
    Key(KeyError),
    /// A tunnel cannot listen, or the kernel refused one of its options.
    Bind(BindError),
}

impl Relay {
    /// Takes over the `sockets` that systemd has opened. Those that listen on no IP address are closed. Call it in a runtime, before
    /// the first configuration is applied.
    pub fn adopt(&self, sockets: Vec<OwnedFd>) {
        lock(&self.listeners).activated = sockets.into_iter().filter_map(Activated::new).collect();
    }

    /// Serves the tunnels of `config` from now on, and no others, with its caps, resolver and key of probes. All or nothing. A
    /// connection that the configurations before and after allow is served by one of them. Live flows keep the settings with which
    /// they began, but for their caps. Call it in a runtime.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn apply(self: &Arc<Relay>, config: &Config) -> Result<Applied, Refused> {
        let key = config.probe.key_file.as_deref().map(key_file::load).transpose().map_err(Refused::Key)?;
        // Before the first tunnel listens or is probed.
        let old_key = self.probes.set_key(key.map(Arc::new));
        let settings: Vec<Arc<Tunnel>> = config.tunnels.iter().cloned().map(Arc::new).collect();
        if let Err(err) = self.serve(&settings, config.resolver) {
            self.probes.set_key(old_key);
            return Err(Refused::Bind(err));
        }
        self.probes.set_measure_from(config.probe.measure_from.clone());
        self.governor.set(config.bandwidth.clone(), &settings);
        Ok(Applied { tunnels: settings.len() })
    }

    /// Ends every listener. Each first starts a flow for the connections in its queue that get a permit. Views go on to show the
    /// tunnels.
    pub fn close(&self) {
        self.set_draining(true);
        self.tunnels.close();
    }

    /// Resets the connections to the sockets from systemd, after [`close`](Relay::close). systemd holds these sockets too, so they
    /// cannot be closed.
    pub fn refuse(self: &Arc<Relay>) {
        lock(&self.listeners).activated.iter_mut().for_each(|socket| socket.refuse(self));
    }

    /// Serves the tunnels again that [`close`](Relay::close) has closed. All or nothing. Call it in a runtime.
    ///
    /// # Errors
    /// A tunnel cannot listen any more.
    pub fn reopen(self: &Arc<Relay>) -> Result<(), BindError> {
        let settings: Vec<Arc<Tunnel>> = self.tunnels.list().iter().map(|tunnel| tunnel.settings.clone()).collect();
        self.serve(&settings, self.tunnels.names.choice())?;
        self.set_draining(false);
        Ok(())
    }

    /// Whether every listener has ended.
    pub fn is_silent(&self) -> bool {
        lock(&self.listeners).tasks.is_empty()
    }

    /// Runs `task` as that of a listener: [`listener_ended`](Relay::listener_ended) tells its end.
    pub fn listen_by(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.listeners).tasks.spawn(task);
    }

    /// Waits until a listener has ended. Returns `None` when there is none. The wait may be dropped. Only one may wait.
    ///
    /// # Errors
    /// It has panicked.
    pub async fn listener_ended(&self) -> Option<Result<(), JoinError>> {
        poll_fn(|cx| lock(&self.listeners).tasks.poll_join_next(cx)).await
    }

    /// Serves tunnels with these settings. Steps, in this order: what can be refused; what a flow of the new list needs; the list;
    /// the tasks of the new tunnels.
    fn serve(self: &Arc<Relay>, settings: &[Arc<Tunnel>], resolver: Option<Resolver>) -> Result<(), BindError> {
        // Before the first listener is opened, because its connections inherit its options.
        look_for_bbr(settings);
        settings.iter().try_for_each(|tunnel| open::dry_run(tunnel))?;
        let mut listeners = lock(&self.listeners);
        let old = self.tunnels.list();
        let plan = listeners.plan(&old, settings);
        let opened = open_all(&plan, &listeners, &old, settings).inspect_err(|_| {
            old.iter().filter_map(|old| old.listener.upgrade()).for_each(|listener| listener.share(false));
        })?;

        let next = self.tunnels_after(&plan, &opened, &old, settings);
        *lock(&self.local_ports) = limits::local_ports();
        self.tunnels.names.serve(settings.iter().flat_map(|tunnel| &tunnel.to), resolver);
        let mut in_order: Vec<(usize, Arc<ServedTunnel>)> = next.clone();
        in_order.sort_by_key(|(index, _)| *index);
        // A replaced listener sees the new list before it accepts the next connection, so none is accepted and then reset.
        self.tunnels.set(in_order.into_iter().map(|(_, tunnel)| tunnel).collect());

        for (((_, tunnel), (_, step)), listener) in next.iter().zip(&plan.steps).zip(opened) {
            let Tunnel { name, listen, to, .. } = &*tunnel.settings;
            match (step, listener) {
                (ReloadStep::Stays(_), _) => continue,
                (_, None) => info!(tunnel = %name, "tunnel changed; its flows keep their settings"),
                (_, Some(listener)) => {
                    let to: Vec<String> = to.iter().map(ToString::to_string).collect();
                    info!(tunnel = %name, %listen, to = %to.join(","), "listening");
                    listeners.start(&listener, listener::serve(self.clone(), listener.clone()));
                }
            }
            checks::begin(self, tunnel);
            verifier::begin(self, tunnel);
        }
        let mut ended: Vec<&str> = plan.ended.iter().map(|index| old[*index].settings.name.as_str()).collect();
        ended.sort();
        ended.iter().for_each(|name| info!(tunnel = %name, "tunnel removed; its flows continue"));
        for socket in &mut listeners.activated {
            match settings.iter().any(|tunnel| tunnel.listen == socket.address) {
                true => socket.serve(),
                false => socket.refuse(self),
            }
        }
        Ok(())
    }

    /// Returns the tunnels after `plan`, in the order of its steps, each with its index in `settings`. Sets the changed options of
    /// listeners that go on.
    fn tunnels_after(
        &self,
        plan: &Plan,
        opened: &[Option<Arc<Listening>>],
        old: &[Arc<ServedTunnel>],
        settings: &[Arc<Tunnel>],
    ) -> Vec<(usize, Arc<ServedTunnel>)> {
        let next = |((index, step), opened): (&(usize, ReloadStep), &Option<Arc<Listening>>)| {
            let settings = settings[*index].clone();
            let before = step.old().map(|old_index| &old[old_index]);
            let goes_on = || before.and_then(|old| old.listener.upgrade());
            let tunnel = match (step, before, opened.clone().or_else(goes_on)) {
                (ReloadStep::Stays(_), Some(old), _) => old.clone(),
                (_, Some(old), Some(listener)) => {
                    if opened.is_none() {
                        listener.tell(&old.settings.accept, &settings);
                    }
                    Arc::new(old.with(settings, &listener))
                }
                (_, _, Some(listener)) => Arc::new(self.tunnels.open(settings.clone()).with(settings, &listener)),
                // A listener whose task has panicked. The process ends.
                (_, before, None) => before.cloned().unwrap_or_else(|| self.tunnels.open(settings)),
            };
            (*index, tunnel)
        };
        plan.steps.iter().zip(opened).map(next).collect()
    }
}

/// Opens the listener of each step of `plan` that has one.
fn open_all(
    plan: &Plan,
    listeners: &Listeners,
    old: &[Arc<ServedTunnel>],
    settings: &[Arc<Tunnel>],
) -> Result<Vec<Option<Arc<Listening>>>, BindError> {
    let open = |(index, step): &(usize, ReloadStep)| {
        let tunnel = &settings[*index];
        let opened = match step.opens() {
            None => return Ok(None),
            Some(Opens::Free) => open::bind(tunnel),
            Some(Opens::Beside(beside)) => {
                let beside = beside.iter().filter_map(|index| old[*index].listener.upgrade());
                open::bind_beside(tunnel, &beside.collect::<Vec<_>>())
            }
            Some(Opens::Held(socket)) => open::adopt(tunnel, &listeners.activated[*socket]),
        };
        opened.map(|listener| Some(Arc::new(listener)))
    };
    plan.steps.iter().map(open).collect()
}

/// Tries whether legs with `congestion = "auto"` may use BBR. If they may not and one of `tunnels` has such a leg,
/// logs what would help.
fn look_for_bbr(tunnels: &[Arc<Tunnel>]) {
    let is_auto = |tunnel: &Arc<Tunnel>| Leg::ALL.into_iter().any(|leg| tunnel.options(leg).is_auto());
    if let (Err(err), true) = (setup::try_bbr(), tunnels.iter().any(is_auto)) {
        warn!(%err, "WAN legs keep the kernel's congestion control; for BBR: modprobe tcp_bbr, and where it is not \
            allowed: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'; then reload (longhaul@ and \
            `longhaul relay`: restart), because only that tries again");
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Key(err) => err.fmt(f),
            Refused::Bind(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}
