//! Tests `ftp.mode`: servers that are asked for another mode than that of the client.

use crate::ftp::dialogue::*;
use crate::harness::*;
use std::io::Write;
use std::net::TcpStream;

#[test]
fn a_server_whose_data_port_does_not_answer_is_named() {
    let ftp = Dialogue::begin(1, Form::Dialled.flags());
    let (listener, gone) = (server(), Port::reserve("127.0.0.1"));
    ftp.client.dialled_to(&ftp.server, listener.local_addr().unwrap(), gone.address());
    let line = ftp.near().wait_log("cannot connect to the FTP server's data port");
    assert!(
        line["server"] == gone.address().to_string() && line["why"].as_str().unwrap().contains("ECONNREFUSED"),
        "{line}"
    );
    assert_eq!(ftp.ask("RETR f", "RETR f", "425 nobody came"), "425 nobody came");
}

#[test]
fn strangers_do_not_meet_and_both_listeners_close() {
    let ftp = Dialogue::begin(1, Form::Met.flags());
    let (for_client, for_server) = ftp.client.meet(&ftp.server);
    for to in [for_client, for_server] {
        if let Ok(stranger) = dial_from("127.0.0.2", to) {
            assert_eq!(read_to_end(&stranger), (Vec::new(), Ending::Reset));
        }
    }
    talk(&TcpStream::connect(for_client).unwrap(), &TcpStream::connect(for_server).unwrap());
    assert_closed(for_client);
    assert_closed(for_server);
}

/// The control connection ends at once. The listeners would close with it.
#[test]
fn a_file_that_came_before_the_last_reply_is_not_lost_with_the_control_connection() {
    for _ in 0..20 {
        let ftp = Dialogue::begin(1, Form::Met.flags());
        let (for_client, for_server) = ftp.client.meet(&ftp.server);
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
fn a_client_that_does_not_come_is_counted_and_its_server_is_reset() {
    let ftp = Dialogue::begin(1, Form::Met.flags());
    let (for_client, for_server) = ftp.client.meet(&ftp.server);
    let server = patient(TcpStream::connect(for_server).unwrap());
    let (next, _) = ftp.client.meet(&ftp.server);
    assert_eq!(read_to_end(&server).1, Ending::Reset);
    assert_closed(for_client);
    wait_until("the listener is counted", || ftp.counter("ftp_unused") == 1);
    drop((ftp.client, ftp.server));
    assert_closed(next);
}

#[test]
fn a_server_that_says_that_it_could_not_connect_is_counted() {
    for form in [Form::Active, Form::Met] {
        let ftp = Dialogue::begin(1, form.flags());
        let listener = server();
        match form {
            Form::Met => drop(ftp.client.meet(&ftp.server)),
            _ => drop(ftp.active(&listener)),
        }
        assert_eq!(ftp.ask("RETR f", "RETR f", "425 cannot connect"), "425 cannot connect");
        let line = ftp.near().wait_line("the listener", |message| message.starts_with("nobody connected to the FTP"));
        assert_eq!((&line["expected"], ftp.counter("ftp_unused")), (&"127.0.0.1".into(), 1), "{line}");
    }
}
