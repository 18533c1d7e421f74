//! The laws of TCP on a long path: the rate that a window, random loss or a line allows, and the time of slow start.
//!
//! Each law stands here once. `longhaul advise`, `longhaul audit`, the lab's `computed` and the tables of the manual call it.
//! [`packet`] has the sizes of packets inside encapsulations.

pub mod packet;
mod slow_start;

pub use slow_start::SlowStart;

use super::auto_congestion::{BBR, CUBIC, RENO};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// The response of a congestion control to random loss, the slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossResponse {
    /// Reno and NewReno (RFC 5681, RFC 6582).
    Reno,
    /// CUBIC (RFC 8312).
    Cubic,
    /// None: the control does not take random loss for congestion, as BBR.
    Ignores,
}

impl LossResponse {
    /// Returns the response of the congestion control that Linux calls `control`, or Solaris and Windows, which write NewReno;
    /// `None` for one without a law here.
    pub fn of(control: &str) -> Option<LossResponse> {
        let control = control.to_ascii_lowercase();
        match control.strip_prefix("new").unwrap_or(&control) {
            RENO => Some(LossResponse::Reno),
            CUBIC => Some(LossResponse::Cubic),
            BBR => Some(LossResponse::Ignores),
            _ => None,
        }
    }
}

/// Returns the rate that a window allows: one window in each round trip. The largest rate for a round trip of zero.
pub fn window_rate(window: Bytes, rtt: Duration) -> Rate {
    rate(window.0 as f64 / rtt.as_secs_f64())
}

/// Returns the bandwidth-delay product: the bytes in flight that keep a line of `rate` busy, rounded up.
pub fn bandwidth_delay(rate: Rate, rtt: Duration) -> Bytes {
    // Integers, because 1 Gbit/s and 63 ms are 7,875,000 bytes exactly.
    let bits = u128::from(rate.0).saturating_mul(rtt.as_nanos());
    Bytes(u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX))
}

/// Returns the window scale that a window needs, from 0 to 14. Larger windows than 1 GiB have 14, too.
pub fn window_scale(window: Bytes) -> u8 {
    // RFC 7323 2.2: the window field has 16 bits, and is shifted left by the scale. 2.3: at most 14.
    (0..MAX_WINDOW_SCALE).find(|scale| MAX_UNSCALED_WINDOW.0 << scale >= window.0).unwrap_or(MAX_WINDOW_SCALE)
}

/// Returns the rate of one connection with full segments of `mss` bytes of payload on a path that loses the share `loss` of
/// them at random; `None` if loss does not limit it.
pub fn loss_rate(response: LossResponse, mss: u32, rtt: Duration, loss: f64) -> Option<Rate> {
    let segments = match response {
        _ if loss <= 0.0 => return None,
        LossResponse::Ignores => return None,
        LossResponse::Reno => reno_window(loss),
        LossResponse::Cubic => cubic_window(rtt, loss),
    };
    Some(rate(segments * f64::from(mss) / rtt.as_secs_f64()))
}

/// Returns the payload that a line carries: `payload` bytes of each packet that takes `on_line` bytes of it.
///
/// RFC 6349 3.3.1 counts `on_line` as MTU + 38 on Ethernet (14 header, 4 FCS, 8 preamble, 12 gap). A line whose rate is given
/// in IP bytes, as in the lab and in contracts, takes the IP packet alone.
pub fn line_rate(line: Rate, payload: u32, on_line: u32) -> Rate {
    let bits = u128::from(line.0) * u128::from(payload) / u128::from(on_line.max(1));
    Rate(u64::try_from(bits).unwrap_or(u64::MAX))
}

/// Returns the number of connections of `each` that fill `line`; at least one.
pub fn connections(line: Rate, each: Rate) -> u64 {
    line.0.div_ceil(each.0.max(1)).max(1)
}

/// Returns the mean congestion window of Reno in segments, at a loss rate above 0.
///
/// Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion avoidance algorithm, 1997.
fn reno_window(loss: f64) -> f64 {
    1.2 / loss.sqrt()
}

/// Returns the mean congestion window of CUBIC in segments, at a loss rate above 0.
fn cubic_window(rtt: Duration, loss: f64) -> f64 {
    // RFC 8312 5.1, equation 6. 4.2: where Reno would be faster, CUBIC behaves like Reno.
    (1.054 * (rtt.as_secs_f64() / loss).powf(0.75)).max(reno_window(loss))
}

/// Returns bytes per second as a rate, rounded to the next bit per second.
fn rate(bytes_per_second: f64) -> Rate {
    // A cast from f64 saturates.
    Rate((bytes_per_second * 8.0).round() as u64)
}

/// The largest window without scaling (RFC 9293).
pub const MAX_UNSCALED_WINDOW: Bytes = Bytes(65_535);
/// The largest window scale (RFC 7323 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;
/// The largest window of TCP: 1,073,725,440 bytes.
pub const MAX_WINDOW: Bytes = Bytes(MAX_UNSCALED_WINDOW.0 << MAX_WINDOW_SCALE);

/// OpenSSH's channel window: 64 packets of 32 KiB.
pub const OPENSSH_WINDOW: Bytes = Bytes(2 << 20);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn one_window_in_each_round_trip() {
        assert_eq!(window_rate(Bytes(262_144), millis(63)), Rate(33_288_127));
        assert_eq!(window_rate(Bytes(1), Duration::ZERO), Rate(u64::MAX));
        assert_eq!(bandwidth_delay(Rate(1_000_000_000), millis(63)), Bytes(7_875_000));
        assert_eq!(bandwidth_delay(Rate(u64::MAX), Duration::MAX), Bytes(u64::MAX));
    }

    #[test]
    fn the_scale_is_the_smallest_that_holds_the_window() {
        for (window, scale) in [(0, 0), (65_535, 0), (65_536, 1), (262_144, 3), (262_140, 2), (1 << 40, 14)] {
            assert_eq!(window_scale(Bytes(window)), scale, "{window}");
        }
    }

    #[test]
    fn loss_limits_the_controls_that_react_to_it() {
        let of = |response, loss| loss_rate(response, 1448, millis(100), loss).map(|Rate(bits)| bits / 8);
        // 12 segments in each round trip; CUBIC's 5.9 would be less than Reno's.
        assert_eq!(of(LossResponse::Reno, 0.01), Some(173_760));
        assert_eq!(of(LossResponse::Cubic, 0.01), Some(173_760));
        assert!(of(LossResponse::Cubic, 0.0001) > of(LossResponse::Reno, 0.0001));
        assert_eq!([of(LossResponse::Ignores, 0.01), of(LossResponse::Reno, 0.0)], [None, None]);
        assert_eq!(["bbr", "vegas"].map(LossResponse::of), [Some(LossResponse::Ignores), None]);
    }

    /// RFC 6349 3.3.1: frames per second of full frames, and 42.8 Mbit/s on a T3 line, whose frames have 10 bytes more.
    #[test]
    fn the_largest_rate_of_an_ethernet_line() {
        let ethernet = |rate, headers: u32| line_rate(Rate(rate), 1500 - headers, 1538).0;
        assert_eq!(ethernet(100_000_000, 40), 94_928_478);
        assert_eq!(ethernet(1_000_000_000, 52), 941_482_444);
        assert_eq!(1_000_000_000u64 / (1538 * 8), 81_274, "frames per second");
        assert_eq!(line_rate(Rate(100), 1, 0), Rate(100), "no division by zero");
    }

    #[test]
    fn as_many_connections_as_fill_the_line() {
        assert_eq!(connections(Rate(1000), Rate(300)), 4);
        assert_eq!(connections(Rate(1000), Rate(1000)), 1);
        assert_eq!(connections(Rate(0), Rate(0)), 1);
    }

    proptest! {
        #[test]
        fn a_window_of_the_product_carries_the_rate(bits in 1_000u64..1_000_000_000_000, nanos in 1_000u64..60_000_000_000) {
            let rtt = Duration::from_nanos(nanos);
            let window = bandwidth_delay(Rate(bits), rtt);
            // An f64 has 53 bits.
            prop_assert!(window_rate(window, rtt).0 as f64 >= bits as f64 * (1.0 - 1e-12));
            prop_assert!(MAX_UNSCALED_WINDOW.0 << window_scale(window) >= window.0.min(MAX_WINDOW.0));
        }
    }
}
