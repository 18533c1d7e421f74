//! Tests tunnels with `protocol = "ftp"` between a client and a server of the test, for what those of others do not do: exact
//! endings, addresses and ports that must be refused, attacks, odd replies, and the end of a drain.

use crate::ftp::dialogue::*;
use crate::ftp::servers::Chain;
use crate::harness::*;
use longhaul_core::wire::probe::{MAGIC, Preface};
use rustix::event::PollFlags;
use serde_json::Value;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn each_ending_of_a_data_connection_is_that_of_the_other_side() {
    let bytes = pattern(31, 1_000_000);
    for relays in [1, 2] {
        for is_passive in [true, false] {
            for is_download in [true, false] {
                for ending in [Ending::Fin, Ending::Reset] {
                    let ftp = Dialogue::begin(relays, &[]);
                    let (client, server) = ftp.data(is_passive);
                    let (mut writer, mut reader) = if is_download { (server, client) } else { (client, server) };
                    std::thread::scope(|scope| {
                        scope.spawn(|| writer.write_all(&bytes).unwrap());
                        let mut got = vec![0; bytes.len()];
                        reader.read_exact(&mut got).unwrap();
                        assert_same(&got, &bytes);
                    });
                    if ending == Ending::Reset {
                        reset(writer)
                    } else {
                        drop(writer)
                    }
                    let cell = (relays, is_passive, is_download, ending);
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
        let heard = ftp.server.line();
        reset_by(from_six(heard.strip_prefix("PORT ").unwrap()));
        ftp.server.say("200 ok");
        assert_eq!(client.line(), "200 ok");
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
    for (from, to) in [(&ftp.client, &ftp.server), (&ftp.server, &ftp.client)] {
        std::thread::scope(|scope| {
            scope.spawn(|| (&from.0).write_all(&bytes).unwrap());
            let mut got = vec![0; bytes.len()];
            (&to.0).read_exact(&mut got).unwrap();
            assert_same(&got, &bytes);
        });
    }
    // A client's FIN goes on after the replies to its commands, so the server ends first.
    ftp.server.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.client.ending(), Ending::Fin);
    ftp.client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ftp.server.ending(), Ending::Fin);
}

#[test]
fn an_urgent_abort_stays_urgent() {
    let ftp = Dialogue::begin(2, &[]);
    let (client, server) = ftp.data(true);
    // RFC 959 4.1.3: interrupt process, and the data mark as urgent data.
    (&ftp.client.0).write_all(b"\xff\xf4\xff").unwrap();
    SockRef::from(&ftp.client.0).send_out_of_band(b"\xf2").unwrap();
    let mut got = [0; 3];
    (&ftp.server.0).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"\xff\xf4\xff");
    wait_for_events(&ftp.server.0, PollFlags::PRI);
    let mut mark = [std::mem::MaybeUninit::uninit()];
    assert_eq!(SockRef::from(&ftp.server.0).recv_out_of_band(&mut mark).unwrap(), 1);
    ftp.client.say("ABOR");
    assert_eq!(ftp.server.line(), "ABOR");
    reset(server);
    ftp.server.say("426 aborted");
    ftp.server.say("226 closed");
    assert_eq!((ftp.client.line(), ftp.client.line()), ("426 aborted".into(), "226 closed".into()));
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
    let (client, server) = ftp.data(false);
    talk(&client, &server);
}

/// The last relay before a host may have `verify_final = false`, and answers probes without a dial.
#[test]
fn a_file_may_be_a_whole_preface() {
    let preface = Preface { hops: 1, echo_bytes: 0, nonce: [7; 16] }.bytes();
    let shown = Shown::begin("verify_final = false\n");
    let (client, server) = shown.data(true, "STOR f");
    send_all(&client, &preface);
    assert_eq!(read_to_end(&server), (preface.to_vec(), Ending::Fin));
    // The dial for the next one fails, which a prober would be told.
    shown.server.say("226 stored");
    assert_eq!(shown.client.line(), "226 stored");
    // Reserved, so that no other test listens there meanwhile.
    let refuses = Port::reserve("127.0.0.1");
    let to = shown.client.passive_to_address(&shown.server, refuses.address());
    let client = patient(TcpStream::connect(to).unwrap());
    // The reset may come first. Then the write fails with it, and a read after that shows an end without an error.
    match (&client).write_all(&preface) {
        Err(err) => assert!(is_reset(&err), "{err}"),
        Ok(()) => assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset)),
    }
}

/// No prober knows a data connection.
#[test]
fn a_file_may_begin_like_a_probe() {
    for is_passive in [true, false] {
        let ftp = Dialogue::begin(2, &[]);
        for bytes in [MAGIC.to_vec(), [&MAGIC[..], &[1; 300]].concat(), MAGIC[..5].to_vec()] {
            for is_put in [true, false] {
                let (client, server) = ftp.data(is_passive);
                let (from, to) = if is_put { (client, server) } else { (server, client) };
                send_all(&from, &bytes);
                assert_eq!(read_to_end(&to), (bytes.clone(), Ending::Fin));
            }
        }
    }
}

#[test]
fn a_stranger_is_reset_and_the_peer_still_comes_in() {
    for is_passive in [true, false] {
        let ftp = Dialogue::begin(1, &[]);
        let listener = server();
        let to = if is_passive { ftp.passive(&listener) } else { ftp.active(&listener) };
        // The reset may come before connect(2) returns.
        if let Ok(stranger) = dial_from("127.0.0.2", to) {
            assert_eq!(read_to_end(&stranger), (Vec::new(), Ending::Reset));
        }
        let line =
            ftp.near().wait_line("the stranger", |message| message.starts_with("refused: an FTP data connection"));
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.2:") && line["expected"] == "127.0.0.1", "{line}");
        assert_eq!(ftp.counter("not_allowed"), 1);
        let peer = dial_from("127.0.0.1", to).unwrap();
        talk(&peer, &accept(&listener));
        assert_closed(to);
    }
}

#[test]
fn a_data_listener_is_gone_with_the_next_one_and_with_the_control_connection() {
    let ftp = Dialogue::begin(1, &[]);
    let listener = server();
    let first = ftp.passive(&listener);
    let second = ftp.active(&listener);
    assert_closed(first);
    wait_until("one listener is left", || ftp.counter("ftp_listeners_now") == 1);
    let Dialogue { chain, client, server, .. } = ftp;
    drop(client);
    assert_eq!(server.ending(), Ending::Fin);
    drop(server);
    assert_closed(second);
    wait_until("no listener is left", || chain.relays[0].counters()["ftp_listeners_now"] == 0);
}

#[test]
fn data_listeners_keep_to_ftp_ports() {
    in_own_network(|| {
        let ftp = Dialogue::begin(1, &["--ftp-ports", "50000-50002"]);
        let mut open = Vec::new();
        let mut controls = Vec::new();
        let listener = server();
        let data = six(listener.local_addr().unwrap());
        for at in 0..4 {
            let (client, server) = Dialogue::connect(&ftp.chain, &ftp.listener);
            client.say("EPSV");
            assert_eq!(server.line(), "EPSV");
            server.say(&format!("229 ok (|||{}|)", listener.local_addr().unwrap().port()));
            let reply = client.line();
            if at < 3 {
                open.push(client.named(&reply));
            } else {
                assert_eq!(reply, "425 No data listener: no port of 50000-50002 is free");
            }
            controls.push((client, server));
        }
        let mut ports: Vec<u16> = open.iter().map(SocketAddr::port).collect();
        ports.sort_unstable();
        assert_eq!(ports, [50000, 50001, 50002]);
        // A data connection makes its port free for the next one, and so does the end of a control connection.
        talk(&patient(TcpStream::connect(open[0]).unwrap()), &accept(&listener));
        controls.truncate(2);
        wait_until("one listener is left", || ftp.counter("ftp_listeners_now") == 1);
        let reply = ftp.ask("PASV", "PASV", &format!("227 ({data})"));
        assert!(reply.starts_with("227 "), "{reply}");
        assert!((50000..50003).contains(&ftp.client.named(&reply).port()), "{reply}");
    });
}

/// A server that connects from port 20 cannot connect to the same port again while the last connection is in TIME_WAIT.
#[test]
fn the_latest_ftp_ports_are_not_used_again_at_once() {
    in_own_network(|| {
        let ftp = Dialogue::begin(1, &["--ftp-ports", "50000-50009"]);
        let data = server();
        let mut ports = vec![ftp.active(&data).port()];
        for _ in 1..10 {
            let (client, server) = Dialogue::connect(&ftp.chain, &ftp.listener);
            client.say(&format!("PORT {}", six(data.local_addr().unwrap())));
            let heard = server.line();
            ports.push(from_six(heard.strip_prefix("PORT ").unwrap()).port());
            drop((client, server));
            wait_until("its listener is closed", || ftp.counter("ftp_listeners_now") == 1);
        }
        let is_new = |(at, port)| !ports[usize::saturating_sub(at, 5)..at].contains(port);
        assert!(ports.iter().enumerate().all(is_new), "one of the last five: {ports:?}");
    });
}

#[test]
fn ftp_advertise_names_the_address_for_clients_alone() {
    let ftp = Dialogue::begin(1, &["--ftp-advertise", "198.51.100.7"]);
    let listener = server();
    let named = ftp.passive(&listener);
    assert_eq!(named.ip(), Ipv4Addr::new(198, 51, 100, 7));
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, named.port())).unwrap();
    talk(&patient(client), &accept(&listener));
    assert_eq!(ftp.active(&listener).ip(), Ipv4Addr::LOCALHOST);
    let port = listener.local_addr().unwrap().port();
    let reply = ftp.ask("EPSV", "EPSV", &format!("229 ok (|||{port}|)"));
    assert!(reply.starts_with("229 ") && !reply.contains("198"), "{reply}");
}

/// The server is behind a plain port map, so the peer of the relay's control connection is the map.
#[test]
fn ftp_data_from_admits_the_server_behind_a_plain_port_map() {
    let listener = TcpListener::bind("127.0.0.9:0").unwrap();
    SockRef::from(&listener).set_read_timeout(Some(TIMEOUT)).unwrap();
    let map = Hop::new(&[listener.local_addr().unwrap()], &[]);
    for (flags, is_admitted) in [(&[][..], false), (&["--ftp-data-from", "127.0.0.8/30"][..], true)] {
        let chain = Chain::start(&["127.0.0.1"], map.port.address(), flags);
        let (client, server) = Dialogue::connect(&chain, &listener);
        let ftp = Dialogue { chain, client, server, listener: listener.try_clone().unwrap() };
        let data = TcpListener::bind("127.0.0.9:0").unwrap();
        let reply = ftp.ask("PASV", "PASV", &format!("227 ({})", six(data.local_addr().unwrap())));
        if !is_admitted {
            assert_eq!(reply, "425 Address 127.0.0.9 is neither the server's own nor in ftp.data_from");
            continue;
        }
        let client = TcpStream::connect(ftp.client.named(&reply)).unwrap();
        talk(&patient(client), &accept(&data));
        // The server dials from its own address.
        let active = server_at("127.0.0.1");
        let to = ftp.active(&active);
        let server = dial_from("127.0.0.9", to).unwrap();
        talk(&accept(&active), &server);
    }
}

/// A relay that listens on every address sees clients of IPv4 as `::ffff:127.0.0.1`.
#[test]
fn a_client_of_ipv4_at_a_listener_of_ipv6_is_one_of_ipv4() {
    let ftp = Dialogue::begin_on(&["[::]"], &[]);
    let listener = server();
    let to = ftp.passive(&listener);
    talk(&dial_from("127.0.0.1", to).unwrap(), &accept(&listener));
    let (client, server) = ftp.data(false);
    talk(&client, &server);
}

#[test]
fn after_auth_everything_passes_and_the_log_says_so_once() {
    let ftp = Dialogue::begin(1, &[]);
    // Refused, so the addresses are still rewritten.
    assert_eq!(ftp.ask("AUTH TLS", "AUTH TLS", "534 no"), "534 no");
    let (client, server) = ftp.data(true);
    talk(&client, &server);
    let (other, other_server) = Dialogue::connect(&ftp.chain, &ftp.listener);
    for (client, server) in [(&ftp.client, &ftp.server), (&other, &other_server)] {
        client.say("AUTH TLS");
        assert_eq!(server.line(), "AUTH TLS");
        // The bytes after the line are encrypted already.
        (&server.0).write_all(b"234 go\r\n\x16\x03\r\n").unwrap();
        assert_eq!((client.line(), client.line()), ("234 go".into(), "\x16\x03".into()));
        for line in ["PASV", "PORT 192,0,2,1,200,200", "227 Entering Passive Mode (192,0,2,1,200,200)", "\x17\x03"] {
            client.say(line);
            assert_eq!(server.line(), line);
            server.say(line);
            assert_eq!(client.line(), line);
        }
        client.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.ending(), Ending::Fin);
    }
    let lines = ftp.near().lines_to_counters();
    let said = |line: &&Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("FTP over TLS") && text.contains("fixed passive ports"))
    };
    assert_eq!(lines.iter().filter(said).count(), 1, "{lines:?}");
}

#[test]
fn data_connections_do_not_need_places_of_max_flows() {
    let ftp = Dialogue::begin(1, &["--max-flows", "1"]);
    let (one, two) = (ftp.data(true), ftp.data(false));
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
    let (client, server) = ftp.data(true);
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
    let bytes = pattern(33, 3_000_000);
    pass_all(&server, &client, &bytes);
    drop((client, server));
    // One more transfer begins on it.
    let (client, server) = ftp.data(false);
    talk(&client, &server);
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
