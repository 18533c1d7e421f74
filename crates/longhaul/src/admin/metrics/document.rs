//! The tables of docs/metrics.md.

use super::row::{Kind, Row};
use super::sampler::{FLOWS_PER_TURN, INTERVAL};
use super::table::{SECTIONS, rows};

const DOCUMENT: &str = include_str!("../../../../../docs/metrics.md");

const HEAD: &str = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";

#[test]
fn docs_metrics_md_matches_the_table() {
    let mut document = DOCUMENT.to_string();
    for section in SECTIONS {
        let table: String = section.rows.iter().map(line).collect();
        document = with_table(&document, section.heading, &format!("{HEAD}{table}"));
    }
    if std::env::var_os("UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        return std::fs::write(file, document).expect("docs/metrics.md");
    }
    assert!(document == DOCUMENT, "run UPDATE=1 cargo test -p longhaul --lib docs_metrics_md; read the diff");
}

/// The help text has the figures of the sampler.
#[test]
fn the_help_says_how_samples_are_taken() {
    let rtt = rows().find(|row| row.name == "longhaul_leg_rtt_seconds").unwrap();
    assert_eq!((INTERVAL.as_secs(), FLOWS_PER_TURN), (10, 1000));
    assert!(rtt.help.contains("every 10 s up to 1,000 flows"), "{}", rtt.help);
}

fn line(row: &Row) -> String {
    let labels: Vec<String> = row.labels.iter().map(|label| format!("`{label}`")).collect();
    let kind = match row.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Info => "info",
    };
    format!("| `{}` | {kind} | {} | {} |\n", row.stored_name(), labels.join(", "), row.help)
}

/// Replaces the first table below `heading` by `table`.
fn with_table(document: &str, heading: &str, table: &str) -> String {
    let section = document.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let begin = section + document[section..].find("\n| ").expect("a table below the heading") + 1;
    let end = document[begin..].find("\n\n").map_or(document.len(), |end| begin + end + 1);
    format!("{}{table}{}", &document[..begin], &document[end..])
}
