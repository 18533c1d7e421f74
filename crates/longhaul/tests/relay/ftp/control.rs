//! Control connections of FTP that begin like a probe, that end on one side, or that break: each byte goes through the rewriting.

use crate::carry::endings::{OVER_ALL_BUFFERS, SMALL_BUFFERS};
use crate::ftp::dialogue::*;
use crate::ftp::servers::{Chain, KINDS, Mode, Server};
use crate::harness::*;
use longhaul_core::wire::probe::MAGIC;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const ATTACK: &str = "PORT 10,0,0,9,0,22";

/// Splits off the client's end.
fn split(ftp: Dialogue) -> (TcpStream, Control, Relays) {
    let Dialogue { chain, client, server, listener } = ftp;
    (client.0, server, Relays { _chain: chain, _listener: listener })
}

/// Keeps the relays running.
struct Relays {
    _chain: Chain,
    _listener: std::net::TcpListener,
}

fn read_some(control: &Control, bytes: usize) -> Vec<u8> {
    let mut got = vec![0; bytes];
    (&control.0).read_exact(&mut got).unwrap();
    got
}

/// No prober sends urgent data.
#[test]
fn bytes_that_begin_like_a_probe_are_rewritten() {
    let rows: [(&[u8], &[u8], &[u8]); 4] = [
        // The relay waits for the rest of a preface, and not for long.
        (&MAGIC[..1], b"", b""),
        (&MAGIC[..MAGIC.len() - 1], b"", b""),
        (b"", &MAGIC[..1], &[&MAGIC[1..], b"\x01"].concat()),
        (&MAGIC[..3], b"o", b""),
    ];
    for (before, urgent, after) in rows {
        let ftp = Dialogue::begin(1, &[]);
        (&ftp.client.0).write_all(before).unwrap();
        if !urgent.is_empty() {
            SockRef::from(&ftp.client.0).send_out_of_band(urgent).unwrap();
        }
        (&ftp.client.0).write_all(after).unwrap();
        let begun = [before, urgent, after].concat();
        assert_eq!(read_some(&ftp.server, begun.len()), begun);
        ftp.client.say("");
        assert_eq!(read_some(&ftp.server, 2), b"\r\n");
        ftp.server.say("500 unknown");
        assert_eq!(ftp.client.line(), "500 unknown");
        ftp.client.say(ATTACK);
        assert!(ftp.client.line().starts_with("504 "));
    }
}

/// Its bytes could not be told from commands. The relay ends the connection, and resets it after ten seconds.
#[test]
fn a_client_that_begins_with_tls_is_refused() {
    let [left, closed] = [(); 2].map(|()| {
        let ftp = Dialogue::begin(1, &[]);
        (&ftp.client.0).write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03PORT 10,0,0,9,0,22\r\n").unwrap();
        assert_eq!(ftp.client.line(), "421 TLS without AUTH needs a tunnel without protocol = \"ftp\"");
        assert_eq!(ftp.server.line(), "QUIT");
        assert_eq!(ftp.near().wait_log("refused an FTP data connection")["reason"], "implicit-tls");
        ftp
    });
    closed.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!((closed.server.ending(), closed.client.ending()), (Ending::Fin, Ending::Reset));
    // Neither side closes it.
    assert_eq!((left.client.ending(), left.server.ending()), (Ending::Reset, Ending::Reset));
}

#[test]
fn bytes_that_begin_like_a_probe_may_be_the_last() {
    let ftp = Dialogue::begin(1, &[]);
    (&ftp.client.0).write_all(&MAGIC[..3]).unwrap();
    ftp.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&ftp.server.0), (MAGIC[..3].to_vec(), Ending::Fin));
}

/// The commands wait in one read of the relay, or in many.
#[test]
fn the_last_commands_of_a_client_that_reset_are_rewritten() {
    for commands in [10, 3000] {
        let (client, server, _relays) = split(Dialogue::begin(1, &[]));
        let last = format!("{ATTACK}\r\nRETR f\r\n");
        (&client).write_all(&[b"NOOP\r\n".repeat(commands), last.into_bytes()].concat()).unwrap();
        assert_eq!(read_some(&server, 6), b"NOOP\r\n");
        reset(client);
        let (got, ending) = read_to_end(&server.0);
        assert_eq!(ending, Ending::Reset);
        let expected = [b"NOOP\r\n".repeat(commands - 1), b"RETR f\r\n".to_vec()].concat();
        assert!(expected.starts_with(&got), "{}", got.escape_ascii());
    }
}

#[test]
fn the_fin_of_a_client_waits_for_a_reply_that_is_rewritten() {
    let ftp = Dialogue::begin(1, &[]);
    let data = server();
    ftp.client.say(ATTACK);
    ftp.client.say("PASV");
    ftp.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.server.line(), "PASV");
    assert!(ftp.client.line().starts_with("504 "));
    ftp.server.say(&format!("227 ({})", six(data.local_addr().unwrap())));
    let named = ftp.client.named(&ftp.client.line());
    assert_ne!(named, data.local_addr().unwrap());
    assert_eq!(ftp.server.ending(), Ending::Fin);
    // The control connection is there, and so is its data connection.
    let dialled = patient(TcpStream::connect(named).unwrap());
    let accepted = accept(&data);
    (&dialled).write_all(b"x").unwrap();
    drop(dialled);
    assert_eq!(read_to_end(&accepted), (b"x".to_vec(), Ending::Fin));
    drop((accepted, ftp.server));
    assert_eq!(ftp.client.ending(), Ending::Fin);
    drop(ftp.client);
    let relay = &ftp.chain.relays[0];
    wait_until("the flows end", || relay.counters()["flows_now"] == 0);
    assert_eq!(relay.counters()["flows_reset"].as_u64().unwrap_or(0), 0, "although not every byte passed");
}

/// While bytes wait for the server, nothing is read from the client.
#[test]
fn the_reset_of_a_client_is_seen_while_nothing_is_read_from_it() {
    let ftp = Dialogue::begin(1, SMALL_BUFFERS);
    let relay = &ftp.chain.relays[0];
    // Until every buffer on the way to the server is full.
    ftp.client.0.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let full = (&ftp.client.0).write_all(&b"NOOP\r\n".repeat(OVER_ALL_BUFFERS / 6)).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    reset(ftp.client.0);
    wait_until("the flow ends", || relay.counters()["flows_now"].as_u64() == Some(0));
}

/// Servers differ in the number of replies to a transfer and its ABOR.
#[test]
fn after_abort_each_command_has_its_own_reply_and_the_next_file_arrives() {
    for kind in KINDS {
        let Some(server) = Server::start(kind, "127.0.0.1", "") else { return };
        server.write("long", &pattern(12, OVER_ALL_BUFFERS));
        server.write("after", &pattern(8, 100_000));
        for (mode, is_telnet) in [(Mode::Pasv, true), (Mode::Pasv, false), (Mode::Port, true), (Mode::Port, false)] {
            eprintln!("{kind:?}, {mode:?}, telnet: {is_telnet}");
            let chain = Chain::start(&["127.0.0.1"; 2], server.address(), SMALL_BUFFERS);
            let control = Control::log_in(chain.entry());
            let data = control.begin(mode, "RETR long");
            (&data).read_exact(&mut [0; 200_000]).unwrap();
            if is_telnet {
                // RFC 959 4.1.3: interrupt process, and the data mark as urgent data.
                (&control.0).write_all(b"\xff\xf4\xff").unwrap();
                SockRef::from(&control.0).send_out_of_band(b"\xf2").unwrap();
            }
            control.say("ABOR");
            drop(data);
            control.say(ATTACK);
            let mut before = Vec::new();
            let refused = loop {
                let reply = control.line();
                if !["225", "226", "426", "150"].contains(&&reply[..3]) {
                    break reply;
                }
                before.push(reply);
            };
            assert!(refused.starts_with("504 "), "{refused}, after {before:?}");
            control.say("PWD");
            assert!(control.reply().starts_with("257 "));
            assert_eq!(read_to_end(&control.begin(mode, "RETR after")), (pattern(8, 100_000), Ending::Fin));
            drop(control);
            wait_until("the flows end", || chain.relays[0].counters()["flows_now"].as_u64() == Some(0));
        }
    }
}
