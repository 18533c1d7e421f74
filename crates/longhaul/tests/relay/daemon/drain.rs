//! Tests SIGTERM and SIGINT: flows continue, waiting connections are served or reset, new connections are refused.

use crate::harness::*;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn a_drain_at_max_flows_finishes_the_flows_and_resets_waiting_connections() {
    let mut path = Path::new(1, &["--max-flows", "2"]);
    let inside = [path.connect(), path.connect()];
    let waiting = [path.dial(), path.dial(), path.dial()];
    waiting.iter().for_each(|mut client| client.write_all(b"in the queue").unwrap());
    path.relays[0].signal("TERM");
    let line = path.relays[0].wait_log("draining: no new connections; a second signal cuts the flows");
    assert_eq!(line["flows"], 2);
    for client in &waiting {
        assert_eq!(read_to_end(client), (Vec::new(), Ending::Reset));
    }
    refused_soon(path.entry());
    let bytes = pattern(22, 1_000_000);
    std::thread::scope(|scope| {
        for (client, server) in inside {
            scope.spawn(move || echo_one(&server));
            round_trip(client, &bytes);
        }
    });
    assert_not_dialled(path.server());
    let counters = path.relays[0].wait_log("counters");
    let counted = ["accepted", "finished", "reset", "flows_now"].map(|key| counters[key].as_u64().unwrap());
    assert_eq!(counted, [2, 2, 0, 0], "{counters}");
    assert_eq!(path.relays[0].exit(), Some(0));
}

#[test]
fn a_drain_below_max_flows_serves_waiting_connections() {
    for _ in 0..5 {
        let mut path = Path::new(1, &[]);
        path.relays[0].stop();
        let waiting: Vec<TcpStream> = (0..5).map(|_| path.dial()).collect();
        path.relays[0].signal("TERM");
        path.relays[0].signal("CONT");
        let served: Vec<TcpStream> = waiting.iter().map(|_| path.server().accept().unwrap().0).collect();
        drop((waiting, served));
        let counters = path.relays[0].wait_log("counters");
        assert_eq!((&counters["accepted"], &counters["flows_now"]), (&5.into(), &0.into()), "{counters}");
        assert_eq!(path.relays[0].exit(), Some(0));
    }
}

#[test]
fn the_drain_timeout_cuts_with_reset() {
    let mut path = Path::new(1, &["--drain-timeout", "300ms"]);
    let (client, server) = path.connect();
    talk(&client, &server);
    let started = Instant::now();
    path.relays[0].signal("INT");
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
    assert_eq!(read_to_end(&server), (Vec::new(), Ending::Reset));
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(path.relays[0].exit(), Some(0));
}

/// Connects until a connection is refused. Another task of the relay closes the listener, so the first may succeed.
fn refused_soon(address: SocketAddr) {
    // The reset also ends the flow that an early client may have got.
    wait_until("nobody listens", || TcpStream::connect(address).map(reset).is_err());
}
