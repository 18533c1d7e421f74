//! The rates of a path: hosts alone, hosts with a relay at each site, and several connections.
//!
//! A rate is the smallest of its limits. All rates are payload, steady, of all connections together.

use crate::path::Path;
use longhaul_core::path::laws::{self, LossResponse, MAX_WINDOW, SlowStart};
use longhaul_units::{Bytes, Rate};
use serde::Serialize;
use std::time::Duration;

/// What limits a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Limit {
    /// The rate of the line.
    Line,
    /// Random loss, by the response of the congestion control.
    Loss,
    /// The window of the application itself.
    Application,
    /// The TCP window of the hosts, over the WAN.
    Window,
    /// The TCP window of the hosts, over the LAN to the relay.
    Lan,
}

/// The hosts of a path, and what runs on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts {
    /// TCP window of one connection.
    pub(crate) window: Bytes,
    /// Response of their congestion control to random loss.
    pub(crate) response: LossResponse,
    /// Window of the application; `None` if it has none.
    pub(crate) application: Option<Bytes>,
    /// Round trip between a host and its relay; `None` if the LAN is not to be a limit.
    pub(crate) lan_rtt: Option<Duration>,
}

/// A rate with its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    /// The rate of all connections together.
    pub(crate) rate: Rate,
    /// What limits it.
    pub(crate) limit: Limit,
    /// What would limit it next, if that limit were lifted, and the rate then; `None` if nothing would.
    pub(crate) then: Option<(Limit, Rate)>,
    /// Number of connections.
    pub(crate) connections: u64,
}

impl Hosts {
    /// Returns the rate of `connections` connections over the path without a relay.
    pub(crate) fn alone(&self, path: &Path, connections: u64) -> Prediction {
        let window = Some(laws::window_rate(self.window, path.rtt));
        let loss = laws::loss_rate(self.response, path.mss_clamp(), path.rtt, path.loss);
        self.least(path, connections, [(Limit::Window, window), (Limit::Loss, loss)])
    }

    /// Returns the rate of one connection through a relay at each site. The relays have BBR, which random loss does not limit,
    /// and windows as large as the path needs.
    pub(crate) fn with_relay(&self, path: &Path) -> Prediction {
        let window = Some(laws::window_rate(MAX_WINDOW, path.rtt));
        let lan = self.lan_rtt.map(|rtt| laws::window_rate(self.window, rtt));
        self.least(path, 1, [(Limit::Window, window), (Limit::Lan, lan)])
    }

    /// Returns the prediction for the limits of one connection, the application's, and the line's.
    fn least(&self, path: &Path, connections: u64, own: [(Limit, Option<Rate>); 2]) -> Prediction {
        let application = self.application.map(|window| laws::window_rate(window, path.rtt));
        let all = |rate: Rate| Rate(rate.0.saturating_mul(connections));
        let each = own.into_iter().chain([(Limit::Application, application)]);
        let each = each.filter_map(|(limit, rate)| Some((limit, all(rate?))));
        let mut limits: Vec<(Limit, Rate)> = each.chain([(Limit::Line, path.goodput())]).collect();
        // Of equal rates the line counts first: then nothing is to be gained.
        limits.sort_by_key(|(limit, rate)| (*rate, *limit as u8));
        // There are two limits at least: one of `own`, and the line.
        let (limit, rate) = limits[0];
        let then = limits.get(1).copied().filter(|_| limit != Limit::Line);
        Prediction { rate, limit, then, connections }
    }
}

impl Prediction {
    /// Returns the time to send `bytes` over all connections, with slow start, in seconds; `None` if they never arrive.
    pub(crate) fn seconds(&self, path: &Path, bytes: Bytes) -> Option<f64> {
        // More connections than bits in a second, or than bytes, share nothing.
        let connections = self.connections.clamp(1, self.rate.0.clamp(1, bytes.0.max(1)));
        let each = Rate(self.rate.0 / connections);
        let time = SlowStart::new(each, path.rtt, path.mss_clamp()).time_for(Bytes(bytes.0.div_ceil(connections)));
        (self.rate.0 > 0 && time < Duration::MAX).then_some(time.as_secs_f64())
    }
}

impl Limit {
    /// Returns the limit in words, for a table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Limit::Line => "line",
            Limit::Loss => "loss",
            Limit::Application => "application",
            Limit::Window => "TCP window",
            Limit::Lan => "LAN window",
        }
    }
}

/// Returns the rate in 10^6 bit/s, as JSON documents have it.
pub(crate) fn mbps(rate: Rate) -> f64 {
    rate.0 as f64 / 1e6
}
