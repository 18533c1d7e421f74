//! Compares the page of a fixed report with a checked-in file. `UPDATE=1 cargo test -p longhaul-lab --lib report::page` writes
//! the file; read the diff.

use super::*;
use crate::interface::{check, fields};
use crate::measure::disturbance::Disturbance;
use crate::measure::sampler::Sample;
use crate::measure::sockets::Sender;
use crate::plan::place::Direction;
use crate::report::path::PathReport;
use crate::report::run::{FindingReport, RunReport, Tuned, Verdict};
use crate::world::live::LinkCounters;
use longhaul_core::path::diagnosis::{Finding, Kind, Side};
use longhaul_doctor::page::STYLE;
use longhaul_link::StageCounters;
use longhaul_units::{Bytes, Rate};
use serde_json::json;
use std::collections::BTreeMap;

/// One figure without a relay, one with, one that failed, one that was left out, one that is unclear; text that is no good.
fn report() -> Report {
    Report {
        scenario: "fixed".into(),
        about: "a <script>alert(\"1\")</script> of somebody's".into(),
        source: "a test".into(),
        kernel: "6.18.0".into(),
        cpus: 2,
        rounds: 1,
        command: "longhaul lab run fixed --html 'a page.html'".into(),
        date: "2026-11-21 15:10 UTC".into(),
        runs: runs(),
        planned: Vec::new(),
    }
}

fn run(id: &str, carrier: &str, verdict: Verdict) -> RunReport {
    let path = PathReport {
        hosts: vec!["256 KiB window".into(), "no SACK".into()],
        relays: vec!["autotuned window".into()],
        wan: vec!["63 ms round trip".into(), "1 Gbit/s".into()],
        ..PathReport::default()
    };
    RunReport {
        id: id.into(),
        what: "one copy & no more".into(),
        carrier: crate::carrier::table::find(carrier).ok(),
        traffic: crate::traffic::find("scp").unwrap(),
        connections: 1,
        path,
        rtt_ms: 63.1,
        verdict,
        ..RunReport::default()
    }
}

fn runs() -> Vec<RunReport> {
    let point = |t_s, speed| Sample { t_s, speed, cwnd: 10, rtt_ms: 63.0 + speed, ..Sample::default() };
    let loss = StageCounters { segments_in: 1000, segments_out: 990, ..StageCounters::default() };
    let out = LinkCounters { frames_in: 9, stages: vec![("loss", loss)], ..LinkCounters::default() };
    let sender =
        Sender { congestion: "reno".into(), window: Bytes(262_140), allowed: Bytes(532_864), ..Sender::default() };
    let direct = RunReport {
        measured: Some(3.93),
        published: Some(vec![3.6]),
        computed: Some(4.16),
        formula: Some("window / RTT"),
        gain_over_direct: Some(1.0),
        window_bytes: Some(262_140),
        bytes_ok: Some(true),
        why: "the window".into(),
        link: Some([out, LinkCounters::default()]),
        series: vec![point(0.25, 1.0), point(0.5, 4.0), point(0.75, 4.1)],
        host_sender: Some(sender.clone()),
        wan_sender: Some(sender),
        ..run("plain", "direct", Verdict::Pass)
    };
    let longhaul = RunReport {
        measured: Some(29.6),
        published_gain: Some(vec![7.0, 10.0]),
        gain_over_direct: Some(29.6 / 3.93),
        direct: Some(0),
        tuned: Some(Tuned { computed: 33.29, formula: "OpenSSH's 2 MiB / RTT" }),
        why: "OpenSSH sends 2 MiB ahead".into(),
        spread: BTreeMap::from([("measured_MBps".to_string(), [28.0, 31.0])]),
        shown: vec!["near: longhaul relay --listen 6000 --to \"10.99.0.2:6000\"".into()],
        relay_cpu_s: 0.25,
        ..run("relayed", "longhaul", Verdict::Pass)
    };
    let failed = RunReport { why: "`socat` ended\u{1b}[1m with 1".into(), ..run("relayed", "socat", Verdict::Fail) };
    let skipped = RunReport {
        why: "it cannot be emulated".into(),
        published: Some(vec![2.0, 5.0]),
        ..run("left-out", "-", Verdict::Skip)
    };
    let unclear = RunReport {
        measured: Some(20.0),
        disturbance: Disturbance {
            late_p50_ms: Some(0.05),
            late_p99_ms: Some(6.5),
            late_max_ms: Some(14.2),
            outside_share: 0.38,
            steal_share: 0.0,
            lab_share: 0.5,
            disturbed: true,
        },
        attempts: 3,
        why: "20.00 MB/s, expected at least 26.00; packets left the link up to 14 ms late: other programs took 38 % of the \
              processor"
            .into(),
        ..run("busy", "longhaul", Verdict::Unclear)
    };
    vec![direct, longhaul, failed, skipped, unclear]
}

/// Fails where a tag is not closed or an attribute is not quoted.
fn parsed(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(page, options).unwrap_or_else(|err| panic!("{err}"))
}

#[test]
fn the_page_is_what_is_checked_in() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/fixed.html");
    let said = page(&[report()]).replace(STYLE, "");
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(file, said).unwrap();
    }
    let before = std::fs::read_to_string(file).unwrap_or_default();
    assert!(said == before, "run UPDATE=1 cargo test -p longhaul-lab --lib report::page, and read the diff of {file}");
}

#[test]
fn it_is_well_formed_and_needs_nothing_from_elsewhere() {
    for reports in [vec![report()], vec![report(), report()], vec![], vec![Report { runs: Vec::new(), ..report() }]] {
        let page = page(&reports);
        let document = parsed(&page);
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let name = node.tag_name().name();
            assert!(!["script", "link", "img", "iframe", "object", "base", "image", "use"].contains(&name), "<{name}>");
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on") && attribute.name() != "src", "{}", attribute.name());
                assert!(attribute.name() != "href" || attribute.value().starts_with('#'), "{}", attribute.value());
            }
        }
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
        assert!(!page.contains("@import"));
    }
}

#[test]
fn text_of_scenarios_and_programs_stays_text() {
    let page = page(&[report()]);
    assert!(page.contains("a &lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; of somebody"), "{page}");
    assert!(!page.contains("<script") && !page.contains('\u{1b}'));
}

#[test]
fn the_verdict_says_what_a_relay_gives_and_what_tuning_would() {
    let report = report();
    let mut html = Html::default();
    words::verdict(&mut html, &report, &group::groups(&report));
    let text = html.into_text();
    for said in [
        "With longhaul this scp copy is 7.5 times as fast: 29.6 instead of 3.93 MB/s.",
        "Tuning the hosts alone would give at most 33.3 MB/s (computed). The limit is then OpenSSH's 2 MiB / RTT.",
        "The limit with longhaul: OpenSSH sends 2 MiB ahead.",
        "5 runs: 2 came out as expected, 1 did not, 1 unclear, 1 left out.",
        "<code>relayed</code> over socat",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let nothing = Report { runs: report.runs[2..4].to_vec(), ..report };
    assert!(super::page(&[nothing]).contains("Nothing was measured: every run failed or was left out."));
}

#[test]
fn no_released_field_of_the_document_is_gone() {
    let mut report = report();
    let finding = Finding { what_if: Some(Rate(1)), then: Some(Kind::LinkRate), ..Finding::unknown(String::new()) };
    let finding = Finding { leg: Some(Side::Source), ..finding };
    let full = &mut report.runs[0];
    full.finding = Some(FindingReport::of(&finding, Direction::Out, true));
    (full.cut, full.wrong, full.figures) = (1, vec![String::new()], BTreeMap::from([("p99_ms".into(), 1.0)]));
    (full.series[0].outside, full.series[0].answer) = (Some(1.0), Some(1.0));
    (full.path.wan_out, full.path.wan_back) = (vec![String::new()], vec![String::new()]);
    let mut document = serde_json::to_value(&report).unwrap();
    // Their names are those of the traffic and of the link's stages.
    for run in document["runs"].as_array_mut().unwrap() {
        for place in ["/figures", "/spread", "/link/out", "/link/back"] {
            let Some(named) = run.pointer_mut(place) else { continue };
            let first = named.as_object().and_then(|named| named.values().next()).cloned();
            *named = first.map_or(json!({}), |value| json!({"NAME": value}));
        }
    }
    check("lab", fields(&[document]));
}
