//! The stages in virtual time.

use crate::*;
use longhaul_units::UnitError;
use proptest::prelude::*;

/// Payload bytes of a full TCP segment with timestamps over an MTU of 1500.
pub(super) const ETHERNET: u32 = 1448;

/// Returns a TCP super-packet of `payload` bytes over an MTU of 1500.
pub(super) fn tcp(slot: u32, at: Duration, payload: u32) -> Packet {
    let segments = payload.div_ceil(ETHERNET).max(1);
    Packet {
        slot,
        at,
        first: 0,
        segments,
        headers: 52,
        size: ETHERNET,
        payload,
        overhead: 0,
        dont_fragment: true,
        fragment: None,
    }
}

/// Builds a link from `settings`, pairs of key and value, and from the lines of `schedule`.
pub(super) fn linked(settings: &[(&str, &str)], schedule: &[&str], seed: u64) -> Result<Link, StageError> {
    let settings: Vec<Setting> =
        settings.iter().map(|(key, value)| Setting::read(key, value)).collect::<Result<_, _>>()?;
    let schedule: Vec<Change> = schedule.iter().map(|line| Change::read(line)).collect::<Result<_, _>>()?;
    Ok(Link::scheduled(&settings, &schedule, seed))
}

/// Returns the same bytes as one packet per segment.
pub(super) fn singles(packet: Packet) -> impl Iterator<Item = Packet> {
    (0..packet.segments).filter_map(move |index| packet.after(index)).map(|rest| rest.front(1))
}

/// Receives every packet, in order.
pub(super) fn drain(link: &mut Link) -> Vec<Packet> {
    std::iter::from_fn(|| link.receive(Duration::MAX)).collect()
}

/// Returns the segments of `packets`: buffer, index and payload bytes of each.
pub(super) fn segments(packets: &[Packet]) -> Vec<(u32, u32, u32)> {
    packets.iter().flat_map(|packet| singles(*packet)).map(|one| (one.slot, one.first, one.payload)).collect()
}

#[test]
fn every_row_builds_its_sample_and_refuses_nonsense() {
    for row in ROWS {
        assert!(matches!((row.build)(row.sample, 1), Ok(Some(_))), "{}", row.key);
        for wrong in ["nonsense", "-1", "1400 blackhole", "5% by", "jitter", "9ms 9ms"] {
            assert!((row.build)(wrong, 1).is_err(), "{} {wrong:?}", row.key);
        }
    }
    assert_eq!(
        linked(&[("delay", "1ms"), ("losss", "1%")], &[], 1).err(),
        Some(StageError::UnknownStage { known: crate::stage::KEYS })
    );
    assert_eq!(linked(&[("rate", "0bit/s")], &[], 1).err(), Some(StageError::NoRate));
    for ambiguous in ["0.1", "101%", "-1%", "NaN%"] {
        assert_eq!(
            linked(&[("loss", ambiguous)], &[], 1).err(),
            Some(StageError::Unit(UnitError::NoPercentage)),
            "{ambiguous}"
        );
    }
}

#[test]
fn a_link_without_effective_stages_is_a_wire() {
    let mut link = linked(&[("delay", "0"), ("loss", "0")], &[], 1).unwrap();
    assert_eq!(link.send(tcp(1, Duration::from_secs(1), 9000)).pieces, 1);
    assert_eq!(link.receive(Duration::from_millis(999)), None);
    assert_eq!(link.receive(Duration::from_secs(1)), Some(tcp(1, Duration::from_secs(1), 9000)));
    assert_eq!(link.counters().count(), 0);
}

#[test]
fn a_packet_arrives_after_serialization_time_plus_delay() {
    let mut link = linked(&[("delay", "31.5ms"), ("rate", "1Gbit/s")], &[], 1).unwrap();
    link.send(Packet::single(1, Duration::ZERO, 1500));
    link.send(Packet::single(2, Duration::ZERO, 1500));
    // 1500 bytes are 12 us at 1 Gbit/s.
    let at: Vec<u128> = drain(&mut link).iter().map(|packet| packet.at.as_micros()).collect();
    assert_eq!(at, [31_512, 31_524]);
}

#[test]
fn a_full_queue_drops_the_tail_of_a_super_packet() {
    let mut link = linked(&[("rate", "8Mbit/s queue 15000")], &[], 1).unwrap();
    assert_eq!(link.send(tcp(1, Duration::ZERO, 20 * ETHERNET)).pieces, 1);
    let arrived = drain(&mut link);
    assert_eq!((arrived[0].segments, arrived[0].at), (10, Duration::from_millis(15)));
    let (_, counters) = link.counters().next().unwrap();
    assert_eq!((counters.segments_lost(), counters.bytes_in, counters.bytes_out), (10, 30_000, 15_000));
    // 3 ms later two segments have left, so two new ones fit.
    link.send(tcp(2, Duration::from_millis(3), 20 * ETHERNET));
    assert_eq!(segments(&drain(&mut link)), [(2, 0, 1448), (2, 1, 1448)]);
}

#[test]
fn an_idle_line_takes_a_packet_larger_than_its_queue() {
    let mut link = linked(&[("rate", "8Mbit/s queue 0")], &[], 1).unwrap();
    assert_eq!(link.send(Packet::single(1, Duration::ZERO, 1500)).pieces, 1);
    assert_eq!(link.send(Packet::single(2, Duration::ZERO, 1500)).pieces, 0);
    assert_eq!(link.send(Packet::single(3, Duration::from_micros(1500), 1500)).pieces, 1);
}

#[test]
fn everything_is_lost_at_100_percent() {
    let mut link = linked(&[("loss", "100%")], &[], 1).unwrap();
    assert_eq!(link.send(tcp(1, Duration::ZERO, 64_000)).pieces, 0);
    assert_eq!(link.counters().next().unwrap().1.segments_lost(), 45);
}

#[test]
fn losses_are_independent_of_each_other() {
    // If losses are independent, the segment after a loss is lost with the same probability of 10 %.
    let mut link = linked(&[("loss", "10%")], &[], 42).unwrap();
    for slot in 0..40_000 {
        link.send(tcp(slot, Duration::ZERO, 44 * ETHERNET));
    }
    let mut arrived = vec![false; 40_000 * 44];
    for (slot, segment, _) in segments(&drain(&mut link)) {
        arrived[(slot * 44 + segment) as usize] = true;
    }
    let pairs = arrived.windows(2).filter(|pair| !pair[0]);
    let both = pairs.clone().filter(|pair| !pair[1]).count() as f64 / pairs.count() as f64;
    assert!((both - 0.1).abs() < 0.002, "{both}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn measured_loss_is_within_1_percent_of_the_configured_share(per_mille in 2u32..300, seed: u64, payload in 1u32..65_000) {
        let share = f64::from(per_mille) / 1000.0;
        let text = format!("{}%", share * 100.0);
        let mut link = linked(&[("loss", &text)], &[], seed).unwrap();
        // A count of n rare events has a relative standard deviation of 1/sqrt(n); 1 % is 5.5 standard deviations.
        let wanted = (3e5 / share) as u64;
        let packet = tcp(0, Duration::ZERO, payload);
        let mut sent = 0;
        while sent < wanted {
            link.send(packet);
            drain(&mut link);
            sent += u64::from(packet.segments);
        }
        let (_, counters) = link.counters().next().unwrap();
        let measured = counters.segments_lost() as f64 / counters.segments_in as f64;
        prop_assert!((measured / share - 1.0).abs() < 0.01, "{} of {}", measured, share);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_loaded_line_carries_its_rate_within_1_percent(
        kbit in 100u64..40_000_000, payloads in prop::collection::vec(1u32..65_000, 200),
    ) {
        let text = format!("{kbit}kbit/s queue 1GB");
        let mut link = linked(&[("rate", &text)], &[], 1).unwrap();
        let mut bytes = 0;
        for (slot, payload) in payloads.iter().enumerate() {
            let packet = tcp(slot as u32, Duration::ZERO, *payload);
            bytes += packet.wire_bytes();
            link.send(packet);
        }
        let end = drain(&mut link).last().unwrap().at;
        let measured = bytes as f64 * 8.0 / end.as_secs_f64();
        prop_assert!((measured / (kbit as f64 * 1e3) - 1.0).abs() < 1e-3, "{}", measured);
    }

    #[test]
    fn no_packet_is_early_and_their_order_is_kept(
        gaps in prop::collection::vec((0u64..2_000_000, 1u32..65_000), 1..200), delay_us in 0u64..1_000_000,
    ) {
        let delay = Duration::from_micros(delay_us);
        let text = format!("{delay_us}us");
        let mut link = linked(&[("rate", "300Mbit/s queue 1GB"), ("delay", &text)], &[], 1).unwrap();
        let mut now = Duration::ZERO;
        let mut sent = Vec::new();
        for (slot, (gap, payload)) in gaps.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            let packet = tcp(slot as u32, now, *payload);
            link.send(packet);
            // At 300 Mbit/s, three bytes take 80 ns.
            let on_the_wire = Duration::from_nanos(packet.wire_bytes() * 80 / 3);
            sent.push((slot as u32, now + delay + on_the_wire));
        }
        let arrived = drain(&mut link);
        prop_assert!(arrived.windows(2).all(|pair| pair[0].at <= pair[1].at));
        prop_assert_eq!(arrived.len(), sent.len());
        for (packet, (slot, earliest)) in arrived.iter().zip(&sent) {
            prop_assert_eq!(packet.slot, *slot);
            prop_assert!(packet.at >= *earliest);
        }
    }

    #[test]
    fn a_super_packet_fares_like_its_segments(
        gaps in prop::collection::vec((0u64..2_000_000, 1u32..65_000), 1..100), queue in 0u64..300_000, seed: u64, lossy: bool,
    ) {
        let rate = format!("500Mbit/s queue {queue}");
        let settings = [("rate", rate.as_str()), ("loss", if lossy { "2%" } else { "0" }), ("delay", "7ms")];
        let (mut bulk, mut each) = (linked(&settings, &[], seed).unwrap(), linked(&settings, &[], seed).unwrap());
        let mut now = Duration::ZERO;
        for (slot, (gap, payload)) in gaps.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            let packet = tcp(slot as u32, now, *payload);
            bulk.send(packet);
            for one in singles(packet) {
                each.send(one);
            }
        }
        let counters = |link: &Link| link.counters().collect::<Vec<_>>();
        prop_assert_eq!(counters(&bulk), counters(&each));
        let (bulk, each) = (drain(&mut bulk), drain(&mut each));
        prop_assert_eq!(segments(&bulk), segments(&each));
        // A super-packet arrives at the time of its last segment, even if that segment is lost.
        let last = |packets: &[Packet]| packets.last().map(|packet| packet.at);
        prop_assert!(last(&bulk) == last(&each) || lossy && last(&bulk) > last(&each));
    }

    #[test]
    fn every_byte_arrives_or_is_counted_as_lost(
        payloads in prop::collection::vec(1u32..65_000, 1..100), queue in 0u64..1_000_000, seed: u64,
    ) {
        let rate = format!("1Gbit/s queue {queue}");
        let mut link = linked(&[("rate", &rate), ("loss", "1%")], &[], seed).unwrap();
        let mut pieces = 0;
        for (slot, payload) in payloads.iter().enumerate() {
            pieces += link.send(tcp(slot as u32, Duration::from_micros(slot as u64 * 100), *payload)).pieces;
        }
        prop_assert_eq!(link.under_way(), pieces);
        let arrived: u64 = drain(&mut link).iter().map(Packet::wire_bytes).sum();
        let lost: u64 = link.counters().map(|(_, counters)| counters.bytes_in - counters.bytes_out).sum();
        let sent: u64 = payloads.iter().map(|payload| tcp(0, Duration::ZERO, *payload).wire_bytes()).sum();
        prop_assert_eq!(arrived + lost, sent);
    }
}
