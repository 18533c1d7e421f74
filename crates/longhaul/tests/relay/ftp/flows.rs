//! Tests data connections of FTP as flows of their tunnel: caps, socket options, `allow` and the views. Tests how a control
//! connection begins, idles and ends beside them.

use crate::ftp::dialogue::*;
use crate::harness::*;
use serde_json::Value;
use socket2::Socket;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The forms of the default mode.
const BY_CLIENT: [Form; 2] = [Form::Passive, Form::Active];

#[test]
fn a_data_connection_is_shown_with_the_command_that_uses_it() {
    let shown = Shown::begin("");
    let (client, server) = (&shown.client, &shown.server);
    let listener = self::server();
    let to = client.passive_to(server, &listener);
    assert_eq!(shown.counters()["ftp_listeners_now"], 1);
    client.say("RETR some file.iso");
    assert_eq!(server.line(), "RETR some file.iso");
    let data = (patient(TcpStream::connect(to).unwrap()), accept(&listener));
    talk(&data.0, &data.1);
    let flows = || {
        let output = shown.watched.command(&["status", "--json"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["flows"].as_array().unwrap().clone()
    };
    wait_until("both flows are shown", || flows().len() == 2);
    let flows = flows();
    let (controls, files): (Vec<_>, Vec<_>) = flows.iter().partition(|flow| flow["transfer"].is_null());
    assert_eq!((controls.len(), &files[0]["transfer"]), (1, &"RETR some file.iso".into()), "{flows:?}");
    assert_eq!((&files[0]["tunnel"], &files[0]["state"]), (&"one".into(), &"open".into()), "{flows:?}");
    let text = stdout(&shown.watched.command(&["status"]));
    assert!(text.contains(&data.0.local_addr().unwrap().to_string()), "{text}");
    drop(data);
    server.say("226 whole");
    assert_eq!(client.line(), "226 whole");
    let line = shown.watched.daemon.relay.wait_log("flow ended");
    assert_eq!((&line["transfer"], &line["tunnel"]), (&"RETR some file.iso".into(), &"one".into()), "{line}");
    assert_eq!((&line["up_bytes"], &line["down_bytes"]), (&4.into(), &4.into()), "{line}");
    client.say("PORT 192,0,2,1,200,200");
    assert!(client.line().starts_with("504 "));
    let counters = shown.counters();
    assert_eq!((&counters["ftp_refused"], &counters["ftp_listeners_now"]), (&1.into(), &0.into()), "{counters}");
}

#[test]
fn a_data_connection_has_the_caps_of_its_tunnel_also_after_a_reload() {
    for form in BY_CLIENT {
        let shown = Shown::begin("flow_bandwidth = \"800Mbit/s\"\n");
        let (client, server) = shown.data(form, "RETR file");
        let has_cap = |wanted: u64| {
            let is_near =
                |leg: &Value| leg["cap_bits_per_second"].as_u64().is_some_and(|cap| cap.abs_diff(wanted) <= wanted / 8);
            wait_for("both legs have the cap", || match shown.flow("RETR file") {
                flow if is_near(&flow["accept"]) && is_near(&flow["dial"]) => Ok(()),
                flow => Err(flow),
            });
        };
        has_cap(800_000_000);
        shown.reload("flow_bandwidth = \"400Mbit/s\"\n");
        has_cap(400_000_000);
        talk(&client, &server);
    }
}

/// The data connections of a tunnel share its cap, whoever connects.
#[test]
fn a_data_connection_counts_in_the_cap_of_its_tunnel() {
    const CAP: u64 = 80_000_000;
    let shown = Shown::begin("bandwidth = \"80Mbit/s\"\n");
    // The leg towards the client, and the form.
    let transfers = [("RETR one", "accept", Form::Passive), ("RETR two", "dial", Form::Active)];
    let pairs = transfers.map(|(name, _, form)| {
        let pair = shown.data(form, name);
        // The next PASV waits for this reply, and not for the end of the data connection.
        shown.server.say("226 nearly");
        assert_eq!(shown.client.line(), "226 nearly");
        pair
    });
    // Both servers send as much as they can, and both clients read it all.
    let end = Instant::now() + 2 * TIMEOUT;
    std::thread::scope(|scope| {
        for (client, server) in &pairs {
            // The scope waits for its threads, so they end also when the wait below fails.
            scope.spawn(move || while Instant::now() < end && (&*server).write_all(&[0; 65_536]).is_ok() {});
            scope.spawn(move || while (&*client).read(&mut [0; 65_536]).is_ok_and(|read| read > 0) {});
        }
        let caps = || transfers.map(|(name, leg, _)| shown.flow(name)[leg]["cap_bits_per_second"].as_u64());
        wait_for("both have a share of the cap", || match caps() {
            [Some(one), Some(two)] if one.min(two) > 0 && one + two <= CAP * 105 / 100 => Ok(()),
            caps => Err(caps),
        });
        pairs.iter().for_each(|(_, server)| server.shutdown(Shutdown::Both).unwrap());
    });
}

/// Flags that give the legs other options.
const TOLD_APART: &[&str] = &[
    "--set", "accept.user-timeout=111s", "--set", "accept.congestion=reno", "--set", "dial.user-timeout=222s", "--set",
    "dial.congestion=cubic",
];

/// The leg towards the client has the options of `accept`, and the one towards the server those of `dial`, whoever connects.
#[test]
fn both_legs_have_the_socket_options_of_the_tunnel_and_are_spliced() {
    let bytes = pattern(51, 3_000_000);
    for relays in [1, 2] {
        for form in Form::ALL {
            eprintln!("{form:?}");
            let ftp = Dialogue::begin(relays, &[form.flags(), TOLD_APART].concat());
            let (client, server) = ftp.data(form);
            talk(&client, &server);
            let last = ftp.chain.relays.last().unwrap();
            let Some((near, far)) = ftp.near().other_end(&client).zip(last.other_end(&server)) else {
                return skip("pidfd_getfd(2) is not allowed here");
            };
            assert_eq!(options(&near), (Some(Duration::from_secs(111)), b"reno".to_vec()));
            assert_eq!(options(&far), (Some(Duration::from_secs(222)), b"cubic".to_vec()));
            pass_all(&server, &client, &bytes);
            drop((client, server));
            for relay in &ftp.chain.relays {
                relay.wait_log("flow ended");
                assert_eq!(relay.counters()["copied"], 0);
            }
        }
    }
}

/// Returns TCP_USER_TIMEOUT and TCP_CONGESTION.
fn options(leg: &Socket) -> (Option<Duration>, Vec<u8>) {
    let mut name = leg.tcp_congestion().unwrap();
    name.retain(|byte| *byte != 0);
    (leg.tcp_user_timeout().unwrap(), name)
}

#[test]
fn a_silent_control_connection_stays_while_its_transfer_runs() {
    for form in BY_CLIENT {
        let ftp = Dialogue::begin(1, &[]);
        let (client, server) = ftp.data(form);
        let legs = [&ftp.client.0, &ftp.server.0].map(|end| ftp.near().other_end(end));
        let [Some(accept), Some(dial)] = legs else { return skip("pidfd_getfd(2) is not allowed here") };
        // A firewall on the way would forget a connection without packets.
        wait_until("both legs send keepalive probes", || accept.keepalive().unwrap() && dial.keepalive().unwrap());
        talk(&client, &server);
        quiet_for(&ftp.client.0, Duration::from_millis(500));
        pass_all(&server, &client, &pattern(52, 1_000_000));
        ftp.server.say("226 whole");
        assert_eq!(ftp.client.line(), "226 whole");
        ftp.still_works();
    }
}

#[test]
fn a_transfer_goes_on_after_the_end_of_its_control_connection() {
    for (form, ending) in Form::ALL.into_iter().flat_map(|form| [(form, Ending::Fin), (form, Ending::Reset)]) {
        let ftp = Dialogue::begin(2, form.flags());
        let (client, server) = ftp.data(form);
        talk(&client, &server);
        let Dialogue { chain, client: control, server: far, .. } = ftp;
        match ending {
            Ending::Reset => reset(control.0),
            _ => drop(control),
        }
        assert_eq!(far.ending(), ending, "{form:?}");
        drop(far);
        for relay in &chain.relays {
            wait_until("its flow has ended", || relay.counters()["flows_now"] == 1);
        }
        pass_all(&server, &client, &pattern(53, 3_000_000));
        drop((client, server));
        for relay in &chain.relays {
            wait_until("no flow is left", || relay.counters()["flows_now"] == 0);
        }
    }
}

/// Otherwise the server takes half a file for a whole one. The relay finds all at once, because it was stopped meanwhile, and reads the
/// commands in many pieces.
#[test]
fn an_abort_before_the_end_of_an_upload_reaches_the_server_before_that_end() {
    let commands = [b"NOOP\r\n".repeat(3000), b"ABOR\r\n".to_vec()].concat();
    for form in Form::ALL {
        let ftp = Dialogue::begin(1, form.flags());
        let (mut client, server) = ftp.data(form);
        talk(&client, &server);
        ftp.near().signal("STOP");
        client.write_all(b"half a file").unwrap();
        (&ftp.client.0).write_all(&commands).unwrap();
        drop(client);
        ftp.near().signal("CONT");
        assert_eq!(read_to_end(&server), (b"half a file".to_vec(), Ending::Fin));
        let here = ftp.server.0.peek(&mut vec![0; commands.len()]).unwrap();
        assert_eq!(here, commands.len(), "{form:?}: the end of the upload came before ABOR");
    }
}

/// curl takes a transfer for failed whose last reply comes before the data connection. This server connects before it has a transfer.
#[test]
fn no_reply_overtakes_the_data_connection_of_active_mode() {
    for relays in [1, 2] {
        let ftp = Dialogue::begin(relays, &[]);
        let (listener, in_the_queue) = full();
        let mut file = TcpStream::connect(ftp.active(&listener)).unwrap();
        file.write_all(b"file").unwrap();
        drop(file);
        ftp.server.say("150 begins");
        ftp.server.say("226 ends");
        quiet_for(&ftp.client.0, Duration::from_millis(300));
        assert_eq!(accept(&listener).peer_addr().unwrap(), in_the_queue.local_addr().unwrap());
        assert_eq!((ftp.client.line(), ftp.client.line()), ("150 begins".into(), "226 ends".into()));
        listener.set_nonblocking(true).unwrap();
        let data = patient(listener.accept().expect("the data connection is there").0);
        assert_eq!(read_to_end(&data), (b"file".to_vec(), Ending::Fin));
    }
}
