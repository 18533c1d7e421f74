//! The figures of a measured path, one row each: the table of the page, and what a comparison compares.

use super::document::{Document, Ways};
use longhaul_measure::message::Direction;

/// A figure of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// Its name for people.
    pub(super) name: &'static str,
    /// Its name in documents.
    pub(super) key: &'static str,
    unit: Unit,
    /// Its values; a figure of the whole path has the same one twice.
    values: Ways<f64>,
    /// Directions in which the path has at least that.
    is_least: Ways<bool>,
    /// Whether it is of the whole path.
    pub(super) is_of_path: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// 10^6 bit/s.
    Rate,
    Share,
    Millis,
    Bytes,
}

impl Figure {
    /// Returns all figures of `document`, in the order of reports.
    pub(super) fn all(document: &Document) -> [Figure; 8] {
        let figure =
            |name, key, unit, values| Figure { name, key, unit, values, is_least: Ways::default(), is_of_path: false };
        let one = |direction| document.first(direction).map(|run| run.payload_mbps);
        let mtu = |direction| document.path_mtu.of(direction).copied().map(f64::from);
        let is_least = |direction| document.line_reached.of(direction).map(|is_reached| !is_reached);
        [
            Figure {
                is_least: both(is_least),
                ..figure("rate of the line", "rate_mbps", Unit::Rate, document.rate_mbps)
            },
            figure("one connection", "one_connection_mbps", Unit::Rate, both(one)),
            figure("loss", "loss", Unit::Share, document.loss),
            figure("reordering", "reordering", Unit::Share, document.reordering),
            Figure {
                is_of_path: true,
                ..figure("round trip, idle", "rtt_ms", Unit::Millis, both(|_| document.rtt_ms.min))
            },
            figure(
                "round trip, loaded",
                "loaded_rtt_ms",
                Unit::Millis,
                both(|direction| document.loaded_rtt(direction)),
            ),
            figure("queue of others", "idle_queue_ms", Unit::Millis, document.idle_queue_ms),
            figure("path MTU", "path_mtu", Unit::Bytes, both(mtu)),
        ]
    }

    /// Returns the value in `direction`.
    pub(super) fn value(&self, direction: Direction) -> Option<f64> {
        self.values.of(direction).copied()
    }

    /// Whether it is unknown in both directions.
    pub(super) fn is_unknown(&self) -> bool {
        Direction::ALL.iter().all(|direction| self.value(*direction).is_none())
    }

    /// Returns the value in `direction` with its unit; empty if it is unknown.
    pub(super) fn shown(&self, direction: Direction) -> String {
        let Some(value) = self.value(direction) else { return String::new() };
        let shown = match self.unit {
            Unit::Rate => rate(value),
            Unit::Share => share(value),
            Unit::Millis => millis(value),
            Unit::Bytes => format!("{value} bytes"),
        };
        let is_least = self.is_least.of(direction).is_some_and(|is_least| *is_least);
        if is_least { format!("{shown} or more") } else { shown }
    }
}

fn both<T>(value: impl Fn(Direction) -> Option<T>) -> Ways<T> {
    let [up, down] = Direction::ALL.map(value);
    Ways { up, down }
}

/// Returns a rate in 10^6 bit/s with three digits or more: `1002 Mbit/s`, `473 Mbit/s`, `5.45 Mbit/s`.
pub(super) fn rate(mbps: f64) -> String {
    format!("{} Mbit/s", three(mbps))
}

/// Returns a share in percent.
fn share(share: f64) -> String {
    if share == 0.0 { "0 %".into() } else { format!("{:.3} %", share * 100.0) }
}

/// Returns a time: `63.1 ms`, `0.450 ms`.
pub(super) fn millis(ms: f64) -> String {
    format!("{} ms", three(ms))
}

/// Returns a number with three digits or more.
pub(super) fn three(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value if value >= 0.9995 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [1001.67, 473.35, 43.1, 5.45, 0.0].map(rate),
            ["1002 Mbit/s", "473 Mbit/s", "43.1 Mbit/s", "5.45 Mbit/s", "0 Mbit/s"]
        );
        assert_eq!([63.09, 126.997, 0.45].map(millis), ["63.1 ms", "127 ms", "0.450 ms"]);
        assert_eq!([0.0, 5.01e-5, 0.25].map(share), ["0 %", "0.005 %", "25.000 %"]);
    }

    #[test]
    fn a_rate_that_was_not_reached_is_a_least_one() {
        let document = Document {
            rate_mbps: Ways { up: Some(100.0), down: None },
            line_reached: Ways { up: Some(false), down: None },
            ..Document::default()
        };
        let figures = Figure::all(&document);
        assert_eq!(figures[0].shown(Direction::Up), "100 Mbit/s or more");
        assert_eq!(figures[0].shown(Direction::Down), "");
        assert!(figures[1..].iter().all(Figure::is_unknown) && !figures[0].is_unknown());
    }
}
