//! Tests the limits of a source, and `max_flows` of the process.

use crate::harness::*;
use longhaul_core::proxy_header::{self, Ends, Version};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Instant;

#[test]
fn a_source_with_too_many_flows_is_reset_and_others_are_served() {
    let path = Path::new(1, &["--source-flows", "2"]);
    let relay = &path.relays[0];
    let flows = [path.connect(), path.connect()];
    let refused = reset_by(path.entry());
    let line = relay.wait_log("refused: limit of its source");
    assert_eq!((&line["peer"], &line["source"]), (&refused.to_string().into(), &"127.0.0.1".into()), "{line}");
    assert_eq!(line["limit"], "max_flows_per_source");
    let other = (dial_from("127.0.0.2", path.entry()).unwrap(), accept(path.server()));
    talk(&other.0, &other.1);
    let counters = relay.counters();
    assert_eq!((&counters["over_source_limit"], &counters["refused"]), (&1.into(), &1.into()), "{counters}");
    assert_eq!(counters["accepted"], 3, "{counters}");
    flows.iter().for_each(|(client, server)| talk(client, server));
}

#[test]
fn behind_a_proxy_the_source_is_the_client_and_its_slash_64() {
    let path = Path::new(1, &["--source-flows=1", "--proxy-in=v2", "--allow=127.0.0.1"]);
    let dial = |ip: &str| {
        let ip: IpAddr = ip.parse().unwrap();
        let to = SocketAddr::new(if ip.is_ipv4() { "192.0.2.1" } else { "2001:db8::1" }.parse().unwrap(), 6000);
        let mut proxy = path.dial();
        let ends = Ends { client: SocketAddr::new(ip, 51234), to };
        proxy.write_all(&proxy_header::write(Version::V2, Some(ends))).unwrap();
        proxy
    };
    let first = ["192.0.2.7", "192.0.2.8", "2001:db8:0:1::7", "2001:db8:0:2::7"];
    let flows = first.map(|ip| (dial(ip), accept(path.server())));
    flows.iter().for_each(|(client, server)| talk(client, server));
    let proxy = dial("2001:db8:0:1::8");
    assert_eq!(read_to_end(&proxy), (Vec::new(), Ending::Reset));
    let line = path.relays[0].wait_log("refused: limit of its source");
    let who = (&"2001:db8:0:1::/64".into(), &"[2001:db8:0:1::8]:51234".into());
    assert_eq!((&line["source"], &line["peer"]), who, "{line}");
    assert_eq!(line["proxy"], proxy.local_addr().unwrap().to_string());
    assert_eq!(read_to_end(&dial("192.0.2.7")), (Vec::new(), Ending::Reset));
    let counters = path.relays[0].counters();
    assert_eq!((&counters["over_source_limit"], &counters["accepted"]), (&2.into(), &4.into()), "{counters}");
}

#[test]
fn a_source_that_begins_too_many_flows_a_second_is_reset() {
    let begin = Instant::now();
    let path = Path::new(1, &["--source-rate=1"]);
    let (client, server) = path.connect();
    talk(&client, &server);
    let line = wait_for("a refused client", || {
        // The reset may arrive before connect(2) returns.
        let dialled = TcpStream::connect(path.entry());
        path.relays[0].try_log("refused: limit of its source").ok_or(dialled)
    });
    assert_eq!(line["limit"], "new_flows_per_second_per_source");
    let accepted = path.relays[0].counters()["accepted"].as_u64().unwrap();
    // Those of one second at once, and one in each later second.
    assert!((1..=2 + begin.elapsed().as_secs()).contains(&accepted), "{accepted} flows in {:?}", begin.elapsed());
}

#[test]
fn max_flows_of_the_process_counts_the_flows_of_all_tunnels_and_follows_a_reload() {
    let server = server();
    let ports = [Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1")];
    let file = |max_flows: usize| {
        let tunnels = ["one", "two"].iter().zip(&ports).map(|(name, port)| tunnel(name, port.address(), &server, ""));
        format!("max_flows = {max_flows}\n") + &tunnels.collect::<String>()
    };
    let daemon = Daemon::start(&file(2));
    let relay = &daemon.relay;
    relay.wait_log("listening");
    let first = ports.each_ref().map(|port| (dial(port), accept(&server)));
    let waits = dial(&ports[0]);
    let line = relay.wait_log("relay is full: connections wait in the listen queue");
    assert_eq!((&line["flows_of_all"], &line["most_flows"]), (&2.into(), &2.into()), "{line}");
    assert_eq!(relay.counters()["accepted"], 2);
    daemon.write(&file(3));
    relay.signal("HUP");
    let line = relay.wait_log("limits");
    assert_eq!(line["most_flows"], 3, "{line}");
    talk(&waits, &accept(&server));
    first.iter().for_each(|(client, server)| talk(client, server));
}
