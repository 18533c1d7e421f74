//! Gathers what a scrape shows.

use crate::admin::collect;
use crate::admin::snapshot::{LegState, Snapshot};
use crate::admin::source::Source;
use crate::control::Status;
use crate::resources::ProcessFigures;
use longhaul_config::options::Leg;
use longhaul_core::path::limit::Limit;
use longhaul_relay::{HistogramValues, LegFigures, TunnelView};

/// Everything that a scrape shows.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    /// The state of the process.
    pub(super) snapshot: Snapshot,
    /// The distributions of the tunnels, by name.
    pub(super) tunnels: Vec<TunnelScrape>,
    /// Use of the machine.
    pub(super) process: ProcessFigures,
}

/// The distributions of a tunnel.
#[derive(Debug, Default)]
pub(super) struct TunnelScrape {
    /// Its name.
    pub(super) name: String,
    /// Times from accept to the next hop's answer, in seconds.
    pub(super) dial_times: HistogramValues,
    /// Both legs.
    pub(super) legs: Vec<LegScrape>,
}

/// The figures of one leg of a tunnel's flows.
#[derive(Debug, Default)]
pub(super) struct LegScrape {
    /// `accept` or `dial`.
    pub(super) leg: &'static str,
    /// The distributions.
    pub(super) figures: LegFigures,
    /// Payload bytes that the relay has retransmitted, by live and ended flows.
    pub(super) retransmitted: u64,
    /// Number of live flows by what limits the leg now, in the order of [`Limit::ALL`].
    pub(super) now: [u64; Limit::ALL.len()],
}

/// Returns the figures of this moment. `status` is the daemon's answer. Asks the kernel about each flow.
pub(crate) fn gather(source: &Source, status: Status) -> Scrape {
    let served = collect::tunnels(source, &status);
    // Before the live flows are read, so that a flow that ends meanwhile is missing, and not counted twice.
    let mut tunnels: Vec<TunnelScrape> = served.iter().map(tunnel).collect();
    let snapshot = collect::snapshot(source, status, &served, None);
    for flow in &snapshot.flows {
        // By name, as `collect::tunnels` sorts them.
        let Ok(at) = tunnels.binary_search_by(|tunnel| tunnel.name.cmp(&flow.tunnel)) else { continue };
        let legs = tunnels[at].legs.iter_mut().zip([&flow.accept, &flow.dial]);
        legs.for_each(|(sums, leg)| leg.iter().for_each(|leg| sums.add(leg)));
    }
    for (view, tunnel) in served.iter().zip(&mut tunnels) {
        for (leg, sums) in Leg::ALL.into_iter().zip(&mut tunnel.legs) {
            sums.retransmitted = view.distributions.retransmitted(leg, sums.retransmitted);
        }
    }
    Scrape { snapshot, tunnels, process: ProcessFigures::now() }
}

/// Returns the figures of a tunnel without its live flows.
fn tunnel(view: &TunnelView) -> TunnelScrape {
    let TunnelView { settings, distributions, .. } = view;
    let leg = |leg: Leg| LegScrape {
        leg: leg.name(),
        figures: distributions.leg(leg),
        retransmitted: distributions.ended_retransmitted(leg),
        ..LegScrape::default()
    };
    TunnelScrape { name: settings.name.clone(), dial_times: distributions.dial_times(), legs: Leg::ALL.map(leg).into() }
}

impl LegScrape {
    /// Whether a flow has this leg now, or a sample has seen it.
    pub(super) fn was_seen(&self) -> bool {
        self.now.iter().chain(&self.figures.limits).any(|count| *count > 0)
    }

    /// Adds this leg of a live flow.
    fn add(&mut self, leg: &LegState) {
        self.retransmitted += leg.retrans_bytes;
        let limit = leg.limit.as_deref().and_then(Limit::named);
        limit.into_iter().for_each(|limit| self.now[limit as usize] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_counted_at_its_place() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            let mut sums = LegScrape::default();
            sums.add(&LegState { limit: Some(limit.to_string()), ..LegState::default() });
            let mut want = [0; Limit::ALL.len()];
            want[at] = 1;
            assert_eq!(sums.now, want, "{limit}");
        }
    }
}
