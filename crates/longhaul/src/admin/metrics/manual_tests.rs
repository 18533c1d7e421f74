//! The tables of docs/metrics.md.

use super::row::Metric;
use super::sampler::{FLOWS_PER_TURN, INTERVAL};
use super::scrape::Scrape;
use super::table::{SECTIONS, rows};
use crate::admin::snapshot::{Health, ResourceState, Snapshot, TunnelState, VerifyState};
use longhaul_relay::COUNTERS;
use prometheus_client::metrics::MetricType;

const DOCUMENT: &str = include_str!("../../../../../docs/metrics.md");

const HEAD: &str = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";

#[test]
fn docs_metrics_md_matches_the_table() {
    let mut document = DOCUMENT.to_string();
    for (heading, rows) in SECTIONS.iter() {
        let table: String = rows.iter().map(line).collect();
        document = with_table(&document, heading, &format!("{HEAD}{table}"));
    }
    if std::env::var_os("UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        return std::fs::write(file, document).expect("docs/metrics.md");
    }
    assert!(document == DOCUMENT, "run UPDATE=1 cargo test -p longhaul --lib docs_metrics_md; read the diff");
}

#[test]
fn no_released_metric_is_gone() {
    let name = |row: &Metric| format!("{} {} {}", row.stored_name(), row.kind.as_str(), row.labels.join(","));
    let ends = COUNTERS.iter().filter_map(|counter| counter.sample).map(|[metric, how]| format!("{metric} how={how}"));
    crate::interface::check("metrics", rows().map(|row| name(row).trim_end().to_string()).chain(ends));
}

/// The help text has the figures of the sampler.
#[test]
fn the_help_says_how_samples_are_taken() {
    let rtt = rows().find(|row| row.name == "longhaul_leg_rtt_seconds").unwrap();
    assert_eq!((INTERVAL.as_secs(), FLOWS_PER_TURN), (10, 1000));
    assert!(rtt.help.contains("every 10 s up to 1,000 flows"), "{}", rtt.help);
}

/// Every metric that the rules, the dashboard, the template for Zabbix and the manual name is in the table, or one of the recording rules.
#[test]
fn the_rules_and_the_dashboard_name_metrics_of_the_table() {
    const RULES: &str = include_str!("../../../../../packaging/prometheus/rules.yml");
    const DASHBOARD: &str = include_str!("../../../../../packaging/grafana/longhaul.json");
    const ZABBIX: &str = include_str!("../../../../../packaging/zabbix/longhaul.yaml");
    let recorded: Vec<&str> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    let series: Vec<String> = rows().flat_map(series).collect();
    let is_known = |name: &str| recorded.contains(&name) || series.iter().any(|series| series == name);
    let files =
        [("rules.yml", RULES), ("longhaul.json", DASHBOARD), ("longhaul.yaml", ZABBIX), ("metrics.md", DOCUMENT)];
    for (file, text) in files {
        let words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_' || char == ':'));
        let named: Vec<&str> = words.filter(|word| word.contains("longhaul_")).collect();
        assert!(named.len() >= 5, "{file}");
        let unknown: Vec<&str> = named.into_iter().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{file} names no metric of the table: {unknown:?}");
    }
}

#[test]
fn the_manual_has_each_alert() {
    const RULES: &str = include_str!("../../../../../packaging/prometheus/rules.yml");
    let alerts: Vec<&str> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let described: Vec<&str> =
        DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `Longhaul")?.split('`').next()).collect();
    assert_eq!(alerts, described.iter().map(|name| format!("Longhaul{name}")).collect::<Vec<_>>());
}

/// Next hops whose addresses change add no series. The hop with most flows counts, and each one that is near the limit.
#[test]
fn the_ports_to_all_addresses_are_one_series() {
    let ports = |address: &str, used, near_since_unix_seconds| ResourceState {
        name: format!("ephemeral ports{address}"),
        kind: "ephemeral ports".into(),
        used,
        limit: Some(100.0),
        near_since_unix_seconds,
        ..ResourceState::default()
    };
    let resources = vec![
        ports("", None, None),
        ports(" to 192.0.2.1:22", Some(78.0), None),
        ports(" to 192.0.2.2:22", Some(75.0), Some(7.0)),
        ResourceState { name: "pipes".into(), kind: "pipes".into(), used: Some(3.0), ..ResourceState::default() },
    ];
    let scrape = Scrape { snapshot: Snapshot { resources, ..Snapshot::default() }, ..Scrape::default() };
    let read = |name: &str| -> Vec<String> {
        let samples = rows().find(|row| row.name == name).unwrap().samples(&scrape);
        samples.0.iter().map(|sample| format!("{}={:?}", sample.labels.join(","), sample.value)).collect()
    };
    assert_eq!(read("longhaul_resource_used"), ["ephemeral ports=Real(78.0)", "pipes=Real(3.0)"]);
    assert_eq!(read("longhaul_resource_limit"), ["ephemeral ports=Real(100.0)"]);
    assert_eq!(read("longhaul_resource_near_limit"), ["ephemeral ports=Whole(1)", "pipes=Whole(0)"]);
}

#[test]
fn a_broken_stage_is_told_until_a_newer_result_or_until_it_says_nothing() {
    let is_told = |health| {
        let verify = VerifyState { health, stage: Some("WAN".into()), ..VerifyState::default() };
        let tunnel = TunnelState { name: "t".into(), verify: Some(verify), ..TunnelState::default() };
        let snapshot = Snapshot { tunnels: vec![tunnel], ..Snapshot::default() };
        let row = rows().find(|row| row.name == "longhaul_verify_broken").unwrap();
        !row.samples(&Scrape { snapshot, ..Scrape::default() }).0.is_empty()
    };
    assert!(is_told(Health::Broken) && is_told(Health::Doubtful));
    assert!(![Health::Good, Health::Waiting, Health::Unknown].into_iter().any(is_told));
}

/// Returns the names of the series of a metric.
fn series(row: &Metric) -> Vec<String> {
    let suffixes: &[&str] =
        if matches!(row.kind, MetricType::Histogram) { &["", "_bucket", "_sum", "_count"] } else { &[""] };
    suffixes.iter().map(|suffix| row.stored_name() + suffix).collect()
}

fn line(row: &Metric) -> String {
    let labels: Vec<String> = row.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}` | {} | {} | {} |\n", row.stored_name(), row.kind.as_str(), labels.join(", "), row.help)
}

/// Replaces the first table below `heading` by `table`.
fn with_table(document: &str, heading: &str, table: &str) -> String {
    let section = document.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let begin = section + document[section..].find("\n| ").expect("a table below the heading") + 1;
    let end = document[begin..].find("\n\n").map_or(document.len(), |end| begin + end + 1);
    format!("{}{table}{}", &document[..begin], &document[end..])
}

/// A counter must not decrease, also if events of one flow are seen one after the other.
#[test]
fn no_counter_is_a_difference() {
    let mut tunnel = TunnelState { name: "t".into(), ..TunnelState::default() };
    tunnel.counters.not_allowed = 7;
    tunnel.counters.refused = 9;
    tunnel.counters.bad_proxy_headers = 3;
    let snapshot = Snapshot { tunnels: vec![tunnel], ..Snapshot::default() };
    let scrape = Scrape { snapshot, ..Scrape::default() };
    let refused = rows().find(|row| row.name == "longhaul_tunnel_refused").unwrap();
    let samples = refused.samples(&scrape);
    let values: Vec<String> =
        samples.0.iter().map(|sample| format!("{}={:?}", sample.labels[1], sample.value)).collect();
    assert_eq!(values, ["not allowed=Whole(7)", "loop=Whole(0)", "proxy header=Whole(3)", "source limit=Whole(0)"]);
}
