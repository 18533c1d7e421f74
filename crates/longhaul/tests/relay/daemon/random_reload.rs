//! Reloads one random configuration after the other, under traffic: live flows go on, a client that the configurations before and
//! after allow is served by one of them, and nothing is left of a tunnel that has ended.
//!
//! `LONGHAUL_RELOADS` sets the number of reloads, and `LONGHAUL_RELOAD_SEED` repeats a run.

use crate::harness::*;
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

const RELOADS: u64 = 24;
/// Number of reloads after which the test waits until the replaced listeners have ended, and counts what is left.
const LOOK_EVERY: u64 = 12;
/// Number of flows that live through the reloads.
const LIVE: usize = 24;

/// A tunnel of a configuration.
#[derive(Clone, Debug)]
struct Tunnel {
    name: String,
    listen: SocketAddr,
    server: usize,
    lets_in: bool,
    more: String,
}

/// Numbers that depend on the seed alone (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// What the test has beside the daemon.
struct World {
    ports: Vec<Port>,
    /// Each answers with its number and what it has read.
    servers: Vec<SocketAddr>,
}

impl World {
    fn new() -> World {
        let servers = (0..3_u8).map(|number| {
            let server = server();
            let address = server.local_addr().unwrap();
            thread::spawn(move || {
                for socket in server.incoming().map_while(Result::ok) {
                    thread::spawn(move || answer(number, socket));
                }
            });
            address
        });
        World { servers: servers.collect(), ports: (0..3).map(|_| Port::reserve("0.0.0.0")).collect() }
    }

    /// Returns every address at which a client may ask for a tunnel.
    fn addresses(&self) -> Vec<SocketAddr> {
        let ips: [IpAddr; 3] = ["127.0.0.1", "127.0.0.2", "::1"].map(|ip| ip.parse().unwrap());
        self.ports.iter().flat_map(|port| ips.map(|ip| SocketAddr::new(ip, port.address().port()))).collect()
    }

    /// Returns a random configuration with at least one tunnel. It has about half of the tunnels `before` in random order, and
    /// half of these under another name, so that many addresses stay or pass over.
    fn tunnels(&self, numbers: &mut Numbers, before: &[Tunnel]) -> Vec<Tunnel> {
        let mut tunnels: Vec<Tunnel> = Vec::new();
        for old in before {
            let name = format!("t{}", numbers.below(5));
            let name = if numbers.below(2) == 0 { name } else { old.name.clone() };
            if numbers.below(2) == 0 && !tunnels.iter().any(|other| other.name == name) {
                tunnels.insert(numbers.below(tunnels.len() + 1), Tunnel { name, ..old.clone() });
            }
        }
        for _ in 0..1 + numbers.below(7) {
            let ip = numbers.one_of(&["127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::"]).parse().unwrap();
            let listen = SocketAddr::new(ip, self.ports[numbers.below(self.ports.len())].address().port());
            let name = format!("t{}", numbers.below(5));
            let (server, lets_in) = (numbers.below(self.servers.len()), numbers.below(5) > 0);
            let accept =
                numbers.one_of(&["", "dscp = \"ef\"", "keepalive-idle = \"100s\"", "dscp = \"cs1\", mss = \"1000B\""]);
            let key = numbers.one_of(&[
                "",
                "max_flows = 100",
                "max_flows_per_source = 100",
                "check = \"tcp\"\ncheck_interval = \"100ms\"",
                "verify = \"1s\"\nverify_hops = 0\nverify_final = false",
                "flow_bandwidth = \"1Gbit/s\"",
                "connect_timeout = \"5s\"",
                "splice = false",
            ]);
            let conflicts = |other: &Tunnel| covers(other.listen, listen.ip()) || covers(listen, other.listen.ip());
            let is_taken =
                |other: &Tunnel| other.name == name || other.listen.port() == listen.port() && conflicts(other);
            if !tunnels.iter().any(is_taken) {
                tunnels.push(Tunnel { name, listen, server, lets_in, more: format!("accept = {{ {accept} }}\n{key}") });
            }
        }
        tunnels
    }

    fn text(&self, tunnels: &[Tunnel]) -> String {
        let of = |Tunnel { name, listen, server, lets_in, more }: &Tunnel| {
            let (to, allow) =
                (self.servers[*server], if *lets_in { "[\"127.0.0.0/8\", \"::1\"]" } else { "\"192.0.2.77\"" });
            format!("[[tunnel]]\nname = \"{name}\"\nlisten = \"{listen}\"\nto = \"{to}\"\nallow = {allow}\n{more}\n")
        };
        tunnels.iter().map(of).collect()
    }
}

/// Whether the listener at `listen` gets what is sent to `ip` on its port.
fn covers(listen: SocketAddr, ip: IpAddr) -> bool {
    listen.ip() == ip || listen.ip().is_unspecified() && (listen.is_ipv6() || ip.is_ipv4())
}

fn tunnel_at(tunnels: &[Tunnel], address: SocketAddr) -> Option<&Tunnel> {
    tunnels.iter().find(|tunnel| tunnel.listen.port() == address.port() && covers(tunnel.listen, address.ip()))
}

/// Returns the number of the server to which a client of `address` gets, if it is let in.
fn server_at(tunnels: &[Tunnel], address: SocketAddr) -> Option<usize> {
    tunnel_at(tunnels, address).filter(|tunnel| tunnel.lets_in).map(|tunnel| tunnel.server)
}

fn answer(number: u8, mut socket: TcpStream) {
    let mut message = [0; 8];
    while socket.read_exact(&mut message).is_ok() && socket.write_all(&[&[number][..], &message].concat()).is_ok() {}
}

/// Sends a message, and returns the number of the server that answers with it.
fn ask(mut flow: &TcpStream, message: u64) -> std::io::Result<usize> {
    let mut got = [0; 9];
    flow.write_all(&message.to_be_bytes())?;
    flow.read_exact(&mut got)?;
    assert_eq!(got[1..], message.to_be_bytes(), "other bytes came back");
    Ok(got[0].into())
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect(address).map(patient)
}

/// Asserts that a client of each address in `clients` gets to one of its servers, and that the live flows go on, until `is_done`.
fn traffic(clients: &[(SocketAddr, [usize; 2])], live: &[(TcpStream, usize)], is_done: &AtomicBool) {
    let mut message = 0;
    loop {
        let is_last = is_done.load(SeqCst);
        for (address, servers) in clients {
            let got = connect(*address).and_then(|client| ask(&client, message));
            let got = got.unwrap_or_else(|err| panic!("{address}, which both configurations allow: {err}"));
            assert!(servers.contains(&got), "{address}: server {got} instead of {servers:?}");
        }
        for (flow, server) in live {
            assert_eq!(ask(flow, message).expect("a live flow goes on"), *server);
            message += 1;
        }
        if is_last {
            return;
        }
    }
}

/// Returns the number of TCP sockets of the daemon.
fn tcp_sockets(daemon: &Daemon) -> usize {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    // proc_pid_net(5): the tenth field is the inode.
    let tables = table("tcp") + &table("tcp6");
    let inodes: HashSet<&str> = tables.lines().filter_map(|line| line.split_whitespace().nth(9)).collect();
    let inode = |what: &str| what.strip_prefix("socket:[").map(|rest| rest.trim_end_matches(']').to_string());
    let descriptors = daemon.relay.descriptors().into_iter();
    descriptors.filter(|(_, what)| inode(what).is_some_and(|inode| inodes.contains(&*inode))).count()
}

/// Waits until the daemon has no more than it needs for `tunnels` and `live` flows.
fn nothing_is_left(daemon: &Daemon, world: &World, tunnels: &[Tunnel], live: usize) {
    for address in world.addresses().into_iter().filter(|address| tunnel_at(tunnels, *address).is_none()) {
        wait_until("nobody listens", || connect(address).is_err_and(|err| err.kind() == ErrorKind::ConnectionRefused));
    }
    wait_until("its flows are ours", || daemon.relay.counters()["flows_now"] == live);
    let want = tunnels.len() + 2 * live;
    wait_for("its sockets are the listeners and the legs", || match tcp_sockets(daemon) {
        found if found == want => Ok(()),
        found => Err(format!("{found} instead of {want}")),
    });
}

#[test]
fn random_reloads_touch_no_live_flow_refuse_nobody_and_leave_nothing() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (reloads, seed) = (number("LONGHAUL_RELOADS", RELOADS), number("LONGHAUL_RELOAD_SEED", 7));
    println!("LONGHAUL_RELOADS={reloads} LONGHAUL_RELOAD_SEED={seed}");
    let (world, mut numbers) = (World::new(), Numbers(seed));
    let one = |more: &str| {
        let listen = world.ports[0].address();
        vec![Tunnel { name: "t0".into(), listen, server: 0, lets_in: true, more: more.into() }]
    };
    let mut tunnels = one("");
    let daemon = Daemon::start(&world.text(&tunnels));
    let mut live: Vec<(TcpStream, usize)> = Vec::new();
    let mut asked = 0;
    for round in 1..=reloads {
        let next = world.tunnels(&mut numbers, &tunnels);
        let both = world.addresses().into_iter();
        let both: Vec<(SocketAddr, [usize; 2])> =
            both.filter_map(|at| Some((at, [server_at(&tunnels, at)?, server_at(&next, at)?]))).collect();
        asked += both.len();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| traffic(&both, &[], &is_done));
            scope.spawn(|| traffic(&[], &live, &is_done));
            let result = daemon.reload(&world.text(&next));
            is_done.store(true, SeqCst);
            assert_eq!(result["message"], "reloaded", "round {round}: {result} {tunnels:?} -> {next:?}");
        });
        tunnels = next;
        for address in world.addresses() {
            let Some(server) = server_at(&tunnels, address) else { continue };
            let flow = connect(address).expect("the new configuration serves it");
            assert_eq!(ask(&flow, round).expect("it is let in"), server, "round {round}: {address} of {tunnels:?}");
            if live.len() == LIVE {
                live.remove(numbers.below(LIVE));
            }
            live.push((flow, server));
        }
        if round % LOOK_EVERY == 0 {
            let without_tasks: Vec<Tunnel> =
                tunnels.iter().map(|tunnel| Tunnel { more: String::new(), ..tunnel.clone() }).collect();
            assert_eq!(daemon.reload(&world.text(&without_tasks))["message"], "reloaded");
            tunnels = without_tasks;
            nothing_is_left(&daemon, &world, &tunnels, live.len());
        }
    }
    println!("{asked} addresses were allowed before and after a reload");
    live.clear();
    // Every permit has come back: one tunnel may have all of them.
    let all = 60;
    assert_eq!(daemon.reload(&(format!("max_flows = {all}\n") + &world.text(&one(""))))["message"], "reloaded");
    nothing_is_left(&daemon, &world, &one(""), 0);
    let flows: Vec<TcpStream> = (0..all).map(|_| connect(world.addresses()[0]).unwrap()).collect();
    flows.iter().for_each(|flow| assert_eq!(ask(flow, 1).expect("a permit"), 0));
}
