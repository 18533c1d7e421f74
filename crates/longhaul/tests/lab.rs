//! Tests of the live lab: real namespaces and TUN devices. lab_precise.rs measures its precision on a quiet machine.
//!
//! Needs root, of the system or of a user namespace (`unshare -Urnm cargo test`). A test that cannot run here prints SKIP and
//! the reason; it fails if the environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/lab.rs"]
mod common;

use common::{alone, lab, runs};
use longhaul_lab::{Host, LinkSpec, Profile, Sysctl, Wan, transfer};
use longhaul_units::Rate;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

fn link(rtt_ms: u64, rate: &str, loss: f64) -> LinkSpec {
    LinkSpec { loss, ..LinkSpec::new(Duration::from_millis(rtt_ms), rate.parse::<Rate>().ok()) }
}

#[test]
fn no_packet_is_early() {
    let _alone = alone();
    for (rtt, rate) in [(10, "1Gbit/s"), (300, "100Mbit/s")] {
        let Some(wan) = lab(&link(rtt, rate, 0.0)) else { return };
        for to in [Host::Far.wan(), Host::Far.wan6()] {
            let text = runs(wan.output(Host::Near, "ping", &["-n", "-c", "40", "-i", "0.02", &to.to_string()]));
            let Some(text) = text else { return };
            let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse::<f64>().ok();
            let min = text.lines().filter_map(time).fold(f64::INFINITY, f64::min);
            let wanted = rtt as f64;
            println!("{wanted} ms to {to}: min {min} ms");
            // ping prints three digits: 63.0 may be 62.96. lab_precise.rs tests the lateness of packets.
            assert!(min >= wanted * 0.999, "an answer took only {min} of {wanted} ms");
            assert!(min < 20_000.0, "no answer: {text}");
        }
    }
}

#[test]
fn a_line_carries_at_most_its_rate_and_measures_its_lateness() {
    let _alone = alone();
    let Some(wan) = lab(&link(20, "100Mbit/s", 0.0)) else { return };
    let left = |wan: &Wan| wan.counters().map(|way| way.frames_out + way.refused)[0];
    let before = left(&wan);
    wan.begin();
    let begun = left(&wan);
    let sink = SocketAddr::new(Host::B.lan(), 7000);
    transfer(&wan, sink, 20_000_000).unwrap_or_else(|why| panic!("{why}"));
    let out = &wan.counters()[0];
    assert!(out.ledger.bytes() >= 20_000_000, "only {} bytes passed", out.ledger.bytes());
    // The ledger has the times at which packets were due. So even on a busy machine its rate never exceeds the line's payload.
    let allowed = 100e6 / 8.0 * 1448.0 / 1500.0;
    for length in [200, 500, 1000] {
        let fastest = out.ledger.fastest(Duration::from_millis(length)).unwrap();
        println!("over {length} ms: {:.3} of {:.3} MB/s", fastest / 1e6, allowed / 1e6);
        assert!(fastest <= allowed * 1.001, "{fastest} of {allowed}");
    }
    let late = &out.lateness;
    println!(
        "{} packets, late by {:?}, {:?} and {:?}",
        late.packets(),
        late.quantile(50),
        late.quantile(99),
        late.max()
    );
    // The histogram counts every packet since `begin`. No packet leaves in the very nanosecond in which it is due.
    let all = out.frames_out + out.refused;
    assert!((all - begun..=all - before).contains(&late.packets()), "{} of {before}, {begun}, {all}", late.packets());
    assert!(late.packets() > 300 && late.quantile(50) > Duration::ZERO, "{late:?}");
}

#[test]
fn every_byte_arrives_through_cut_super_packets() {
    let _alone = alone();
    for loss in [0.001, 0.01] {
        let Some(wan) = lab(&link(4, "2Gbit/s", loss)) else { return };
        let hosts: [fn(Host) -> IpAddr; 2] = [Host::lan, Host::lan6];
        for address in hosts {
            let before = wan.counters()[0].cut;
            let sink = SocketAddr::new(address(Host::B), 7000);
            let took = transfer(&wan, sink, 40_000_000).unwrap_or_else(|why| panic!("{why}"));
            let cut = wan.counters()[0].cut - before;
            println!("{loss}: to {sink} in {took:?}, {cut} super-packets cut");
            assert!(cut > 5, "only {cut} super-packets were cut");
        }
        let refused = wan.counters().map(|traffic| traffic.refused);
        assert_eq!(refused, [0, 0], "the kernel refused a piece");
    }
}

#[test]
fn every_host_has_the_settings_of_its_profile() {
    let _alone = alone();
    let odd = Profile {
        sysctls: ["tcp_sack", "tcp_window_scaling"].map(|name| Sysctl::new(name, "0")).to_vec(),
        route: "advmss 1300".into(),
        congestion: Some("reno".into()),
        mtu: 1400,
        offload: false,
        ..Profile::plain()
    };
    let plain = Profile { congestion: Some("cubic".into()), ..Profile::plain() };
    let Some(wan) = runs(Wan::build(&link(10, "none", 0.0), [plain.clone(), odd.clone(), plain, odd])) else { return };
    for (host, devices) in [(Host::A, ["lan0"].as_slice()), (Host::B, &["lan0"]), (Host::Near, &["wan0", "lan0"])] {
        let is_odd = host != Host::A;
        for device in devices {
            let shown = wan.output(host, "ip", &["-d", "link", "show", device]).unwrap();
            assert_eq!(shown.contains("gso_max_segs 1 "), is_odd, "{host:?}: {shown}");
            // The MTU of host A or B applies at both ends of its cable.
            let is_narrow = if *device == "wan0" { is_odd } else { host == Host::B };
            assert!(shown.contains(if is_narrow { "mtu 1400 " } else { "mtu 1500 " }), "{host:?}: {shown}");
        }
        for name in ["tcp_sack", "tcp_window_scaling"] {
            let path = format!("/proc/sys/net/ipv4/{name}");
            assert_eq!(wan.output(host, "cat", &[&path]).unwrap().trim() == "0", is_odd, "{host:?}: {name}");
        }
        let routes = wan.output(host, "ip", &["route"]).unwrap();
        assert_eq!(routes.contains("advmss 1300"), is_odd, "{host:?}: {routes}");
        // The congestion control is the namespace's default or, if the kernel does not allow that, an option of each route.
        let default = wan.output(host, "cat", &["/proc/sys/net/ipv4/tcp_congestion_control"]).unwrap();
        let by_route = routes.lines().filter(|route| route.contains("congctl cubic")).count();
        match is_odd {
            // Every namespace may use Reno.
            true => assert_eq!((default.trim(), by_route), ("reno", 0), "{host:?}: {routes}"),
            false => assert!(default.trim() == "cubic" || by_route == routes.lines().count(), "{host:?}: {routes}"),
        }
    }
}

#[test]
fn a_dropped_lab_leaves_nothing_behind() {
    let _alone = alone();
    let before = own_namespaces();
    let Some(wan) = lab(&link(1, "1Gbit/s", 0.0)) else { return };
    let mut command = Command::new("sh");
    // Leaves a child without its parent; the child does not end by itself.
    command.args(["-c", "sleep 1000 & echo started >&2; exec sleep 1000"]).stderr(Stdio::piped());
    let program = runs(wan.spawn(Host::A, command).and_then(|program| program.wait_for("started")));
    let left = descendants(std::process::id());
    assert!(left.len() >= 3, "not all of cat, sh and the orphaned sleep: {left:?}");
    drop(program);
    drop(wan);
    left.iter().for_each(|pid| wait_for_end(*pid));
    assert_eq!(own_namespaces(), before);
}

/// Waits until the process is gone.
fn wait_for_end(pid: u32) {
    let gone = Command::new("timeout").args(["60", "tail", "-f", "/dev/null", &format!("--pid={pid}")]).status();
    assert!(gone.unwrap().success(), "process {pid} is still there");
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all descendants of process `pid`.
fn descendants(pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let pairs: Vec<(u32, u32)> = processes().into_iter().filter_map(|pid| Some((pid, parent(&pid)?))).collect();
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(pairs.iter().filter(|(_, parent)| *parent == of).map(|(child, _)| *child));
        at += 1;
    }
    found.split_off(1)
}

fn namespace(path: &str) -> Option<String> {
    let target = fs::read_link(path).ok()?.to_string_lossy().into_owned();
    target.starts_with("net:[").then_some(target)
}

/// Returns, sorted, the network namespaces that a process is in or holds open.
fn open_namespaces(pid: u32) -> Vec<String> {
    let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let held = held.filter_map(|entry| namespace(entry.path().to_str()?));
    let mut all: Vec<String> = held.chain(namespace(&format!("/proc/{pid}/ns/net"))).collect();
    all.sort();
    all
}

fn own_namespaces() -> Vec<String> {
    open_namespaces(std::process::id())
}
