//! Tests clients in active mode: each is dialled before the server gets its transfer.

use crate::ftp::dialogue::*;
use crate::ftp::servers::*;
use crate::ftp::{V4, assert_ok};
use crate::harness::*;
use std::net::{SocketAddr, TcpStream};
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
    assert_eq!(read_to_end(&server_end()).1, Ending::Reset);
    ftp.client.say("RETR f");
    let reply = ftp.client.line();
    assert!(reply.starts_with(&format!("425 Cannot connect to {}: connect: ECONNREFUSED", gone.address())), "{reply}");
    ftp.still_works();
}

#[test]
fn a_transfer_that_the_server_refuses_closes_the_connection_with_its_client() {
    for (form, relays) in FORMS {
        for refusal in ["550 no such file", "425 cannot connect"] {
            let ftp = Dialogue::begin(relays, form.flags());
            let listener = server();
            let mut server_end = port(&ftp, form, listener.local_addr().unwrap());
            assert_eq!(ftp.ask("RETR f", "RETR f", refusal), refusal);
            assert_eq!(read_to_end(&accept(&listener)), (Vec::new(), Ending::Reset));
            // The near relay has used up the listener for the far one.
            if relays == 2 {
                server_end = port(&ftp, form, listener.local_addr().unwrap());
            }
            ftp.client.say("RETR g");
            assert_eq!(ftp.server.line(), "RETR g");
            let server_end = server_end();
            ftp.server.say("150 begins");
            assert_eq!(ftp.client.line(), "150 begins");
            talk(&accept(&listener), &server_end);
        }
    }
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
