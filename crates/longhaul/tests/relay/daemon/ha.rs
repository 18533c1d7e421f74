//! Tests the recipes for high availability with the real programs, and measures the time without service. docs/ha.md has the
//! results; `cargo test -p longhaul --test relay ha:: -- --nocapture --test-threads 1` prints them.

use crate::daemon::site::{Customers, Machine, Server, Service, Site, Steady, packaged};
use crate::harness::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Way in which a near relay fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Its process is killed.
    Killed,
    /// Its process is stopped (SIGSTOP), so that the kernel still answers SYNs.
    Hung,
    /// Its machine vanishes from the network.
    Cut,
}

/// Number of connections served after the failure with which a measurement ends: four seconds, longer than the checks need.
const SERVED_AGAIN: usize = 40;

const FAILURES: [Failure; 3] = [Failure::Killed, Failure::Hung, Failure::Cut];

impl Failure {
    fn happen(self, site: &Site, relays: &[Relay; 2], which: usize) -> Instant {
        match self {
            Failure::Killed => relays[which].signal("KILL"),
            Failure::Hung => relays[which].signal("STOP"),
            Failure::Cut => site.cut(which),
        }
        Instant::now()
    }
}

/// Prints the measured service. Only a service that does not come back in time fails a test: the figures depend on what else the
/// machine does.
fn report(recipe: &str, failure: Failure, service: Service) {
    let Service { longest_gap, tried, unserved } = service;
    let seconds = longest_gap.as_secs_f64();
    println!(
        "{recipe}, {failure:?}: longest gap {seconds:.1} s; {unserved} of {tried} connections not served in 0.9 s"
    );
    assert!(longest_gap < Duration::from_secs(20), "{recipe}, {failure:?}: {service:?}");
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(packaged(name)).unwrap()
}

/// Address that host A connects to: the virtual one of keepalived.
const VIRTUAL: &str = "10.10.10.20:6000";

/// Starts the near relay `which` as `packaging/keepalived` says, with one more tunnel on an address of its own.
fn beside_keepalived(site: &Site, folder: &TempDir, which: usize) -> Relay {
    let own = tunnel_to("own", format!("10.10.10.1{}:6001", which + 1), &["10.20.20.20:6000"], "");
    site.near[which].relay(folder, &(shipped("keepalived/longhaul.toml") + &own))
}

fn keepalived_moves_the_address(failure: Failure) {
    let Some(site) = Site::with("keepalived") else { return };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut relays = [0, 1].map(|which| beside_keepalived(&site, &folders[which], which));
    let first = Server::keepalived(&site.near[0]);
    first.wait_log("Entering MASTER STATE");
    let second = Server::keepalived(&site.near[1]);
    second.wait_log("Entering BACKUP STATE");
    let elsewhere = Steady::begin(site.a.dial("10.10.10.12:6001"));
    let through = Steady::begin(site.a.dial(VIRTUAL));
    let (customers, mut served) = (Customers::begin(&site.a, VIRTUAL), Vec::new());
    customers.wait_served_after(Instant::now(), 10, &mut served);
    failure.happen(&site, &relays, 0);
    second.wait_log("Entering MASTER STATE");
    customers.wait_served_after(Instant::now(), SERVED_AGAIN, &mut served);
    elsewhere.finish();
    report("keepalived", failure, customers.finish(served));
    if failure != Failure::Killed {
        return;
    }
    assert_eq!(through.broken(), Ending::Reset);
    // nopreempt: the first relay is ready again, and the address stays at the second.
    relays[0] = beside_keepalived(&site, &folders[0], 0);
    first.wait_log("Entering BACKUP STATE");
    let flow = site.a.dial(VIRTUAL);
    (&flow).write_all(b"ping").unwrap();
    (&flow).read_exact(&mut [0; 4]).unwrap();
    let flows = |relay: &Relay| relay.counters()["flows_now"].as_u64();
    wait_until("the second relay alone has the flow", || (flows(&relays[0]), flows(&relays[1])) == (Some(0), Some(1)));
}

#[test]
fn keepalived_moves_the_address_of_a_relay_that_fails() {
    FAILURES.into_iter().for_each(keepalived_moves_the_address);
}

/// Both near relays find the tunnel broken, and give up the address for that. Without the address, neither can make a probe.
#[test]
fn keepalived_gives_the_address_back_after_verify_found_the_tunnel_broken_on_both() {
    let Some(mut site) = Site::with("keepalived") else { return };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = shipped("keepalived/longhaul.toml") + "verify = \"1s\"\n";
    let _relays = [0, 1].map(|which| site.near[which].relay(&folders[which], &file));
    let servers = [0, 1].map(|which| Server::keepalived(&site.near[which]));
    let (customers, mut served) = (Customers::begin(&site.a, VIRTUAL), Vec::new());
    customers.wait_served_after(Instant::now(), 10, &mut served);
    // From the relay without the address, the probe goes through the other one.
    for which in [0, 1] {
        let file = folders[which].path().join("longhaul.toml");
        let mut verify = program();
        let output = site.near[which].on(move || verify.args(["verify", "-c"]).arg(file).output().unwrap());
        assert_eq!(output.status.code(), Some(0), "near relay {}: {output:?}", which + 1);
    }
    site.kill_far_relay();
    servers.iter().for_each(|server| server.wait_log("Entering FAULT STATE"));
    site.start_far_relay();
    customers.wait_served_after(Instant::now(), SERVED_AGAIN, &mut served);
    customers.finish(served);
}

/// Address that host A connects to: that of HAProxy.
const BALANCED: &str = "10.10.10.30:6000";

/// Starts the near relay `which` as `packaging/haproxy` says.
fn behind_haproxy(site: &Site, folder: &TempDir, which: usize) -> Relay {
    let own = format!("10.10.10.1{}", which + 1);
    site.near[which].relay(folder, &shipped("haproxy/longhaul.toml").replace("10.10.10.11", &own))
}

/// Returns the clients of the live flows of the near relay `which`, as its HTTP listener names them.
fn clients_of(a: &Machine, which: usize) -> Vec<String> {
    let answer = ask(a.dial(&format!("10.10.10.1{}:9650", which + 1)), "GET /status.json", "*/*");
    let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    status["flows"].as_array().unwrap().iter().map(|flow| flow["peer"].as_str().unwrap().into()).collect()
}

fn haproxy_passes_by(failure: Failure) {
    let Some(site) = Site::with("haproxy") else { return };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let relays = [0, 1].map(|which| behind_haproxy(&site, &folders[which], which));
    let _haproxy = Server::haproxy(&site.balancer);
    wait_until("HAProxy listens", || site.a.on(|| TcpStream::connect(BALANCED).is_ok()));
    let steady: Vec<(String, Steady)> = (0..8)
        .map(|_| {
            let socket = site.a.dial(BALANCED);
            (socket.local_addr().unwrap().to_string(), Steady::begin(socket))
        })
        .collect();
    let is_there = |name: &String| [0, 1].iter().any(|which| clients_of(&site.a, *which).contains(name));
    wait_until("every flow is on a relay", || steady.iter().all(|(name, _)| is_there(name)));
    let kept = clients_of(&site.a, 1);
    let (customers, mut served) = (Customers::begin(&site.a, BALANCED), Vec::new());
    customers.wait_served_after(Instant::now(), 10, &mut served);
    let failed = failure.happen(&site, &relays, 0);
    customers.wait_served_after(failed, SERVED_AGAIN, &mut served);
    let (kept, lost): (Vec<_>, Vec<_>) = steady.into_iter().partition(|(name, _)| kept.contains(name));
    assert!(!kept.is_empty() && !lost.is_empty(), "leastconn: {} and {} flows", kept.len(), lost.len());
    kept.into_iter().for_each(|(_, flow)| flow.finish());
    report("HAProxy", failure, customers.finish(served));
    if failure == Failure::Killed {
        // HAProxy 2.6 passes the reset on as FIN: docs/ha.md warns of it.
        for (_, flow) in lost {
            flow.broken();
        }
    }
}

#[test]
fn haproxy_passes_by_a_relay_that_fails() {
    FAILURES.into_iter().for_each(haproxy_passes_by);
}
