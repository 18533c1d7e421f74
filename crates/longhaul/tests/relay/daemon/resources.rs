//! Tests the resources: their log lines, their place in status and among the problems.

use crate::carry::wan::wan_of;
use crate::harness::*;
use longhaul_lab::{Host, LinkSpec};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;
use std::net::TcpStream;
use std::time::Duration;

/// Starts a daemon after the shell command `limit`.
fn limited(limit: &str) -> Watched {
    Setup::default().start_by(|file| Relay::spawn(longhaul_after(limit, &["run", "-c", file])))
}

/// Returns the resource `name` of the daemon's status; null if it is not shown.
fn resource(watched: &Watched, name: &str) -> Value {
    let status = watched.status();
    let mut resources = status["resources"].as_array().unwrap().iter();
    resources.find(|found| found["name"] == name).cloned().unwrap_or_default()
}

/// Waits for the line `message` about the resource `name`; returns its fields.
fn wait_crossing(relay: &Relay, message: &str, name: &str) -> Value {
    loop {
        let line = relay.wait_log(message);
        if line["resource"] == name {
            return line;
        }
    }
}

const NEAR: &str = "a resource is nearly used up";
const FREE: &str = "a resource is free again";

#[test]
fn flows_near_their_maximum_are_told_in_log_and_status() {
    let watched = limited("ulimit -n 160");
    let relay = &watched.daemon.relay;
    let list = relay.wait_log("resources")["list"].as_str().unwrap().to_string();
    assert!(list.contains("descriptors ") && list.contains(" of 160, flows 0 of "), "{list}");
    let max = resource(&watched, "flows")["limit"].as_f64().unwrap();
    let mut flows: Vec<_> = (0..(0.85 * max).ceil() as usize).map(|_| watched.flow()).collect();
    let line = wait_crossing(relay, NEAR, "flows");
    assert_eq!((&line["used"], &line["limit"]), (&(flows.len() as f64).into(), &max.into()), "{line}");
    assert!(line["remedy"].as_str().unwrap().contains("LimitNOFILE="), "{line}");
    let state = resource(&watched, "flows");
    assert_eq!(state["used"], flows.len() as f64, "{state}");
    assert!(state["warning"].as_str().unwrap().contains(" % in use: ") && state["remedy"].is_string(), "{state}");
    let all = watched.status();
    let is_of_flows = |found: &&Value| found["what"].as_str().unwrap().starts_with("flows: ");
    let problem = all["problems"].as_array().unwrap().iter().find(is_of_flows).unwrap();
    assert_eq!(
        (&problem["stage"], &problem["fatal"], &all["ready"]),
        (&"resources".into(), &false.into(), &true.into())
    );
    flows.drain(..flows.len() / 2);
    wait_crossing(relay, FREE, "flows");
    assert_eq!(resource(&watched, "flows")["warning"], Value::Null);
}

#[test]
fn descriptors_near_their_limit_are_told_with_the_limit_of_now() {
    let watched = Watched::start("");
    let relay = &watched.daemon.relay;
    let (client, server) = watched.flow();
    talk(&client, &server);
    relay.wait_log("resources");
    let open = relay.descriptors().len() as u64;
    let limit = |current| Rlimit { current: Some(current), maximum: getrlimit(Resource::Nofile).maximum };
    let process = Pid::from_raw(relay.id() as i32);
    let before = prlimit(process, Resource::Nofile, limit(open + 4)).unwrap();
    let line = wait_crossing(relay, NEAR, "descriptors");
    assert_eq!(line["limit"], (open + 4) as f64, "{line}");
    assert!(line["remedy"].as_str().unwrap().contains(&format!("--nofile={}", 2 * (open + 4))), "{line}");
    prlimit(process, Resource::Nofile, before).unwrap();
    wait_crossing(relay, FREE, "descriptors");
    talk(&client, &server);
}

#[test]
fn ports_towards_a_hop_and_tracked_connections_are_those_of_the_namespace() {
    let Some(wan) = wan_of(&LinkSpec::new(Duration::from_millis(1), None)) else { return };
    // 10 ports, of which two are reserved.
    let ports =
        "cd /proc/sys/net/ipv4 && echo 20000 20009 > ip_local_port_range && echo 20003,20005 > ip_local_reserved_ports";
    wan.output(Host::Near, "sh", &["-c", ports]).unwrap();
    let path = Path::across(&wan, 7300, 1, &[]);
    let to = format!("{}:7300", Host::B.lan());
    let entry = std::net::SocketAddr::new(Host::Near.lan(), 7301);
    let setup = Setup { to: vec![to.clone()], listen: &entry.to_string(), ..Setup::default() };
    let watched = setup.start_by(|file| {
        let mut command = longhaul();
        command.args(["run", "-c", file]);
        Relay::spawn_in(&wan, Host::Near, command)
    });
    let relay = &watched.daemon.relay;
    let connect = || {
        let client = wan.on(Host::A, move || Ok(TcpStream::connect(entry).unwrap())).join().unwrap().unwrap();
        (client, patient(path.server().accept().unwrap().0))
    };
    let flows: Vec<_> = (0..7).map(|_| connect()).collect();
    let name = format!("ephemeral ports to {to}");
    let line = wait_crossing(relay, NEAR, &name);
    assert_eq!((&line["used"], &line["limit"]), (&7.0.into(), &8.0.into()), "{line}");
    assert!(line["remedy"].as_str().unwrap().contains("net.ipv4.ip_local_port_range"), "{line}");
    assert_eq!(resource(&watched, &name)["used"], 7.0);
    // This kernel hides tcp_mem in a namespace, and shows the firewall's connections where it can track them.
    let has = |file: &str| wan.output(Host::Near, "cat", &[&format!("/proc/sys/net/{file}")]).is_ok();
    assert_eq!(resource(&watched, "tcp_mem").is_object(), has("ipv4/tcp_mem"));
    assert_eq!(resource(&watched, "conntrack").is_object(), has("netfilter/nf_conntrack_max"));
    drop(flows);
    wait_crossing(relay, FREE, &name);
}
