//! Tests tunnels with `protocol = "ftp"` between a client and a server of the test, for what those of others do not do: exact
//! endings, addresses and ports that must be refused, attacks, odd replies, and the end of a drain.

use crate::ftp::dialogue::*;
use crate::harness::*;
use longhaul_core::wire::probe::{MAGIC, Preface};
use rustix::event::PollFlags;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn each_ending_of_a_data_connection_is_that_of_the_other_side() {
    let bytes = pattern(31, 1_000_000);
    for relays in [1, 2] {
        for form in Form::ALL {
            for is_download in [true, false] {
                for ending in [Ending::Fin, Ending::Reset] {
                    let ftp = Dialogue::begin(relays, form.flags());
                    let (client, server) = ftp.data(form);
                    let (mut writer, mut reader) = if is_download { (server, client) } else { (client, server) };
                    std::thread::scope(|scope| {
                        scope.spawn(|| writer.write_all(&bytes).unwrap());
                        let mut got = vec![0; bytes.len()];
                        reader.read_exact(&mut got).unwrap();
                        assert_same(&got, &bytes);
                    });
                    match ending {
                        Ending::Reset => reset(writer),
                        _ => drop(writer),
                    }
                    let cell = (relays, form, is_download, ending);
                    assert_eq!(read_to_end(&reader), (Vec::new(), ending), "{cell:?}");
                    ftp.still_works();
                }
            }
        }
    }
}

#[test]
fn a_data_connection_is_reset_if_the_other_side_does_not_listen() {
    for relays in [1, 2] {
        let ftp = Dialogue::begin(relays, &[]);
        let (nobody, client) = (Port::reserve("127.0.0.1"), &ftp.client);
        let reply = ftp.ask("PASV", "PASV", &format!("227 =({})", six(nobody.address())));
        reset_by(client.named(&reply));
        client.say(&format!("PORT {}", six(nobody.address())));
        let server_end = patient(TcpStream::connect(ftp.server.asked()).unwrap());
        // A command that the relay does not know.
        ftp.server.say("200 ok\r\n150 begins");
        assert_eq!(read_to_end(&server_end).1, Ending::Reset);
        assert_eq!((client.line(), client.line()), ("200 ok".into(), "150 begins".into()));
        ftp.still_works();
    }
}

#[test]
fn everything_else_passes_byte_for_byte() {
    let ftp = Dialogue::begin(2, &[]);
    let mut bytes =
        b"\xff\xfd\x06SITE \0\x01\xff\xff\xff\xf4\nFEAT\nMLST a b\r\nREST 99999999999\r\nHOST x\r\n\r\nX".to_vec();
    // Without the ends of lines, behind which 227 might stand by chance.
    bytes.extend(pattern(32, 1 << 20).iter().map(|byte| if b"\r\n".contains(byte) { b'x' } else { *byte }));
    bytes.extend(b"\r\n");
    // A client's FIN goes on after the replies to its commands, so the server ends first.
    pass_all(&ftp.server.0, &ftp.client.0, &bytes);
    pass_all(&ftp.client.0, &ftp.server.0, &bytes);
}

#[test]
fn an_urgent_abort_stays_urgent() {
    let ftp = Dialogue::begin(2, &[]);
    // RFC 959 4.1.3: interrupt process, and the data mark as urgent data.
    (&ftp.client.0).write_all(b"\xff\xf4\xff").unwrap();
    SockRef::from(&ftp.client.0).send_out_of_band(b"\xf2").unwrap();
    let mut got = [0; 3];
    (&ftp.server.0).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"\xff\xf4\xff");
    wait_for_events(&ftp.server.0, PollFlags::PRI);
    let mut mark = [std::mem::MaybeUninit::uninit()];
    assert_eq!(SockRef::from(&ftp.server.0).recv_out_of_band(&mut mark).unwrap(), 1);
}

/// No prober knows a data connection. The last relay before a host may have `verify_final = false`, and answers probes without a dial.
#[test]
fn a_file_may_be_a_whole_preface_or_begin_like_one() {
    let preface = Preface { hops: 1, echo_bytes: 0, nonce: [7; 16] }.bytes();
    let shown = Shown::begin("verify_final = false\n");
    for form in [Form::Passive, Form::Active] {
        for bytes in [&preface[..], &MAGIC, &MAGIC[..5]] {
            // The bytes that come to the listener first.
            let (client, server) = shown.data(form, "STOR f");
            let (from, to) = if let Form::Passive = form { (client, server) } else { (server, client) };
            send_all(&from, bytes);
            assert_eq!(read_to_end(&to), (bytes.to_vec(), Ending::Fin));
            shown.server.say("226 stored");
            assert_eq!(shown.client.line(), "226 stored");
        }
    }
    // The dial fails, which a prober would be told. Reserved, so that no other test listens there meanwhile.
    let refuses = Port::reserve("127.0.0.1");
    let to = shown.client.passive_to_address(&shown.server, refuses.address());
    let client = patient(TcpStream::connect(to).unwrap());
    // The reset may come first. Then the write fails with it, and a read after that shows an end without an error.
    match (&client).write_all(&preface) {
        Err(err) => assert!(is_reset(&err), "{err}"),
        Ok(()) => assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset)),
    }
}

/// `ftp.data_from` names three hosts, and `allow` two of them.
const ALLOW: &[&str] = &["--ftp-data-from", "127.0.0.0/30", "--allow", "127.0.0.1", "--allow", "127.0.0.3"];

#[test]
fn a_stranger_is_reset_and_the_peer_still_comes_in() {
    for (flags, form, stranger, peer) in [
        (&[][..], Form::Passive, Some("127.0.0.2"), "127.0.0.1"),
        (&[], Form::Active, Some("127.0.0.2"), "127.0.0.1"),
        (ALLOW, Form::Passive, Some("127.0.0.2"), "127.0.0.3"),
        // `allow` is the list of clients: a server of `ftp.data_from` needs no place in it.
        (ALLOW, Form::Active, None, "127.0.0.2"),
    ] {
        let ftp = Dialogue::begin(1, flags);
        let listener = server();
        let to = if let Form::Passive = form { ftp.passive(&listener) } else { ftp.active(&listener) };
        if let Some(ip) = stranger {
            // The reset may come before connect(2) returns.
            if let Ok(stranger) = dial_from(ip, to) {
                assert_eq!(read_to_end(&stranger), (Vec::new(), Ending::Reset));
            }
            let is_it = |message: &str| message.starts_with("refused: an FTP data connection");
            let line = ftp.near().wait_line("the stranger", is_it);
            assert!(line["peer"].as_str().unwrap().starts_with(ip) && line["expected"] == "127.0.0.1", "{line}");
            assert_eq!(ftp.counter("not_allowed"), 1);
        }
        let peer = dial_from(peer, to).unwrap();
        assert_eq!(ftp.ask("RETR f", "RETR f", "150 begins"), "150 begins");
        talk(&peer, &accept(&listener));
        assert_closed(to);
    }
}

/// As behind a NAT.
#[test]
fn ftp_advertise_names_the_address_for_clients_alone() {
    let ftp = Dialogue::begin(1, &["--ftp-advertise", "198.51.100.7"]);
    let listener = server();
    let named = ftp.passive(&listener);
    assert_eq!(named.ip(), Ipv4Addr::new(198, 51, 100, 7));
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, named.port())).unwrap();
    talk(&patient(client), &accept(&listener));
    assert_eq!(ftp.active(&listener).ip(), Ipv4Addr::LOCALHOST);
}

/// A relay that listens on every address sees clients of IPv4 as `::ffff:127.0.0.1`.
#[test]
fn a_client_of_ipv4_at_a_listener_of_ipv6_is_one_of_ipv4() {
    let ftp = Dialogue::begin_on(&["[::]"], &[]);
    let listener = server();
    let to = ftp.passive(&listener);
    talk(&dial_from("127.0.0.1", to).unwrap(), &accept(&listener));
    let (client, server) = ftp.data(Form::Active);
    talk(&client, &server);
}

#[test]
fn data_connections_do_not_need_places_of_max_flows() {
    let ftp = Dialogue::begin(1, &["--max-flows", "1"]);
    let (one, two) = (ftp.data(Form::Passive), ftp.data(Form::Active));
    talk(&one.0, &one.1);
    talk(&two.0, &two.1);
    // The third one waits for the end of one of them.
    let listener = server();
    ftp.client.say("PASV");
    ftp.server.0.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(ftp.server.0.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(patient(ftp.server.0.try_clone().unwrap()));
    drop(one);
    assert_eq!(ftp.server.line(), "PASV");
    ftp.server.say(&format!("227 ({})", six(listener.local_addr().unwrap())));
    let to = ftp.client.named(&ftp.client.reply());
    talk(&TcpStream::connect(to).unwrap(), &accept(&listener));
}

/// A control connection that is silent stays while its transfer runs, also in a drain. The drain waits 5 s for silence.
#[test]
fn a_drain_lets_transfers_end_and_then_ends_control_connections_with_421() {
    let mut ftp = Dialogue::begin(1, &[]);
    let (idle, idle_server) = Dialogue::connect(&ftp.chain, &ftp.listener);
    let (client, server) = ftp.data(Form::Passive);
    talk(&client, &server);
    ftp.near().signal("TERM");
    ftp.near().wait_log("draining: no new connections; a second signal cuts the flows");
    assert_eq!(idle_server.line(), "QUIT");
    idle_server.say("221 bye");
    assert_eq!(&idle.line()[..4], "421 ");
    drop(idle_server);
    assert_eq!(idle.ending(), Ending::Fin);
    drop(idle);
    // The other one had nothing to say all the time, either.
    pass_all(&server, &client, &pattern(33, 3_000_000));
    let ended = Instant::now();
    drop((client, server));
    assert_eq!(ftp.server.line(), "QUIT");
    assert!(ended.elapsed().as_secs() >= 5, "{:?}", ended.elapsed());
    ftp.server.say("221 bye");
    assert_eq!(&ftp.client.line()[..4], "421 ");
    ftp.server.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.client.ending(), Ending::Fin);
    ftp.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.chain.relays[0].exit(), Some(0));
}
