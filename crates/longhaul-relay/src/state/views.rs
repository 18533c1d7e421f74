//! What views show of the tunnels that are served.

use crate::live::counters::Counters;
use crate::live::distributions::Distributions;
use crate::live::verified::VerifyView;
use longhaul_config::Tunnel;
use longhaul_core::health::{DataFacts, GoneAddress, HopFacts, Wait};
use std::sync::Arc;
use tracing::info;

/// A tunnel that is served, at one moment.
#[derive(Clone, Debug)]
pub struct TunnelView {
    /// Its settings.
    pub settings: Arc<Tunnel>,
    /// The address that its listener needs, if it is not of this host any more.
    pub gone_address: Option<GoneAddress>,
    /// The state of each next hop, in the order of `to`.
    pub hops: Vec<HopFacts>,
    /// The wait of its clients in the listen queue, because it may not have another flow now. `None` while none waits.
    pub waiting: Option<Wait>,
    /// The latest problem of its FTP data connections. `None` if there was none lately.
    pub data_problem: Option<DataFacts>,
    /// The results of the daemon's own probes. `None` without `verify`.
    pub probes: Option<VerifyView>,
    /// The distributions over its flows.
    pub distributions: Arc<Distributions>,
    pub(super) counters: Arc<Counters>,
}

/// Writes one line to the log for each next hop of a tunnel that has several or checks them.
pub(super) fn log(views: &[TunnelView]) {
    let told = views.iter().filter(|view| view.hops.len() > 1 || view.settings.check.by.is_some());
    for TunnelView { settings: tunnel, hops, .. } in told {
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
