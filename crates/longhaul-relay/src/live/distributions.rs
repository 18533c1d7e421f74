//! Distributions over the flows of a tunnel, and what its legs retransmitted.
//!
//! A dial is observed when it ends. The legs of live flows are observed by a sampler that runs apart from the data workers.

use crate::live::histogram::{Histogram, HistogramValues, Scale};
use longhaul_config::options::Leg;
use longhaul_core::path::limit::Limit;
use longhaul_sys::tcp_info::TcpInfo;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Distributions over the flows of one tunnel.
#[derive(Debug)]
pub struct Distributions {
    dial: Histogram,
    /// By leg.
    legs: [OfLegs; 2],
}

/// Distributions over one of the two legs of the flows.
#[derive(Debug)]
struct OfLegs {
    rtt: Histogram,
    delivery: Histogram,
    /// Samples by what limited the leg, in the order of [`Limit::ALL`].
    limits: [AtomicU64; Limit::ALL.len()],
    /// Payload bytes that ended flows have retransmitted.
    ended_retransmitted: AtomicU64,
    /// The largest total of retransmitted bytes that was shown.
    shown_retransmitted: AtomicU64,
}

/// The distributions of one leg, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegFigures {
    /// Smoothed round-trip times of samples, in seconds.
    pub rtt: HistogramValues,
    /// Delivery rates of samples that the application did not limit, in bytes per second.
    pub delivery: HistogramValues,
    /// Number of samples by what limited the leg, in the order of [`Limit::ALL`].
    pub limits: [u64; Limit::ALL.len()],
}

impl Default for Distributions {
    fn default() -> Distributions {
        let of_legs = || OfLegs {
            rtt: Histogram::new(&TIMES),
            delivery: Histogram::new(&RATES),
            limits: Default::default(),
            ended_retransmitted: AtomicU64::new(0),
            shown_retransmitted: AtomicU64::new(0),
        };
        Distributions { dial: Histogram::new(&TIMES), legs: [of_legs(), of_legs()] }
    }
}

impl Distributions {
    /// Observes the time from accept to the next hop's answer.
    pub(super) fn dialled(&self, micros: u32) {
        self.dial.observe(micros.into());
    }

    /// Observes a leg of a live flow by the kernel's record of it, unless it has sent nothing for 10 s: its figures would be old.
    pub(super) fn sample(&self, leg: Leg, info: &TcpInfo, limit: Limit) {
        let of = self.of(leg);
        if !is_current(info) {
            return;
        }
        of.limits[limit as usize].fetch_add(1, Relaxed);
        if !info.rtt.is_zero() {
            of.rtt.observe(u64::try_from(info.rtt.as_micros()).unwrap_or(u64::MAX));
        }
        if info.delivery_rate > 0 && !info.is_app_limited {
            of.delivery.observe(info.delivery_rate);
        }
    }

    /// Returns the times from accept to the next hop's answer, in seconds.
    pub fn dial_times(&self) -> HistogramValues {
        self.dial.values()
    }

    /// Returns the figures of one leg.
    pub fn leg(&self, leg: Leg) -> LegFigures {
        let OfLegs { rtt, delivery, limits, .. } = self.of(leg);
        let limits = limits.each_ref().map(|count| count.load(Relaxed));
        LegFigures { rtt: rtt.values(), delivery: delivery.values(), limits }
    }

    /// Adds what a flow that ends has retransmitted on `leg`, in bytes.
    pub(crate) fn add_retransmitted(&self, leg: Leg, bytes: u64) {
        self.of(leg).ended_retransmitted.fetch_add(bytes, Relaxed);
    }

    /// Returns the payload bytes that ended flows have retransmitted on `leg`.
    pub fn ended_retransmitted(&self, leg: Leg) -> u64 {
        self.of(leg).ended_retransmitted.load(Relaxed)
    }

    /// Returns `bytes`, the retransmitted bytes of ended and live flows, or an earlier, larger total. A flow that ends
    /// between the reading of the ended and of the live flows is in neither, and a counter must never fall.
    pub fn retransmitted(&self, leg: Leg, bytes: u64) -> u64 {
        self.of(leg).shown_retransmitted.fetch_max(bytes, Relaxed).max(bytes)
    }

    fn of(&self, leg: Leg) -> &OfLegs {
        &self.legs[leg.index()]
    }
}

/// Whether the figures of a leg are of now: it has sent something lately.
pub(super) fn is_current(info: &TcpInfo) -> bool {
    info.last_data_sent <= ACTIVE && info.bytes_acked > 0
}

/// Silence after which the figures of a leg are old.
const ACTIVE: Duration = Duration::from_secs(10);

/// From the round trip of one host to that of two satellite hops and to `connect_timeout`, in µs.
static TIMES: Scale = Scale {
    steps_per_unit: 1e6,
    bounds: &[
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 30_000_000,
    ],
};

/// From 100 kbit/s to 40 Gbit/s, in bytes per second.
static RATES: Scale = Scale {
    steps_per_unit: 1.0,
    bounds: &[
        12_500, 125_000, 625_000, 1_250_000, 3_125_000, 6_250_000, 12_500_000, 31_250_000, 62_500_000, 125_000_000,
        312_500_000, 625_000_000, 1_250_000_000, 3_125_000_000, 5_000_000_000,
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_a_leg_that_sends() {
        let distributions = Distributions::default();
        let rtt = Duration::from_millis(63);
        let busy = TcpInfo { rtt, bytes_acked: 1, delivery_rate: 1_000_000, ..TcpInfo::default() };
        distributions.sample(Leg::Dial, &busy, Limit::CongestionWindow);
        let messages = TcpInfo { is_app_limited: true, ..busy };
        distributions.sample(Leg::Dial, &messages, Limit::Application);
        let silent = TcpInfo { last_data_sent: ACTIVE * 2, ..busy };
        distributions.sample(Leg::Dial, &silent, Limit::Application);
        let figures = distributions.leg(Leg::Dial);
        assert_eq!((figures.rtt.count(), figures.delivery.count(), figures.limits), (2, 1, [1, 0, 0, 1, 0]));
        assert_eq!((figures.rtt.sum, figures.delivery.sum), (0.126, 1e6));
        assert_eq!(distributions.leg(Leg::Accept).rtt.count(), 0);
    }

    #[test]
    fn the_retransmitted_bytes_never_fall() {
        let distributions = Distributions::default();
        assert_eq!(distributions.retransmitted(Leg::Dial, 70), 70);
        // A flow with 50 bytes is between live and ended.
        assert_eq!(distributions.retransmitted(Leg::Dial, 20), 70);
        distributions.add_retransmitted(Leg::Dial, 50);
        assert_eq!(distributions.ended_retransmitted(Leg::Dial), 50);
        assert_eq!(distributions.retransmitted(Leg::Dial, 75), 75);
        assert_eq!(distributions.retransmitted(Leg::Accept, 0), 0);
    }

    #[test]
    fn limits_are_counted_in_the_order_of_their_list() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, at);
        }
    }
}
