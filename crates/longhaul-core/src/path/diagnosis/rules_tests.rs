//! Each rule, with facts of its world.

use super::facts::{Facts, Processor, Sink, Source};
use super::finding::Side;
use super::kind::Kind;
use super::watch::{Looks, Watch};
use crate::path::laws::LossResponse;
use crate::path::limit::Limit;
use crate::path::sample::Sample;
use longhaul_units::Rate;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Returns facts at `rate` bit/s over 63 ms, of a leg that is always busy and at the limit `limit`.
fn at(rate: f64, limit: Limit) -> Facts {
    let mut limits = [0.0; Limit::ALL.len()];
    limits[limit as usize] = 1.0;
    let (slowest, fastest, acked) = (rate * 0.95, rate * 1.05, (rate / 8.0 * 3.0) as u64);
    Facts {
        elapsed: 3000 * MS,
        carried: acked,
        source: Source { rtt: MS, silent: MS, ..Source::default() },
        sink: Sink {
            rtt: 64 * MS,
            min_rtt: 63 * MS,
            first_min_rtt: 63 * MS,
            limits,
            busy: 1.0,
            least_window: 4 << 20,
            window: 4 << 20,
            acked,
            acked_in_all: 10 * acked,
            acked_lately: 3 * acked,
            slowest,
            fastest,
            first_fastest: fastest,
            delivery: rate,
            answers: 3000,
            mss: 1448,
            response: Some(LossResponse::Cubic),
            ..Sink::default()
        },
        ..Facts::default()
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
        ("a full window that fills the line", with(window, |facts| facts.sink.rtt = 90 * MS), Kind::LinkRate, sink),
        (
            "a full window in a queue that comes and goes",
            with(window, |facts| (facts.sink.rtt, facts.sink.slowest) = (90 * MS, 20e6)),
            Kind::Unknown,
            None,
        ),
        (
            "a full window in a queue that stood before",
            with(window, |facts| (facts.sink.rtt, facts.sink.first_min_rtt) = (90 * MS, 80 * MS)),
            Kind::CongestedQueue,
            sink,
        ),
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
            "a relay that computes all the time",
            with(starved(30e6), |facts| (facts.source.behind, facts.processor.computed) = (0.9, 0.97)),
            Kind::Cpu,
            None,
        ),
        (
            "a relay with a quota",
            with(starved(30e6), |facts| (facts.source.behind, facts.processor.throttled) = (0.5, 0.6)),
            Kind::Cpu,
            None,
        ),
        (
            "a relay that computes for other flows",
            with(starved(30e6), |facts| facts.processor = Processor { computed: 1.5, throttled: 0.6 }),
            Kind::Application,
            source,
        ),
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
            with(starved(20e6), |facts| {
                facts.source = Source { rtt: 63 * MS, receive_rtt: 64 * MS, silent: 25 * MS, ..Source::default() }
            }),
            Kind::PeerSendBuffer,
            source,
        ),
        (
            "a far program that writes each 52 ms",
            with(starved(20e6), |facts| {
                facts.source = Source { rtt: 63 * MS, receive_rtt: 104 * MS, silent: 25 * MS, ..Source::default() }
            }),
            Kind::Unknown,
            None,
        ),
        (
            "a far sender without timestamps",
            with(starved(20e6), |facts| facts.source = Source { rtt: 63 * MS, silent: 25 * MS, ..Source::default() }),
            Kind::Unknown,
            None,
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
                (facts.sink.retransmitted, facts.sink.loss_dispersion) = (1448, 1.2);
            }),
            Kind::RandomLoss,
            sink,
        ),
        (
            "losses that come together",
            with(path(8e6), |facts| {
                facts.sink.lost_lately = facts.sink.acked_lately / 1000;
                (facts.sink.retransmitted, facts.sink.loss_dispersion) = (1448, 9.0);
            }),
            Kind::Unknown,
            None,
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
            "a queue that stood before",
            with(path(21e6), |facts| (facts.sink.rtt, facts.sink.first_min_rtt) = (130 * MS, 80 * MS)),
            Kind::CongestedQueue,
            sink,
        ),
        (
            "the same, and the others have ended",
            with(path(95e6), |facts| {
                (facts.sink.rtt, facts.sink.first_min_rtt, facts.sink.first_fastest) = (130 * MS, 80 * MS, 24e6);
            }),
            Kind::Unknown,
            None,
        ),
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
        (
            "a path that has died",
            with(path(0.0), |facts| (facts.sink.timeouts, facts.sink.acked_in_all) = (3, 1 << 20)),
            Kind::Stalled,
            sink,
        ),
        (
            "a path that has passed small segments alone",
            with(path(0.0), |facts| (facts.sink.timeouts, facts.sink.acked_in_all) = (3, 1500)),
            Kind::MtuBlackHole,
            sink,
        ),
        (
            "the same, of small segments",
            with(path(0.0), |facts| (facts.sink.timeouts, facts.sink.acked_in_all, facts.sink.mss) = (3, 1500, 536)),
            Kind::Stalled,
            sink,
        ),
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

#[test]
fn losses_that_come_together_are_told_from_single_ones() {
    // Twelve segments each are lost in three seconds: one in each look, or all in one.
    let dispersion = |lost: fn(u64) -> u64| {
        let (began, mut watch, mut facts) = (Instant::now(), Watch::default(), None);
        for look in 0..=12 {
            let sink = Sample {
                rtt: 63 * MS,
                min_rtt: 63 * MS,
                mss_bytes: 1448,
                acked_bytes: 1_000_000 * look,
                retransmitted_bytes: 1448 * lost(look),
                ..Sample::default()
            };
            let looks = Looks { source: Sample::default(), sink, carried: 1_000_000 * look };
            facts = facts.or(watch.look(began + 250 * MS * look as u32, &looks, || None));
        }
        let sink: Sink = facts.unwrap().sink;
        assert_eq!(sink.lost_lately, 12 * 1448);
        sink.loss_dispersion
    };
    assert!(dispersion(|look| look) < 0.01);
    assert!(dispersion(|look| if look < 5 { 0 } else { 12 }) > 10.0);
    assert!((0.5..1.5).contains(&dispersion(|look| [0, 1, 1, 3, 4, 4, 6, 7, 7, 7, 10, 11, 12][look as usize])));
}
