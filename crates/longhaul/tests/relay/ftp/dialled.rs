//! Tests clients in active mode: each is dialled before the server gets its transfer.

use crate::ftp::dialogue::*;
use crate::ftp::servers::*;
use crate::ftp::{V4, assert_ok};
use crate::harness::*;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The forms of data connections whose client is dialled, and the numbers of relays.
const FORMS: [(Form, usize); 3] = [(Form::Active, 1), (Form::Active, 2), (Form::Dialled, 1)];

/// Sends PORT with the address `client`, which the server accepts. Returns the server's end of the data connection: a function, because
/// a server in active mode connects when it likes.
fn port(ftp: &Dialogue, form: Form, client: SocketAddr) -> Box<dyn Fn() -> TcpStream> {
    if let Form::Dialled = form {
        let data = server();
        ftp.client.dialled_to(&ftp.server, client, data.local_addr().unwrap());
        return Box::new(move || accept(&data));
    }
    let to = ftp.client.active_to_address(&ftp.server, client);
    Box::new(move || patient(TcpStream::connect(to).unwrap()))
}

#[test]
fn the_server_gets_a_transfer_only_when_its_client_has_been_dialled() {
    for (form, relays) in FORMS {
        let ftp = Dialogue::begin(relays, form.flags());
        let (listener, _in_the_queue) = full();
        let server_end = port(&ftp, form, listener.local_addr().unwrap());
        ftp.client.say("RETR f");
        quiet_for(&ftp.server.0, Duration::from_millis(300));
        drop(accept(&listener));
        assert_eq!(ftp.server.line(), "RETR f");
        listener.set_nonblocking(true).unwrap();
        let client_end = patient(listener.accept().expect("the client has been dialled").0);
        let server_end = server_end();
        ftp.server.say("150 begins");
        assert_eq!(ftp.client.line(), "150 begins");
        talk(&client_end, &server_end);
    }
}

#[test]
fn a_client_whose_port_refuses_or_is_silent_reads_425_and_the_server_gets_no_transfer() {
    let (silent, _in_the_queue) = full();
    let gone = Port::reserve(V4);
    for (form, relays) in FORMS {
        for (address, why) in [(gone.address(), "ECONNREFUSED"), (silent.local_addr().unwrap(), "no answer in 300ms")] {
            let ftp = Dialogue::begin(relays, &[form.flags(), &["--connect-timeout", "300ms"]].concat());
            let _server_end = port(&ftp, form, address);
            for command in ["RETR f", "STOR f"] {
                ftp.client.say(command);
                let reply = ftp.client.line();
                assert!(reply.starts_with(&format!("425 Cannot connect to {address}: connect: ")), "{reply}");
                assert!(reply.contains(why), "{reply}");
            }
            ftp.still_works();
            assert_eq!(ftp.near().wait_log("refused an FTP data connection")["reason"], "client-port");
        }
    }
    // A server that connects before it has a transfer.
    let ftp = Dialogue::begin(1, &[]);
    let server_end = port(&ftp, Form::Active, gone.address());
    let _server_end = server_end();
    ftp.client.say("RETR f");
    let reply = ftp.client.line();
    assert!(reply.starts_with(&format!("425 Cannot connect to {}: connect: ECONNREFUSED", gone.address())), "{reply}");
    ftp.still_works();
}

/// pyftpdlib connects before it answers PORT. The dial to the client begins then, and serves the transfer.
#[test]
fn the_port_of_a_silent_client_is_answered_during_its_dial_and_dialled_once_for_a_transfer() {
    // The dial runs when the transfer comes, or it has failed.
    for (relays, connect_timeout) in [(1, "10min"), (2, "10min"), (1, "300ms")] {
        eprintln!("{relays}, {connect_timeout}");
        let ftp = Dialogue::begin(relays, &["--connect-timeout", connect_timeout]);
        let (listener, _in_the_queue) = full();
        let address = listener.local_addr().unwrap();
        ftp.client.say(&format!("PORT {}", six(address)));
        let server_end = patient(TcpStream::connect(ftp.server.asked()).unwrap());
        ftp.server.say("200 ok");
        assert_eq!(ftp.client.line(), "200 ok");
        if connect_timeout == "10min" {
            wait_until("the client is dialled", || dials(address) == 1);
            ftp.client.say("RETR f");
            quiet_for(&ftp.server.0, Duration::from_millis(300));
            assert_eq!(dials(address), 1);
            drop(accept(&listener));
        } else {
            // With one relay the dial has begun before 200.
            wait_until("the dial has failed", || dials(address) == 0);
            drop(accept(&listener));
            ftp.client.say("RETR f");
            let reply = ftp.client.line();
            assert!(
                reply.starts_with(&format!("425 Cannot connect to {address}: connect: no answer in 300ms")),
                "{reply}"
            );
            // Each transfer has its own dial.
            ftp.client.say("RETR f");
        }
        assert_eq!(ftp.server.line(), "RETR f");
        ftp.server.say("150 begins");
        assert_eq!(ftp.client.line(), "150 begins");
        talk(&accept(&listener), &server_end);
        assert_not_dialled(&listener);
    }
}

/// Returns the number of connections to an IPv4 address that wait for the answer (proc_net_tcp(5): state 02).
fn dials(address: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let port = format!(":{:04X} 02 ", address.port());
    table.lines().filter(|line| line.contains(&port)).count()
}

/// A client may keep one listener for every transfer, and name it again or not. Otherwise the connection of the refused transfer is the
/// first one in its queue.
#[test]
fn the_connection_with_a_client_serves_the_transfer_after_a_refused_one() {
    let refusals = ["550 no such file", "450 busy", "451 error", "452 full", "530 not yours", "425 cannot connect"];
    let commands = ["RETR f", "STOR f", "NLST *"].into_iter().cycle();
    for (form, relays) in FORMS {
        let ftp = Dialogue::begin(relays, form.flags());
        for (refusal, command) in refusals.into_iter().zip(commands.clone()) {
            for is_named_again in [false, true] {
                eprintln!("{form:?}, {relays}, {refusal}, {command}, {is_named_again}");
                let listener = server();
                let mut server_end = port(&ftp, form, listener.local_addr().unwrap());
                assert_eq!(ftp.ask(command, command, refusal), refusal);
                assert_eq!(ftp.ask("ABOR", "ABOR", "225 nothing"), "225 nothing");
                if is_named_again {
                    server_end = port(&ftp, form, listener.local_addr().unwrap());
                }
                assert_eq!(ftp.ask("REST 4", "REST 4", "350 ok"), "350 ok");
                serve(&ftp, command, &listener, &*server_end);
                assert_not_dialled(&listener);
            }
        }
    }
}

/// Has the server serve `command`, by its end of a data connection. The client takes the next one of its listener.
fn serve(ftp: &Dialogue, command: &str, listener: &TcpListener, server_end: &dyn Fn() -> TcpStream) {
    ftp.client.say(command);
    assert_eq!(ftp.server.line(), command);
    let server_end = server_end();
    ftp.server.say("150 begins");
    assert_eq!(ftp.client.line(), "150 begins");
    let client_end = accept(listener);
    talk(&client_end, &server_end);
    drop(server_end);
    assert_eq!(read_to_end(&client_end), (Vec::new(), Ending::Fin));
    ftp.server.say("226 ends");
    assert_eq!(ftp.client.line(), "226 ends");
}

/// Some servers connect before they refuse, and keep the connection. pyftpdlib connects at PORT.
#[test]
fn a_server_that_has_connected_before_it_refuses_may_use_its_connection_for_the_next_transfer() {
    for (is_early, is_named_again) in [(false, false), (false, true), (true, false), (true, true)] {
        let ftp = Dialogue::begin(1, &[]);
        let listener = server();
        let mut server_end = port(&ftp, Form::Active, listener.local_addr().unwrap());
        let early = is_early.then(&*server_end);
        ftp.client.say("RETR f");
        assert_eq!(ftp.server.line(), "RETR f");
        let first = early.unwrap_or_else(&*server_end);
        ftp.server.say("550 no such file");
        assert_eq!(ftp.client.line(), "550 no such file");
        if is_named_again {
            server_end = port(&ftp, Form::Active, listener.local_addr().unwrap());
            assert_eq!(read_to_end(&first).1, Ending::Reset);
        }
        let first = std::cell::Cell::new(Some(first).filter(|_| !is_named_again));
        serve(&ftp, "RETR g", &listener, &|| first.take().unwrap_or_else(&server_end));
        assert_not_dialled(&listener);
    }
}

/// Such a server and the client have one connection without a relay.
#[test]
fn an_empty_upload_arrives_if_the_server_has_had_its_connection_since_it_refused_another_transfer() {
    for (is_early, relays) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        eprintln!("{is_early}, {relays}");
        let ftp = Dialogue::begin(relays, &[]);
        let listener = server();
        let server_end = port(&ftp, Form::Active, listener.local_addr().unwrap());
        let early = is_early.then(&*server_end);
        // A client may accept before it has a transfer.
        let client_end = is_early.then(|| accept(&listener));
        ftp.client.say("RETR f");
        assert_eq!(ftp.server.line(), "RETR f");
        let server_end = early.unwrap_or_else(&*server_end);
        ftp.server.say("550 no such file");
        assert_eq!(ftp.client.line(), "550 no such file");
        assert_eq!(ftp.ask("STOR g", "STOR g", "150 begins"), "150 begins");
        drop(client_end.unwrap_or_else(|| accept(&listener)));
        assert_eq!(read_to_end(&server_end), (Vec::new(), Ending::Fin));
    }
}

/// pyftpdlib does this. The client closes none of its listeners.
#[test]
fn refused_transfers_of_a_server_that_connects_at_port_hold_no_place() {
    for relays in [1, 2] {
        let ftp = Dialogue::begin(relays, &[]);
        let mut ends = Vec::new();
        for _ in 0..4 {
            let listener = server();
            let server_end = port(&ftp, Form::Active, listener.local_addr().unwrap())();
            assert_eq!(ftp.ask("RETR f", "RETR f", "550 no such file"), "550 no such file");
            ends.push((listener, server_end));
        }
        assert_eq!((ftp.counter("flows_now"), ftp.counter("ftp_unused")), (1, 0));
        let (listener, last) = ends.pop().unwrap();
        for (listener, server_end) in &ends {
            assert_eq!(read_to_end(&accept(listener)), (Vec::new(), Ending::Reset));
            assert_eq!(read_to_end(server_end), (Vec::new(), Ending::Reset));
        }
        let last = std::cell::Cell::new(Some(last));
        serve(&ftp, "RETR g", &listener, &|| last.take().unwrap());
    }
}

/// pyftpdlib names the file of STOU in 150, and waits for the data connection then.
#[test]
fn an_upload_that_begins_before_its_data_connection_is_asked_for_arrives() {
    for (form, relays) in FORMS {
        let ftp = Dialogue::begin(relays, form.flags());
        assert_eq!(ftp.ask("STOU", "STOU", "150 FILE: f"), "150 FILE: f");
        let listener = server();
        let server_end = port(&ftp, form, listener.local_addr().unwrap())();
        send_all(&accept(&listener), b"file");
        assert_eq!(read_to_end(&server_end), (b"file".to_vec(), Ending::Fin));
    }
}

/// As most clients do. The new listener may have the same port.
#[test]
fn a_client_that_has_closed_its_end_after_a_refused_transfer_is_dialled_anew() {
    for (form, relays) in FORMS {
        for closes in ["its listener", "its connection", "its connection with half a file"] {
            for is_named_again in [false, true] {
                eprintln!("{form:?}, {relays}, {closes}, {is_named_again}");
                let ftp = Dialogue::begin(relays, form.flags());
                // Nobody else gets the port while nobody listens.
                let reserved = Port::reserve("127.0.0.1");
                let address = reserved.address();
                let mut listener = listen(address);
                let mut server_end = port(&ftp, form, address);
                ftp.client.say("STOR f");
                assert_eq!(ftp.server.line(), "STOR f");
                if closes == "its listener" {
                    drop(listener);
                    listener = listen(address);
                } else {
                    let mut client_end = accept(&listener);
                    if closes.ends_with("file") {
                        client_end.write_all(b"half").unwrap();
                    }
                }
                ftp.server.say("550 not allowed");
                assert_eq!(ftp.client.line(), "550 not allowed");
                if is_named_again {
                    server_end = port(&ftp, form, address);
                }
                serve(&ftp, "STOR g", &listener, &*server_end);
            }
        }
    }
}

/// Returns a session whose server has refused an upload and has the next one now, the client's listener, and the server's end of its data
/// connection.
fn refused_and_asked_again(form: Form, relays: usize) -> (Dialogue, TcpListener, Box<dyn Fn() -> TcpStream>) {
    let ftp = Dialogue::begin(relays, form.flags());
    let listener = server();
    let server_end = port(&ftp, form, listener.local_addr().unwrap());
    assert_eq!(ftp.ask("STOR f", "STOR f", "550 not allowed"), "550 not allowed");
    ftp.client.say("STOR g");
    assert_eq!(ftp.server.line(), "STOR g");
    (ftp, listener, server_end)
}

/// Its FIN comes late. A server would take it for an empty file.
#[test]
fn a_client_that_closes_an_old_connection_during_the_next_upload_leaves_no_empty_file() {
    for (form, relays) in FORMS {
        for has_begun in [false, true] {
            let (ftp, listener, server_end) = refused_and_asked_again(form, relays);
            let old = Some(accept(&listener));
            let old = old.filter(|_| has_begun);
            let server_end = server_end();
            ftp.server.say("150 begins");
            assert_eq!(ftp.client.line(), "150 begins");
            match old {
                Some(old) => {
                    drop(old);
                    assert_eq!(read_to_end(&server_end), (Vec::new(), Ending::Reset));
                }
                None => talk(&accept(&listener), &server_end),
            }
        }
    }
}

/// They come after the next command. A server would take them for its file.
#[test]
fn bytes_of_a_refused_upload_are_no_part_of_the_next_one() {
    for (form, relays) in FORMS {
        let (ftp, listener, server_end) = refused_and_asked_again(form, relays);
        accept(&listener).write_all(b"a part of f").unwrap();
        let server_end = server_end();
        ftp.server.say("150 begins");
        assert_eq!(ftp.client.line(), "150 begins");
        talk(&accept(&listener), &server_end);
    }
}

#[test]
fn the_connection_with_a_client_ends_at_another_address_at_pasv_and_with_the_session() {
    for (form, relays) in FORMS {
        for ends in ["PORT", "PASV", "QUIT", "426"] {
            if (form, ends) == (Form::Dialled, "426") {
                continue; // its flow begins with 150
            }
            eprintln!("{form:?}, {relays}, {ends}");
            let ftp = Dialogue::begin(relays, form.flags());
            let listener = server();
            let _server_end = port(&ftp, form, listener.local_addr().unwrap());
            let replies = if ends == "426" { "150 begins\r\n426 lost" } else { "550 no such file" };
            let last = ftp.ask("RETR f", "RETR f", replies);
            let client_end = accept(&listener);
            match ends {
                "PORT" => drop(port(&ftp, form, server().local_addr().unwrap())),
                "PASV" => drop(ftp.passive(&server())),
                "QUIT" => {
                    quiet_for(&client_end, Duration::from_millis(100));
                    drop((ftp.client, ftp.server));
                }
                // The client may wait for the bytes of a transfer that has begun.
                _ => assert_eq!((last.as_str(), ftp.client.line().as_str()), ("150 begins", "426 lost")),
            }
            assert_eq!(read_to_end(&client_end), (Vec::new(), Ending::Reset));
        }
    }
}

/// The bytes and the reply that the transfer begins come by two connections.
#[test]
fn a_file_arrives_whether_it_or_its_first_reply_comes_first() {
    for (bytes, is_first) in [(&b"file"[..], true), (b"file", false), (b"", true), (b"", false)] {
        let ftp = Dialogue::begin(1, &[]);
        let listener = server();
        let server_end = port(&ftp, Form::Active, listener.local_addr().unwrap());
        ftp.client.say("RETR f");
        assert_eq!(ftp.server.line(), "RETR f");
        if !is_first {
            ftp.server.say("150 begins");
            assert_eq!(ftp.client.line(), "150 begins");
        }
        server_end().write_all(bytes).unwrap();
        let client_end = accept(&listener);
        if !bytes.is_empty() {
            assert_eq!(read_to_end(&client_end), (bytes.to_vec(), Ending::Fin));
        }
        // A server may leave out 150.
        ftp.server.say("250 ends");
        assert_eq!(ftp.client.line(), "250 ends");
        if bytes.is_empty() {
            assert_eq!(read_to_end(&client_end), (Vec::new(), Ending::Fin));
        }
    }
}

/// As without a relay. pyftpdlib closes its passive port when it reads QUIT before the data connection is there.
#[test]
fn the_server_gets_the_commands_behind_a_data_connection_only_when_it_has_been_dialled() {
    for relays in [1, 2] {
        let ftp = Dialogue::begin(relays, &[]);
        let (listener, _in_the_queue) = full();
        let client_end = patient(TcpStream::connect(ftp.passive(&listener)).unwrap());
        ftp.client.say("STOR f\r\nQUIT");
        quiet_for(&ftp.server.0, Duration::from_millis(300));
        drop(accept(&listener));
        assert_eq!((ftp.server.line(), ftp.server.line()), ("STOR f".into(), "QUIT".into()));
        listener.set_nonblocking(true).unwrap();
        let server_end = patient(listener.accept().expect("the server has been dialled").0);
        talk(&client_end, &server_end);
    }
    // A port that does not answer.
    let (listener, _in_the_queue) = full();
    let ftp = Dialogue::begin(1, &["--connect-timeout", "300ms"]);
    let _client_end = TcpStream::connect(ftp.passive(&listener)).unwrap();
    assert_eq!(ftp.ask("RETR f", "RETR f", "425 nobody came"), "425 nobody came");
}

/// In one session.
#[test]
fn clients_in_active_mode_get_the_next_file_after_one_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let Some(server) = Server::start(kind, V4, "") else { return };
        server.write("there", &pattern(14, 300_000));
        let chain = Chain::start(&[V4, V4], server.address(), &[]);
        for client in [Client::Curl, Client::Lftp, Client::Tnftp, Client::Ftplib] {
            let file = folder.path().join(format!("{kind:?}-{client:?}"));
            let output = client.get_behind_missing(Mode::Port, chain.entry(), "there", &file);
            assert_ok(&output);
            // curl says only that there is no such file.
            let said = stdout(&output) + &stderr(&output);
            assert!(said.contains("550") || said.contains("curl: (78)"), "{client:?}: {output:?}");
            assert_same(&std::fs::read(&file).unwrap_or_default(), &pattern(14, 300_000));
        }
    }
}
