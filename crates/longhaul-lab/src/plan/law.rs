//! The laws of longhaul-core, applied to the path and the hosts of a scenario: the speed that a transfer should have.

use crate::plan::link::LinkSpec;
use crate::plan::place::Direction;
use crate::plan::setup::Setup;
use longhaul_core::path::laws::{self, LossResponse, packet};
use longhaul_units::Rate;
use std::fmt;
use std::time::Duration;

/// The facts about the traffic that the laws need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Number of connections at once.
    pub(crate) connections: u32,
    /// The direction of the bytes.
    pub(crate) direction: Direction,
}

/// A formula for the speed of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Law {
    /// Its name in scenarios.
    pub(crate) name: &'static str,
    /// The formula, as reports show it.
    pub(crate) formula: &'static str,
    /// The keys of the scenario that the law needs to give a speed, as a phrase.
    pub(crate) needs: &'static str,
    /// The part of the path to which the law applies.
    pub(crate) subject: Subject,
    /// Whether it takes random loss into account.
    pub(crate) includes_loss: bool,
    /// Computes the speed of all connections together in bytes per second; `None` if the law gives no speed.
    compute: fn(&Setup, Load) -> Option<f64>,
}

/// The part of the path to which a law applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The hosts' own TCP. The law applies where the hosts themselves send over the WAN.
    Hosts,
    /// The programs at both ends.
    Programs,
    /// The WAN. The law applies to every sender.
    Wan,
}

/// All laws.
pub(crate) const ROWS: &[Law] = &[WINDOW, OPENSSH, LINE, LOSS];

/// One host's window per round trip.
pub(crate) const WINDOW: Law = Law {
    name: "window",
    formula: "window / RTT",
    needs: "host.window",
    subject: Subject::Hosts,
    includes_loss: false,
    compute: |setup, load| window(setup).map(|speed| speed * f64::from(load.connections)),
};

/// One OpenSSH window per round trip.
pub(crate) const OPENSSH: Law = Law {
    name: "openssh",
    formula: "OpenSSH's 2 MiB / RTT",
    needs: "nothing",
    subject: Subject::Programs,
    includes_loss: false,
    compute: |setup, load| Some(openssh(setup) * f64::from(load.connections)),
};

/// The rate of the line.
pub(crate) const LINE: Law = Law {
    name: "line",
    formula: "the line's share of TCP payload",
    needs: "link.rate",
    subject: Subject::Wan,
    includes_loss: false,
    compute: |setup, load| line(setup, load.direction),
};

/// The response of Reno and CUBIC to random loss.
const LOSS: Law = Law {
    name: "loss",
    formula: "Reno's or CUBIC's loss law",
    needs: "link.loss, and reno or cubic for host.congestion",
    subject: Subject::Wan,
    includes_loss: true,
    compute: |setup, load| {
        loss(&setup.link, &setup.host.congestion, setup.link.rtt).map(|speed| speed * f64::from(load.connections))
    },
};

impl Law {
    /// Returns the speed that this law gives, in bytes per second, limited to what the line carries.
    pub(crate) fn speed(&self, setup: &Setup, load: Load) -> Option<f64> {
        (self.compute)(setup, load).map(|speed| speed.min(line(setup, load.direction).unwrap_or(f64::INFINITY)))
    }
}

impl PartialEq for Law {
    fn eq(&self, other: &Law) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns the law called `name`.
///
/// # Errors
/// No law has this name.
pub(crate) fn find(name: &str) -> Result<Law, String> {
    let names = || ROWS.iter().map(|law| law.name);
    ROWS.iter()
        .copied()
        .find(|law| law.name == name)
        .ok_or_else(|| format!("write one of {}", names().collect::<Vec<_>>().join(", ")))
}

/// Returns the smallest speed that one of `laws` gives, in bytes per second; infinity if none gives a speed.
pub(crate) fn slowest(setup: &Setup, load: Load, laws: &[Law]) -> f64 {
    laws.iter().filter_map(|law| law.speed(setup, load)).fold(f64::INFINITY, f64::min)
}

/// Returns the smallest speed that `laws` and the laws of the WAN give, in bytes per second, with its formula.
pub(crate) fn tightest(setup: &Setup, load: Load, laws: &[Law]) -> Option<(f64, &'static str)> {
    let counts = |law: &&Law| laws.contains(law) || law.subject == Subject::Wan;
    let speeds = ROWS.iter().filter(counts).filter_map(|law| Some(((law.compute)(setup, load)?, law.formula)));
    speeds.min_by(|(one, _), (other, _)| one.total_cmp(other))
}

fn window(setup: &Setup) -> Option<f64> {
    setup.host.window.map(|window| speed(laws::window_rate(window, setup.link.rtt)))
}

/// Returns the speed with OpenSSH's channel window. Its sftp client has the same limit: 64 requests of 32 KiB.
fn openssh(setup: &Setup) -> f64 {
    speed(laws::window_rate(laws::OPENSSH_WINDOW, setup.link.rtt))
}

/// Returns the TCP payload that the line carries in `direction`, in bytes per second, in full segments with timestamps.
pub(crate) fn line(setup: &Setup, direction: Direction) -> Option<f64> {
    payload_rate(&setup.link, direction, setup.host.payload(), HEADERS)
}

/// Returns the maximum TCP payload that the line can carry in `direction` for any sender, in bytes per second: in full segments
/// without timestamps. `None` if the rate is not one number: without a line, with a policer, or with a schedule.
pub(crate) fn ceiling(setup: &Setup, direction: Direction) -> Option<f64> {
    let is_scheduled = !setup.link.schedule(direction).is_empty();
    if !setup.has_wan() || is_scheduled || setup.link.is_policed(direction) {
        return None;
    }
    let payload = setup.host.mtu.max(setup.relay_spec().mtu).checked_sub(packet::HEADERS)?;
    payload_rate(&setup.link, direction, payload, packet::HEADERS)
}

/// Returns the payload that `link` carries in `direction`, in bytes per second, in segments of `payload` bytes with `headers`
/// bytes of headers. `None` without a rate.
fn payload_rate(link: &LinkSpec, direction: Direction, payload: u32, headers: u32) -> Option<f64> {
    let on_line = u32::try_from(link.wire_bytes(direction, payload, headers)).unwrap_or(u32::MAX);
    link.rate_of(direction).map(|rate| speed(laws::line_rate(rate, payload, on_line)))
}

/// Returns the speed to which the random loss of `link` limits a connection, in bytes per second, over a round trip of `rtt`
/// with segments of 1448 bytes. `None` without loss, or for a congestion control that does not treat loss as congestion.
pub(crate) fn loss(link: &LinkSpec, congestion: &str, rtt: Duration) -> Option<f64> {
    laws::loss_rate(LossResponse::of(congestion)?, SEGMENT, rtt, link.loss).map(speed)
}

/// Returns a rate in bytes per second, in which the lab measures.
fn speed(rate: Rate) -> f64 {
    rate.0 as f64 / 8.0
}

/// Bytes of IPv4 and TCP headers with timestamps (RFC 7323).
const HEADERS: u32 = packet::HEADERS + 12;
/// Payload of a full segment with timestamps at an MTU of 1500, in bytes.
const SEGMENT: u32 = 1500 - HEADERS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controls_that_react_to_loss_are_limited_by_it() {
        let rtt = Duration::from_millis(100);
        let link = |loss| LinkSpec { loss, ..LinkSpec::new(rtt, None) };
        let speed = |share, congestion| loss(&link(share), congestion, rtt);
        // 12 segments of 1448 bytes in each round trip.
        assert_eq!(speed(0.01, "reno"), Some(173_760.0));
        assert_eq!([speed(0.01, "bbr"), speed(0.01, "vegas"), speed(0.0, "reno")], [None; 3]);
    }
}
