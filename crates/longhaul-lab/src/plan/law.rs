//! What arithmetic says: the speed that a transfer should have, and the reason for the one it had.

use crate::plan::place::Direction;
use crate::plan::setup::Setup;

/// What the laws need to know of the traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Number of connections at once.
    pub(crate) connections: u32,
    /// The way that the bytes go.
    pub(crate) direction: Direction,
}

/// A way to compute a speed.
#[derive(Clone, Copy)]
pub(crate) struct Law {
    /// Its name in scenarios.
    pub(crate) name: &'static str,
    /// The formula, as one writes it in a report.
    pub(crate) formula: &'static str,
    /// Bytes a second of all connections together; nothing where it says nothing.
    compute: fn(&Setup, Load) -> Option<f64>,
}

/// Every law there is.
pub(crate) const ROWS: &[Law] = &[
    Law {
        name: "window",
        formula: "window / RTT",
        compute: |setup, load| window(setup).map(|speed| speed * f64::from(load.connections)),
    },
    Law {
        name: "openssh",
        formula: "OpenSSH's 2 MiB / RTT",
        compute: |setup, load| Some(openssh(setup) * f64::from(load.connections)),
    },
    Law {
        name: "line",
        formula: "the line's share of TCP payload",
        compute: |setup, load| line(setup, load.direction),
    },
    Law {
        name: "loss",
        formula: "Reno's or CUBIC's loss law",
        compute: |setup, load| loss(setup).map(|speed| speed * f64::from(load.connections)),
    },
];

impl Law {
    /// The speed that this law gives, in bytes a second, and no more than the line carries.
    pub(crate) fn speed(&self, setup: &Setup, load: Load) -> Option<f64> {
        (self.compute)(setup, load).map(|speed| speed.min(line(setup, load.direction).unwrap_or(f64::INFINITY)))
    }
}

impl std::fmt::Debug for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The law of that name.
///
/// # Errors
/// There is none.
pub(crate) fn find(name: &str) -> Result<Law, String> {
    let names = || ROWS.iter().map(|law| law.name);
    ROWS.iter()
        .find(|law| law.name == name)
        .copied()
        .ok_or_else(|| format!("write one of {}", names().collect::<Vec<_>>().join(", ")))
}

/// The speed to expect of a transfer that somebody else limits: for choosing how much to send.
pub(crate) fn least(setup: &Setup, load: Load, laws: &[&str]) -> f64 {
    let speeds = ROWS.iter().filter(|law| laws.contains(&law.name)).filter_map(|law| law.speed(setup, load));
    speeds.fold(f64::INFINITY, f64::min)
}

/// The law that holds this traffic back most, the line and the loss among them: its speed in bytes a second, and how it is
/// computed.
pub(crate) fn tightest(setup: &Setup, load: Load, laws: &[&str]) -> Option<(f64, &'static str)> {
    let counts = |law: &&Law| laws.contains(&law.name) || ["line", "loss"].contains(&law.name);
    let speeds = ROWS.iter().filter(counts).filter_map(|law| Some(((law.compute)(setup, load)?, law.formula)));
    speeds.min_by(|(one, _), (other, _)| one.total_cmp(other))
}

fn window(setup: &Setup) -> Option<f64> {
    setup.host.window.map(|window| window.0 as f64 / setup.link.rtt.as_secs_f64())
}

/// OpenSSH's channel window, and 64 requests of 32 KiB in its sftp client.
fn openssh(setup: &Setup) -> f64 {
    OPENSSH_WINDOW / setup.link.rtt.as_secs_f64()
}

/// What the line carries of TCP payload one way, in bytes a second, in full segments with timestamps.
pub(crate) fn line(setup: &Setup, direction: Direction) -> Option<f64> {
    let payload = setup.host.payload();
    let wire = setup.link.wire_bytes(direction, payload, HEADERS);
    setup.link.rate_of(direction).map(|rate| rate.0 as f64 / 8.0 * f64::from(payload) / wire as f64)
}

/// The most that the line can carry of TCP payload one way, whoever sends over it, in bytes a second: in full
/// segments without timestamps. `None` where the rate is not one number: without a line, with a policer, with a schedule.
pub(crate) fn ceiling(setup: &Setup, direction: Direction) -> Option<f64> {
    let is_scheduled = !setup.link.schedule(direction).is_empty();
    if setup.one_hop || is_scheduled || setup.link.is_policed(direction) {
        return None;
    }
    let payload = setup.host.mtu.max(setup.relay_spec().mtu).checked_sub(HEADERS_ALONE)?;
    let wire = setup.link.wire_bytes(direction, payload, HEADERS_ALONE);
    setup.link.rate_of(direction).map(|rate| rate.0 as f64 / 8.0 * f64::from(payload) / wire as f64)
}

fn loss(setup: &Setup) -> Option<f64> {
    setup.link.loss_law(&setup.host.congestion, setup.link.rtt)
}

/// How far OpenSSH sends ahead.
pub(crate) const OPENSSH_WINDOW: f64 = 2_097_152.0;
/// IPv4 and TCP headers with timestamps.
const HEADERS: u32 = 52;
/// The same without any option.
const HEADERS_ALONE: u32 = 40;
