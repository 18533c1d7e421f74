//! Breaks each segment of a path between the hosts of the lab, in each way, and asserts that `verify` names the segment and
//! the way: near relay, WAN, far relay, LAN, final host; refused, no answer, failed.
//!
//! Needs root and nft(8). A test that cannot run here prints SKIP and the reason; it fails in CI.

use crate::carry::wan::wan_of;
use crate::harness::*;
use longhaul_lab::{Host, LinkSpec, Wan};
use serde_json::Value;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A way to break the path, and what the near relay finds then.
struct Case {
    name: &'static str,
    how: Break,
    stage: &'static str,
    cause: &'static str,
}

/// A way to break the path.
enum Break {
    /// A rule of nft(8) on this host for segments to the case's port.
    Rule(Host, &'static str),
    /// The far relay is killed.
    Kill,
    /// The far relay is stopped: its kernel still accepts.
    Stop,
    /// The far relay admits nobody.
    Allow,
    /// No program listens on the final host.
    NoServer,
}

const REJECT: &str = "reject with tcp reset";
const PROHIBITED: &str = "reject with icmp type admin-prohibited";

const CASES: &[Case] = &[
    Case { name: "near drops", how: Break::Rule(Host::Near, "drop"), stage: "near relay", cause: "no answer" },
    Case { name: "near refuses", how: Break::Rule(Host::Near, REJECT), stage: "near relay", cause: "refused" },
    Case { name: "far drops", how: Break::Rule(Host::Far, "drop"), stage: "far relay", cause: "no answer" },
    Case { name: "far prohibits", how: Break::Rule(Host::Far, PROHIBITED), stage: "far relay", cause: "refused" },
    Case { name: "far is killed", how: Break::Kill, stage: "far relay", cause: "refused" },
    Case { name: "far hangs", how: Break::Stop, stage: "far relay", cause: "no answer" },
    Case { name: "far resets", how: Break::Allow, stage: "far relay", cause: "failed" },
    Case { name: "host drops", how: Break::Rule(Host::B, "drop"), stage: "final host", cause: "no answer" },
    Case { name: "host prohibits", how: Break::Rule(Host::B, PROHIBITED), stage: "final host", cause: "refused" },
    Case { name: "host refuses", how: Break::NoServer, stage: "final host", cause: "refused" },
];

/// A near relay of the lab whose tunnel it verifies every second.
struct Near {
    watched: Watched,
    wan: Arc<Wan>,
}

impl Near {
    /// Starts the relay. Its tunnel listens on `port` and dials the far host on `to`.
    fn start(wan: &Arc<Wan>, port: u16, to: &[u16]) -> Near {
        let listen = SocketAddr::new(Host::Near.lan(), port).to_string();
        let to = to.iter().map(|port| SocketAddr::new(Host::Far.wan(), *port).to_string()).collect();
        let keys = "verify = \"1s\"\nverify_hops = 1\nconnect_timeout = \"1s\"\n";
        let spawn = |file: &str| {
            let mut command = longhaul();
            command.args(["run", "-c", file]);
            Relay::spawn_in(wan, Host::Near, command)
        };
        Near { watched: Setup { to, listen: &listen, keys, ..Setup::default() }.start_by(spawn), wan: wan.clone() }
    }

    fn wait_whole(&self, name: &str) {
        self.watched.daemon.relay.wait_log("tunnel whole");
        self.is_whole(name);
    }

    fn is_whole(&self, name: &str) {
        let verify = self.watched.verify();
        assert_eq!(verify["state"], "whole", "{name}: {verify}");
        let (code, text) = self.watched.get("/readyz");
        assert!(code == 200 && text.starts_with("ready\n"), "{name}: {code} {text}");
    }

    /// Waits until the probes find `case`, and asserts that every view agrees.
    fn wait_broken(&self, case: &Case) {
        let Case { name, stage, cause, .. } = *case;
        self.watched.wait_broken(stage, cause);
        let file = self.watched.daemon.file();
        let verify = move || Ok(program().args(["verify", "--json", "--timeout", "5s", "-c"]).arg(file).output());
        let output = self
            .wan
            .on(Host::Near, verify)
            .join()
            .expect("no panic")
            .expect("the host is there")
            .expect("longhaul starts");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = &found["tunnels"][0];
        assert_eq!((&found["stage"], &found["cause"]), (&stage.into(), &cause.into()), "{name}: {found}");
    }
}

fn far_relay(wan: &Wan, port: u16, flags: &[&str]) -> Relay {
    far_relay_to(wan, SocketAddr::new(Host::B.lan(), port), flags)
}

/// Starts a far relay that listens on the port of `to` and dials `to`.
fn far_relay_to(wan: &Wan, to: SocketAddr, flags: &[&str]) -> Relay {
    let listen = SocketAddr::new(Host::Far.wan(), to.port());
    let mut command = longhaul();
    command.args(["relay", "--listen", &listen.to_string(), "--to", &to.to_string()]);
    command.args(["--verify-hops", "0", "--connect-timeout", "1s"]).args(flags);
    Relay::spawn_in(wan, Host::Far, command)
}

/// A final host on `port` of host B, which says `greeting` on each connection, and ends it after the client.
fn final_host(wan: &Wan, port: u16, greeting: &'static [u8]) {
    let address = SocketAddr::new(Host::B.lan(), port);
    let server = wan.on(Host::B, move || Ok(TcpListener::bind(address).expect("a port")));
    let server = server.join().expect("no panic").expect("the host is there");
    std::thread::spawn(move || {
        for socket in server.incoming().flatten() {
            // The relay may end the connection first.
            let _ = std::io::Write::write_all(&mut &socket, greeting);
            let _ = std::io::Read::read(&mut &socket, &mut [0]);
        }
    });
}

/// Adds the rule of nft(8) `verdict` for segments to `port` on `host`.
fn add_rule(wan: &Wan, host: Host, port: u16, verdict: &str) {
    let table = format!("inet case{port}");
    let chain = format!("add table {table}; add chain {table} in {{ type filter hook input priority 0; }}");
    let rules = format!("{chain}; add rule {table} in tcp dport {port} {verdict}");
    wan.output(host, "nft", &[&rules]).unwrap();
}

fn remove_rule(wan: &Wan, host: Host, port: u16) {
    wan.output(host, "nft", &[&format!("delete table inet case{port}")]).unwrap();
}

/// Builds the lab; returns `None` if it cannot be built here.
fn lab() -> Option<Arc<Wan>> {
    let wan = wan_of(&LinkSpec::new(Duration::from_millis(20), "1Gbit/s".parse().ok()))?;
    if wan.output(Host::Far, "nft", &["list ruleset"]).is_err() {
        skip("nft(8) is missing");
        return None;
    }
    // By default, a host sends few ICMP messages a second, so that not every segment would be rejected.
    Host::ALL.into_iter().for_each(|host| sysctl(&wan, host, "net.ipv4.icmp_ratelimit=0"));
    Some(wan)
}

impl Case {
    fn run(&self, wan: &Arc<Wan>, port: u16) {
        if !matches!(self.how, Break::NoServer) {
            final_host(wan, port, b".");
        }
        let flags: &[&str] = if let Break::Allow = self.how { &["--allow", "192.0.2.1"] } else { &[] };
        let far = far_relay(wan, port, flags);
        let near = Near::start(wan, port, &[port]);
        match self.how {
            Break::NoServer | Break::Allow => return near.wait_broken(self),
            _ => near.wait_whole(self.name),
        }
        match self.how {
            Break::Rule(host, verdict) => {
                add_rule(wan, host, port, verdict);
                near.wait_broken(self);
                remove_rule(wan, host, port);
                near.wait_whole(self.name);
            }
            Break::Stop => {
                far.stop();
                near.wait_broken(self);
                far.signal("CONT");
                near.wait_whole(self.name);
            }
            _ => {
                drop(far);
                near.wait_broken(self);
                let _far = far_relay(wan, port, &[]);
                near.wait_whole(self.name);
            }
        }
    }
}

#[test]
fn each_broken_segment_is_named_with_its_cause_and_is_whole_again_afterwards() {
    let Some(wan) = lab() else { return };
    // At the same time, because most of it is waiting.
    std::thread::scope(|scope| {
        for (case, port) in CASES.iter().zip(7500..) {
            let wan = &wan;
            std::thread::Builder::new()
                .name(case.name.into())
                .spawn_scoped(scope, move || case.run(wan, port))
                .expect("a thread");
        }
    });
}

/// Nothing comes back from the far relay's host, or from the final host.
#[test]
fn a_network_that_drops_everything_is_named() {
    let Some(wan) = lab() else { return };
    let port = 7650;
    final_host(&wan, port, b".");
    let _far = far_relay(&wan, port, &[]);
    let near = Near::start(&wan, port, &[port]);
    near.wait_whole("before");
    for (stage, host) in [("WAN", Host::Far), ("LAN", Host::B)] {
        let case = Case { name: stage, how: Break::Kill, stage, cause: "no answer" };
        let chain = "add table inet lost; add chain inet lost in { type filter hook input priority 0; policy drop; }";
        wan.output(host, "nft", &[chain]).unwrap();
        near.wait_broken(&case);
        wan.output(host, "nft", &["delete table inet lost"]).unwrap();
        near.wait_whole(stage);
    }
}

/// The first next hop does not answer. New flows and the probes use the second one.
#[test]
fn with_a_second_next_hop_the_tunnel_stays_whole_and_new_flows_use_it() {
    let Some(wan) = lab() else { return };
    let (first, second) = (7600, 7601);
    final_host(&wan, first, b"1");
    final_host(&wan, second, b"2");
    let _far = [far_relay(&wan, first, &[]), far_relay(&wan, second, &[])];
    let near = Near::start(&wan, 7602, &[first, second]);
    let entry = SocketAddr::new(Host::Near.lan(), 7602);
    let answer = || {
        let client = wan.on(Host::A, move || Ok(patient(TcpStream::connect(entry).unwrap())));
        let client = client.join().unwrap().unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        read_to_end(&client)
    };
    near.wait_whole("both hops");
    assert_eq!(answer(), (b"1".to_vec(), Ending::Fin));
    for verdict in ["drop", REJECT] {
        add_rule(&wan, Host::Far, first, verdict);
        assert_eq!(answer(), (b"2".to_vec(), Ending::Fin), "{verdict}");
        let results = near.watched.verify()["last_unix_seconds"].as_f64();
        wait_until("another probe", || near.watched.verify()["last_unix_seconds"].as_f64() > results);
        near.is_whole(verdict);
        remove_rule(&wan, Host::Far, first);
    }
    assert!(near.watched.daemon.relay.try_log("tunnel broken").is_none());
}

/// Writes a sysctl of `host`, such as `net.ipv4.ip_forward=1`.
fn sysctl(wan: &Wan, host: Host, setting: &str) {
    wan.output(host, "sysctl", &["-w", setting]).unwrap();
}

/// Runs ip(8) with the words of `arguments` on `host`.
fn ip_on(wan: &Wan, host: Host, arguments: &str) {
    wan.output(host, "ip", &arguments.split(' ').collect::<Vec<_>>()).unwrap();
}

/// The far relay's port drops the first dial. It answers the second one, so the way was broken before, and not the port.
#[test]
fn a_port_that_answers_again_is_not_blamed_for_the_way() {
    let Some(wan) = lab() else { return };
    let port = 7660;
    // A greeting would come after the end of the second dial, and the kernel would answer it with RST.
    final_host(&wan, port, b"");
    let _far = far_relay(&wan, port, &[]);
    let near = Near::start(&wan, port, &[port]);
    near.wait_whole("before");
    // Two SYNs: the first dial may send another one just before its second is over. If not, the second dial does.
    let chain = "add table inet out; add chain inet out on { type filter hook output priority 0; }";
    let count = |flag: &str| format!("add rule inet out on tcp dport {port} tcp flags & {flag} == {flag} counter");
    wan.output(Host::Near, "nft", &[&format!("{chain}; {}; {}", count("rst"), count("fin"))]).unwrap();
    add_rule(&wan, Host::Far, port, "tcp flags == syn quota until 130 bytes drop");
    let broken = near.watched.daemon.relay.wait_log("tunnel broken");
    assert_eq!((&broken["stage"], &broken["cause"]), (&"WAN".into(), &"no answer".into()), "{broken}");
    let counted = wan.output(Host::Near, "nft", &["list table inet out"]).unwrap();
    let is_counted = |flag| counted.lines().any(|line| line.contains(flag) && !line.contains("counter packets 0 "));
    assert!(is_counted("fin") && !is_counted("rst"), "the second dial ends with FIN: {counted}");
    near.wait_whole("after");
}

/// Host B is a router here. It drops the dials to the host behind it, which is off, and rejects everything else. Then it rejects
/// the dials, too.
#[test]
fn a_firewall_on_the_way_does_not_answer_for_the_host() {
    let Some(wan) = lab() else { return };
    let to = SocketAddr::from(([192, 0, 2, 9], 7700));
    sysctl(&wan, Host::B, "net.ipv4.ip_forward=1");
    ip_on(&wan, Host::B, "route add 192.0.2.9 dev lo");
    ip_on(&wan, Host::Far, &format!("route add 192.0.2.9 via {}", Host::B.lan()));
    let chain = "add table inet way; add chain inet way on { type filter hook forward priority 0; }";
    let rules = "add rule inet way on meta l4proto tcp drop; add rule inet way on counter reject";
    wan.output(Host::B, "nft", &[&format!("{chain}; {rules}")]).unwrap();
    let _far = far_relay_to(&wan, to, &[]);
    let near = Near::start(&wan, to.port(), &[to.port()]);
    near.wait_broken(&Case { name: "router rejects", how: Break::NoServer, stage: "LAN", cause: "no answer" });
    let counted = wan.output(Host::B, "nft", &["list table inet way"]).unwrap();
    assert!(!counted.contains("counter packets 0 "), "no question came: {counted}");
    wan.output(Host::B, "nft", &[&format!("insert rule inet way on meta l4proto tcp {PROHIBITED}")]).unwrap();
    near.wait_broken(&Case { name: "router prohibits", how: Break::NoServer, stage: "LAN", cause: "failed" });
}

/// Only packets with a mark reach the host, whose port drops the dials.
#[test]
fn the_host_of_a_silent_port_is_asked_on_the_way_of_the_dial() {
    let Some(wan) = lab() else { return };
    let to = SocketAddr::from(([192, 0, 2, 9], 7710));
    ip_on(&wan, Host::B, "address add 192.0.2.9/32 dev lo");
    ip_on(&wan, Host::Far, &format!("route add 192.0.2.9 via {} table 7", Host::B.lan()));
    ip_on(&wan, Host::Far, "rule add fwmark 7 table 7");
    ip_on(&wan, Host::Far, "route add unreachable 192.0.2.9");
    // Without the mark there is no way back, as the kernel sees it.
    wan.output(
        Host::Far,
        "sh",
        &["-c", "for device in /proc/sys/net/ipv4/conf/*; do echo 0 > $device/rp_filter; done"],
    )
    .unwrap();
    add_rule(&wan, Host::B, to.port(), "drop");
    let _far = far_relay_to(&wan, to, &["--set", "dial.mark=7"]);
    let near = Near::start(&wan, to.port(), &[to.port()]);
    near.wait_broken(&Case { name: "marked", how: Break::NoServer, stage: "final host", cause: "no answer" });
}
