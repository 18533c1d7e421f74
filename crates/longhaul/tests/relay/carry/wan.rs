//! Runs the matrix with 300 ms between the relays, and other tests over an emulated WAN in namespaces (longhaul-lab).
//!
//! Needs root, of the system or of a user namespace. A test that cannot run here prints SKIP and the reason; it fails in CI.

use crate::carry::endings::CELLS;
use crate::harness::*;
use longhaul_lab::{Host, LabError, LinkSpec, Profile, Sysctls, Wan};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Builds two sites 300 ms apart; returns `None` if the lab cannot be built here.
fn wan() -> Option<Arc<Wan>> {
    wan_of(&far())
}

fn far() -> LinkSpec {
    LinkSpec::new(Duration::from_millis(300), "1Gbit/s".parse().ok())
}

/// Builds two sites with `link` between them; returns `None` if the lab cannot be built here.
pub(crate) fn wan_of(link: &LinkSpec) -> Option<Arc<Wan>> {
    wan_between(link, Profile::relay(link))
}

/// Like [`wan_of`], with BBR as the default of the relays' kernels. Also returns `None` if this kernel does not allow that.
fn wan_of_bbr(link: &LinkSpec) -> Option<Arc<Wan>> {
    let wan = wan_between(link, Profile { congestion: Some("bbr".into()), ..Profile::relay(link) })?;
    let default = wan.output(Host::Near, "cat", &["/proc/sys/net/ipv4/tcp_congestion_control"]).unwrap();
    if default.trim() != "bbr" {
        skip(
            "the kernel does not allow BBR as a namespace's default: \
             sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'",
        );
        return None;
    }
    Some(wan)
}

fn wan_between(link: &LinkSpec, relay: Profile) -> Option<Arc<Wan>> {
    match Wan::build(link, [Profile::plain(), relay.clone(), relay, Profile::plain()]) {
        Ok(wan) => Some(Arc::new(wan)),
        Err(why @ (LabError::Missing { .. } | LabError::Sys(_))) => {
            skip(&why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn the_matrix_holds_across_300_ms() {
    let Some(wan) = wan() else { return };
    // Runs all cells at once, because they wait for round trips and need little processor time.
    std::thread::scope(|scope| {
        for (row, cell) in CELLS.iter().enumerate() {
            for (column, (relays, up)) in [(1, true), (1, false), (2, true), (2, false)].into_iter().enumerate() {
                let (wan, port) = (&wan, 7000 + (row * 4 + column) as u16);
                let run = move || cell.run_on(&mut Path::across(wan, port, relays, cell.flags), up);
                let name = format!("{}, {relays} relays, up: {up}", cell.name);
                std::thread::Builder::new().name(name).spawn_scoped(scope, run).expect("a thread");
            }
        }
    });
}

/// Flags for a short keepalive: probes begin after a second of silence, and the leg is given up after two without an answer. When
/// the line dies, the last message's ACK is still under way to the far relay. So the far accept leg has unacknowledged bytes, and
/// user-timeout ends it instead of keepalive.
const SHORT_KEEPALIVE: &[&str] = &[
    "--set=accept.keepalive-idle=1s",
    "--set=accept.keepalive-interval=1s",
    "--set=accept.keepalive-count=2",
    "--set=accept.user-timeout=3s",
    "--set=dial.keepalive-idle=1s",
    "--set=dial.keepalive-interval=1s",
    "--set=dial.keepalive-count=2",
];

#[test]
fn a_dead_next_hop_or_a_dead_line_across_a_wan_is_a_reset() {
    let Some(wan) = wan() else { return };
    for relays in [1, 2] {
        let mut refused = Path::across(&wan, 7099 + relays as u16, relays, &[]);
        refused.drop_server();
        assert_eq!(read_to_end(&refused.dial()), (Vec::new(), Ending::Reset));
        assert_eq!(refused.relays[relays - 1].flow_end(), (0, 0, "dial failed".into()));
    }
    let impatient = ["--set", "accept.user-timeout=3s", "--set", "dial.user-timeout=3s", "--connect-timeout", "1s"];
    let both = Path::across(&wan, 7102, 2, &impatient);
    let one = Path::across(&wan, 7103, 1, &impatient);
    let silent = [Path::across(&wan, 7104, 1, SHORT_KEEPALIVE), Path::across(&wan, 7105, 2, SHORT_KEEPALIVE)];
    let talking = [both.connect(), one.connect()];
    let listening = [silent[0].connect(), silent[1].connect()];
    talking.iter().chain(&listening).for_each(|(client, server)| talk(client, server));
    wan.output(Host::Far, "ip", &["link", "set", "wan0", "down"]).unwrap();
    // With bytes under way from both ends, the legs on the line time out. With one relay, the server's connection crosses the
    // line itself, so its end is not checked.
    talking.iter().for_each(|flow| (&flow.0).write_all(b"into the dark").unwrap());
    (&talking[0].1).write_all(b"into the dark").unwrap();
    assert_eq!(read_to_end(&talking[0].0), (Vec::new(), Ending::Reset));
    assert_eq!(read_to_end(&talking[0].1), (Vec::new(), Ending::Reset));
    assert_eq!(read_to_end(&talking[1].0), (Vec::new(), Ending::Reset));
    // Without bytes under way, keepalive finds the dead line.
    listening.iter().for_each(|(client, _)| assert_eq!(read_to_end(client), (Vec::new(), Ending::Reset)));
    assert_eq!(read_to_end(&listening[1].1), (Vec::new(), Ending::Reset));
    for path in [&both, &one, &silent[0], &silent[1]] {
        assert_eq!(path.relays[0].flow_end().2, "dial leg timed out");
    }
    // A new client is reset soon, although the next hop does not answer.
    assert_eq!(read_to_end(&one.dial()), (Vec::new(), Ending::Reset));
    let why = one.relays[0].wait_log("dial failed");
    assert!(why["why"].as_str().unwrap().contains("no answer in 1s"), "{why}");
}

/// A RST is one packet, which may be lost. The hosts send nothing more, so only a keepalive probe of the relay's kernel can make
/// the other relay's kernel send another RST.
#[test]
fn a_reset_that_is_lost_between_the_relays_reaches_the_other_host() {
    let Some(wan) = wan_of(&LinkSpec::new(Duration::from_millis(20), "1Gbit/s".parse().ok())) else { return };
    // Whether the client resets, how many resets the line loses, and the relay that sends them over the line.
    let cases = [(true, 1, Host::Near), (true, 2, Host::Near), (false, 1, Host::Far), (false, 2, Host::Far)];
    std::thread::scope(|scope| {
        for (index, (by_client, lost, relay)) in cases.into_iter().enumerate() {
            let (wan, port) = (&wan, 7500 + index as u16);
            scope.spawn(move || {
                let path = Path::across(wan, port, 2, &[]);
                let (client, server) = path.connect();
                talk(&client, &server);
                lose_resets(wan, relay, port, lost);
                let (resets, waits) = if by_client { (client, server) } else { (server, client) };
                reset(resets);
                assert_eq!(
                    read_to_end(&waits),
                    (Vec::new(), Ending::Reset),
                    "by the client: {by_client}, lost: {lost}"
                );
                assert_eq!(resets_on_the_line(wan, relay, port), (lost, 1), "resets lost and resets passed");
            });
        }
    });
}

/// Makes `relay` drop its first `lost` resets of connections with `port`, and count the others.
fn lose_resets(wan: &Wan, relay: Host, port: u16, lost: u64) {
    let reset = format!("add rule inet p{port} out oifname wan0 tcp flags & rst == rst tcp");
    // A token bucket with `lost` tokens that needs days to refill.
    let rules = ["dport", "sport"].map(|side| {
        format!(
            "{reset} {side} {port} limit name lost counter name lost drop; {reset} {side} {port} counter name passed"
        )
    });
    let rules = format!(
        "add table inet p{port}; add limit inet p{port} lost {{ rate 1/week burst {lost} packets; }}; \
         add counter inet p{port} lost; add counter inet p{port} passed; \
         add chain inet p{port} out {{ type filter hook output priority 0; }}; {}",
        rules.join("; ")
    );
    wan.output(relay, "nft", &[&rules]).unwrap();
}

/// Returns the numbers of resets that [`lose_resets`] has dropped and has let pass.
fn resets_on_the_line(wan: &Wan, relay: Host, port: u16) -> (u64, u64) {
    let count = |name: &str| {
        let text = wan.output(relay, "nft", &["list", "counter", "inet", &format!("p{port}"), name]).unwrap();
        let packets = text.split_whitespace().skip_while(|word| *word != "packets").nth(1);
        packets.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    (count("lost"), count("passed"))
}

#[test]
fn a_relay_without_a_free_port_names_the_sysctls_that_help() {
    let Some(wan) = wan_of(&LinkSpec::new(Duration::from_millis(1), None)) else { return };
    let two_ports = "echo 20000 20001 > /proc/sys/net/ipv4/ip_local_port_range";
    wan.output(Host::Near, "sh", &["-c", two_ports]).unwrap();
    let path = Path::across(&wan, 7106, 1, &[]);
    let flows = [path.connect(), path.connect()];
    assert_eq!(read_to_end(&path.dial()), (Vec::new(), Ending::Reset));
    let why = path.relays[0].wait_log("dial failed")["why"].to_string();
    for part in ["connect: EADDRNOTAVAIL", "net.ipv4.tcp_tw_reuse = 1", "net.ipv4.ip_local_port_range"] {
        assert!(why.contains(part), "{part:?} is not in {why}");
    }
    flows.iter().for_each(|(client, server)| talk(client, server));
}

#[test]
fn with_the_shipped_sysctls_a_port_is_reused_long_before_time_wait_ends() {
    let link = LinkSpec::new(Duration::from_millis(1), None);
    let Some(wan) = wan_between(&link, Profile { further: Sysctls::Shipped, ..Profile::relay(&link) }) else { return };
    let two_ports = "echo 20000 20001 > /proc/sys/net/ipv4/ip_local_port_range";
    wan.output(Host::Near, "sh", &["-c", two_ports]).unwrap();
    let path = Path::across(&wan, 7107, 1, &[]);
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| echo(path.server(), 3));
        // The client sends FIN first, so the dial leg does, too, and its port stays in TIME_WAIT (RFC 9293 3.6.1): 60 s on
        // Linux. The third flow thus has no free port.
        for _ in 0..3 {
            loop {
                let client = path.dial();
                // Both calls fail if the reset has already arrived.
                let _ = (&client).write_all(b"x").and_then(|()| client.shutdown(Shutdown::Write));
                if read_to_end(&client).0 == b"x" {
                    break;
                }
                assert!(started.elapsed() < TIMEOUT / 2, "the port is still busy");
            }
        }
    });
}

/// Whatever the kernel's default is.
#[test]
fn auto_chooses_bbr_only_on_the_wan_leg() {
    // The loss ends slow start and makes CUBIC's window small.
    let link = LinkSpec { loss: 0.01, ..far() };
    [wan_of, wan_of_bbr].into_iter().filter_map(|build| build(&link)).for_each(only_the_wan_leg_gets_bbr);
}

fn only_the_wan_leg_gets_bbr(wan: Arc<Wan>) {
    let bytes = pattern(7, 5_000_000);
    for host in [Host::Near, Host::Far] {
        wan.output(host, "sysctl", &["-w", "net.ipv4.tcp_fastopen=3"]).unwrap();
    }
    // The choice must not depend on the RTT of the handshake. With defer-accept the handshake of the accept leg ends with the
    // client's first byte, so the first RTT includes the client's silence before it (net/ipv4/tcp_minisocks.c, tcp_check_req).
    // The dial leg's SYN requests a cookie or carries the byte.
    let path = Path::across(&wan, 7200, 2, &["--set", "accept.defer-accept=3s", "--set", "dial.fastopen=true"]);
    let flow = || {
        let mut client = path.dial();
        std::thread::sleep(Duration::from_millis(50)); // the client's silence
        client.write_all(b"?").unwrap();
        let server = patient(path.server().accept().unwrap().0);
        both_ways(&client, &server, &bytes, &[b"?", &bytes[..]].concat());
        path.relays.iter().for_each(|relay| {
            let end = relay.wait_log("flow ended");
            let wan_leg = |leg: &str| end[format!("{leg}_rtt_ms")].as_f64().unwrap() > 250.0;
            for leg in ["accept", "dial"] {
                assert_eq!(end[format!("{leg}_congestion")] == "bbr", wan_leg(leg), "{leg}: {end}");
            }
        });
    };
    // The first flow requests the next hop's cookie (RFC 7413), the second uses it.
    flow();
    flow();
}

/// The buffer is so small that nothing else limits the path. The kernels use Reno, because CUBIC ends slow start when round trips
/// grow (HyStart), and its window may then be even smaller than the buffer.
///
/// Where other programs take most of the processor, Reno's window is small after losses, and the accept leg has the round trips of
/// a WAN (seen at a load of 75): then the warning is of that leg, or there is none. The bytes go once more.
#[test]
fn the_log_names_a_send_buffer_that_limits_a_long_path() {
    let link = LinkSpec::new(Duration::from_millis(60), None);
    let relay = Profile { congestion: Some("reno".into()), ..Profile::relay(&link) };
    let Some(wan) = wan_between(&link, relay) else { return };
    wan.output(Host::Near, "sysctl", &["-w", "net.ipv4.tcp_wmem=4096 16384 65536"]).unwrap();
    // With BBR the kernel's own counter is enough to find the limit.
    let by_sysctl = ["dial.congestion=auto", "dial.congestion=reno", "dial.congestion=bbr"];
    let cases = by_sysctl.map(|setting| (setting, Some(65_536))).into_iter().chain([("dial.sndbuf=32KiB", None)]);
    std::thread::scope(|scope| {
        for (port, (setting, wmem)) in (7600..).zip(cases) {
            let wan = &wan;
            scope.spawn(move || {
                let path = Path::across(wan, port, 2, &[&format!("--set={setting}")]);
                // The relay looks for three seconds before it names a limit.
                let bytes = pattern(7, 11_000_000);
                let mut seen = Vec::new();
                let warning = (0..4).find_map(|_| {
                    let (client, server) = path.connect();
                    pass_all(&client, &server, &bytes);
                    drop((client, server));
                    seen.extend(path.relays[0].lines_to_last_flow_end());
                    let names_it = |line: &&Value| {
                        line["message"].as_str().is_some_and(|text| text.starts_with("our send buffer limits"))
                            && line["leg"] == "dial"
                    };
                    seen.iter().find(names_it).cloned()
                });
                let warning = warning.unwrap_or_else(|| panic!("{setting}: no warning: {seen:?}"));
                assert_eq!(warning["tcp_wmem_max"].as_u64(), wmem, "{setting}: {warning}");
            });
        }
    });
}

/// Sends `bytes` and FIN from both ends. Asserts that the client gets `bytes`, the server `all`, and both FIN. Each end reads
/// while it writes: Linux 6.18 with a full fixed receive buffer rejects the ACKs for its own bytes. An end that does not read
/// until it has written everything can thus wait for ever, with relays and without (docs/design/receive-window.md).
fn both_ways(client: &TcpStream, server: &TcpStream, bytes: &[u8], all: &[u8]) {
    std::thread::scope(|scope| {
        for (socket, want) in [(client, bytes), (server, all)] {
            scope.spawn(move || send_all(socket, bytes));
            scope.spawn(move || assert_whole(socket, want));
        }
    });
}

#[test]
fn auto_does_not_choose_bbr_for_messages() {
    // BBR would pace messages that may be sent at once. The loss ends slow start; before that no leg gets BBR.
    let link = LinkSpec { loss: 0.02, ..far() };
    [wan_of, wan_of_bbr].into_iter().filter_map(|build| build(&link)).for_each(no_leg_gets_bbr_for_messages);
}

fn no_leg_gets_bbr_for_messages(wan: Arc<Wan>) {
    const MESSAGE: usize = 10_000;
    let path = Path::across(&wan, 7300, 2, &[]);
    let (client, server) = path.connect();
    for _ in 0..10 {
        for (mut from, mut to) in [(&client, &server), (&server, &client)] {
            from.write_all(&pattern(7, MESSAGE)).unwrap();
            let mut got = vec![0; MESSAGE];
            to.read_exact(&mut got).unwrap();
            assert!(got == pattern(7, MESSAGE));
        }
    }
    drop((client, server));
    for relay in &path.relays {
        let end = relay.wait_log("flow ended");
        for leg in ["accept_congestion", "dial_congestion"] {
            assert_ne!(end[leg], "bbr", "{end}");
        }
    }
}

/// The kernel applies a route's congctl at the handshake, after the socket option was set.
#[test]
fn a_configured_congestion_control_overrides_the_route_s() {
    let relay = Profile { congestion: None, route: "congctl cubic".into(), ..Profile::relay(&far()) };
    let Some(wan) = wan_between(&far(), relay) else { return };
    let path = Path::across(&wan, 7400, 2, &["--set", "dial.congestion=reno", "--set", "accept.congestion=reno"]);
    let (client, server) = path.connect();
    // The log line has the congestion control only for flows of more than 64 KiB.
    let bytes = pattern(7, 100_000);
    (&client).write_all(&bytes).unwrap();
    (&server).read_exact(&mut vec![0; bytes.len()]).unwrap();
    drop((client, server));
    for relay in &path.relays {
        let end = relay.wait_log("flow ended");
        assert_eq!((&end["accept_congestion"], &end["dial_congestion"]), (&"reno".into(), &"reno".into()), "{end}");
    }
}
