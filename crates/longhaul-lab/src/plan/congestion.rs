//! The congestion controls by name, and the speed to which random loss limits them. To add a control that takes random loss for
//! congestion, add a row.

use crate::plan::link::LinkSpec;
use std::time::Duration;

/// Name of Reno's congestion control (RFC 5681) in Linux.
pub(crate) const RENO: &str = "reno";
/// Name of CUBIC (RFC 8312) in Linux.
pub(crate) const CUBIC: &str = "cubic";

/// The response of a congestion control to random loss.
struct Response {
    congestion: &'static str,
    /// Returns the mean congestion window in segments. The arguments are the round trip in seconds, and the share of segments
    /// lost, above 0.
    segments: fn(f64, f64) -> f64,
}

/// The congestion controls that take random loss for congestion.
const ROWS: &[Response] =
    &[Response { congestion: RENO, segments: |_, loss| reno(loss) }, Response { congestion: CUBIC, segments: cubic }];

/// Returns the speed to which the random loss of `link` limits a connection, in bytes per second, over a round trip of `rtt`
/// with segments of 1448 bytes. `None` without loss, or for a congestion control that does not treat loss as congestion.
pub(crate) fn loss_law(link: &LinkSpec, congestion: &str, rtt: Duration) -> Option<f64> {
    let row = ROWS.iter().find(|row| row.congestion == congestion && link.loss > 0.0)?;
    let rtt = rtt.as_secs_f64();
    Some((row.segments)(rtt, link.loss) * 1448.0 / rtt)
}

/// Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion avoidance algorithm, 1997.
fn reno(loss: f64) -> f64 {
    1.2 / loss.sqrt()
}

/// RFC 8312 equation 6. RFC 8312 4.2: where Reno would be faster, CUBIC behaves like Reno.
fn cubic(rtt: f64, loss: f64) -> f64 {
    (1.054 * (rtt / loss).powf(0.75)).max(reno(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_known_congestion_control() {
        for row in ROWS {
            assert!(longhaul_config::options::CONTROLS.contains(&row.congestion), "{}", row.congestion);
        }
    }

    #[test]
    fn only_controls_that_react_to_loss_are_limited_by_it() {
        let rtt = Duration::from_millis(100);
        let link = |loss| LinkSpec { loss, ..LinkSpec::new(rtt, None) };
        let speed = |loss, congestion| loss_law(&link(loss), congestion, rtt).map(f64::round);
        // 12 segments per round trip, and 5.9, below which Reno's 12 count.
        assert_eq!(speed(0.01, RENO), Some(173_760.0));
        assert_eq!(speed(0.01, CUBIC), Some(173_760.0));
        assert!(speed(0.0001, CUBIC) > speed(0.0001, RENO));
        assert_eq!((speed(0.01, "bbr"), speed(0.0, RENO)), (None, None));
    }
}
