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
    for (ip, source) in [("192.0.2.7", "192.0.2.7"), ("2001:db8:0:1::8", "2001:db8:0:1::/64")] {
        let proxy = dial(ip);
        assert_eq!(read_to_end(&proxy), (Vec::new(), Ending::Reset), "{ip}");
        if ip.starts_with("192") {
            let line = path.relays[0].wait_log("refused: limit of its source");
            assert_eq!((&line["source"], &line["peer"]), (&source.into(), &format!("{ip}:51234").into()), "{line}");
            assert_eq!(line["proxy"], proxy.local_addr().unwrap().to_string());
        }
    }
    let counters = path.relays[0].counters();
    assert_eq!((&counters["over_source_limit"], &counters["accepted"]), (&2.into(), &4.into()), "{counters}");
}

#[test]
fn a_source_that_begins_too_many_flows_a_second_is_reset() {
    const RATE: usize = 5;
    let path = Path::new(1, &["--source-rate", &RATE.to_string()]);
    let begin = Instant::now();
    let (mut served, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Ends when the listener is shut down.
            while let Ok((mut flow, _)) = path.server().accept() {
                flow.write_all(b"!").unwrap();
            }
        });
        while refused < 3 {
            // The reset may arrive before connect(2) returns.
            match TcpStream::connect(path.entry()).map(|client| read_to_end(&patient(client))) {
                Ok((got, Ending::Fin)) => {
                    assert_eq!(got, b"!");
                    served += 1;
                }
                Ok((got, Ending::Reset)) => {
                    assert!(got.is_empty());
                    refused += 1;
                }
                Err(err) => {
                    assert!(is_reset(&err), "{err}");
                    refused += 1;
                }
            }
        }
        socket2::SockRef::from(path.server()).shutdown(std::net::Shutdown::Both).unwrap();
    });
    let most = RATE + RATE * (begin.elapsed().as_secs() as usize + 1);
    assert!((RATE..=most).contains(&served), "{served} served, {refused} refused");
    let line = path.relays[0].wait_log("refused: limit of its source");
    assert_eq!(line["limit"], "new_flows_per_second_per_source");
    let counters = path.relays[0].counters();
    assert_eq!(
        (&counters["over_source_limit"], &counters["accepted"]),
        (&refused.into(), &served.into()),
        "{counters}"
    );
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
    let dial = |tunnel: usize| patient(TcpStream::connect(ports[tunnel].address()).unwrap());
    let first = [0, 1].map(|tunnel| (dial(tunnel), accept(&server)));
    let waits = dial(0);
    let line = relay.wait_log("relay is full: connections wait in the listen queue");
    assert_eq!((&line["flows_of_all"], &line["most_flows"]), (&2.into(), &2.into()), "{line}");
    assert_eq!(relay.counters()["accepted"], 2);
    daemon.write(&file(3));
    relay.signal("HUP");
    let line = relay.wait_log("limits");
    assert_eq!(line["most_flows"], 3, "{line}");
    let third = accept(&server);
    talk(&waits, &third);
    first.iter().for_each(|(client, server)| talk(client, server));
}
