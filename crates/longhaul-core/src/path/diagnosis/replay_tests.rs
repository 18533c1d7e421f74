//! Looks at live flows in worlds of the lab, as a relay took them, and the findings that they must have.
//!
//! A file in `looks/` is a world. A line is a look: the time in ms, the bytes carried, those that the sink's host acknowledged on all flows to
//! it, and the fields of [`Sample`] that [`Watch`] uses, first of the source and then of the sink, in the order of [`sample`].

use super::finding::Finding;
use super::kind::Kind;
use super::watch::{Looks, Watch};
use crate::path::laws::LossResponse;
use crate::path::sample::Sample;
use std::time::{Duration, Instant};

fn sample(numbers: &mut impl Iterator<Item = u64>) -> Sample {
    let mut next = || numbers.next().expect("a number");
    let micros = Duration::from_micros;
    Sample {
        rtt: micros(next()),
        min_rtt: micros(next()),
        in_flight_segments: next() as u32,
        mss_bytes: next() as u32,
        cwnd_segments: next() as u32,
        acked_bytes: next(),
        retransmitted_bytes: next(),
        duplicates: next() as u32,
        reorderings: next() as u32,
        timeouts: next() as u8,
        receive_rtt: micros(next()),
        received_bytes: next(),
        received_segments: next() as u32,
        out_of_order: next() as u32,
        since_received: micros(next()),
        unsent_bytes: next(),
        is_blocked: next() == 1,
        peer_window: next(),
        pacing_rate: next(),
        max_pacing_rate: Some(next()).filter(|rate| *rate > 0),
        delivery_rate: next(),
        is_app_limited: next() == 1,
        busy: micros(next()),
        limited_by_peer: micros(next()),
        limited_by_send_buffer: micros(next()),
        ..Sample::default()
    }
}

/// Returns the finding of each window.
fn replay(text: &str) -> Vec<Finding> {
    let (began, mut watch) = (Instant::now(), Watch::default());
    let mut lines = text.lines();
    let control = lines.next().expect("the congestion control");
    let findings = lines.filter_map(|line| {
        let mut numbers = line.split(' ').map(|number| number.parse().expect(line));
        let mut next = || numbers.next().expect(line);
        let (at, carried, line_acked) = (began + Duration::from_millis(next()), next(), next());
        let looks = Looks { source: sample(&mut numbers), sink: sample(&mut numbers), carried, line_acked };
        let facts = watch.look(at, &looks, || LossResponse::of(control))?;
        Some(facts.finding())
    });
    findings.collect()
}

#[test]
fn a_recorded_world_has_its_finding_or_none() {
    for (name, text, kind, least) in WORLDS {
        let findings = replay(text);
        let told: Vec<String> = findings.iter().map(|found| format!("{}: {}", found.kind, found.evidence)).collect();
        let wrong = findings.iter().filter(|found| ![*kind, Kind::Unknown].contains(&found.kind)).count();
        let right = findings.iter().filter(|found| found.kind == *kind).count();
        assert!(wrong == 0 && right >= *least, "{name}: {told:#?}");
    }
}

/// The worlds: name, looks, limit, and the least number of windows, of five, that must show it.
const WORLDS: &[(&str, &str, Kind, usize)] = &[
    ("slow-app-far", include_str!("looks/slow-app-far"), Kind::Unknown, 5),
    ("slow-reader", include_str!("looks/slow-reader"), Kind::Application, 4),
    ("policer-bbr", include_str!("looks/policer-bbr"), Kind::Policer, 3),
    ("shallow-bbr", include_str!("looks/shallow-bbr"), Kind::Unknown, 5),
    ("shallow-cubic", include_str!("looks/shallow-cubic"), Kind::Unknown, 5),
    ("eight-flows", include_str!("looks/eight-flows"), Kind::LinkRate, 2),
    ("link-1000-cubic", include_str!("looks/link-1000-cubic"), Kind::LinkRate, 3),
    ("queue-cubic", include_str!("looks/queue-cubic"), Kind::Unknown, 5),
    ("queue-bbr", include_str!("looks/queue-bbr"), Kind::CongestedQueue, 3),
];
