//! Laws: the speed that a transfer should have, computed from its path and hosts.

use crate::plan::place::Direction;
use crate::plan::setup::Setup;

/// The facts about the traffic that the laws need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Number of connections at once.
    pub(crate) connections: u32,
    /// The way that the bytes go.
    pub(crate) direction: Direction,
}

/// A way to compute a speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    /// A host's window each round trip.
    Window,
    /// The amount that OpenSSH sends ahead, each round trip.
    Openssh,
    /// The rate of the line.
    Line,
    /// Random loss, as Reno and CUBIC respond to it.
    Loss,
}

/// One law: everything that longhaul knows of it.
pub(crate) struct Row {
    law: Law,
    /// Its name in scenarios.
    pub(crate) name: &'static str,
    /// The formula, as one writes it in a report.
    pub(crate) formula: &'static str,
    /// The keys of the scenario without which it gives no speed, in a phrase.
    pub(crate) needs: &'static str,
    /// The part of the path that it is about.
    pub(crate) subject: Subject,
    /// Whether it takes random loss into account.
    pub(crate) includes_loss: bool,
    /// Bytes a second of all connections together; nothing where it gives no speed.
    compute: fn(&Setup, Load) -> Option<f64>,
}

/// The part of the path that a law is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The hosts' own TCP: it counts where the hosts themselves send over the WAN.
    Hosts,
    /// The programs at both ends.
    Programs,
    /// The WAN: it counts for everybody.
    Wan,
}

/// Every law there is.
pub(crate) const ROWS: &[Row] = &[
    Row {
        law: Law::Window,
        name: "window",
        formula: "window / RTT",
        needs: "host.window",
        subject: Subject::Hosts,
        includes_loss: false,
        compute: |setup, load| window(setup).map(|speed| speed * f64::from(load.connections)),
    },
    Row {
        law: Law::Openssh,
        name: "openssh",
        formula: "OpenSSH's 2 MiB / RTT",
        needs: "nothing",
        subject: Subject::Programs,
        includes_loss: false,
        compute: |setup, load| Some(openssh(setup) * f64::from(load.connections)),
    },
    Row {
        law: Law::Line,
        name: "line",
        formula: "the line's share of TCP payload",
        needs: "link.rate",
        subject: Subject::Wan,
        includes_loss: false,
        compute: |setup, load| line(setup, load.direction),
    },
    Row {
        law: Law::Loss,
        name: "loss",
        formula: "Reno's or CUBIC's loss law",
        needs: "link.loss, and reno or cubic for host.congestion",
        subject: Subject::Wan,
        includes_loss: true,
        compute: |setup, load| loss(setup).map(|speed| speed * f64::from(load.connections)),
    },
];

impl Law {
    /// Returns its row of the table.
    pub(crate) fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.law == self).unwrap_or(&ROWS[0])
    }

    /// Returns the speed that this law gives, in bytes a second, and no more than the line carries.
    pub(crate) fn speed(self, setup: &Setup, load: Load) -> Option<f64> {
        (self.row().compute)(setup, load).map(|speed| speed.min(line(setup, load.direction).unwrap_or(f64::INFINITY)))
    }
}

/// Returns the law called `name`.
///
/// # Errors
/// There is none.
pub(crate) fn find(name: &str) -> Result<Law, String> {
    let names = || ROWS.iter().map(|row| row.name);
    let row = ROWS.iter().find(|row| row.name == name);
    row.map(|row| row.law).ok_or_else(|| format!("write one of {}", names().collect::<Vec<_>>().join(", ")))
}

/// Returns the smallest speed that one of `laws` gives, in bytes a second; infinite where none gives one.
pub(crate) fn slowest(setup: &Setup, load: Load, laws: &[Law]) -> f64 {
    laws.iter().filter_map(|law| law.speed(setup, load)).fold(f64::INFINITY, f64::min)
}

/// Returns the smallest speed that `laws` and those of the WAN give, in bytes a second, with its formula.
pub(crate) fn tightest(setup: &Setup, load: Load, laws: &[Law]) -> Option<(f64, &'static str)> {
    let counts = |row: &&Row| laws.contains(&row.law) || row.subject == Subject::Wan;
    let speeds = ROWS.iter().filter(counts).filter_map(|row| Some(((row.compute)(setup, load)?, row.formula)));
    speeds.min_by(|(one, _), (other, _)| one.total_cmp(other))
}

fn window(setup: &Setup) -> Option<f64> {
    setup.host.window.map(|window| window.0 as f64 / setup.link.rtt.as_secs_f64())
}

/// OpenSSH's channel window, and 64 requests of 32 KiB in its sftp client.
fn openssh(setup: &Setup) -> f64 {
    OPENSSH_WINDOW / setup.link.rtt.as_secs_f64()
}

/// Returns the TCP payload that the line carries one way, in bytes a second, in full segments with timestamps.
pub(crate) fn line(setup: &Setup, direction: Direction) -> Option<f64> {
    let payload = setup.host.payload();
    let wire = setup.link.wire_bytes(direction, payload, HEADERS);
    setup.link.rate_of(direction).map(|rate| rate.0 as f64 / 8.0 * f64::from(payload) / wire as f64)
}

/// The most that the line can carry of TCP payload one way, whoever sends over it, in bytes a second: in full
/// segments without timestamps. `None` where the rate is not one number: without a line, with a policer, with a schedule.
pub(crate) fn ceiling(setup: &Setup, direction: Direction) -> Option<f64> {
    let is_scheduled = !setup.link.schedule(direction).is_empty();
    if !setup.has_wan() || is_scheduled || setup.link.is_policed(direction) {
        return None;
    }
    let payload = setup.host.mtu.max(setup.relay_spec().mtu).checked_sub(HEADERS_ALONE)?;
    let wire = setup.link.wire_bytes(direction, payload, HEADERS_ALONE);
    setup.link.rate_of(direction).map(|rate| rate.0 as f64 / 8.0 * f64::from(payload) / wire as f64)
}

fn loss(setup: &Setup) -> Option<f64> {
    setup.link.loss_law(&setup.host.congestion, setup.link.rtt)
}

/// Bytes that OpenSSH sends ahead.
pub(crate) const OPENSSH_WINDOW: f64 = 2_097_152.0;
/// IPv4 and TCP headers with timestamps.
const HEADERS: u32 = 52;
/// The same without any option.
const HEADERS_ALONE: u32 = 40;
