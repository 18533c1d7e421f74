//! The page of a measured path: a real one, parts of one, and values that somebody else wrote.

use super::*;
use crate::measure::document::{Finding, Run, Ways};
use crate::page::checks::{has_class, needs_nothing_from_elsewhere, parsed, text, texts};
use crate::path::parse;
use proptest::prelude::*;

const SAVED: &[u8] = include_bytes!("../../../tests/page/path.json");

/// Returns a measured path: 1 Gbit/s, 63 ms, and a receive window of 64 KiB on the far host.
pub(crate) fn measured() -> Document {
    parse(SAVED).and_then(Document::checked).unwrap()
}

/// Returns what one end alone measures.
fn one_sided() -> Document {
    let text = br#"{"longhaul": "path", "format": 1, "to": "10.0.0.1:22", "command": "longhaul path 10.0.0.1:22", "version": "0.1.0",
        "complete": false, "ended": null, "far": {"name": "", "version": ""}, "mss": 1460, "bdp_bytes": null, "runs": [], "findings": [],
        "rtt_ms": {"min": 63.1, "idle": [63.1, 63.2, 64.0], "loaded_up": null, "loaded_down": null},
        "rate_mbps": {"up": null, "down": null}, "mtu_ladder": {"up": [], "down": []}, "notes": ["an SSH server answers at 10.0.0.1:22"]}"#;
    parse(text).and_then(Document::checked).unwrap()
}

#[test]
fn the_verdict_comes_first() {
    let page = page(&measured(), None);
    needs_nothing_from_elsewhere(&page);
    let document = parsed(&page);
    let headlines: Vec<String> = document.descendants().filter(|node| has_class(node, "headline")).map(text).collect();
    let up = "Up, one connection carries 5.45\u{a0}Mbit/s. It is limited by the receive window of the far host. Without that limit it would \
        carry 473\u{a0}Mbit/s, limited by the send buffer of this host.";
    assert_eq!(headlines[0], up);
    assert_eq!(headlines.len(), 2);
    let sections = texts(&document, "h3");
    let expected = ["What limits a transfer", "The path", "Each run over time", "Round trips", "Path MTU"];
    assert_eq!(sections, expected);
    assert!(!page.contains("unclear\""), "it is whole");
    assert!(texts(&document, "dd").iter().any(|text| text.starts_with("Raise the receive buffer")));
}

#[test]
fn every_run_is_a_line_and_every_size_a_step() {
    let path = measured();
    let page = page(&path, None);
    let document = parsed(&page);
    let curves = document.descendants().filter(|node| node.has_tag_name("polyline")).count();
    // The rate of the line in both directions, and three distributions.
    assert_eq!(curves, path.runs.len() + 2 + 3);
    let steps = |class| document.descendants().filter(|node| has_class(node, "step") && has_class(node, class)).count();
    let tried = path.mtu_ladder.up.as_ref().unwrap();
    let arrived = tried.iter().filter(|(_, has_arrived)| *has_arrived).count();
    // The legend has one of each.
    assert_eq!((steps("arrived"), steps("lost")), (2 * arrived + 1, 2 * (tried.len() - arrived) + 1));
    assert!(page.contains("Arrived: 576 to 1500 bytes."));
    let table = document.descendants().find(|node| node.has_tag_name("tbody")).unwrap();
    let rows: Vec<String> =
        table.children().filter(|node| node.is_element()).map(|row| text(row).replace('\n', "|")).collect();
    assert_eq!(rows[1], "|one connection|5.45 Mbit/s|415 Mbit/s|");
}

#[test]
fn one_end_alone_has_a_page() {
    let page = page(&one_sided(), None);
    needs_nothing_from_elsewhere(&page);
    let document = parsed(&page);
    assert_eq!(texts(&document, "h3"), ["What limits a transfer", "Notes", "The path", "Round trips"]);
    assert!(
        page.contains("No transfer was measured: the notes say why.")
            && page.contains("What limits this path is not known.")
    );
    assert!(page.contains(
        "Not measured: rate of the line; one connection; loss; reordering; round trip, loaded; queue of others; path MTU."
    ));
    assert!(page.contains("an SSH server answers"));
    assert_eq!(texts(&document, "code"), ["longhaul path 10.0.0.1:22"]);
}

#[test]
fn the_result_of_the_lab_stands_behind_the_verdict() {
    let text = |rtt: &str, carrier: &str| {
        format!(
            r#"{{"scenario": "mine", "kernel": "6.18.5", "cpus": 2, "command": "longhaul lab run mine.toml --json", "date": "2026-11-29 19:50 UTC",
            "runs": [{{"what": "one connection", "carrier": "direct", "rtt_ms": {rtt}, "measured_MBps": 4.1, "gain_over_direct": 1.0,
                "verdict": "pass", "finding": {{"kind": "receiver-window"}}, "topology": {{"hosts": ["44 KB window"], "wan": ["63 ms round trip"]}}}},
            {{"what": "one connection", "carrier": "{carrier}", "rtt_ms": {rtt}, "measured_MBps": 29, "gain_over_direct": 7.07, "verdict": "unclear"}},
            {{"what": "skipped", "carrier": "-", "measured_MBps": null}}]}}"#
        )
    };
    let lab = |rtt, carrier| Lab::parsed(text(rtt, carrier).as_bytes()).unwrap();
    let page = |lab: &Lab| super::page(&measured(), Some(lab));
    let with_lab = page(&lab("63.1", "longhaul"));
    needs_nothing_from_elsewhere(&with_lab);
    let document = parsed(&with_lab);
    assert_eq!(texts(&document, "h3")[..2], ["What limits a transfer", "In the lab"]);
    let said = "This path, these hosts: direct 4.10, longhaul 29.0\u{a0}MB/s, measured in the lab.";
    assert!(with_lab.contains(said) && with_lab.contains("Hosts: 44 KB window. WAN: 63 ms round trip."), "{with_lab}");
    assert!(texts(&document, "td").contains(&"receiver window".to_string()) && !with_lab.contains("skipped"));
    assert!(!with_lab.contains("may be of another path"));
    assert!(with_lab.contains("The lab's verdict on longhaul is unclear: run it again."));
    let doubtful = page(&lab("34", "<b>\\u001b"));
    needs_nothing_from_elsewhere(&doubtful);
    assert!(doubtful.contains("The lab's round trip is 34.0 ms, and that of this path 63."), "{doubtful}");
}

#[test]
fn a_part_says_so_at_the_top() {
    let partial = |ended: &str| page(&Document { complete: false, ended: Some(ended.into()), ..measured() }, None);
    for (ended, said) in [
        ("interrupted", "The measurement was interrupted"),
        ("no answer <b>", "The session was lost (no answer &lt;b&gt;)"),
    ] {
        let page = partial(ended);
        needs_nothing_from_elsewhere(&page);
        assert!(page.find(said).unwrap() < page.find("<section>").unwrap(), "{said}");
    }
}

#[test]
fn what_somebody_else_wrote_is_escaped() {
    let hostile = "<script>alert(1)</script>\" onload=\"x\u{202e}\u{1b}[31m";
    let mut path = measured();
    path.to = hostile.into();
    path.far.name = hostile.into();
    path.notes = vec![hostile.into()];
    path.findings[0].evidence = hostile.into();
    path.findings[0].kind = hostile.into();
    path.runs[0].congestion = hostile.into();
    let page = page(&path.checked().unwrap(), None);
    needs_nothing_from_elsewhere(&page);
    assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn a_value_that_no_path_has_is_refused() {
    let with = |field: &str| {
        let text = format!(r#"{{"longhaul": "path", "format": 1, {field}}}"#);
        parse(text.as_bytes()).and_then(Document::checked).expect_err(field)
    };
    assert!(
        with(r#""rate_mbps": {"up": -1}"#)
            .starts_with("rate_mbps is -1, and no path has that: it is from 0 to 10000000; measure again")
    );
    assert!(with(r#""loss": {"down": 1.5}"#).contains("loss is 1.5"));
    assert!(with(r#""rtt_ms": {"min": 1e12}"#).contains("rtt_ms.min"));
    assert!(with(r#""runs": [{"direction": "up", "connections": 1, "payload_mbps": 1e99}]"#).contains("payload_mbps"));
    assert!(with(r#""runs": [{"direction": "along"}]"#).contains("unknown variant"));
    assert!(with(r#""notes": 5"#).contains("invalid type"));
}

/// Any text but backticks, which mark commands.
const TEXT: &str = "[\\PC&&[^`]]*";

/// Returns values of every kind, within their ranges.
fn anything() -> impl Strategy<Value = Document> {
    let direction = || prop_oneof![Just(Direction::Up), Just(Direction::Down)];
    let number = || prop_oneof![Just(0.0), Just(1e-9), 0.0..1e6];
    let pairs = || proptest::collection::vec((number(), number()), 0..9);
    let run = (direction(), any::<u32>(), TEXT, any::<u32>(), number(), number(), pairs()).prop_map(
        |(direction, connections, congestion, mss, seconds, payload_mbps, pairs)| Run {
            direction,
            connections,
            congestion,
            mss,
            seconds: seconds / 1e3,
            payload_mbps,
            transfer_time_ratio: Some(payload_mbps),
            tcp_efficiency: None,
            buffer_delay: Some(seconds),
            series: pairs.iter().map(|(at, bytes)| (*at, *bytes as u64)).collect(),
            rtt_ms: pairs,
        },
    );
    let finding = (direction(), TEXT, TEXT, proptest::option::of(number()), proptest::option::of(TEXT));
    let finding = finding.prop_map(|(direction, kind, evidence, what_if_mbps, then_limited_by)| Finding {
        kind,
        direction,
        evidence: evidence.clone(),
        what_if_mbps,
        then_limited_by,
        advice: evidence,
    });
    let ladder = || proptest::option::of(proptest::collection::vec(any::<(u32, bool)>(), 0..9));
    let lists = (
        proptest::collection::vec(run, 0..5),
        proptest::collection::vec(finding, 0..3),
        proptest::collection::vec(number(), 0..5),
    );
    let ways = (proptest::option::of(number()), proptest::option::of(any::<u32>()), ladder(), ladder());
    (lists, ways, TEXT, any::<bool>()).prop_map(|((runs, findings, idle), (rate, mtu, up, down), to, complete)| {
        let mut path = Document { to, complete, runs, findings, ..Document::default() };
        path.rate_mbps.up = rate;
        path.path_mtu.down = mtu;
        path.rtt_ms.idle = idle;
        path.mtu_ladder = Ways { up, down };
        path.checked().unwrap()
    })
}

proptest! {
    #[test]
    fn no_text_panics(at in 0..SAVED.len(), byte: u8) {
        let mut text = SAVED.to_vec();
        text[at] = byte;
        let _ = parse(&text).and_then(Document::checked);
    }

    #[test]
    fn any_path_has_a_page(path in anything()) {
        needs_nothing_from_elsewhere(&page(&path, None));
    }
}
