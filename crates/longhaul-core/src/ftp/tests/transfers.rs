//! Transfers, and the commands for their data connections.

use super::*;

/// A listener is not replaced before the server has answered the command that uses it.
#[test]
fn the_next_port_waits_for_the_transfer_before_it() {
    check(
        &v4(),
        r"
        S: 220 ready
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        C: RETR a
        s:
        C: PORT 198,51,100,7,156,65
        s:
        C: RETR b
        s:
        S: 200 ok
        s: RETR a
        * dial 1
        * transfer 1 RETR a
        S: 150 a
        S: 226 a
        s: PORT 192,0,2,1,195,82
        * open 2 from server, dial 198.51.100.7:40001
        S: 200 ok
        s: RETR b
        * dial 2
        * transfer 2 RETR b
        S: 425 b",
    );
}

/// pyftpdlib names the file in 150, and waits for the data connection then. The next command waits for the end of the transfer.
#[test]
fn a_transfer_that_begins_without_a_data_connection_does_not_hold_up_the_command_for_it() {
    let active = "C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: 200 ok";
    let passive = "C: PASV
        S: 227 ok 192,0,2,2,117,53
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005";
    let joined = "C: PORT 198,51,100,7,156,64
        s: PASV
        S: 227 ok 192,0,2,2,117,53
        c: 200 PORT command successful
        * join 1, 192.0.2.2:30005 and 198.51.100.7:40000";
    let rules = Rules { mode: Mode::Passive, ..v4() };
    for (rules, data, begins) in [(v4(), active, ""), (v4(), passive, ""), (rules, joined, "* begins")] {
        check(
            &rules,
            &format!(
                r"
                S: 220 ready
                C: STOU
                S: 150 FILE: f
                {data}
                * transfer 1 STOU
                {begins}
                C: LPSV
                s:
                S: 226 stored
                {begins}
                c: 226 stored
                c: 521 Supported address families are (4,6), by EPRT and EPSV
                * refused long-form"
            ),
        );
    }
}

/// For a client that closes the data connection early, the last reply of pure-ftpd is a preliminary one.
#[test]
fn a_second_150_is_the_last_reply() {
    check(
        &v4(),
        r"
        S: 220 ready
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: 200 PORT command successful
        C: RETR f
        * dial 1
        * transfer 1 RETR f
        S: 150-Connecting to port 50001
        S: 150 62500.0 kbytes to download
        S: 110 MARK 1 = 1
        S: 110 MARK 2 = 2
        C: LPSV
        s:
        S: 150 0.2 seconds (measured here), 19.27 Mbytes per second
        c: 150 0.2 seconds (measured here), 19.27 Mbytes per second
        c: 521 Supported address families are (4,6), by EPRT and EPSV
        * refused long-form
        C: PWD
        S: 257 /",
    );
}

/// The server does not get a transfer whose data the client could not get. Each attempt dials anew.
#[test]
fn a_client_in_active_mode_is_dialled_before_the_server_gets_the_transfer() {
    check(
        &v4(),
        r"
        S: 220 ready
        C: PORT 198,51,100,7,156,64
        s: PORT 192,0,2,1,195,81
        * open 1 from server, dial 198.51.100.7:40000
        S: 200 ok
        ! 198.51.100.7:40000: connect: ECONNREFUSED
        C: RETR a
        s:
        c: 425 Cannot connect to 198.51.100.7:40000: connect: ECONNREFUSED
        * dial 1
        * refused client-port
        !
        C: REST 10
        S: 350 ok
        C: RETR\x0da
        * dial 1
        * transfer 1 RETR a
        S: 550 no such file
        C: LIST b
        * dial 1
        * transfer 1 LIST b
        S: 425 cannot connect
        C: stou
        * dial 1
        * transfer 1 STOU
        S: 150 begins
        S: 226 whole
        C: RETR c
        * dial 1
        * transfer 1 RETR c
        S: 425 Use PORT first
        C: PASV
        S: 227 ok 192,0,2,2,117,53
        c: 227 Entering Passive Mode (198,51,100,1,195,82).
        * open 2 from client, dial 192.0.2.2:30005
        C: RETR c
        * transfer 2 RETR c
        S: 550 no such file",
    );
}
