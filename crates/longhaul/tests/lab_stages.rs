//! Tests the stages of the live link: other programs (ping, iperf3, ss) measure each of them. The requirements are those of
//! tests/lab.rs.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/lab.rs"]
mod common;

use common::{alone, lab, runs};
use longhaul_lab::{Direction, Host, LinkSpec, Wan};
use longhaul_link::{Change, Setting, StageCounters};
use longhaul_units::Rate;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn link(rtt_ms: u64, rate: &str) -> LinkSpec {
    LinkSpec::new(Duration::from_millis(rtt_ms), rate.parse::<Rate>().ok())
}

/// Returns the output of ping on `host`, whatever its exit code.
fn ping(wan: &Wan, host: Host, arguments: &str) -> Option<String> {
    let script = format!("ping -n {arguments} 2>&1; true");
    runs(wan.output(Host::A, "ping", &["-V"]))?;
    runs(wan.output(host, "sh", &["-c", &script]))
}

/// Returns the round trips in ping's output, in milliseconds, sorted.
fn times(text: &str) -> Vec<f64> {
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse().ok();
    let mut times: Vec<f64> = text.lines().filter_map(time).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Runs `iperf3 -J` over the WAN from near to far; returns its report.
fn iperf3(wan: &Wan, to: IpAddr, arguments: &[&str]) -> Option<serde_json::Value> {
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "--forceflush"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let _server = runs(wan.spawn(Host::Far, server).and_then(|server| server.wait_for("Server listening")))?;
    let text = runs(wan.output(Host::Near, "iperf3", &[&["-c", &to.to_string(), "-J"], arguments].concat()))?;
    Some(serde_json::from_str(&text).expect("iperf3 -J prints JSON"))
}

/// Returns the counters of a stage in the direction from near to far.
fn counters(wan: &Wan, key: &str) -> StageCounters {
    let [out, _] = wan.counters();
    out.stages.iter().find(|(found, _)| *found == key).map(|(_, counters)| *counters).unwrap()
}

fn out(mut link: LinkSpec, settings: &[(&str, &str)]) -> LinkSpec {
    for (key, value) in settings {
        link.set(&[Direction::Out], &Setting::read(key, value).unwrap());
    }
    link
}

#[test]
fn ping_sees_the_jitter_of_one_direction() {
    let _alone = alone();
    let Some(wan) = lab(&out(link(40, "none"), &[("delay", "20ms jitter 5ms")])) else { return };
    let Some(text) = ping(&wan, Host::Near, &format!("-c 200 -i 0.02 {}", Host::Far.wan())) else { return };
    let times = times(&text);
    assert_eq!(times.len(), 200, "{text}");
    let (min, quarter, three) = (times[0], times[50], times[150]);
    println!("min {min} ms, quartiles {quarter} and {three}, max {}", times[199]);
    // Uniform between 35 and 45 ms. A busy machine makes answers late, by varying times, but never early.
    assert!((34.9..40.0).contains(&min), "{min}");
    assert!(quarter > 36.5 && three - quarter > 2.0, "{quarter}, {three}");
}

#[test]
fn ping_sees_duplicates_and_reordering() {
    let _alone = alone();
    let Some(wan) = lab(&out(link(2, "none"), &[("duplicate", "30%"), ("reorder", "30% by 30ms")])) else { return };
    for to in [Host::Far.wan(), Host::Far.wan6()] {
        let before = (counters(&wan, "duplicate").events, counters(&wan, "reorder").events);
        let Some(text) = ping(&wan, Host::Near, &format!("-c 200 -i 0.01 {to}")) else { return };
        let (copies, late) = (text.matches("(DUP!)").count(), times(&text).iter().filter(|time| **time > 30.0).count());
        let duplicate = counters(&wan, "duplicate").events - before.0;
        let reorder = counters(&wan, "reorder").events - before.1;
        println!("{to}: {copies} of {duplicate} copies, {late} of {reorder} late");
        // ping ends with the 200th answer. A few copies come after it, most of them late ones. A busy machine also makes
        // answers late.
        assert!(copies as u64 + 8 >= duplicate && copies as u64 <= duplicate && copies > 30, "{text}");
        assert!(late as u64 + 8 >= reorder && late > 30, "{text}");
    }
}

#[test]
fn a_policer_passes_at_most_its_rate_and_its_burst() {
    let _alone = alone();
    let start = Instant::now();
    let Some(wan) = lab(&out(link(10, "none"), &[("policer", "40Mbit/s burst 1MB")])) else { return };
    wan.begin();
    let arguments = ["-u", "-b", "80M", "-l", "1000", "-t", "3", "-w", "200K"];
    let Some(udp) = iperf3(&wan, Host::Far.wan(), &arguments) else { return };
    let (running, sum) = (start.elapsed().as_secs_f64(), &udp["end"]["sum"]);
    let (lost, sent) = (sum["lost_packets"].as_f64().unwrap(), sum["packets"].as_f64().unwrap());
    let policer = counters(&wan, "policer");
    let (passed, allowed) = (policer.bytes_out as f64 * 8.0, 40e6 * running + 8e6);
    println!("{lost} of {sent} datagrams lost; {:.1} of {:.1} Mbit passed", passed / 1e6, allowed / 1e6);
    assert!(passed <= allowed, "{passed} of {allowed} bits");
    // A busy receiver loses datagrams itself. iperf3 does not report losses after the last datagram that arrives.
    assert!(policer.segments_lost() as f64 <= lost + 200.0, "{policer:?}, {lost} lost");
    let Some(tcp) = iperf3(&wan, Host::Far.wan(), &["-t", "4", "-C", "cubic"]) else { return };
    let measured = tcp["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    println!("TCP: {:.1} Mbit/s", measured / 1e6);
    assert!(measured > 0.0 && measured < 42e6, "{measured}");
}

#[test]
fn ping_and_tcp_learn_the_mtu() {
    let _alone = alone();
    let Some(wan) = lab(&out(link(4, "200Mbit/s"), &[("mtu", "1400")])) else { return };
    for host in [Host::Near, Host::A] {
        let Some(text) = ping(&wan, host, &format!("-c 2 -i 0.1 -W 1 -M do -s 1373 {}", Host::B.lan())) else { return };
        assert!(text.contains("Frag needed and DF set (mtu = 1400)"), "{text}");
        let Some(text) = ping(&wan, host, &format!("-c 1 -W 1 -M do -s 1372 {}", Host::B.lan())) else { return };
        assert!(text.contains(" 0% packet loss"), "{text}");
    }
    let Some(text) = ping(&wan, Host::Near, &format!("-c 2 -i 0.1 -W 1 -M do -s 1353 {}", Host::Far.wan6())) else {
        return;
    };
    assert!(text.contains("Packet too big: mtu=1400"), "{text}");
    // A packet without DF is fragmented and arrives.
    let Some(text) = ping(&wan, Host::Near, &format!("-c 1 -W 1 -M dont -s 3000 {}", Host::B.lan())) else { return };
    assert!(text.contains(" 0% packet loss"), "{text}");
    for to in [Host::Far.wan(), Host::Far.wan6()] {
        let Some(json) = iperf3(&wan, to, &["-t", "1"]) else { return };
        let pmtu = json["intervals"][0]["streams"][0]["pmtu"].as_u64();
        assert_eq!(pmtu, Some(1400), "{to}");
        assert!(json["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0);
    }
    assert!(wan.counters()[0].told >= 4, "{:?}", wan.counters()[0]);
    assert_eq!(wan.counters()[0].refused, 0);
}

#[test]
fn a_black_hole_sends_no_icmp() {
    let _alone = alone();
    let Some(wan) = lab(&out(link(4, "200Mbit/s"), &[("mtu", "1400 black-hole")])) else { return };
    let Some(text) = ping(&wan, Host::Near, &format!("-c 2 -i 0.1 -W 1 -M do -s 1373 {}", Host::B.lan())) else {
        return;
    };
    assert!(text.contains(" 100% packet loss") && !text.contains("Frag needed"), "{text}");
    let traffic = &wan.counters()[0];
    assert_eq!((traffic.told, counters(&wan, "mtu").events), (0, 2));
}

/// Sends 4 MiB over one connection with this MSS. Returns the goodput in bit/s; a busy machine lowers it.
fn with_mss(wan: &Wan, mss: &str) -> Option<f64> {
    let json = iperf3(wan, Host::Far.wan(), &["-n", "4M", "-M", mss])?;
    json["end"]["sum_received"]["bits_per_second"].as_f64()
}

#[test]
fn one_byte_more_mss_loses_segments_if_fragments_must_be_in_order() {
    let _alone = alone();
    let tunnel = [("encap", "esp-gcm"), ("fragment", "1350"), ("reorder", "0.5% by 1ms"), ("reassembly", "in-order")];
    let Some(wan) = lab(&out(link(20, "200Mbit/s"), &tunnel)) else { return };
    // Number of packets cut, and of segments lost because their fragments were out of order.
    let harm = || (counters(&wan, "fragment").events, counters(&wan, "reassembly").segments_lost());
    let Some(fits) = with_mss(&wan, "1254") else { return };
    let whole = harm();
    let Some(cut) = with_mss(&wan, "1255") else { return };
    let pieces = harm();
    println!("MSS 1254: {:.1} Mbit/s, {whole:?}; 1255: {:.1} Mbit/s, {pieces:?}", fits / 1e6, cut / 1e6);
    // iperf3's control connection has a larger MSS and sends a few full segments.
    assert!(whole.0 < 100 && pieces.0 > 2000 + whole.0, "{whole:?}, {pieces:?}");
    // One packet in 200 is late, so about 16 fragmented ones are.
    assert!(whole.1 < pieces.1, "{whole:?}, {pieces:?}");
    assert_eq!(wan.counters()[0].refused, 0);
}

#[test]
fn every_byte_arrives_in_fragments() {
    let _alone = alone();
    let tunnel = [("encap", "esp-gcm"), ("fragment", "1350"), ("reorder", "0.1% by 1ms"), ("duplicate", "0.1%")];
    let Some(wan) = lab(&out(link(4, "1Gbit/s"), &tunnel)) else { return };
    let events = || ["fragment", "duplicate"].map(|stage| counters(&wan, stage).events);
    for host in [Host::lan as fn(Host) -> IpAddr, Host::lan6] {
        let sink = std::net::SocketAddr::new(host(Host::B), 7000);
        let before = events();
        let took = longhaul_lab::transfer(&wan, sink, 20_000_000).unwrap_or_else(|why| panic!("{why}"));
        let [fragments, duplicates] = [0, 1].map(|stage| events()[stage] - before[stage]);
        println!("to {sink} in {took:?}: {fragments} fragmented, {duplicates} duplicated");
        // One in a thousand of some 14,000 segments is duplicated.
        assert!(fragments > 1000 && duplicates > 0, "{sink}: {fragments}, {duplicates}");
    }
    assert_eq!(wan.counters().map(|traffic| traffic.refused), [0, 0], "the kernel refused a piece");
}

#[test]
fn a_scheduled_outage_ends() {
    let _alone = alone();
    let mut spec = link(10, "none");
    spec.set_schedule(&[Direction::Out], &[Change::read("at 2s down for 2s").unwrap()]);
    let Some(wan) = lab(&spec) else { return };
    let start = Instant::now();
    let Some(text) = ping(&wan, Host::Near, &format!("-c 30 -i 0.2 -W 1 {}", Host::Far.wan())) else { return };
    assert!(start.elapsed() > Duration::from_secs(5));
    let answered = times(&text).len();
    println!("{answered} of 30 were answered; {:?}", counters(&wan, "down"));
    // The outage lasts 2 of 6 seconds. On a busy machine ping may send at other times.
    assert!((10..=25).contains(&answered), "{text}");
    // The stage also counts the hosts' router solicitations (IPv6), which ping does not see.
    assert!((0..=4).contains(&(counters(&wan, "down").segments_lost() as i64 - (30 - answered as i64))), "{text}");
}
