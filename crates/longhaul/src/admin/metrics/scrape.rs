//! Gathers what a scrape shows.

use crate::admin::collect;
use crate::admin::snapshot::{LegState, Snapshot};
use crate::admin::source::Source;
use crate::control::Status;
use crate::resources::ProcessFigures;
use longhaul_config::options::Leg;
use longhaul_core::path::limit::Limit;
use longhaul_relay::{Distributions, HistogramValues, LegFigures, TunnelView};
use std::collections::HashMap;

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

/// Sums over one leg of the live flows of a tunnel.
#[derive(Debug, Default)]
struct Live {
    retransmitted: u64,
    limits: [u64; Limit::ALL.len()],
}

/// Returns the figures of this moment. `status` is the daemon's answer. Asks the kernel about each flow.
pub(crate) fn gather(source: &Source, status: Status) -> Scrape {
    let served = collect::tunnels(source, &status);
    // Before the live flows are read, so that a flow that ends meanwhile is missing, and not counted twice.
    let ended: Vec<[u64; 2]> = served.iter().map(|tunnel| ended(&tunnel.distributions)).collect();
    let snapshot = collect::snapshot(source, status, &served);
    let live = live(&snapshot);
    let tunnels = served.iter().zip(ended).map(|(view, ended)| tunnel(view, ended, &live)).collect();
    Scrape { snapshot, tunnels, process: ProcessFigures::now() }
}

fn ended(distributions: &Distributions) -> [u64; 2] {
    Leg::ALL.map(|leg| distributions.ended_retransmitted(leg))
}

/// Sums the live flows by their tunnels and legs.
fn live(snapshot: &Snapshot) -> HashMap<&str, [Live; 2]> {
    let mut live: HashMap<&str, [Live; 2]> = HashMap::new();
    for flow in &snapshot.flows {
        let sums = live.entry(&flow.tunnel).or_default();
        for (sum, leg) in sums.iter_mut().zip([&flow.accept, &flow.dial]) {
            leg.iter().for_each(|leg| sum.add(leg));
        }
    }
    live
}

fn tunnel(view: &TunnelView, ended: [u64; 2], live: &HashMap<&str, [Live; 2]>) -> TunnelScrape {
    let (name, distributions) = (&view.settings.name, &view.distributions);
    let none = [Live::default(), Live::default()];
    let live = live.get(name.as_str()).unwrap_or(&none);
    let legs = Leg::ALL.into_iter().zip(ended).zip(live).map(|((leg, ended), live)| LegScrape {
        leg: leg.name(),
        figures: distributions.leg(leg),
        retransmitted: distributions.retransmitted(leg, ended + live.retransmitted),
        now: live.limits,
    });
    TunnelScrape { name: name.clone(), dial_times: distributions.dial_times(), legs: legs.collect() }
}

impl Live {
    fn add(&mut self, leg: &LegState) {
        self.retransmitted += leg.retrans_bytes;
        let limit = leg.limit.as_deref().and_then(Limit::named);
        let at = Limit::ALL.iter().position(|one| limit == Some(*one));
        at.into_iter().for_each(|at| self.limits[at] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_counted_at_its_place() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            let mut live = Live::default();
            live.add(&LegState { limit: Some(limit.to_string()), ..LegState::default() });
            let mut want = [0; Limit::ALL.len()];
            want[at] = 1;
            assert_eq!(live.limits, want, "{limit}");
        }
    }
}
