//! What views show of the tunnels that are served.

use crate::live::counters::CounterValues;
use crate::live::distributions::Distributions;
use crate::names::Names;
use crate::state::served_tunnel::ServedTunnel;
use longhaul_config::Tunnel;
use longhaul_core::health::{DataFacts, HopFacts, Wait};
use std::sync::Arc;
use tracing::info;

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

impl ServedTunnel {
    /// Returns the state of its next hops.
    pub(super) fn view(&self, names: &Names) -> HopsView {
        let ServedTunnel { settings, hops, waiting_clients, data_problem, .. } = self;
        HopsView {
            tunnel: settings.clone(),
            hops: hops.view(settings, names),
            waiting: waiting_clients.view(),
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
