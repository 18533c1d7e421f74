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
            mean_window: 4 << 20,
            acked,
            acked_in_all: 10 * acked,
            acked_lately: 3 * acked,
            slowest,
            fastest,
            first_fastest: fastest,
            later_fastest: fastest,
            best_delivery: rate,
            delivery: rate,
            answers: 3000,
            mss: 1448,
            response: Some(LossResponse::Cubic),
            line_rate: fastest,
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

/// A name, the facts, and the finding.
type Case = (&'static str, Facts, Kind, Option<Side>);

fn unknown(what: &'static str, facts: Facts) -> Case {
    (what, facts, Kind::Unknown, None)
}

fn windows_and_caps() -> Vec<Case> {
    let sink = Some(Side::Sink);
    let window = with(at(32.8e6, Limit::ReceiveWindow), |facts| {
        (facts.sink.window, facts.sink.mean_window, facts.sink.limited_by_peer) = (262_144, 255_000, 0.95);
    });
    let queued = with(window, |facts| facts.sink.rtt = 90 * MS);
    let before = with(queued, |facts| facts.sink.first_min_rtt = 80 * MS);
    let not_reported = with(at(32.8e6, Limit::CongestionWindow), |facts| {
        (facts.sink.window, facts.sink.mean_window, facts.sink.limited_by_peer) = (0, 0, 0.95);
    });
    vec![
        ("a small window", window, Kind::ReceiverWindow, sink),
        ("a full window that fills the line", queued, Kind::LinkRate, sink),
        unknown("a queue that others have brought", with(queued, |facts| facts.sink.first_fastest = 50e6)),
        unknown("a queue that comes and goes", with(queued, |facts| facts.sink.slowest = 20e6)),
        ("a full window in a queue that stood before", before, Kind::CongestedQueue, sink),
        ("a window that closes", with(window, |facts| facts.sink.closed = 4), Kind::Application, sink),
        unknown("a window that closes once", with(window, |facts| facts.sink.closed = 1)),
        (
            "the same, and late answers",
            with(window, |facts| (facts.sink.closed, facts.sink.answers) = (1, 54)),
            Kind::Application,
            sink,
        ),
        unknown("a kernel that reports no window", not_reported),
        ("no room in our buffer", at(32e6, Limit::SendBuffer), Kind::OwnSendBuffer, sink),
        ("a cap", with(at(50e6, Limit::Cap), |facts| facts.sink.cap = 50e6), Kind::Cap, sink),
    ]
}

/// Returns facts at `rate` of a leg with nothing to send.
fn starved(rate: f64) -> Facts {
    with(at(rate, Limit::Application), |facts| facts.sink.delivery = 0.0)
}

fn relays() -> Vec<Case> {
    let computes = with(starved(30e6), |facts| (facts.source.behind, facts.processor.computed) = (0.9, 0.97));
    let quota = with(at(300e6, Limit::SendBuffer), |facts| {
        (facts.source.behind, facts.processor.throttled, facts.sink.busy) = (1.0, 0.85, 0.46);
    });
    let others = with(starved(30e6), |facts| facts.processor = Processor { computed: 1.5, throttled: 0.6 });
    vec![
        unknown("a relay that is behind", with(starved(30e6), |facts| facts.source.behind = 0.9)),
        ("a relay that computes all the time", computes, Kind::Cpu, None),
        ("a relay with a quota, at looks that find its send buffer full", quota, Kind::Cpu, None),
        ("a relay that computes for other flows", others, Kind::Application, Some(Side::Source)),
    ]
}

fn senders() -> Vec<Case> {
    let source = Some(Side::Source);
    let bursts = with(starved(20e6), |facts| {
        (facts.source.rtt, facts.source.receive_rtt, facts.source.silent) = (63 * MS, 64 * MS, 25 * MS);
        facts.source.is_in_order = true;
    });
    vec![
        ("a sender beside us that has no more", starved(30e6), Kind::Application, source),
        ("ssh", with(starved(245e6), |facts| facts.is_ssh = true), Kind::ApplicationWindow, None),
        unknown("ssh that is slow otherwise", with(starved(20e6), |facts| facts.is_ssh = true)),
        ("a far sender of bursts", bursts, Kind::PeerSendBuffer, source),
        unknown("a far program that waits for answers", with(bursts, |facts| facts.source.answered = 47)),
        unknown("its congestion window is small since a loss", with(bursts, |facts| facts.source.is_in_order = false)),
        unknown("a far program that writes each 52 ms", with(bursts, |facts| facts.source.receive_rtt = 104 * MS)),
        unknown("a far program that writes each 100 ms", with(bursts, |facts| facts.source.silent = 50 * MS)),
        unknown("a far sender without timestamps", with(bursts, |facts| facts.source.receive_rtt = Duration::ZERO)),
        unknown("a far sender of single segments", with(bursts, |facts| facts.source.silent = 2 * MS)),
    ]
}

/// Returns facts at `rate` of a leg that its congestion control holds back.
fn path(rate: f64) -> Facts {
    at(rate, Limit::CongestionWindow)
}

fn losses() -> Vec<Case> {
    let sink = Some(Side::Sink);
    let single = with(path(8e6), |facts| {
        facts.sink.lost_lately = facts.sink.acked_lately / 1000;
        (facts.sink.retransmitted, facts.sink.loss_dispersion) = (1448, 1.2);
    });
    let ignored = with(path(600e6), |facts| {
        facts.sink.lost_lately = facts.sink.acked_lately / 1000;
        facts.sink.response = Some(LossResponse::Ignores);
    });
    let start = with(path(96e6), |facts| facts.sink.lost_lately = facts.sink.acked_lately / 12);
    let policed = with(start, |facts| {
        facts.sink.lossy_windows = 1.8;
        (facts.sink.loss_dispersion, facts.sink.best_delivery) = (500.0, 120e6);
    });
    let first = with(policed, |facts| {
        (facts.sink.retransmitted, facts.sink.lossy_windows) = (facts.sink.acked / 12, 1.0);
        (facts.sink.later_fastest, facts.sink.response) = (0.0, Some(LossResponse::Ignores));
    });
    let reordered = with(path(20e6), |facts| {
        facts.sink.retransmitted = 100 * 1448;
        (facts.sink.reorderings, facts.sink.duplicates) = (50, 90);
    });
    let late = with(reordered, |facts| facts.sink.rtt = 80 * MS);
    vec![
        ("loss of 0.1 %", single, Kind::RandomLoss, sink),
        unknown("losses that come together", with(single, |facts| facts.sink.loss_dispersion = 9.0)),
        ("a loss of 0.1 % that BBR ignores", ignored, Kind::LinkRate, sink),
        ("a policer", policed, Kind::Policer, sink),
        ("a policer, in a short run", first, Kind::Policer, sink),
        unknown(
            "CUBIC after the losses of its start",
            with(first, |facts| facts.sink.response = Some(LossResponse::Cubic)),
        ),
        unknown("a queue of a few packets", with(policed, |facts| facts.sink.best_delivery = 97e6)),
        unknown("much is lost at random", with(policed, |facts| facts.sink.loss_dispersion = 1.1)),
        unknown("a start has lost much", with(policed, |facts| facts.sink.lossy_windows = 0.8)),
        ("reordering", reordered, Kind::Reordering, sink),
        ("reordering by more than a tenth of the round trip", late, Kind::Reordering, sink),
        unknown("a path that duplicates", with(reordered, |facts| facts.sink.reorderings = 0)),
        unknown("timeouts in a queue", with(late, |facts| facts.sink.reorderings = 3)),
        unknown("few sent again, for nothing", with(reordered, |facts| facts.sink.acked *= 20)),
    ]
}

fn lines() -> Vec<Case> {
    let sink = Some(Side::Sink);
    let bbr = with(path(180e6), |facts| facts.sink.response = Some(LossResponse::Ignores));
    let own = with(path(190e6), |facts| (facts.sink.rtt, facts.sink.constant_windows) = (90 * MS, 1.8));
    let long = with(bbr, |facts| (facts.sink.rtt, facts.sink.constant_windows) = (140 * MS, 1.8));
    let siblings = with(long, |facts| (facts.sink.line_rate, facts.sink.slowest) = (1440e6, 100e6));
    let lossy = with(bbr, |facts| facts.sink.lost_lately = facts.sink.acked_lately / 25);
    let late = with(path(60e6), |facts| (facts.sink.rtt, facts.sink.answers) = (92 * MS, 54));
    let dead = with(path(0.0), |facts| (facts.sink.timeouts, facts.sink.acked_in_all) = (3, 1 << 20));
    let hole = with(dead, |facts| facts.sink.acked_in_all = 1500);
    vec![
        ("BBR on a line", bbr, Kind::LinkRate, sink),
        unknown("the relay is held back often", with(bbr, |facts| facts.processor.throttled = 0.3)),
        ("a queue, and a constant rate", own, Kind::LinkRate, sink),
        unknown("a queue, and a constant rate for a while", with(own, |facts| facts.sink.constant_windows = 1.0)),
        unknown("BBR in a long queue, at a constant rate", long),
        ("one of eight flows that have the line together", siblings, Kind::LinkRate, sink),
        unknown("BBR behind a queue of a few packets, or a policer", lossy),
        unknown("late acknowledgements", late),
        ("a path that has died", dead, Kind::Stalled, sink),
        ("a path that has passed small segments alone", hole, Kind::MtuBlackHole, sink),
        ("the same, of small segments", with(hole, |facts| facts.sink.mss = 536), Kind::Stalled, sink),
    ]
}

fn queues_of_others() -> Vec<Case> {
    let sink = Some(Side::Sink);
    let before = with(path(21e6), |facts| (facts.sink.rtt, facts.sink.first_min_rtt) = (130 * MS, 80 * MS));
    let risen = with(before, |facts| {
        (facts.sink.first_fastest, facts.sink.response) = (10e6, Some(LossResponse::Ignores));
    });
    let alone = with(before, |facts| facts.sink.first_fastest = facts.sink.fastest / 4.0);
    vec![
        ("a queue that stood before", before, Kind::CongestedQueue, sink),
        unknown("the same, and the others have ended", alone),
        ("BBR, still in a long queue that stood before", risen, Kind::CongestedQueue, sink),
    ]
}

#[test]
fn each_limit_is_found() {
    let all = [windows_and_caps(), relays(), senders(), losses(), lines(), queues_of_others()];
    for (what, facts, kind, leg) in all.into_iter().flatten() {
        let finding = facts.finding();
        assert_eq!((finding.kind, finding.leg), (kind, leg), "{what}: {}", finding.evidence);
        assert!(!finding.evidence.contains("NaN") && !finding.evidence.contains("inf"), "{}", finding.evidence);
    }
    assert_eq!(Facts::default().finding().kind, Kind::Unknown);
}

#[test]
fn what_if_is_the_next_limit() {
    let facts = with(at(32.8e6, Limit::ReceiveWindow), |facts| {
        (facts.sink.window, facts.sink.mean_window, facts.sink.limited_by_peer) = (262_144, 255_000, 0.95);
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
            let looks =
                Looks { source: Sample::default(), sink, carried: 1_000_000 * look, line_acked: sink.acked_bytes };
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

#[test]
fn a_source_is_in_order_a_minute_after_its_last_gap() {
    let windows = |peer_window, gaps: fn(u32) -> u32| -> Vec<bool> {
        let (began, mut watch) = (Instant::now(), Watch::default());
        let looks = (0..=400).filter_map(|look| {
            let source = Sample { peer_window, out_of_order: gaps(look), ..Sample::default() };
            watch.look(
                began + 250 * MS * look,
                &Looks { source, sink: Sample::default(), carried: 0, line_acked: 0 },
                || None,
            )
        });
        looks.map(|facts| facts.source.is_in_order).collect()
    };
    assert!(windows(1000, |_| 0).iter().all(|is_in_order| *is_in_order));
    assert!(windows(0, |_| 0).iter().all(|is_in_order| !is_in_order), "before Linux 5.4");
    let lost = windows(1000, |look| if look < 100 { 0 } else { 3 });
    assert_eq!((lost[0], lost[9], lost[20], lost.last()), (true, false, false, Some(&true)));
}
