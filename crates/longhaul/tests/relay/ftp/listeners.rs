//! Tests the data listeners of tunnels with `protocol = "ftp"`: their ports and descriptors, how long they wait, what limits them.

use crate::ftp::dialogue::*;
use crate::harness::*;
use std::io::Write;
use std::net::TcpStream;

const PORT: &[u8] = b"PORT 127,0,0,1,200,22\r\n";

#[test]
fn a_listener_that_is_replaced_frees_its_port_and_its_descriptor_at_once() {
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
            let before = ftp.near().descriptors().len();
            let mut most = 0;
            (&ftp.client.0).write_all(&PORT.repeat(count)).unwrap();
            for _ in 0..count {
                assert!(ftp.server.line().starts_with("PORT "), "{flags:?}");
                ftp.server.say("200 ok");
                assert_eq!(ftp.client.line(), "200 ok");
                most = most.max(ftp.near().descriptors().len());
            }
            // The listener before is closed before the next one is opened. The relay has other descriptors for a moment.
            assert!(most <= before + 5, "{before} before, then {most}");
            assert!(ftp.counter("ftp_listeners_now") == 1 && ftp.counter("ftp_refused") == 0);
        }
    });
}

/// The place in the source's limit is kept, too, and a drain waits for the data connection alone.
#[test]
fn a_drain_ends_with_a_data_connection_that_outlives_its_control_connection() {
    for is_cut in [false, true] {
        let mut ftp = Dialogue::begin(1, &["--source-flows", "1"]);
        let (client, server) = ftp.data(Form::Passive);
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
