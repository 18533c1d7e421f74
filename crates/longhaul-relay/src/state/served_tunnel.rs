//! A tunnel that is served: its settings, and what the relay keeps for it.

use crate::live::counters::Counters;
use crate::live::data_problem::DataProblem;
use crate::live::throttle::Lines;
use crate::live::verified::History;
use crate::state::absence::Absence;
use crate::state::hops::Hops;
use crate::state::listening::Listening;
use crate::state::loop_watch::LoopWatch;
use crate::state::permits::{Permit, Permits, Spare, TunnelPermits};
use crate::state::waiting::WaitingClients;
use longhaul_config::{Protocol, Tunnel};
use longhaul_core::permits::Full;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tracing::{info, warn};

/// A tunnel that is served. A reload that changes its settings or its listener replaces it by [another one](ServedTunnel::with)
/// that shares the rest. A flow keeps the one with which it began.
#[derive(Clone, Debug)]
pub(crate) struct ServedTunnel {
    /// Its settings.
    pub(crate) settings: Arc<Tunnel>,
    /// Its listener. Gone while it does not listen. The listener's task owns it, because a flow may keep this longer.
    pub(crate) listener: Weak<Listening>,
    /// The results of its probes, if it has `verify`. They survive a reload and a drain.
    pub(crate) history: Option<Arc<History>>,
    /// The counters of the tunnel.
    pub(crate) counters: Arc<Counters>,
    /// The state of its next hops.
    pub(crate) hops: Arc<Hops>,
    /// The latest problem of its FTP data connections.
    pub(crate) data_problem: Arc<DataProblem>,
    /// Whether its flows come back to it through another relay.
    pub(crate) loops: Arc<LoopWatch>,
    /// Its part of the permits, and the sources of its flows.
    pub(super) permits: Arc<TunnelPermits>,
    /// Clients that wait for a permit.
    pub(super) waiting_clients: Arc<WaitingClients>,
    /// The address that this host must have for its listener.
    pub(super) needed: Option<SocketAddr>,
    /// Whether that address is here.
    pub(super) absence: Arc<Absence>,
}

impl ServedTunnel {
    /// Returns a new tunnel, without a reserve of permits. `all` are the counters of the process.
    pub(super) fn new(settings: Arc<Tunnel>, permits: &Arc<Permits>, all: &Arc<Counters>) -> ServedTunnel {
        ServedTunnel {
            settings,
            listener: Weak::new(),
            history: None,
            counters: Counters::of_tunnel(all),
            hops: Arc::default(),
            data_problem: Arc::default(),
            loops: Arc::default(),
            permits: TunnelPermits::open(permits),
            waiting_clients: Arc::default(),
            needed: None,
            absence: Arc::default(),
        }
    }

    /// Returns this tunnel with `settings`, and with `listener`.
    pub(crate) fn with(&self, settings: Arc<Tunnel>, listener: &Arc<Listening>) -> ServedTunnel {
        let history = settings.verify.map(|_| self.history.clone().unwrap_or_default());
        let (needed, listener) = (listener.needed_address(), Arc::downgrade(listener));
        // Other next hops may lead elsewhere.
        let loops = if settings.to == self.settings.to { self.loops.clone() } else { Arc::default() };
        ServedTunnel { settings, listener, history, needed, loops, ..self.clone() }
    }

    /// Returns this tunnel without a listener.
    pub(crate) fn closed(&self) -> ServedTunnel {
        ServedTunnel { listener: Weak::new(), needed: None, ..self.clone() }
    }

    /// Returns the tunnel of a data connection of one of this tunnel's flows, which has taken the permit. It counts in the same
    /// counters, and notes problems in the same place. The state of its next hop is its own.
    pub(crate) fn beside(&self, settings: Arc<Tunnel>) -> ServedTunnel {
        ServedTunnel { settings, hops: Arc::default(), ..self.closed() }
    }

    /// Takes a permit for another flow, if the tunnel may have one now. A flow of FTP takes those of its data connections, too,
    /// so control connections alone can never use up what their data connections need.
    ///
    /// # Errors
    /// The tunnel may not have another flow now, with the reason.
    pub(crate) fn try_enter(&self) -> Result<Permit, Full> {
        self.permits.take(match self.settings.protocol {
            Protocol::Tcp => 0,
            Protocol::Ftp => DATA_CONNECTIONS,
        })
    }

    /// Whether it listens.
    pub(crate) fn listens(&self) -> bool {
        self.listener.strong_count() > 0
    }

    /// Whether it gave this permit, with these settings or earlier ones.
    pub(crate) fn gave(&self, permit: &Permit) -> bool {
        Arc::ptr_eq(&permit.of, &self.permits)
    }

    /// Takes a permit for a connection beside a flow's own, if no tunnel needs it for a flow.
    pub(crate) fn spare(&self) -> Option<Spare> {
        self.permits.spare()
    }

    /// Returns why the tunnel may not have another flow now. `None`: it may.
    pub(crate) fn full(&self) -> Option<Full> {
        self.try_enter().err()
    }

    /// Waits for a permit for another flow, and logs that it waits. A client is in the listen queue. The wait may be dropped.
    pub(crate) async fn enter(&self, lines: &Lines) -> Permit {
        let (mut said, mut waiting) = (None, None);
        loop {
            // Before the look, because notify_waiters wakes every `Notified` that exists by then. So all waiters look
            // again whenever a permit is free. None can take the notification from another, even if it is dropped or
            // refuses its client.
            let (left, returned) = self.permits.freed();
            let full = match self.try_enter() {
                Ok(permit) => return permit,
                Err(full) => full,
            };
            waiting.get_or_insert_with(|| self.waiting_clients.wait(full)).because(full);
            if said != Some(full) {
                self.log_full(lines, full);
                said = Some(full);
            }
            match full {
                Full::MaxFlows => left.await,
                Full::AllFlows | Full::Permits => returned.await,
            }
        }
    }

    /// Logs that connections wait, and why. At most once a second for each tunnel.
    fn log_full(&self, lines: &Lines, full: Full) {
        let (name, (flows, all, permits), now) = (&self.settings.name, self.permits.used(), Instant::now());
        match full {
            Full::MaxFlows => {
                if lines.full.pass(name, now).is_some() {
                    info!(tunnel = %name, flows, "tunnel is full: connections wait in the listen queue");
                }
            }
            Full::AllFlows => {
                if lines.full.pass(name, now).is_some() {
                    info!(tunnel = %name, flows, flows_of_all = all, most_flows = permits,
                        "relay is full: connections wait in the listen queue");
                }
            }
            Full::Permits => {
                self.counters.count(|counters| &counters.without_permit);
                if let Some(more) = lines.permit.pass(name, now) {
                    warn!(tunnel = %name, flows, flows_of_all = all, most_flows = permits, more,
                        remedy = "raise RLIMIT_NOFILE (LimitNOFILE=), or give max_flows to the tunnel with the most flows",
                        "no descriptors for another flow of this tunnel: connections wait in the listen queue");
                }
            }
        }
    }
}

/// Maximum number of data connections of an FTP control connection, with the one that is awaited. Two, because the next one may
/// begin while the last bytes of the one before are still unacknowledged.
pub(crate) const DATA_CONNECTIONS: u8 = 2;
