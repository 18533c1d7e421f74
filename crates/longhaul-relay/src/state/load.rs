//! Use of the relay's own limits, for views.

use crate::live::registry::Registry;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Use of the relay's own limits at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of flows that are open, without FTP data connections, which no limit counts.
    pub flows: u64,
    /// Maximum number of flows, by the descriptors and by `max_flows` of the process.
    pub max_flows: u64,
    /// Number of pipes that hold bytes, or are about to.
    pub pipes: u64,
    /// Maximum number of pipes.
    pub max_pipes: u64,
    /// Remedy that raises the maximum number of pipes.
    pub more_pipes: &'static str,
    /// Number of pages that all pipes may fill, empty pipes included.
    pub pipe_pages: u64,
    /// Maximum number of pages of all pipes of this user. `None` if this process has no such limit.
    pub max_pipe_pages: Option<u64>,
    /// The tunnels that have flows, by name.
    pub tunnels: Vec<TunnelLoad>,
    /// The addresses that flows have dialled.
    pub dialled: Vec<AddressLoad>,
}

/// Use of a tunnel's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelLoad {
    /// Name of the tunnel.
    pub name: String,
    /// Number of its flows, without FTP data connections.
    pub flows: u64,
    /// Its `max_flows`.
    pub max_flows: Option<u64>,
}

/// Flows to one address. Each needs a local port of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressLoad {
    /// The `source` of the dial legs. `None` for the address that the route chooses.
    pub source: Option<IpAddr>,
    /// The address and port that was dialled.
    pub address: SocketAddr,
    /// Number of live flows.
    pub flows: u64,
}

impl Load {
    /// Counts the flows of `registry` by address. Makes no system call. Locks the registry as a view does.
    pub(super) fn count(&mut self, registry: &Registry) {
        let mut dialled: BTreeMap<(Option<IpAddr>, SocketAddr), u64> = BTreeMap::new();
        registry.visit_all(|flow| {
            if let Some((_, address)) = flow.next_hop() {
                *dialled.entry((flow.tunnel.source, address)).or_default() += 1;
            }
            if flow.client.is_data() {
                self.flows = self.flows.saturating_sub(1);
            }
        });
        let dialled = dialled.into_iter();
        self.dialled = dialled.map(|((source, address), flows)| AddressLoad { source, address, flows }).collect();
    }
}
