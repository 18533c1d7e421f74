//! Tests `ftp.mode`: servers that are asked for another mode than that of the client.

use crate::ftp::dialogue::*;
use crate::ftp::flows::{TOLD_APART, assert_told_apart, send_whole};
use crate::harness::*;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

const PASSIVE: &[&str] = &["--ftp-mode", "passive"];
const ACTIVE: &[&str] = &["--ftp-mode", "active"];

/// Sends PORT with the address of `client`'s listener, to which the server answers as to PASV. Returns the server's end.
fn join(ftp: &Dialogue, client: &TcpListener) -> TcpStream {
    join_address(ftp, client.local_addr().unwrap())
}

/// Sends PORT with this address, to which the server answers as to PASV. Returns the server's end.
fn join_address(ftp: &Dialogue, client: SocketAddr) -> TcpStream {
    let listener = server();
    ftp.client.say(&format!("PORT {}", six(client)));
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

    // Reserved, so that no other test listens there meanwhile.
    let from_server = join_address(&ftp, gone.address());
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

/// Sends PASV, to which the server answers as to PORT. Returns the addresses to which the client and the server connect.
fn meet(ftp: &Dialogue) -> (SocketAddr, SocketAddr) {
    ftp.client.say("PASV");
    let heard = ftp.server.line();
    let for_server = from_six(heard.strip_prefix("PORT ").unwrap_or_else(|| panic!("{heard}")));
    ftp.server.say("200 PORT command successful");
    (ftp.client.named(&ftp.client.line()), for_server)
}

#[test]
fn both_sides_connect_and_each_ending_is_that_of_the_other_side() {
    for relays in [1, 2] {
        let ftp = Dialogue::begin(relays, ACTIVE);
        for (is_reset, is_upload) in [(false, false), (true, false), (false, true), (true, true)] {
            let (for_client, for_server) = meet(&ftp);
            let client = patient(TcpStream::connect(for_client).unwrap());
            assert_eq!(transfer(&ftp, "150 begins"), "150 begins");
            let server = patient(TcpStream::connect(for_server).unwrap());
            talk(&client, &server);
            let (sender, receiver) = if is_upload { (client, server) } else { (server, client) };
            if is_reset {
                reset(sender)
            } else {
                drop(sender)
            }
            let ending = if is_reset { Ending::Reset } else { Ending::Fin };
            assert_eq!(read_to_end(&receiver), (Vec::new(), ending));
            ftp.server.say("226 ends");
            assert_eq!(ftp.client.line(), "226 ends");
            assert_closed(for_client);
            assert_closed(for_server);
        }
    }
}

#[test]
fn a_connection_that_both_sides_open_has_their_options_and_is_spliced() {
    let ftp = Dialogue::begin(1, &[ACTIVE, TOLD_APART].concat());
    let (for_client, for_server) = meet(&ftp);
    let [client, server] = [for_client, for_server].map(|to| patient(TcpStream::connect(to).unwrap()));
    assert_eq!(transfer(&ftp, "150 begins"), "150 begins");
    talk(&client, &server);
    assert_told_apart(&ftp, &client, &server);
    send_whole(server, &client, &pattern(52, 3_000_000));
    drop(client);
    let line = ftp.near().wait_log("flow ended");
    assert_eq!((&line["transfer"], &line["down_bytes"]), (&"RETR f".into(), &3_000_004.into()), "{line}");
    assert_eq!(ftp.near().counters()["copied"], 0);
}

#[test]
fn strangers_do_not_meet() {
    let ftp = Dialogue::begin(1, ACTIVE);
    let (for_client, for_server) = meet(&ftp);
    for to in [for_client, for_server] {
        if let Ok(stranger) = dial_from("127.0.0.2", to) {
            assert_eq!(read_to_end(&stranger), (Vec::new(), Ending::Reset));
        }
    }
    talk(&TcpStream::connect(for_client).unwrap(), &TcpStream::connect(for_server).unwrap());
}

/// A client may wait for 150 before it connects.
#[test]
fn a_server_that_comes_first_waits_for_the_client_and_its_replies_do_not() {
    let ftp = Dialogue::begin(1, ACTIVE);
    let (for_client, for_server) = meet(&ftp);
    let mut server = patient(TcpStream::connect(for_server).unwrap());
    server.write_all(b"file").unwrap();
    drop(server);
    assert_eq!(transfer(&ftp, "150 begins"), "150 begins");
    assert_eq!(read_to_end(&TcpStream::connect(for_client).unwrap()), (b"file".to_vec(), Ending::Fin));
}

/// The control connection ends at once. The listeners would close with it.
#[test]
fn a_file_that_came_before_the_last_reply_is_not_lost_with_the_control_connection() {
    for _ in 0..20 {
        let ftp = Dialogue::begin(1, ACTIVE);
        let (for_client, for_server) = meet(&ftp);
        let client = patient(TcpStream::connect(for_client).unwrap());
        ftp.client.say("RETR f");
        assert_eq!(ftp.server.line(), "RETR f");
        let mut server = patient(TcpStream::connect(for_server).unwrap());
        server.write_all(b"file").unwrap();
        drop(server);
        ftp.server.say("150 begins\r\n226 ends");
        assert_eq!((ftp.client.line(), ftp.client.line()), ("150 begins".into(), "226 ends".into()));
        drop((ftp.client, ftp.server));
        assert_eq!(read_to_end(&client), (b"file".to_vec(), Ending::Fin));
    }
}

#[test]
fn a_server_that_does_not_accept_the_address_is_heard_and_its_listener_ends_with_the_next_command() {
    let ftp = Dialogue::begin(1, ACTIVE);
    ftp.client.say("PASV");
    let for_server = from_six(ftp.server.line().strip_prefix("PORT ").unwrap());
    ftp.server.say("500 Illegal PORT command.");
    assert_eq!(ftp.client.line(), "500 Illegal PORT command.");
    let (for_client, next) = meet(&ftp);
    assert_closed(for_server);
    talk(&TcpStream::connect(for_client).unwrap(), &TcpStream::connect(next).unwrap());
    assert_eq!(ftp.counter("ftp_unused"), 0);
}

#[test]
fn a_client_that_does_not_come_is_counted_and_its_server_is_reset() {
    let ftp = Dialogue::begin(1, ACTIVE);
    let (for_client, for_server) = meet(&ftp);
    let server = patient(TcpStream::connect(for_server).unwrap());
    let (next, _) = meet(&ftp);
    assert_eq!(read_to_end(&server).1, Ending::Reset);
    assert_closed(for_client);
    wait_until("the listener is counted", || ftp.counter("ftp_unused") == 1);
    drop((ftp.client, ftp.server));
    assert_closed(next);
}

#[test]
fn a_server_that_says_that_it_could_not_connect_is_counted() {
    for flags in [&[][..], ACTIVE] {
        let ftp = Dialogue::begin(1, flags);
        let listener = server();
        if flags.is_empty() {
            ftp.active(&listener);
        } else {
            meet(&ftp);
        }
        assert_eq!(transfer(&ftp, "425 cannot connect"), "425 cannot connect");
        let line = ftp.near().wait_line("the listener", |message| message.starts_with("nobody connected to the FTP"));
        assert_eq!((&line["expected"], ftp.counter("ftp_unused")), (&"127.0.0.1".into(), 1), "{line}");
    }
}
