//! Tests the data listeners of tunnels with `protocol = "ftp"`: their ports and descriptors, how long they wait, what limits them.

use crate::ftp::dialogue::*;
use crate::harness::*;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

const PORT: &[u8] = b"PORT 127,0,0,1,200,22\r\n";

#[test]
fn a_listener_that_is_replaced_frees_its_port_at_once() {
    in_own_network(|| {
        for (flags, count) in [(["--ftp-ports", "50000-50000"], 400), (["--ftp-ports", "50000-50004"], 40)] {
            let ftp = Dialogue::begin(1, &flags);
            let listener = server();
            for _ in 0..4 {
                let to = ftp.passive(&listener);
                let client = patient(TcpStream::connect(to).unwrap());
                talk(&client, &accept(&listener));
                ftp.passive(&listener);
                drop(client);
                // A control connection has two places: for this one, and for the listener.
                wait_until("the data connection has ended", || ftp.counter("flows_now") == 1);
            }
            (&ftp.client.0).write_all(&PORT.repeat(count)).unwrap();
            for _ in 0..count {
                assert!(ftp.server.line().starts_with("PORT "), "{flags:?}");
                ftp.server.say("200 ok");
                assert_eq!(ftp.client.line(), "200 ok");
            }
            assert!(ftp.counter("ftp_listeners_now") == 1 && ftp.counter("ftp_refused") == 0);
        }
    });
}

#[test]
fn a_flood_of_commands_opens_one_listener_at_a_time() {
    let ftp = Dialogue::begin(1, &[]);
    let count = 800;
    let before = ftp.near().descriptors().len();
    (&ftp.client.0).write_all(&PORT.repeat(count)).unwrap();
    let mut most = 0;
    for _ in 0..count {
        ftp.server.line();
        ftp.server.say("200 ok");
        most = most.max(ftp.near().descriptors().len());
    }
    // The listener before is closed before the next one is opened. The relay has other descriptors for a moment.
    assert!(most <= before + 5, "{before} before, then {most}");
}

#[test]
fn data_connections_do_not_count_in_max_flows_of_the_process() {
    let keys = "protocol = \"ftp\"\nmax_flows = 4\n";
    let shown = Setup { head: "max_flows = 4", keys, ..Setup::default() }.start();
    let begin = || {
        let (client, server) = shown.flow();
        (Control(client), Control(server))
    };
    let mut controls = vec![begin(), begin()];
    let mut data = Vec::new();
    for (client, server) in &controls {
        for _ in 0..2 {
            let listener = self::server();
            client.say("PASV");
            assert_eq!(server.line(), "PASV");
            server.say(&format!("227 ({})", six(listener.local_addr().unwrap())));
            let came = patient(TcpStream::connect(client.named(&client.line())).unwrap());
            data.push((came, accept(&listener)));
        }
    }
    for (client, server) in &data {
        talk(client, server);
    }
    controls.push(begin());
    for name in ["flows", "flows of one"] {
        wait_until("the control connections alone are shown", || {
            let status = shown.status();
            let row = status["resources"].as_array().unwrap().iter().find(|row| row["name"] == name);
            row.is_some_and(|row| (&row["used"], &row["limit"]) == (&3.0.into(), &4.0.into()))
        });
    }
}

/// However the control connection ends: by its client, by a reset, or by a kill.
#[test]
fn a_client_that_leaves_its_data_connections_behind_keeps_its_place_in_the_limits() {
    for ending in ["FIN", "RST", "kill"] {
        let Shown { client, server, watched } = Shown::begin("max_flows = 1\n");
        let data = [client.data_to(&server, true), client.data_to(&server, false)];
        match ending {
            "RST" => reset(client.0),
            "kill" => assert!(watched.command(&["kill", "1"]).status.success()),
            _ => drop(client),
        }
        drop(server);
        wait_until("only data connections are shown", || {
            let status = watched.status();
            status["flows"].as_array().unwrap().iter().map(|flow| flow["flow"].as_u64().unwrap()).eq([2, 3])
        });
        let waiting = dial(&watched.port);
        watched.daemon.relay.wait_log("tunnel is full: connections wait in the listen queue");
        watched.far.set_nonblocking(true).unwrap();
        for (number, (client, server)) in data.into_iter().enumerate() {
            wait_until("the flow before it has ended", || {
                watched.status()["flows"].as_array().unwrap().len() == 2 - number
            });
            assert_eq!(watched.far.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{ending}, {number}");
            talk(&client, &server);
        }
        watched.far.set_nonblocking(false).unwrap();
        talk(&waiting, &accept(&watched.far));
    }
}

/// The place in the source's limit is kept, too, and a drain waits for the data connection alone.
#[test]
fn a_drain_ends_with_a_data_connection_that_outlives_its_control_connection() {
    for is_cut in [false, true] {
        let mut ftp = Dialogue::begin(1, &["--source-flows", "1"]);
        let (client, server) = ftp.data(true);
        drop((ftp.client, ftp.server));
        wait_until("the control connection has ended", || ftp.chain.relays[0].counters()["flows_now"] == 1);
        reset_by(ftp.chain.entry());
        let relay = &mut ftp.chain.relays[0];
        relay.signal("TERM");
        relay.wait_log("draining: no new connections; a second signal cuts the flows");
        talk(&client, &server);
        match is_cut {
            true => relay.signal("TERM"),
            false => drop((client, server)),
        }
        assert_eq!(relay.exit(), Some(0));
    }
}
