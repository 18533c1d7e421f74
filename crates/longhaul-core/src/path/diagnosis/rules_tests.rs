//! Each rule, with facts of its world.

use super::facts::{Facts, Sink, Source};
use super::finding::Side;
use super::kind::Kind;
use crate::path::laws::LossResponse;
use crate::path::limit::Limit;
use longhaul_units::Rate;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Returns facts at `rate` bit/s over 63 ms, of a leg that is always busy and at the limit `limit`.
fn at(rate: f64, limit: Limit) -> Facts {
    let mut limits = [0.0; Limit::ALL.len()];
    limits[limit as usize] = 1.0;
    let (slowest, fastest, acked) = (rate * 0.95, rate * 1.05, (rate / 8.0 * 3.0) as u64);
    Facts {
        elapsed: 3000 * MS,
        carried: acked,
        is_ssh: false,
        source: Source { rtt: MS, silent: MS, ..Source::default() },
        sink: Sink {
            rtt: 64 * MS,
            min_rtt: 63 * MS,
            limits,
            busy: 1.0,
            least_window: 4 << 20,
            window: 4 << 20,
            acked,
            acked_lately: 3 * acked,
            slowest,
            fastest,
            delivery: rate,
            answers: 3000,
            mss: 1448,
            response: Some(LossResponse::Cubic),
            ..Sink::default()
        },
    }
}

fn with(facts: Facts, change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = facts;
    change(&mut facts);
    facts
}

type Case = (&'static str, Facts, Kind, Option<Side>);

/// Returns a name, the facts, and the finding, where the path is not the limit.
fn beside_the_path() -> Vec<Case> {
    let (source, sink) = (Some(Side::Source), Some(Side::Sink));
    let window = with(at(32.8e6, Limit::ReceiveWindow), |facts| {
        (facts.sink.window, facts.sink.least_window, facts.sink.limited_by_peer) = (262_144, 262_144, 0.95);
    });
    let starved = |rate| with(at(rate, Limit::Application), |facts| facts.sink.delivery = 0.0);
    vec![
        ("a small window", window, Kind::ReceiverWindow, sink),
        ("a window that closes", with(window, |facts| facts.sink.closed = 4), Kind::Application, sink),
        (
            "a kernel that reports no window",
            with(at(32.8e6, Limit::CongestionWindow), |facts| {
                (facts.sink.window, facts.sink.least_window, facts.sink.limited_by_peer) = (0, 0, 0.95);
            }),
            Kind::Unknown,
            None,
        ),
        ("no room in our buffer", at(32e6, Limit::SendBuffer), Kind::OwnSendBuffer, sink),
        ("a cap", with(at(50e6, Limit::Cap), |facts| facts.sink.cap = 50e6), Kind::Cap, sink),
        ("a sender beside us that has no more", starved(30e6), Kind::Application, source),
        ("a relay that is behind", with(starved(30e6), |facts| facts.source.behind = 0.9), Kind::Unknown, None),
        (
            "a program that writes each 100 ms",
            with(starved(20e6), |facts| facts.source = Source { rtt: 63 * MS, silent: 50 * MS, ..Source::default() }),
            Kind::Unknown,
            None,
        ),
        ("ssh", with(starved(245e6), |facts| facts.is_ssh = true), Kind::ApplicationWindow, None),
        ("ssh that is slow otherwise", with(starved(20e6), |facts| facts.is_ssh = true), Kind::Unknown, None),
        (
            "a far sender of bursts",
            with(starved(20e6), |facts| facts.source = Source { rtt: 63 * MS, silent: 25 * MS, ..Source::default() }),
            Kind::PeerSendBuffer,
            source,
        ),
        (
            "a far sender of single segments",
            with(starved(20e6), |facts| facts.source = Source { rtt: 63 * MS, silent: 2 * MS, ..Source::default() }),
            Kind::Unknown,
            None,
        ),
    ]
}

/// The same, where it is.
fn of_the_path() -> Vec<Case> {
    let sink = Some(Side::Sink);
    let path = |rate| at(rate, Limit::CongestionWindow);
    vec![
        (
            "loss of 0.1 %",
            with(path(8e6), |facts| {
                facts.sink.lost_lately = facts.sink.acked_lately / 1000;
                facts.sink.retransmitted = 1448;
            }),
            Kind::RandomLoss,
            sink,
        ),
        (
            "a loss of 0.1 % that BBR ignores",
            with(path(600e6), |facts| {
                facts.sink.lost_lately = facts.sink.acked_lately / 1000;
                facts.sink.response = Some(LossResponse::Ignores);
            }),
            Kind::LinkRate,
            sink,
        ),
        (
            "a policer",
            with(path(96e6), |facts| {
                facts.sink.lost_lately = facts.sink.acked_lately / 12;
                facts.sink.retransmitted = facts.sink.acked / 12;
            }),
            Kind::Policer,
            sink,
        ),
        (
            "a start has lost much",
            with(path(96e6), |facts| facts.sink.lost_lately = facts.sink.acked_lately / 12),
            Kind::Unknown,
            None,
        ),
        (
            "BBR on a line",
            with(path(180e6), |facts| facts.sink.response = Some(LossResponse::Ignores)),
            Kind::LinkRate,
            sink,
        ),
        ("a queue", with(path(190e6), |facts| facts.sink.rtt = 90 * MS), Kind::LinkRate, sink),
        (
            "late acknowledgements",
            with(path(60e6), |facts| (facts.sink.rtt, facts.sink.answers) = (92 * MS, 54)),
            Kind::Unknown,
            None,
        ),
        (
            "reordering",
            with(path(20e6), |facts| {
                facts.sink.retransmitted = 100 * 1448;
                (facts.sink.reorderings, facts.sink.duplicates) = (50, 90);
            }),
            Kind::Reordering,
            sink,
        ),
        ("a path that has died", with(path(0.0), |facts| facts.sink.timeouts = 3), Kind::Stalled, sink),
    ]
}

#[test]
fn each_limit_is_found() {
    for (what, facts, kind, leg) in beside_the_path().into_iter().chain(of_the_path()) {
        let finding = facts.finding();
        assert_eq!((finding.kind, finding.leg), (kind, leg), "{what}: {}", finding.evidence);
        assert!(!finding.evidence.contains("NaN") && !finding.evidence.contains("inf"), "{}", finding.evidence);
    }
    assert_eq!(Facts::default().finding().kind, Kind::Unknown);
}

#[test]
fn what_if_is_the_next_limit() {
    let facts = with(at(32.8e6, Limit::ReceiveWindow), |facts| {
        (facts.sink.window, facts.sink.least_window, facts.sink.limited_by_peer) = (262_144, 262_144, 0.95);
        facts.sink.cap = 50e6;
    });
    let finding = facts.finding();
    assert_eq!((finding.what_if, finding.then), (Some(Rate(50_000_000)), Some(Kind::Cap)), "{finding:?}");
}
