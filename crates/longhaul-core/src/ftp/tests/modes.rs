//! Dialogues in which the server is asked for another mode than the client chose.

use super::*;

fn passive(client: &str, server: &str) -> Rules {
    Rules { mode: Mode::Passive, ..strict(client, server) }
}

#[test]
fn a_server_is_asked_for_passive_mode_by_a_client_in_active_mode() {
    check(
        &passive(CLIENT_V4, SERVER_V4),
        r"
        S: 220 ready
        C: PORT 198,51,100,7,156,64
        s: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,53).
        c: 200 PORT command successful
        * join 1, 192.0.2.2:30005 and 198.51.100.7:40000
        C: RETR f
        * dial 1
        * transfer 1 RETR f
        S: 150 Opening.
        * begins
        S: 226 Transfer complete.
        * begins
        C: RETR g
        * dial 1
        * transfer 1 RETR g
        S: 550 no such file
        C: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,54).
        c: 227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30006
        C: EPRT |1|198.51.100.7|40001|
        s: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,55).
        c: 200 PORT command successful
        * join 3, 192.0.2.2:30007 and 198.51.100.7:40001
        C: PORT 198,51,100,7,156,64
        s: PASV
        S: 502 Not implemented
        C: QUIT
        S: 221 Goodbye.",
    );
}

#[test]
fn the_server_gets_the_form_of_its_ip_version() {
    for (client, port) in [(CLIENT_V6, "EPRT |2|2001:db8:c::7|40000|"), (CLIENT_V4, "PORT 198,51,100,7,156,64")] {
        check(
            &passive(client, SERVER_V6),
            &format!(
                r"
                S: 220 ready
                C: {port}
                s: EPSV
                S: 229 Entering Extended Passive Mode (|||30005|).
                c: 200 PORT command successful
                * join 1, [{SERVER_V6}]:30005 and {}",
                SocketAddr::new(client.parse().unwrap(), 40000)
            ),
        );
    }
}

/// Returns rules with which the server is asked for active mode.
fn active(client: &str, server: &str) -> Rules {
    Rules { mode: Mode::Active, ..strict(client, server) }
}

#[test]
fn a_server_is_asked_for_active_mode_by_a_client_in_passive_mode() {
    check(
        &active(CLIENT_V4, SERVER_V4),
        r"
        S: 220 ready
        C: PASV
        s: PORT 192,0,2,1,195,81
        * await 1 from server
        S: 200 PORT command successful. Consider using PASV.
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * meet 1 from client
        C: RETR f
        * transfer 1 RETR f
        S: 150 Opening.
        S: 226 Transfer complete.
        C: EPSV
        s: PORT 192,0,2,1,195,82
        * await 2 from server
        S: 200-PORT
        c:
        S: 227 what
        c:
        S: 200 ok
        c: 229 Entering Extended Passive Mode (|||50002|)
        * meet 2 from client
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,83
        * open 3 from server, dial 198.51.100.7:40000
        S: 200 ok
        C: NOOP
        S: 200 ok
        C: QUIT
        S: 221 Goodbye.",
    );
}

#[test]
fn the_server_is_asked_in_the_form_of_its_ip_version() {
    check(
        &active(CLIENT_V4, SERVER_V6),
        r"
        S: 220 ready
        C: EPSV ALL
        s:
        c: 200 EPSV ALL accepted
        C: EPSV 1
        s: EPRT |2|2001:db8:5::1|50001|
        * await 1 from server
        S: 200 ok
        c: 229 Entering Extended Passive Mode (|||50001|)
        * meet 1 from client",
    );
    // Between alike ends too, because the server gets PORT.
    check(
        &active(CLIENT_V4, SERVER_V4),
        r"
        C: EPSV ALL
        s:
        S: 220 ready
        c: 220 ready
        c: 200 EPSV ALL accepted",
    );
}

#[test]
fn a_server_that_does_not_accept_the_address_is_heard() {
    check(
        &active(CLIENT_V4, SERVER_V4),
        r"
        S: 220 ready
        C: PASV
        s: PORT 192,0,2,1,195,81
        * await 1 from server
        S: 226 late
        S: 500 Illegal PORT command.
        C: PASV
        s: PORT 192,0,2,1,195,82
        * await 2 from server
        S: 227 Entering Passive Mode (192,0,2,2,117,53).
        c: 425 The server names an address that nobody asked for
        * refused unasked
        C: PASV
        s: PORT 192,0,2,1,195,83
        * await 3 from server
        ...
        S: 227 Entering Passive Mode (192,0,2,2,117,53).
        c: 425 The server names an address that nobody asked for
        * refused unasked
        C: NOOP
        S: 200 ok
        C: PASV
        s: PORT 192,0,2,1,195,84
        * await 4 from server
        ...
        S: 200 late
        c: 227 Entering Passive Mode (198,51,100,1,195,84).
        * meet 4 from client
        C: PASV
        s: PORT 192,0,2,1,195,85
        * await 5 from server
        S: 500
        C: NOOP
        S: 200 ok",
    );
}

#[test]
fn a_client_is_told_why_there_is_no_data_connection() {
    let dialogues = [
        // Either listener.
        r"
        ! no port is free
        C: PASV
        s:
        * await 1 from server
        * refused no-listener
        c: 425 No data listener: no port is free
        !
        C: PASV
        s: PORT 192,0,2,1,195,82
        * await 2 from server
        ! no port is free
        S: 200 ok
        * meet 2 from client
        * refused no-listener
        c: 425 No data listener: no port is free",
        r"
        C: PORT 198,51,100,7,156,64
        s: PASV
        ! 2 data connections are open already
        S: 227 (192,0,2,2,117,53)
        * join 1, 192.0.2.2:30005 and 198.51.100.7:40000
        * refused no-listener
        c: 425 No data listener: 2 data connections are open already",
        // Control characters are left out of the reply.
        r"
        ! no port of ftp.ports is free\x0d\x0a227 x
        C: PORT 198,51,100,7,156,64
        s:
        * open 1 from server, dial 198.51.100.7:40000
        * refused no-listener
        c: 425 No data listener: no port of ftp.ports is free??227 x
        C: PASV
        S: 227 (192,0,2,2,117,53)
        * open 2 from client, dial 192.0.2.2:30005
        * refused no-listener
        c: 425 No data listener: no port of ftp.ports is free??227 x",
    ];
    for (rules, dialogue) in [active(CLIENT_V4, SERVER_V4), passive(CLIENT_V4, SERVER_V4), v4()].iter().zip(dialogues) {
        check(rules, &format!("S: 220 ready{dialogue}"));
    }
}

#[test]
fn a_command_that_is_refused_does_not_wait_for_room() {
    let mut stage = Stage::greeted();
    stage.know(FULL);
    stage.send(Side::Client, b"PORT 10,0,0,9,0,22\r\nEPSV 2\r\nEPSV ALL\r\nABOR\r\n");
    let [to_client, to_server] = stage.take();
    assert!(to_client.starts_with("504 ") && to_client.contains("522 "), "{to_client}");
    assert_eq!(to_server, r"EPSV ALL\r\nABOR\r\n");
}

#[test]
fn a_transfer_that_the_server_refuses_is_told() {
    for (replies, is_refused) in [
        ("550 no such file\r\n", true),
        ("425 nobody came\r\n", false),
        ("150 begins\r\n426 broken\r\n", false),
        ("226 empty\r\n", false),
    ] {
        let mut stage = Stage::greeted();
        stage.send(Side::Client, b"PORT 198,51,100,7,156,64\r\n");
        stage.send(Side::Server, b"500 no\r\n");
        stage.send(Side::Client, b"RETR f\r\nNOOP\r\n");
        stage.send(Side::Server, format!("{replies}200 ok\r\n").as_bytes());
        assert_eq!(stage.caller.refusals, [1].repeat(usize::from(is_refused)), "{replies}");
        let lacks_data = replies.starts_with("425") || replies.contains("426");
        assert_eq!(stage.caller.lacking, [1].repeat(usize::from(lacks_data)), "{replies}");
    }
    // A reply to an earlier command does not count as one to NOOP.
    let mut stage = Stage::greeted();
    stage.send(Side::Client, b"TYPE I\r\nRETR f\r\nNOOP\r\n");
    stage.send(Side::Server, b"200 I\r\n550 no such file\r\n200 ok\r\n");
    assert!(stage.caller.refusals.is_empty() && stage.session.rewriter.dialogue.due.is_none());
}

/// RFC 2428 4: after EPSV ALL the server rejects the others. Here the session does, if the server did not get it.
#[test]
fn epsv_all_is_obeyed() {
    check(
        &strict(CLIENT_V4, SERVER_V6),
        r"
        S: 220 ready
        C: EPSV ALL
        s:
        c: 200 EPSV ALL accepted
        C: PORT 198,51,100,7,156,64
        s:
        c: 503 EPSV ALL was accepted, use EPSV
        * refused epsv-only
        C: PASV
        s:
        c: 503 EPSV ALL was accepted, use EPSV
        * refused epsv-only
        C: EPSV
        S: 229 (|||30005|)
        c: 229 Entering Extended Passive Mode (|||50001|)
        * open 1 from client, dial [2001:db8:5::2]:30005",
    );
    check(
        &v4(),
        r"
        S: 220 ready
        C: EPSV ALL
        S: 200 EPSV ALL ok.
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: 550 Illegal PORT command.",
    );
}
