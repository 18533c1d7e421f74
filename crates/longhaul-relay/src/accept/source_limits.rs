//! Refuses a client whose source has too many flows of the tunnel, or begins too many. [`longhaul_core::sources`] counts.

use crate::live::client::Client;
use crate::state::permits::Permit;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_core::sources::{Crowded, Source};
use std::time::Instant;
use tracing::warn;

/// Whether the limits of `tunnel` allow `client` another flow. If so, its source is counted until `permit` is dropped. If
/// not, the refusal is counted and logged, and the caller must close the connection.
pub(super) fn admit(relay: &Relay, tunnel: &ServedTunnel, client: &Client, permit: &mut Permit) -> bool {
    let limits = tunnel.settings.source_limits();
    if !limits.is_any() {
        return true;
    }
    let source = Source::from(client.address().ip());
    let Err(crowded) = permit.note_source(source, limits) else { return true };
    tunnel.counters.count(|counters| &counters.refused);
    tunnel.counters.count(|counters| &counters.over_source_limit);
    let name = &tunnel.settings.name;
    if let Some(more) = relay.lines.source.pass(name, Instant::now()) {
        let limit = match crowded {
            Crowded::MaxFlows => "max_flows_per_source",
            Crowded::Rate => "new_flows_per_second_per_source",
        };
        let proxy = client.via().map(|via| tracing::field::display(via.proxy));
        warn!(tunnel = %name, peer = %client.address(), proxy, %source, limit, more, "refused: limit of its source");
    }
    false
}
