//! What views show of the tunnels that are served.

use crate::live::counters::{CounterValues, Counters};
use crate::live::distributions::Distributions;
use crate::live::registry::Registry;
use crate::lock::lock;
use crate::names::Names;
use crate::state::served_tunnel::ServedTunnel;
use longhaul_config::Tunnel;
use longhaul_core::health::{DataFacts, HopFacts, Wait};
use std::sync::{Arc, Mutex};
use tracing::info;

/// All tunnels that are served.
#[derive(Debug, Default)]
pub(super) struct Groups(Mutex<Vec<Arc<ServedTunnel>>>);

/// State of a tunnel's next hops at one moment.
#[derive(Clone, Debug)]
pub struct HopsView {
    /// The tunnel, as it is served now.
    pub tunnel: Arc<Tunnel>,
    /// The state of each next hop, in the order of the tunnel's `to`.
    pub hops: Vec<HopFacts>,
    /// The wait of its clients in the listen queue, because it may not have another flow now. `None` while none waits.
    pub waiting: Option<Wait>,
    /// The latest problem of its FTP data connections. `None` if there was none lately.
    pub data_problem: Option<DataFacts>,
}

/// State of a tunnel's next hops, and its counters, at one moment.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// The next hops.
    pub hops: HopsView,
    /// The counters of the tunnel, with the bytes of its live and ended flows.
    pub counters: CounterValues,
    /// The distributions over the flows of the tunnel.
    pub distributions: Arc<Distributions>,
}

impl Groups {
    /// Replaces the served tunnels. The hops that a tunnel no longer has are forgotten once they have no flow.
    pub(super) fn set(&self, served: &[Arc<ServedTunnel>]) {
        served.iter().for_each(|tunnel| tunnel.hops.keep(&tunnel.settings));
        *lock(&self.0) = served.to_vec();
    }

    /// Returns the state of every tunnel. `registry` has the live flows, `names` the names of the next hops.
    pub(super) fn view(&self, registry: &Registry, names: &Names) -> Vec<GroupView> {
        let served = lock(&self.0).clone();
        let counters: Vec<&Arc<Counters>> = served.iter().map(|served| &served.counters).collect();
        let carried = registry.carried_by(&counters);
        let view = |(served, carried): (&Arc<ServedTunnel>, _)| GroupView {
            hops: served.view(names),
            counters: served.counters.values(carried),
            distributions: served.counters.distributions.clone(),
        };
        served.iter().zip(carried).map(view).collect()
    }

    /// Returns the state of the next hops of every tunnel, without a look at the live flows.
    pub(crate) fn hops(&self, names: &Names) -> Vec<HopsView> {
        let served = lock(&self.0).clone();
        served.iter().map(|served| served.view(names)).collect()
    }
}

impl ServedTunnel {
    /// Returns the state of its next hops.
    fn view(&self, names: &Names) -> HopsView {
        let ServedTunnel { settings, hops, queue, data_problem, .. } = self;
        HopsView {
            tunnel: settings.clone(),
            hops: hops.view(settings, names),
            waiting: queue.view(),
            data_problem: data_problem.view(),
        }
    }
}

/// Writes one line to the log for each next hop of a tunnel that has several or checks them.
pub(super) fn log(views: &[HopsView]) {
    for HopsView { tunnel, hops, .. } in
        views.iter().filter(|view| view.hops.len() > 1 || view.tunnel.check.by.is_some())
    {
        for HopFacts { next_hop, choice: view, .. } in hops {
            info!(
                tunnel = %tunnel.name,
                %next_hop,
                state = %view.state,
                seconds = view.age.as_secs(),
                flows_now = view.flows,
                rtt_ms = view.rtt.map(|rtt| rtt.as_micros() as f64 / 1e3),
                failed_dials = view.failures,
                "next hop"
            );
        }
    }
}
