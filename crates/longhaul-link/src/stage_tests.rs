//! Tests of each stage in virtual time: its effect on packets, and that a super-packet fares like its segments.

use crate::tests::{ETHERNET, drain, linked, segments, singles, tcp};
use crate::*;
use longhaul_units::UnitError;
use proptest::prelude::*;

fn link(settings: &[(&str, &str)]) -> Link {
    linked(settings, &[], 7).unwrap()
}

fn counters(link: &Link, key: &str) -> StageCounters {
    link.counters().find(|(found, _)| *found == key).map(|(_, counters)| counters).unwrap()
}

/// Sends `count` super-packets of `payload` bytes, one every `gap`; returns the packets that arrived.
fn load(link: &mut Link, count: u32, payload: u32, gap: Duration) -> Vec<Packet> {
    for slot in 0..count {
        link.send(tcp(slot, gap * slot, payload));
    }
    drain(link)
}

/// Returns a full segment of a connection with this MSS; the MSS includes the timestamps.
fn with_mss(mss: u32) -> Packet {
    Packet::single(0, Duration::ZERO, mss + 40)
}

#[test]
fn a_tunnel_adds_the_bytes_of_its_format() {
    for (tunnel, mss, wire) in [
        ("esp-gcm", 1254, 1348),
        ("esp-gcm", 1255, 1352),
        ("esp-cbc", 1238, 1336),
        ("esp-cbc", 1239, 1352),
        ("gre", 1436, 1500),
        ("vxlan", 1410, 1500),
        ("fixed 50", 1410, 1500),
        ("outer 28 header 8 iv 8 trailer 2 align 4 icv 16", 1246, 1348),
    ] {
        let mut link = link(&[("encap", tunnel)]);
        link.send(with_mss(mss));
        assert_eq!(drain(&mut link)[0].wire_bytes(), wire, "{tunnel}, MSS {mss}");
    }
}

#[test]
fn a_part_of_a_tunnel_has_at_most_4096_bytes() {
    for tunnel in ["fixed 4097", "outer 20 header 5000", "fixed 4294967296"] {
        assert_eq!(linked(&[("encap", tunnel)], &[], 1).err(), Some(StageError::Overhead { max: 4096 }), "{tunnel}");
    }
    assert!(linked(&[("encap", "fixed 4096")], &[], 1).is_ok());
}

#[test]
fn only_a_last_segment_with_different_padding_is_split_off() {
    // 52 + 1448 + 2 needs 2 bytes of padding. A last segment shorter by a multiple of 4 needs 2 bytes as well.
    for (last, pieces) in [(1448, 1), (1444, 1), (1443, 2), (1, 2)] {
        let mut link = link(&[("encap", "esp-gcm")]);
        assert_eq!(link.send(tcp(0, Duration::ZERO, 10 * ETHERNET + last)).pieces, pieces, "{last}");
    }
}

#[test]
fn one_byte_over_the_limit_makes_two_fragments() {
    for (mss, fragments, bytes) in [(1254, 1, 1348), (1255, 2, 1352 + 20)] {
        let mut link = link(&[("encap", "esp-gcm"), ("fragment", "1350"), ("rate", "8Mbit/s"), ("loss", "0")]);
        let sent = link.send(with_mss(mss));
        assert_eq!((sent.pieces, sent.segments), (1, 1), "it arrives whole");
        let (fragment, rate) = (counters(&link, "fragment"), counters(&link, "rate"));
        assert_eq!((fragment.events, rate.bytes_in, rate.segments_in), (fragments - 1, bytes, 1), "MSS {mss}");
        // The packet arrives with its last fragment. At 8 Mbit/s a byte takes a microsecond.
        assert_eq!(drain(&mut link)[0].at, Duration::from_micros(bytes));
    }
}

#[test]
fn a_packet_with_a_lost_fragment_is_lost() {
    let settings = [("fragment", "800"), ("loss", "10%")];
    let mut link = link(&settings);
    let arrived = load(&mut link, 10_000, 10 * ETHERNET, Duration::ZERO).len() as f64 / 1e5;
    assert!((arrived - 0.81).abs() < 0.005, "both fragments arrive with 0.9 each: {arrived}");
    let lost: u64 = link.counters().map(|(_, counters)| counters.segments_lost()).sum();
    assert_eq!(lost, 100_000 - (arrived * 1e5) as u64, "each lost segment is counted once");
}

#[test]
fn reassembly_drops_packets_whose_fragments_are_out_of_order_or_late() {
    // One fragment in ten is 5 ms late. A packet survives if neither (81 %) or both (1 %) of its fragments are late.
    for (reassembly, share) in [("", 1.0), ("in-order", 0.91), ("within 1ms", 0.82), ("in-order within 1ms", 0.82)] {
        let settings = [("fragment", "800"), ("reorder", "10% by 5ms"), ("reassembly", reassembly)];
        let mut link = link(&settings);
        let arrived = load(&mut link, 10_000, 10 * ETHERNET, Duration::ZERO).len() as f64 / 1e5;
        // A late second fragment (9 %) is still in order.
        assert!((arrived - share).abs() < 0.005, "{reassembly:?}: {arrived} of {share}");
        let counters = counters(&link, "reassembly");
        assert_eq!(counters.events, counters.segments_lost());
    }
}

#[test]
fn duplicated_fragments_make_one_packet() {
    let mut link = link(&[("fragment", "800"), ("duplicate", "100%")]);
    // Each copy follows its original, so both copies of the first fragment come before the second fragment.
    assert_eq!(load(&mut link, 10, ETHERNET, Duration::ZERO).len(), 10);
}

#[test]
fn fragments_of_fragments_reassemble_to_the_whole() {
    let mut link = link(&[("mtu", "1000"), ("encap", "fixed 50"), ("fragment", "600"), ("reassembly", "in-order")]);
    let packet = Packet { dont_fragment: false, ..tcp(3, Duration::ZERO, 20 * ETHERNET + 700) };
    let sent = link.send(packet);
    assert_eq!((sent.segments, sent.too_big), (21, None));
    // 1500 bytes become 996 and 524 at the MTU. With 50 bytes more, 1046 become 596 and 470; 574 stay. The last segment has
    // 752 bytes; with 50 more it becomes 596 and 226.
    assert_eq!(counters(&link, "fragment").bytes_out, 20 * (596 + 470 + 574) + (596 + 226));
    assert_eq!(segments(&drain(&mut link)), segments(&singles(packet).collect::<Vec<_>>()));
}

#[test]
fn packets_over_the_mtu_are_dropped_and_the_sender_is_told_once() {
    let mut link = link(&[("mtu", "1400")]);
    let sent = link.send(tcp(1, Duration::ZERO, 20 * ETHERNET + 500));
    // The last segment is short enough and passes.
    assert_eq!(sent, Sent { pieces: 1, segments: 1, too_big: Some(1400) });
    assert_eq!((counters(&link, "mtu").events, counters(&link, "mtu").segments_lost()), (20, 20));
    assert_eq!(link.send(tcp(1, Duration::ZERO, 1348)), Sent { pieces: 1, segments: 1, too_big: None });
    let mut hole = linked(&[("mtu", "1400 black-hole")], &[], 1).unwrap();
    assert_eq!(hole.send(tcp(1, Duration::ZERO, ETHERNET)), Sent::default());
}

#[test]
fn a_policer_passes_its_rate_and_its_burst() {
    let mut link = link(&[("policer", "80Mbit/s burst 100kB")]);
    // 200 Mbit/s for 2 s.
    let arrived = load(&mut link, 2000, 25_000 - 18 * 52, Duration::from_millis(1));
    let bytes: u64 = arrived.iter().map(Packet::wire_bytes).sum();
    let wanted = 100_000.0 + 10e6 * 2.0;
    assert!((bytes as f64 / wanted - 1.0).abs() < 0.01, "{bytes} of {wanted}");
    assert!(arrived.iter().all(|packet| packet.at == Duration::from_millis(1) * packet.slot), "nothing waits");
}

#[test]
fn burst_loss_has_the_mean_and_burst_length_of_p_and_r() {
    for (p, r) in [(0.001, 0.3), (0.02, 0.5), (0.01, 1.0)] {
        let value = format!("p {}% r {}%", p * 100.0, r * 100.0);
        let mut link = link(&[("burst-loss", &value)]);
        let total = 44 * 400_000;
        let arrived: u32 = load(&mut link, 400_000, 44 * ETHERNET, Duration::ZERO).iter().map(|it| it.segments).sum();
        let lost = f64::from(total - arrived);
        let (mean, length) = (lost / f64::from(total), lost / counters(&link, "burst-loss").events as f64);
        let wanted = p / (p + r);
        assert!((mean / wanted - 1.0).abs() < 0.02, "{value}: lost {mean} of {wanted}");
        assert!((length * r - 1.0).abs() < 0.02, "{value}: bursts of {length}");
    }
}

#[test]
fn a_bad_line_may_lose_only_a_share() {
    let mut link = link(&[("burst-loss", "p 1% r 1% good 2% bad 10%")]);
    let arrived: u32 = load(&mut link, 100_000, 40 * ETHERNET, Duration::ZERO).iter().map(|it| it.segments).sum();
    assert!((f64::from(arrived) / 4e6 - 0.94).abs() < 0.003, "{arrived}");
}

#[test]
fn duplicates_and_late_segments_have_the_configured_share() {
    let mut twice = link(&[("duplicate", "2%")]);
    load(&mut twice, 40_000, 40 * ETHERNET, Duration::ZERO);
    let duplicates = counters(&twice, "duplicate");
    assert_eq!(duplicates.events, duplicates.segments_out - duplicates.segments_in);
    assert!((duplicates.events as f64 / 32_000.0 - 1.0).abs() < 0.02, "{duplicates:?}");

    let mut late = link(&[("delay", "10ms"), ("reorder", "2% by 5ms")]);
    let arrived = load(&mut late, 40_000, 40 * ETHERNET, Duration::from_millis(20));
    let late_ones =
        arrived.iter().filter(|it| it.at == Duration::from_millis(20) * it.slot + Duration::from_millis(15));
    assert_eq!(late_ones.map(|it| u64::from(it.segments)).sum::<u64>(), counters(&late, "reorder").events);
    assert!((counters(&late, "reorder").events as f64 / 32_000.0 - 1.0).abs() < 0.02);
}

#[test]
fn jitter_is_uniform_and_keeps_the_order() {
    let mut link = link(&[("delay", "30ms jitter 2ms")]);
    let arrived = load(&mut link, 20_000, ETHERNET, Duration::from_millis(5));
    let extra = |packet: &Packet| (packet.at - Duration::from_millis(5) * packet.slot).as_secs_f64() * 1e3;
    let mut delays: Vec<f64> = arrived.iter().map(extra).collect();
    delays.sort_by(f64::total_cmp);
    for (share, wanted) in [(0.0, 28.0), (0.25, 29.0), (0.5, 30.0), (0.75, 31.0), (0.9999, 32.0)] {
        let found = delays[(20_000.0 * share) as usize];
        assert!((found - wanted).abs() < 0.05, "{share}: {found} of {wanted} ms");
    }
    let mut dense = linked(&[("delay", "30ms jitter 30ms")], &[], 1).unwrap();
    let slots =
        load(&mut dense, 5_000, ETHERNET, Duration::from_micros(10)).iter().map(|it| it.slot).collect::<Vec<_>>();
    assert_eq!(slots, (0..5_000).collect::<Vec<_>>());
    assert_eq!(linked(&[("delay", "1ms jitter 2ms")], &[], 1).err(), Some(StageError::Jitter));
}

#[test]
fn a_schedule_takes_the_line_down_and_brings_it_back() {
    let mut link = linked(&[("delay", "50ms")], &["at 10s down for 20s"], 1).unwrap();
    let arrived = load(&mut link, 40, ETHERNET, Duration::from_secs(1));
    let seconds: Vec<u32> = arrived.iter().map(|packet| packet.slot).collect();
    assert_eq!(seconds, (0..10).chain(30..40).collect::<Vec<_>>());
    assert_eq!((counters(&link, "down").segments_in, counters(&link, "down").segments_lost()), (40, 20));
}

#[test]
fn an_outage_is_written_by_its_times() {
    let read = |text: &str| Change::outage(text).map(|change| (change.to_string(), change.end()));
    assert_eq!(read("20s to 60s"), Ok(("at 20s down for 40s".into(), Some(Duration::from_secs(60)))));
    assert_eq!(read("1500ms to 2s").unwrap().0, "at 1500ms down for 500ms");
    assert_eq!(Change::read("at 1s down").unwrap().end(), None);
    assert_eq!((read("60s to 20s"), read("20s")), (Err(StageError::NoTime), Err(StageError::Form("20s to 60s"))));
}

#[test]
fn a_held_schedule_counts_from_begin() {
    let mut link = linked(&[], &["at 1s down for 1s"], 1).unwrap();
    link.hold();
    let passes =
        |link: &mut Link, millis| link.send(Packet::single(0, Duration::from_millis(millis), ETHERNET)).pieces == 1;
    assert!(passes(&mut link, 1500), "nothing changes while it is held");
    link.begin(Duration::from_secs(5));
    for (millis, up) in [(5999, true), (6000, false), (6999, false), (7000, true)] {
        assert_eq!(passes(&mut link, millis), up, "{millis} ms");
    }
}

#[test]
fn a_schedule_changes_configured_stages_and_adds_others() {
    let lines = ["at 20s loss 100% for 5s", "at 10s loss 0 for 30s", "at 22s loss 0 for 1s", "at 45s delay 0"];
    let mut link = linked(&[("loss", "100%"), ("delay", "5ms")], &lines, 1).unwrap();
    let arrived = load(&mut link, 50, ETHERNET, Duration::from_secs(1));
    let seconds: Vec<u32> = arrived.iter().map(|packet| packet.slot).collect();
    // Of two lines in force, the one that began last counts. From 40 s on the configured loss is back.
    assert_eq!(seconds, (10..20).chain([22]).chain(25..40).collect::<Vec<_>>());
    let mut none = linked(&[], &["at 5s reorder 100% by 1ms"], 1).unwrap();
    let at: Vec<u128> = load(&mut none, 7, 100, Duration::from_secs(1)).iter().map(|it| it.at.as_millis()).collect();
    assert_eq!(at, [0, 1000, 2000, 3000, 4000, 5001, 6001]);
}

#[test]
fn nothing_overtakes_a_line_that_becomes_faster() {
    for change in ["at 10ms rate 100Mbit/s queue 2MB", "at 10ms delay 1ms", "at 10ms delay 0"] {
        let settings = [("rate", "10Mbit/s queue 1MB"), ("delay", "30ms")];
        let mut link = linked(&settings, &[change], 1).unwrap();
        let arrived = load(&mut link, 100, 9 * ETHERNET, Duration::from_millis(1));
        let slots: Vec<u32> = arrived.iter().map(|packet| packet.slot).collect();
        assert!(slots.is_sorted(), "{change}: {slots:?}");
        if change.contains("rate") {
            // The old line sends its 10 packets at 10 Mbit/s until 108 ms; the 90 behind them take 97 ms.
            let end = arrived.last().unwrap().at.as_secs_f64() * 1e3;
            let (before, after) = (10.0 * 10.8, 90.0 * 1.08);
            assert!((end - 30.0 - before - after).abs() < 0.1, "{end}");
        }
    }
}

#[test]
fn a_wrong_schedule_line_is_refused_with_its_reason() {
    let refused = |line: &str| linked(&[], &["at 1s down", line], 1).err();
    let form = StageError::Form("at 10s down for 20s, or at 30s loss 1%");
    for (line, why) in [
        ("10s down", form.clone()),
        ("at 10s", form.clone()),
        ("at 10 down", StageError::Unit(longhaul_units::UnitError::NoUnit)),
        ("at 10s dwn", StageError::UnknownStage { known: crate::stage::KEYS }),
        ("at 10s loss 1", StageError::Unit(UnitError::NoPercentage)),
        ("at 10s down for ever", StageError::Unit(longhaul_units::UnitError::NoNumber)),
        ("at 10s down please", StageError::Form("at 10s down for 20s")),
        ("at 10s down for 0s", StageError::NoTime),
    ] {
        assert_eq!(refused(line), Some(why), "{line}");
    }
}

/// Sets of stages; in each of them a super-packet must fare like its segments.
const STAGE_SETS: &[&[(&str, &str)]] = &[
    &[("mtu", "1400")],
    &[("mtu", "1400 black-hole"), ("loss", "3%")],
    &[("encap", "esp-cbc"), ("rate", "300Mbit/s queue 50kB")],
    &[("encap", "esp-gcm"), ("fragment", "1350"), ("rate", "300Mbit/s queue 50kB"), ("loss", "3%")],
    &[("fragment", "600"), ("burst-loss", "p 2% r 40% bad 70%"), ("reassembly", "in-order")],
    &[("policer", "300Mbit/s burst 60kB"), ("burst-loss", "p 2% r 40%")],
    &[("duplicate", "3%"), ("loss", "3%")],
    &[("reorder", "3% by 1ms"), ("duplicate", "3%")],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_super_packet_fares_like_its_segments_in_every_stage(
        gaps in prop::collection::vec((0u64..2_000_000, 1u32..65_000, any::<bool>()), 1..60), seed: u64,
    ) {
        for settings in STAGE_SETS {
            let (mut bulk, mut each) = (linked(settings, &[], seed).unwrap(), linked(settings, &[], seed).unwrap());
            let mut now = Duration::ZERO;
            for (slot, (gap, payload, dont_fragment)) in gaps.iter().enumerate() {
                now += Duration::from_nanos(*gap);
                let packet = Packet { dont_fragment: *dont_fragment, ..tcp(slot as u32, now, *payload) };
                bulk.send(packet);
                for one in singles(packet) {
                    each.send(one);
                }
            }
            prop_assert_eq!(bulk.counters().collect::<Vec<_>>(), each.counters().collect::<Vec<_>>(), "{:?}", settings);
            prop_assert_eq!(segments(&drain(&mut bulk)), segments(&drain(&mut each)), "{:?}", settings);
        }
    }

    #[test]
    fn every_segment_arrives_or_is_counted_as_lost(
        gaps in prop::collection::vec((0u64..2_000_000, 1u32..65_000), 1..60), seed: u64,
    ) {
        let settings = [
            ("encap", "esp-gcm"), ("fragment", "900"), ("policer", "900Mbit/s burst 90kB"), ("rate", "300Mbit/s queue 50kB"),
            ("loss", "3%"), ("burst-loss", "p 1% r 50%"), ("delay", "3ms jitter 1ms"), ("reorder", "5% by 1ms"),
            ("reassembly", "in-order within 200us"),
        ];
        let mut link = linked(&settings, &[], seed).unwrap();
        let (mut now, mut sent, mut arrived) = (Duration::ZERO, 0, 0);
        for (slot, (gap, payload)) in gaps.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            let packet = tcp(slot as u32, now, *payload);
            arrived += link.send(packet).segments;
            sent += u64::from(packet.segments);
        }
        let lost: u64 = link.counters().map(|(_, counters)| counters.segments_lost()).sum();
        prop_assert_eq!(arrived + lost, sent);
        let whole = drain(&mut link).iter().all(|packet| packet.fragment.is_none());
        prop_assert!(whole, "no fragment leaves the link");
    }

    #[test]
    fn no_value_and_no_schedule_line_panics(text in "\\PC*", words in prop::collection::vec(
        prop::sample::select(vec![
            "at", "1s", "down", "for", "loss", "1%", "p", "r", "good", "bad", "by", "jitter", "1400", "black-hole", "rate",
            "queue", "burst", "1Mbit/s", "64kB", "99999999999999s", "outer", "align", "4096", "in-order", "within", "fixed",
        ]), 0..7,
    )) {
        let words = words.join(" ");
        for text in [text.as_str(), words.as_str()] {
            for row in ROWS {
                let mut link = linked(&[(row.key, text)], &[], 1).ok();
                if let Some(link) = &mut link {
                    load(link, 3, 9000, Duration::from_secs(1));
                }
            }
            if let Ok(mut link) = linked(&[], &[text], 1) {
                load(&mut link, 3, 9000, Duration::from_secs(1));
            }
        }
    }
}
