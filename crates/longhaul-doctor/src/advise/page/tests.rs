//! The page: its figures, its charts, its form. One page is compared with a checked-in file:
//! `UPDATE=1 cargo test -p longhaul-doctor --lib advise::page` writes the file; read the diff.

use super::super::tests::advice;
use super::*;
use crate::advise::advice::{SettingChange, Typed};
use crate::page::STYLE;
use crate::page::checks::{has_class, needs_nothing_from_elsewhere, parsed, text, texts};
use longhaul_core::advice::{Setting, System};
use roxmltree::Node;

/// Command lines for each kind of page, and for the ends of all ranges.
const LINES: &[&str] = &[
    "--rtt 63ms --rate 10Gbit/s --os aix,ibmi,vios,linux,solaris,windows --app ssh --bytes 2TB",
    "--rtt 63ms --rate 1Gbit/s --os linux --loss 0.1% --lan-rtt 1ms --encap wireguard",
    "--rtt 10us --rate 1kbit/s --window 512B --bytes 1B",
    "--rtt 1min --rate 10000Gbit/s --window 1GiB --loss 99.9999%",
    "--rtt 1min --rate 1kbit/s --window 512B --loss 99.9999% --mtu 576 --encap esp-cbc --connections 1",
    "--profile skytap-host",
    "--profile skytap-lan",
    "--profile skytap-vpn",
    "--profile skytap-expressroute --bytes 1TB",
];

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

/// Returns the points of a curve.
fn points(node: Node<'_, '_>) -> Vec<(f64, f64)> {
    let pairs = node.attribute("points").unwrap().split(' ').map(|pair| pair.split_once(',').unwrap());
    pairs.map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).collect()
}

/// Returns the height of a curve at `x`.
fn height(points: &[(f64, f64)], x: f64) -> f64 {
    let pair = points.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&x)).expect("the marker is inside");
    let share = (x - pair[0].0) / (pair[1].0 - pair[0].0);
    pair[0].1 + share * (pair[1].1 - pair[0].1)
}

#[test]
fn the_page_is_what_is_checked_in() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/advise.html");
    let said = page(&fixed()).replace(STYLE, "");
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(file, said).unwrap();
    }
    let before = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        said == before,
        "run UPDATE=1 cargo test -p longhaul-doctor --lib advise::page, and read the diff of {file}"
    );
}

/// Advice for a system of this test, so that a new row of the tables does not change the page.
fn fixed() -> Advice {
    let mut advice = advice("--rtt 63ms --rate 1Gbit/s --window 256KiB --app ssh --bytes 2TB --encap gre --os linux");
    let row = &advice.systems[0].settings[0].setting;
    let buffer = Setting {
        name: "buffer",
        place: "whole system",
        default: "65536",
        other_defaults: "1 since 2.0",
        caveat: "Set it first; `save` takes a minute.",
        source: "a manual",
        verified: true,
        ..**row
    };
    let scaling =
        Setting { name: "scaling", place: "interface", default: "off", caveat: "", verified: false, ..buffer };
    let change = |setting: Setting, value: &str, now: &str| SettingChange {
        read: format!("show {}", setting.name),
        set_now: now.into(),
        set_permanent: format!("set -p {}={value}\nsave", setting.name),
        undo: format!("set -d {}", setting.name),
        setting: Box::leak(Box::new(setting)),
        value: value.into(),
        is_first: false,
    };
    let settings = vec![change(scaling, "<on> & \"off\"", ""), change(buffer, "4194304", "set buffer=4194304")];
    let system = System { title: "A system <of a test>", note: "`show -all` says more.", ..*advice.systems[0].system };
    let system = Box::leak(Box::new(system));
    advice.systems = vec![Typed { system, settings }];
    advice.question.os = vec![system];
    advice.relays.sysctls = vec![("net.test", "1 2 3".into())];
    advice
}

#[test]
fn it_is_well_formed_and_needs_nothing_from_elsewhere() {
    for line in LINES {
        needs_nothing_from_elsewhere(&page(&advice(line)));
    }
}

#[test]
fn the_table_has_the_figures_of_each_row() {
    for line in LINES {
        let advice = advice(line);
        let page = page(&advice);
        let document = parsed(&page);
        let table = document.descendants().find(|node| has_class(node, "rates")).unwrap();
        let rows: Vec<Node<'_, '_>> = table.descendants().filter(|node| node.has_tag_name("tr")).skip(1).collect();
        assert_eq!(rows.len(), 5);
        for (shown, row) in rows.iter().zip(&advice.rows) {
            let prediction = &row.prediction;
            let cell = |name: &str| {
                let cell = shown.children().find(|cell| cell.attribute("data-name") == Some(name));
                cell.map(text).unwrap_or_else(|| panic!("{name}"))
            };
            assert_eq!(cell("way"), row.title());
            assert_eq!(cell("MB/s"), speed(prediction.rate));
            assert_eq!(cell("Mbit/s"), format!("{:.1}", prediction.rate.0 as f64 / 1e6));
            assert_eq!(cell("limited by"), prediction.limit.words());
            let then = prediction.then.map_or("–".into(), |(_, rate)| speed(rate));
            assert_eq!(cell("then MB/s"), then);
            if let Some(bytes) = advice.question.bytes {
                assert_eq!(cell(&format!("time for {}", size(bytes))), time(row.seconds.unwrap()));
            }
        }
    }
}

#[test]
fn every_curve_passes_through_its_dot() {
    for line in LINES {
        let advice = advice(line);
        let page = page(&advice);
        let document = parsed(&page);
        assert!(!page.contains("NaN") && !page.contains("inf,") && !page.contains(",inf"), "{line}");
        let chart = document.descendants().find(|node| has_class(node, "chart")).unwrap();
        let curves: Vec<_> = chart.children().filter(|node| node.has_tag_name("polyline")).map(points).collect();
        let dots: Vec<_> = chart.children().filter(|node| has_class(node, "dot")).collect();
        let told: Vec<_> = chart.children().filter(|node| has_class(node, "told")).collect();
        for (index, one) in told.iter().enumerate() {
            let mut others =
                told[..index].iter().filter(|other| other.attribute("text-anchor") == one.attribute("text-anchor"));
            let is_clear = |other: &Node<'_, '_>| (number(*other, "y") - number(*one, "y")).abs() > 18.0;
            assert!(others.all(is_clear), "{line}: {} covers another text", text(*one));
        }
        let has_window = advice.question.application.is_some_and(|application| application.window.is_some());
        assert_eq!((curves.len(), dots.len()), (4 + usize::from(has_window), curves.len()), "{line}");
        for (curve, dot) in curves.iter().zip(&dots) {
            let (x, y) = (number(*dot, "cx"), number(*dot, "cy"));
            // At a bend, the samples are up to 2 units apart.
            assert!((height(curve, x) - y).abs() < 2.0, "{line}: {y}, and {curve:?}");
        }
    }
}

/// The same axis: in the second chart, a row ends at the height of the dot of the limit that holds it.
#[test]
fn slow_start_ends_at_the_rate_of_its_row() {
    let page = page(&advice("--rtt 63ms --rate 10Gbit/s --os aix --app ssh"));
    let document = parsed(&page);
    let charts: Vec<_> = document.descendants().filter(|node| has_class(node, "chart")).collect();
    let dots: Vec<f64> =
        charts[0].children().filter(|node| has_class(node, "dot")).map(|dot| number(dot, "cy")).collect();
    let [line, _, hosts, application, _] = dots[..] else { panic!("{dots:?}") };
    let curves: Vec<_> = charts[1].children().filter(|node| node.has_tag_name("polyline")).map(points).collect();
    let ends: Vec<f64> = curves.iter().map(|curve| curve.last().unwrap().1).collect();
    // The relay comes first, then the rows in the order of the table.
    assert_eq!(ends, [application, hosts, application, application, line]);
    for curve in &curves {
        assert!(curve.windows(2).all(|pair| pair[1].0 >= pair[0].0 && pair[1].1 <= pair[0].1), "{curve:?}");
        assert!(curve[0].1 > curve.last().unwrap().1, "it begins below its rate");
    }
}

#[test]
fn it_has_every_command_and_marks_what_is_unverified() {
    let advice = advice(LINES[0]);
    let page = page(&advice);
    let document = parsed(&page);
    let commands = texts(&document, "pre");
    let mut unverified = 0;
    for change in advice.systems.iter().flat_map(|typed| &typed.settings) {
        let all = [&change.read, &change.set_now, &change.set_permanent, &change.undo];
        for command in all.into_iter().filter(|command| !command.is_empty()) {
            assert!(commands.contains(command), "{command}");
        }
        unverified += usize::from(!change.setting.verified);
    }
    let marks = document.descendants().filter(|node| has_class(node, "unverified")).count();
    assert!(unverified > 10 && marks == unverified, "{marks} {unverified}");
    for file in [&advice.relays.near, &advice.relays.far] {
        assert!(commands.iter().any(|command| command == file.trim_end()), "{file}");
    }
}

#[test]
fn a_profile_shows_what_contradicts_itself() {
    let page = page(&advice("--profile skytap-vpn"));
    let items = texts(&parsed(&page), "li");
    assert!(items.iter().any(|item| item.contains("An MTU of 1200 with an MSS of 1250 is impossible")), "{items:?}");
}
