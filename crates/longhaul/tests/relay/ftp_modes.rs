//! Tests `ftp.mode = "passive"`: clients in active mode, and servers that are asked for passive mode.

use crate::ftp_dialogue::*;
use crate::harness::*;
use std::net::{Shutdown, TcpListener, TcpStream};

const PASSIVE: &[&str] = &["--ftp-mode", "passive"];

/// Sends PORT with the address of `client`'s listener, to which the server answers as to PASV. Returns the server's end.
fn join(ftp: &Dialogue, client: &TcpListener) -> TcpStream {
    let listener = server();
    ftp.client.say(&format!("PORT {}", six(client.local_addr().unwrap())));
    assert_eq!(ftp.server.line(), "PASV");
    ftp.server.say(&format!("227 Entering Passive Mode ({}).", six(listener.local_addr().unwrap())));
    assert_eq!(ftp.client.line(), "200 PORT command successful");
    accept(&listener)
}

/// Sends RETR, to which the server answers `reply`. Returns what the client gets.
fn transfer(ftp: &Dialogue, reply: &str) -> String {
    ftp.ask("RETR f", "RETR f", reply)
}

fn has_connection(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    let came = listener.accept().is_ok();
    listener.set_nonblocking(false).unwrap();
    came
}

#[test]
fn both_sides_are_dialled_and_each_ending_is_that_of_the_other_side() {
    for relays in [1, 2] {
        let ftp = Dialogue::begin(relays, PASSIVE);
        for is_reset in [false, true] {
            let listener = server();
            let from_server = join(&ftp, &listener);
            assert_eq!(transfer(&ftp, "150 begins"), "150 begins");
            // The reply does not overtake it.
            listener.set_nonblocking(true).unwrap();
            let at_client = patient(listener.accept().expect("the data connection is there").0);
            talk(&at_client, &from_server);
            if is_reset {
                reset(from_server)
            } else {
                drop(from_server)
            }
            let ending = if is_reset { Ending::Reset } else { Ending::Fin };
            assert_eq!(read_to_end(&at_client), (Vec::new(), ending));
            assert_eq!(ftp.client.ask(&ftp.server, "NOOP", "NOOP", "226 ends"), "226 ends");
        }
    }
}

#[test]
fn a_transfer_that_the_server_refuses_does_not_dial_the_client() {
    let ftp = Dialogue::begin(1, PASSIVE);
    let listener = server();
    let from_server = join(&ftp, &listener);
    assert_eq!(transfer(&ftp, "550 no such file"), "550 no such file");
    assert!(!has_connection(&listener));
    // The next command for a data connection ends this one.
    let next = server();
    let from_server_again = join(&ftp, &next);
    assert_eq!(read_to_end(&from_server).1, Ending::Reset);
    assert_eq!(transfer(&ftp, "150 begins"), "150 begins");
    talk(&accept(&next), &from_server_again);
    assert!(!has_connection(&listener));
    assert_eq!(ftp.client.ask(&ftp.server, "NOOP", "NOOP", "226 ends"), "226 ends");

    let last = server();
    let from_server = join(&ftp, &last);
    assert_eq!(transfer(&ftp, "550 no such file"), "550 no such file");
    ftp.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.server.ending(), Ending::Fin);
    drop(ftp.server);
    assert_eq!(ftp.client.ending(), Ending::Fin);
    assert_eq!(read_to_end(&from_server).1, Ending::Reset);
    assert!(!has_connection(&last));
}

#[test]
fn a_server_whose_data_port_does_not_answer_is_named_and_a_client_that_does_not_listen_ends_the_transfer() {
    let ftp = Dialogue::begin(1, PASSIVE);
    let (listener, gone) = (server(), Port::reserve("127.0.0.1"));
    ftp.client.say(&format!("PORT {}", six(listener.local_addr().unwrap())));
    assert_eq!(ftp.server.line(), "PASV");
    ftp.server.say(&format!("227 ({})", six(gone.address())));
    assert_eq!(ftp.client.line(), "200 PORT command successful");
    let line = ftp.near().wait_log("cannot connect to the FTP server's data port");
    assert!(
        line["server"] == gone.address().to_string() && line["why"].as_str().unwrap().contains("ECONNREFUSED"),
        "{line}"
    );
    assert_eq!(transfer(&ftp, "425 nobody came"), "425 nobody came");

    let from_server = {
        let closed = server();
        join(&ftp, &closed)
    };
    assert_eq!(transfer(&ftp, "150 begins"), "150 begins");
    assert_eq!(read_to_end(&from_server).1, Ending::Reset);
    assert_eq!(ftp.near().wait_log("flow ended")["how"], "dial failed");
}

/// `carry` has the control connection then, and nobody reads the server's replies.
#[test]
fn a_client_that_ends_its_control_connection_gets_its_data_connection() {
    let ftp = Dialogue::begin(1, PASSIVE);
    let listener = server();
    let from_server = join(&ftp, &listener);
    ftp.client.say("RETR f");
    ftp.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.server.line(), "RETR f");
    talk(&accept(&listener), &from_server);
}

/// The server says in one segment that a transfer begins and that it is over, and the client asks for the next one already.
#[test]
fn the_next_command_does_not_close_a_connection_that_is_arriving() {
    let ftp = Dialogue::begin(1, PASSIVE);
    let [one, two] = [server(), server()];
    let from_server = join(&ftp, &one);
    ftp.client.say(&format!("RETR f\r\nPORT {}", six(two.local_addr().unwrap())));
    assert_eq!(ftp.server.line(), "RETR f");
    ftp.server.say("150 begins\r\n226 ends");
    assert_eq!((ftp.client.line(), ftp.client.line()), ("150 begins".into(), "226 ends".into()));
    talk(&accept(&one), &from_server);
    assert_eq!(ftp.server.line(), "PASV");
}
