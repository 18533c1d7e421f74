//! Dialogues of clients in active mode with servers that are asked for passive mode.

use super::*;

fn passive(client: &str, server: &str) -> Rules {
    Rules { passive: true, ..strict(client, server) }
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
        * transfer 1 RETR f
        S: 150 Opening.
        * begins
        S: 226 Transfer complete.
        * begins
        C: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,54).
        c: 227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30006
        C: EPRT |1|198.51.100.7|40001|
        s: PASV
        S: 227 Entering Passive Mode (192,0,2,2,117,55).
        c: 200 PORT command successful
        * join 3, 192.0.2.2:30007 and 198.51.100.7:40001
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

#[test]
fn no_side_may_name_another_host() {
    check(
        &passive(CLIENT_V4, SERVER_V4),
        r"
        S: 220 ready
        C: PORT 10,0,0,9,156,64
        s:
        c: 504 Address 10.0.0.9 is neither the client's own nor in ftp.data_from
        * refused third-host
        C: PORT 198,51,100,7,156,64
        s: PASV
        S: 227 Entering Passive Mode (10,0,0,9,117,53).
        c: 425 Address 10.0.0.9 is neither the server's own nor in ftp.data_from
        * refused third-host
        C: PORT 198,51,100,7,156,64
        s: PASV
        S: 502 Not implemented
        C: NOOP
        S: 200 ok",
    );
}

#[test]
fn a_relay_that_cannot_join_says_so() {
    let mut stage = Stage::new(&passive(CLIENT_V4, SERVER_V4));
    stage.caller.failure = Some("2 data connections are open already");
    stage.send(Side::Server, b"220 ready\r\n");
    stage.send(Side::Client, b"PORT 198,51,100,7,156,64\r\n");
    stage.send(Side::Server, b"227 (192,0,2,2,117,53)\r\n");
    let [to_client, _] = stage.take();
    assert_eq!(to_client, r"220 ready\r\n425 No data listener: 2 data connections are open already\r\n");
}

#[test]
fn a_command_for_a_data_connection_waits_for_room() {
    for (command, passed) in [("PASV", "PASV"), ("PORT 198,51,100,7,156,64", "PORT 192,0,2,1,195,81")] {
        let mut stage = Stage::new(&v4());
        stage.send(Side::Server, b"220 ready\r\n");
        stage.caller.is_full = true;
        stage.send(Side::Client, format!("{command}\r\nNOOP\r\n").as_bytes());
        assert!(stage.session.is_waiting());
        stage.give_up();
        assert_eq!(stage.take(), [r"220 ready\r\n", ""], "the wait for replies is another one");
        stage.caller.is_full = false;
        let Stage { session, caller, to_client, to_server } = &mut stage;
        session.look_again(caller, to_client, to_server);
        let [_, to_server] = stage.take();
        assert!(to_server.starts_with(&format!(r"{passed}\r\n")), "{to_server}");
    }
}

#[test]
fn a_transfer_and_a_reply_that_may_not_come_are_told_from_others() {
    let mut stage = Stage::new(&v4());
    let told = |stage: &Stage| {
        let session = &stage.session;
        (session.is_owed(), session.is_transferring(), session.is_doubtful())
    };
    let mut after = |side, line: &str| {
        stage.send(side, format!("{line}\r\n").as_bytes());
        told(&stage)
    };
    use Side::{Client, Server};
    assert_eq!(after(Server, "220 ready"), (false, false, false));
    assert_eq!(after(Client, "SYST"), (true, false, false));
    assert_eq!(after(Client, "RETR f"), (true, true, false));
    assert_eq!(after(Server, "215 UNIX"), (true, true, false));
    assert_eq!(after(Client, "NOOP"), (true, true, true), "pure-ftpd drops it");
    assert_eq!(after(Server, "150 begins"), (true, true, true));
    assert_eq!(after(Server, "226 ends"), (true, false, true));
    assert_eq!(after(Server, "200 ok"), (false, false, false));
    assert_eq!(after(Client, "ABOR"), (true, false, true));
    assert_eq!(after(Server, "225 none"), (false, false, false));
    assert_eq!(after(Client, "NO\x01OP"), (true, false, true));
}
