//! The tables of docs/laws.md, which `benches/laws` measured, against the advice of today.

use super::tests::{document, row};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../../docs/laws.md");

/// A row of a table: its cells by the heads of their columns.
struct Measured(BTreeMap<&'static str, &'static str>);

impl Measured {
    fn number(&self, column: &str) -> f64 {
        self.0[column].parse().unwrap_or_else(|err| panic!("{column} of {:?}: {err}", self.0))
    }

    fn has_loss(&self) -> bool {
        self.0["loss"] != "0%"
    }

    /// Returns the flags of advise for this path.
    fn flags(&self) -> String {
        let flags = ["rtt", "rate", "window", "loss", "mtu", "encap"].into_iter().filter_map(|column| {
            let value = self.0.get(column).filter(|value| **value != "-")?;
            Some(format!("--{column} {value}"))
        });
        let os = if self.0.get("control") == Some(&"cubic") { "linux" } else { "aix" };
        flags.chain([format!("--os {os}")]).collect::<Vec<_>>().join(" ")
    }

    /// Panics unless the measured rate is within `bound` of the predicted one, and advise still predicts that for `what`.
    fn check(&self, what: &str, bound: f64) {
        let (predicted, measured) = (self.number("predicted"), self.number("measured"));
        let flags = self.flags();
        assert!((measured / predicted - 1.0).abs() <= bound, "{flags}: {predicted} predicted, {measured} measured");
        let document = document(&flags);
        let today = row(&document, what, "mbps").as_f64().unwrap();
        // The table has four digits.
        assert!((today / predicted - 1.0).abs() < 1e-3, "{flags}: {today}, and not {predicted}: run benches/laws");
        assert_eq!(row(&document, what, "limited_by"), self.0["limited by"], "{flags}");
    }
}

/// Returns the rows of the table called `name`.
fn rows(name: &str) -> Vec<Measured> {
    let (_, rows) = PAGE.split_once(&format!("<!-- rows of {name} -->")).unwrap();
    let (rows, _) = rows.split_once(&format!("<!-- end of {name} -->")).unwrap();
    let cells = |line: &'static str| line.trim_matches(['|', ' ']).split(" | ");
    let mut lines = rows.lines().filter(|line| line.starts_with('|'));
    let heads: Vec<_> = cells(lines.next().unwrap_or_default()).collect();
    lines.skip(1).map(|line| Measured(heads.iter().copied().zip(cells(line)).collect())).collect()
}

#[test]
fn the_laws_hold_in_the_lab() {
    let rows = rows("hosts");
    rows.iter().for_each(|row| row.check("hosts", if row.has_loss() { 0.4 } else { 0.1 }));
    let count = |control, loss| rows.iter().filter(|row| row.0["control"] == control && row.has_loss() == loss).count();
    assert_eq!([count("cubic", false), count("reno", true), count("cubic", true)], [10, 5, 5]);
}

#[test]
fn relays_with_the_advised_files_keep_the_promise() {
    let rows = rows("relays");
    assert_eq!(rows.len(), 3);
    rows.iter().for_each(|row| row.check("relay", 0.1));
}
