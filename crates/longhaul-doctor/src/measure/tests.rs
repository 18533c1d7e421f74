//! What follows from runs: rates, losses, the metrics of RFC 6349, and a far end that lies.

use super::document::Document;
use super::measured::{Ended, Measured};
use super::session::{Echoed, Outcome};
use super::trains::Line;
use super::{json, text};
use longhaul_core::path::diagnosis::Kind;
use longhaul_measure::look::Look;
use longhaul_measure::message::{Direction, Ran, Run};
use longhaul_units::Rate;
use std::time::Duration;

const MSS: u32 = 1448;

/// Returns a run up of 6 s at `mbit` Mbit/s over 63 ms, with a look each 100 ms, whose losses are `lost(look)` segments.
fn outcome(mbit: u64, lost: impl Fn(u64) -> u64) -> Outcome {
    let per_look = mbit * 1_000_000 / 8 / 10;
    let mut again = 0;
    let look = |number: u64| {
        again += lost(number) * u64::from(MSS);
        Look {
            at: number * 100_000,
            acked: number * per_look,
            retransmitted: again,
            rtt: 66_000,
            min_rtt: 63_000,
            mss: MSS,
            window: 64 << 20,
            in_flight: 1000,
            cwnd: 1000,
            unsent: 1 << 20,
            busy: number * 100_000,
            delivery: per_look * 10,
            answers: number as u32 * 300,
            ..Look::default()
        }
    };
    let looks: Vec<Look> = (0..=60).map(look).collect();
    let last = looks[60];
    let sender = Ran {
        number: 1,
        bytes: last.acked,
        congestion: "bbr".into(),
        mss: MSS + 12,
        acked: last.acked,
        retransmitted: last.retransmitted,
        looks: looks.clone(),
        ..Ran::default()
    };
    Outcome {
        run: Run { number: 1, connections: 1, seconds: 6.0, max_bytes: u64::MAX, ..Run::default() },
        mss: None,
        series: looks.iter().map(|look| (look.time(), look.acked)).collect(),
        receiver: Ran { number: 1, bytes: sender.bytes, ..Ran::default() },
        sender,
    }
}

#[test]
fn a_run_that_its_bytes_ended_has_their_rate() {
    let mut short = outcome(100, |_| 0);
    let all = short.sender.bytes;
    short.run.max_bytes = all;
    // They came in a tenth of a second; the samples after that have no more.
    short.series = (1..=60).map(|number| (Duration::from_millis(100 * number), all)).collect();
    assert_eq!(short.rate(), Rate(all * 80));
}

/// Returns the document of `path`, as people and pages get it.
fn shown(path: &Measured) -> Document {
    Document::of(json::document(path, &json::Origin::default())).unwrap()
}

fn measured(outcomes: Vec<Outcome>) -> Measured {
    Measured { idle: vec![Duration::from_millis(63); 20], outcomes, ..Measured::default() }
}

#[test]
fn a_burst_of_losses_is_none_by_chance() {
    // 8,600 segments a look, of which 9 are lost, and 5,000 once.
    let burst = measured(vec![outcome(1000, |look| if look == 40 { 5000 } else { 9 })]);
    let loss = burst.loss(Direction::Up).unwrap();
    assert!((0.0009..0.0012).contains(&loss), "{loss}");
    assert_eq!(burst.loss(Direction::Down), None);
    // Of a slow run, all losses count.
    let slow = measured(vec![outcome(5, |look| u64::from(look % 10 == 0))]);
    let loss = slow.loss(Direction::Up).unwrap();
    assert!((0.001..0.004).contains(&loss), "{loss}");
    assert_eq!(measured(vec![outcome(200, |_| 0)]).loss(Direction::Up), Some(0.0));
}

#[test]
fn where_losses_are_expected_a_few_at_once_are_one() {
    // 8,600 segments a look, and one lost in two looks.
    let lost = |run: Outcome| run.lost_by_chance(Some(0.5 / 8600.0)).1;
    let (chance, burst) = (outcome(1000, |look| look % 2), outcome(1000, |look| if look == 40 { 7 } else { 0 }));
    assert!((15.0..40.0).contains(&lost(chance.clone())), "{}", lost(chance));
    assert!(lost(burst.clone()) <= 2.0, "{}", lost(burst));
    assert_eq!(lost(outcome(1000, |look| if look == 40 { 500 } else { 0 })), 0.0);
}

#[test]
fn changes_of_one_way_tell_whose_queue_it_is() {
    let ms = Duration::from_millis;
    // The far clock is an hour ahead. On the way up, messages wait 0 to 40 ms, 10 ms apart; the smallest round trip was seen before.
    let echo = |wait: u64| {
        let sent = ms(1000 + 100 * wait);
        Echoed { sent, answered: ms(3_600_000) + sent + ms(31 + wait), came: sent + ms(62 + wait) }
    };
    let echoes: Vec<Echoed> = (0..5).map(|nth| echo(10 * nth)).collect();
    let idle = echoes.iter().map(Echoed::rtt).collect();
    let mut path = Measured { echoes, idle, kernel_rtt: Some(ms(62)), ..Measured::default() };
    let queue = |path: &Measured| Direction::ALL.map(|direction| path.idle_queue(direction).unwrap().as_millis());
    assert_eq!(queue(&path), [20, 0]);
    // One that never changes could be of either way.
    path.echoes = vec![echo(20); 5];
    path.idle = path.echoes.iter().map(Echoed::rtt).collect();
    assert_eq!(queue(&path), [20, 20]);
    path.echoes.clear();
    assert_eq!(queue(&path), [20, 20]);
}

#[test]
fn what_was_lost_on_a_path_that_reorders_is_known_with_dsack_alone() {
    let mut path = measured(vec![outcome(100, |_| 10)]);
    assert!(path.loss(Direction::Up).unwrap() > 0.01, "nothing shows that packets overtake others");
    path.lines[0] = Line { arrived: 1000, overtaken: 50, ..Line::default() };
    assert_eq!(path.loss(Direction::Up), None);
    assert_eq!(path.way(Direction::Up).runs[0].lost, 0.0);
    // The receiver reports nine of ten as come twice.
    for (number, look) in path.outcomes[0].sender.looks.iter_mut().enumerate() {
        look.duplicates = 9 * number as u32;
    }
    let loss = path.loss(Direction::Up).unwrap();
    assert!((0.001..0.0013).contains(&loss), "{loss}");
}

#[test]
fn a_rate_is_of_the_second_half_and_of_ip_packets() {
    let mut run = outcome(100, |_| 0);
    assert_eq!(run.rate(), Rate(100_000_000));
    // A start that stands still.
    run.series.iter_mut().take(30).for_each(|(_, bytes)| *bytes = 0);
    assert_eq!(run.rate(), Rate(100_000_000));
    let path = measured(vec![run]);
    let (rate, is_reached) = path.rate(Direction::Up).unwrap();
    assert_eq!((rate.0 / 1000, is_reached), (103_591, true), "1500 bytes for each 1448; BBR sends no more");
    assert_eq!(path.rate(Direction::Down), None);
    assert_eq!(path.bandwidth_delay().map(|bytes| bytes.0 / 1000), Some(815));
    assert_eq!(measured(Vec::new()).rate(Direction::Up), None);
}

#[test]
fn the_metrics_of_rfc_6349_are_ratios() {
    let mut run = outcome(100, |look| u64::from(look == 5));
    run.series.truncate(31);
    run.sender.retransmitted = run.sender.acked / 99;
    let path = measured(vec![outcome(200, |_| 0)]);
    let metrics = path.metrics(&run).unwrap();
    assert!((metrics.transfer_time_ratio - 2.0).abs() < 0.01, "{metrics:?}");
    assert!((metrics.efficiency - 0.99).abs() < 0.001, "{metrics:?}");
    assert!((metrics.buffer_delay - 3.0 / 63.0).abs() < 0.001, "{metrics:?}");
    let report = text::rfc6349(&shown(&path));
    assert!(report.contains("3. bottleneck bandwidth: 207 Mbit/s up") && report.contains("100.00 %"), "{report}");
}

#[test]
fn figures_that_contradict_each_other_do_not_count() {
    let honest = outcome(100, |_| 0);
    assert!(!honest.is_contradictory());
    let lie = |change: fn(&mut Outcome)| {
        let mut outcome = honest.clone();
        change(&mut outcome);
        outcome.is_contradictory()
    };
    assert!(lie(|run| run.receiver.bytes += 1), "more arrived than was sent");
    assert!(lie(|run| run.sender.looks[30].acked = 0), "what was acknowledged is so for ever");
    assert!(lie(|run| run.sender.looks.swap(3, 4)), "time goes on");
    let down = |run: &mut Outcome| {
        run.run.direction = Direction::Down;
        run.sender.acked += 1 << 30;
        run.sender.bytes += 1 << 30;
    };
    assert!(lie(down), "it has not arrived here");
    assert!(lie(|run| run.sender.cpu = 1e308) && lie(|run| run.receiver.throttled = f64::NAN));
    assert!(lie(|run| run.sender.mss = 70_000) && lie(|run| run.sender.looks[60].mss = 9000));
    assert!(lie(|run| run.sender.looks[9].window = u64::MAX) && lie(|run| run.sender.retransmitted = u64::MAX));
    assert!(
        lie(|run| run.sender.looks[60].acked += 1 << 40) && lie(|run| run.sender.looks[60].retransmitted = 1 << 50)
    );
    assert!(
        lie(|run| run.sender.looks[9].by_buffer = 50_000_000) && lie(|run| run.sender.looks[60].at = 3_000_000_000)
    );
    assert!(lie(|run| run.sender.looks[60].at = u64::MAX) && lie(|run| run.sender.looks[60].busy = u64::MAX));
    assert!(!lie(|run| run.sender.looks[0].mss = 8948), "the path MTU was found on the way");
}

#[test]
fn a_limit_that_only_another_congestion_control_has_comes_last() {
    let mut cubic = outcome(5, |look| u64::from(look % 10 == 0));
    (cubic.run.congestion, cubic.sender.congestion) = (Some("cubic".into()), "cubic".into());
    let mut path = measured(vec![outcome(900, |_| 0), cubic]);
    path.lines[0] = Line { rate: Some(Rate(940_000_000)), ..Line::default() };
    let kinds: Vec<Kind> = path.findings().iter().map(|(_, finding)| finding.kind).collect();
    assert_eq!(kinds, [Kind::LinkRate, Kind::RandomLoss]);
}

#[test]
fn a_far_end_that_closes_says_nothing_about_the_path() {
    let mut closed = measured(Vec::new());
    closed.ended = Some(Ended::Lost("it ended the session".into()));
    assert!(closed.findings().is_empty());
    // A run without the sender's result has the rate of its payload.
    let mut run = outcome(100, |_| 0);
    run.sender = Ran::default();
    assert_eq!(measured(vec![run]).rate(Direction::Up).unwrap().0, Rate(100_000_000));
}

#[test]
fn a_part_of_a_measurement_has_what_is_known() {
    let mut nothing = measured(Vec::new());
    assert!(nothing.findings().is_empty());
    nothing.ended = Some(Ended::Died(Direction::Up));
    assert_eq!(nothing.findings().iter().map(|(_, finding)| finding.kind).collect::<Vec<_>>(), [Kind::Stalled]);
    let document = json::document(&nothing, &json::Origin::default());
    assert_eq!((&document["complete"], &document["ended"]), (&false.into(), &"no answer in time".into()));
    assert!(text::text(&shown(&nothing)).contains("The session was lost (no answer in time)"));
    let mut stopped = measured(vec![outcome(100, |_| 0)]);
    stopped.ended = Some(Ended::Interrupted);
    assert_eq!(stopped.findings()[0].1.kind, Kind::LinkRate);
    assert_eq!(json::document(&stopped, &json::Origin::default())["ended"], "interrupted");
}

#[test]
fn no_released_field_of_the_document_is_gone() {
    let [mut up, mut down] = [outcome(8, |_| 1), outcome(100, |_| 0)];
    down.run.direction = Direction::Down;
    for look in &mut up.sender.looks {
        (look.window, look.in_flight, look.by_peer) = (65_536, 45, look.busy);
    }
    let mut path = measured(vec![up, down]);
    let trains = vec![(Rate(1), Rate(1), 0.5)];
    path.lines =
        [(); 2].map(|()| Line { trains: trains.clone(), arrived: 9, rate: Some(Rate(940_000_000)), ..Line::default() });
    path.ladder.path_mtu = [Some(1500); 2];
    path.ladder.steps = [(); 2].map(|()| vec![(1500, true)]);
    path.ladder.fragments = [Some(1.0); 2];
    (path.uncut, path.mss) = ([Some(1400); 2], Some(1460));
    (path.tunnel, path.address) = (Some("t".into()), "192.0.2.1:22".parse().ok());
    (path.notes, path.ended) = (vec![String::new()], Some(Ended::Interrupted));
    let mut document = json::document(&path, &json::Origin::default());
    // It is null here, and a text in the same object of a live flow.
    document["findings"].as_array_mut().unwrap().iter_mut().for_each(|finding| finding["leg"] = "".into());
    crate::interface::check("path", crate::interface::fields(&[document]));
}
