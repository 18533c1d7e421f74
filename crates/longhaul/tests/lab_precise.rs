//! Tests the emulator to a percent: other programs (ping, iperf3) measure its delay, rate and loss. Also tests that a slow
//! relay fails on a quiet machine.
//!
//! These figures need a quiet machine, so `make bench` runs them and `make test` does not. The tests of crates/longhaul-link
//! check the same stages in virtual time, to the byte and the nanosecond. Needs root, of the system or of a user namespace. A
//! test that cannot run here prints SKIP and the reason; it fails if the environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/lab.rs"]
mod common;

use common::{alone, lab, runs};
use longhaul_lab::{Direction, Host, LinkSpec, Profile, Wan};
use longhaul_link::Setting;
use longhaul_units::{Bytes, Rate};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

fn link(rtt_ms: u64, rate: &str, loss: f64) -> LinkSpec {
    LinkSpec { loss, ..LinkSpec::new(Duration::from_millis(rtt_ms), rate.parse::<Rate>().ok()) }
}

/// Pings `to` from the near relay. Returns the lower quartile and the minimum of the round trips in milliseconds. Other
/// programs on the machine make some answers late, but none early.
fn ping(wan: &Wan, to: IpAddr) -> Option<(f64, f64)> {
    let text = runs(wan.output(Host::Near, "ping", &["-n", "-c", "40", "-i", "0.02", &to.to_string()]))?;
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse().ok();
    let mut times: Vec<f64> = text.lines().filter_map(time).collect();
    assert_eq!(times.len(), 40, "{text}");
    times.sort_by(f64::total_cmp);
    Some((times[10], times[0]))
}

#[test]
fn ping_sees_the_round_trip() {
    let _alone = alone();
    // Time that this machine itself needs for the path through both devices, measured over a link without delay.
    let mut own = 0.0;
    for (rtt, rate) in [(0, "none"), (10, "1Gbit/s"), (63, "10Gbit/s"), (300, "100Mbit/s")] {
        let Some(wan) = lab(&link(rtt, rate, 0.0)) else { return };
        for to in [Host::Far.wan(), Host::Far.wan6()] {
            let Some((quartile, min)) = ping(&wan, to) else { return };
            let wanted = rtt as f64;
            println!("{wanted} ms to {to}: quartile {quartile} ms, min {min} ms");
            if rtt == 0 {
                own = quartile.max(own);
                assert!(own < 1.0, "{own} ms without any delay: the emulator is slow, or the machine is busy");
            }
            let late = quartile - wanted - own;
            assert!(late <= 0.5f64.max(wanted / 100.0), "quartile {quartile} of {wanted} ms, {own} without any delay");
            // ping prints three digits: 63.0 may be 62.96.
            assert!(min >= wanted * 0.999, "an answer took only {min} of {wanted} ms");
        }
    }
}

/// Runs `iperf3 -J` over the WAN; returns its report.
fn iperf3(wan: &Wan, arguments: &[&str]) -> Option<serde_json::Value> {
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "--forceflush"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let _server = runs(wan.spawn(Host::Far, server).and_then(|server| server.wait_for("Server listening")))?;
    let to = Host::Far.wan().to_string();
    let text = runs(wan.output(Host::Near, "iperf3", &[&["-c", &to, "-J"], arguments].concat()))?;
    Some(serde_json::from_str(&text).expect("iperf3 -J prints JSON"))
}

#[test]
fn iperf3_sees_the_rate() {
    let _alone = alone();
    for (rate, bits) in [("20Mbit/s", 20e6), ("400Mbit/s", 400e6), ("1Gbit/s", 1e9)] {
        let Some(wan) = full_line(link(20, rate, 0.0)) else { return };
        for way in Direction::BOTH {
            // Reno grows until the window limits it, and every kernel has it. CUBIC may stop when a queue forms (HyStart).
            let mut arguments = vec!["-t", "2", "-O", "1", "-C", "reno"];
            arguments.extend((way == Direction::Back).then_some("-R"));
            let Some(json) = iperf3(&wan, &arguments) else { return };
            assert_eq!(json["end"]["sender_tcp_congestion"], "reno");
            // The receiver's figure, because the sender also counts bytes that wait in its buffer.
            let measured = json["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
            // IP and TCP headers take 52 of 1500 bytes.
            let wanted = bits * 1448.0 / 1500.0;
            let off = measured / wanted - 1.0;
            println!("{rate} {way:?}: {:.2} of {:.2} Mbit/s, {:+.2} %", measured / 1e6, wanted / 1e6, off * 100.0);
            assert!(off.abs() < 0.01, "{way:?}: {measured} of {wanted} bit/s");
        }
        assert_eq!(device_drops(&wan), 0);
    }
}

/// Builds a lab whose line never idles during a transfer. The windows hold about five round trips, so that a busy machine may
/// be late by some 80 ms, and the queue holds them whole. So nothing is lost. After a loss TCP would hold back the following
/// bytes until the gap is filled, and iperf3 would count them too late.
fn full_line(mut link: LinkSpec) -> Option<Wan> {
    let product = link.bandwidth_delay().0;
    link.queue = Some(Bytes(16 * product));
    let relay = Profile::buffers(Bytes(8 * product));
    runs(Wan::build(&link, [Profile::plain(), relay.clone(), relay, Profile::plain()]))
}

#[test]
fn iperf3_sees_the_loss_that_the_link_counts() {
    let _alone = alone();
    // 20 % of 72,000 datagrams are 14,400, with a standard deviation of 0.75 %. Five seeds in six are within 1 %; this one is
    // within 0.1 %. It spares the first 64 packets, because iperf3 does not repeat its first datagram. Only one direction is
    // lossy, because iperf3's control connection crosses the link, too.
    let mut spec = LinkSpec { seed: 29_873_152, ..link(2, "none", 0.0) };
    spec.set(&[Direction::Out], &Setting::read("loss", "20%").unwrap());
    let Some(wan) = lab(&spec) else { return };
    // A number of datagrams instead of a time, so that a slow machine sends as many; 6,000 a second. Linux doubles the size
    // of -w, so the receiver may be late by twice as much as without it.
    let Some(json) = iperf3(&wan, &["-u", "-b", "4800k", "-l", "100", "-k", "72000", "-w", "200K"]) else { return };
    let sum = &json["end"]["sum"];
    let (lost, sent) = (sum["lost_packets"].as_u64().unwrap(), sum["packets"].as_u64().unwrap());
    let traffic = &wan.counters()[0];
    let (_, counters) = *traffic.stages.iter().find(|(key, _)| *key == "loss").unwrap();
    let (cut, offered) = (counters.segments_lost(), counters.segments_in);
    // A busy machine loses other datagrams, too, if iperf3 or the link does not read in time. Those are counted as well.
    let Some(unread) = unread_datagrams(&wan, Host::Far) else { return };
    let late = device_drops(&wan) + traffic.refused + traffic.overflowed;
    println!("iperf3 lost {lost} of {sent}; the link {cut} of {offered}, late {late}, the receiver's socket {unread}");
    // Datagrams that iperf3 did not read in time have passed the link. Datagrams that the link did not read are its own loss.
    for (who, lost, sent) in [("iperf3", lost.saturating_sub(unread), sent), ("the link", cut, offered)] {
        let share = lost as f64 / sent as f64;
        assert!((share / 0.2 - 1.0).abs() < 0.01, "{who}: {lost} of {sent}, {unread} not read in time");
    }
    // The link also loses a few packets of iperf3's control connection. iperf3 does not report losses after the last datagram
    // that arrives.
    assert!((cut + late + unread).abs_diff(lost) <= 30, "{lost} reported, {cut} + {late} + {unread} counted");
}

#[test]
fn a_slow_relay_fails_on_a_quiet_machine() {
    let _alone = alone();
    if lab(&link(10, "200Mbit/s", 0.0)).is_none() {
        return;
    }
    // The cap allows 2.5 MB/s with headers; without it the line carries 24.
    let slow = r#"
about = "a relay with a cap"
source = "the tests"
link = { rtt = "10ms", rate = "200Mbit/s" }
[[run]]
id = "slow"
carriers = ["longhaul"]
set = ["dial.max-pacing-rate=20Mbit/s"]
traffic = { kind = "raw", time = "2s" }
expect = { megabytes_per_s = [10] }
"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slow.toml");
    std::fs::write(&file, slow).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["lab", "run", "--json"]).arg(&file).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).expect("lab run --json prints JSON");
    let slow = &report["runs"][0];
    println!("{}: {}: {}", slow["verdict"], slow["why"], slow["disturbance"]);
    // If it is `unclear`, other programs disturbed this machine: measure on a quiet one.
    assert_eq!((&slow["verdict"], run.status.code()), (&"fail".into(), Some(1)), "{}", slow["why"]);
    assert_eq!(slow["bytes_ok"], true);
}

/// Returns the number of packets that the two TUN devices dropped because the link did not read them in time
/// (proc_pid_net_dev, transmit drops).
fn device_drops(wan: &Wan) -> u64 {
    let drops = |host| {
        let text = wan.output(host, "cat", &["/proc/self/net/dev"]).unwrap();
        let fields = text.lines().find_map(|line| line.trim().strip_prefix("wan0:")).expect("the device");
        fields.split_whitespace().nth(11).unwrap().parse::<u64>().unwrap()
    };
    drops(Host::Near) + drops(Host::Far)
}

/// Returns the number of datagrams that the kernel of `host` dropped because nobody read them in time (proc_net_snmp, UDP
/// RcvbufErrors).
fn unread_datagrams(wan: &Wan, host: Host) -> Option<u64> {
    let text = runs(wan.output(host, "cat", &["/proc/self/net/snmp"]))?;
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (rows.next()?.split(' '), rows.next()?.split(' '));
    let (_, value) = names.zip(values).find(|(name, _)| *name == "RcvbufErrors").expect("the kernel counts them");
    value.parse().ok()
}
