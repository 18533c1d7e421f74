//! Tests many flows and many messages, and also urgent data, addresses, keepalive and dials that loop back.

use crate::harness::*;
use longhaul_config::options::{self, Leg, Preset, ROWS, Row, Value, When, row};
use longhaul_sys::sockopt::{self, Opt};
use rustix::event::PollFlags;
use socket2::SockRef;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// The flags of relays that splice, and of relays that copy.
const SPLICE_OR_NOT: [&[&str]; 2] = [&[], &["--no-splice"]];

#[test]
fn three_hundred_flows_at_once_keep_their_bytes_apart() {
    const FLOWS: usize = 300;
    for flags in SPLICE_OR_NOT {
        let path = Path::new(2, flags);
        path.echo_all((0..FLOWS).map(|flow| pattern(flow as u64, 200_000 + flow)));
        for relay in &path.relays {
            for _ in 0..FLOWS {
                let (up, down, how) = relay.flow_end();
                assert_eq!((up, how.as_str()), (down, "finished"), "{flags:?}");
            }
        }
    }
}

#[test]
fn a_million_small_messages_arrive_in_order() {
    const MESSAGES: u32 = 1_000_000;
    let path = Path::new(2, &[]);
    let (mut client, server) = path.connect();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..MESSAGES {
                client.write_all(&number.to_be_bytes()).expect("a good flow");
            }
            client.shutdown(Shutdown::Write).expect("FIN");
        });
        let (got, ending) = read_to_end(&server);
        assert_eq!((got.len(), ending), (4 * MESSAGES as usize, Ending::Fin));
        let in_order = got.chunks_exact(4).zip(0..MESSAGES).all(|(message, number)| message == number.to_be_bytes());
        assert!(in_order);
    });
}

#[test]
fn ten_thousand_requests_each_get_their_answer() {
    let path = Path::new(2, &[]);
    let (mut client, mut server) = path.connect();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while uninterrupted(|| server.read(&mut byte)).expect("a good flow") == 1 {
                server.write_all(&[byte[0].wrapping_add(1)]).expect("a good flow");
            }
        });
        for turn in 0..10_000 {
            let mut byte = [turn as u8];
            client.write_all(&byte).expect("a good flow");
            client.read_exact(&mut byte).expect("an answer");
            assert_eq!(byte[0], (turn as u8).wrapping_add(1));
        }
        drop(client);
    });
    assert_eq!(path.relays[0].flow_end(), (10_000, 10_000, "finished".into()));
}

#[test]
fn multipath_tcp_flows_and_their_endings_are_carried() {
    const BOTH: &[&str] = &["--set", "accept.mptcp=true", "--set", "dial.mptcp=true"];
    if let Err(err) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, Some(socket2::Protocol::MPTCP))
    {
        return skip(&format!("no MPTCP here: {err}"));
    }
    let path = Path::new(2, BOTH);
    path.echo_all([pattern(10, 3_000_000)].into_iter());
    assert_eq!(path.relays[1].flow_end(), (3_000_000, 3_000_000, "finished".into()));
    let (client, server) = path.connect();
    reset(server);
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
    let (client, server) = path.connect();
    path.relays[1].signal("KILL");
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
    assert_eq!(read_to_end(&server), (Vec::new(), Ending::Reset));
}

#[test]
fn urgent_data_passes_and_stays_urgent() {
    for flags in SPLICE_OR_NOT {
        let path = Path::new(2, flags);
        let (mut client, server) = path.connect();
        // Like Telnet's "abort output" and FTP's ABOR: the urgent byte is the last one for now.
        client.write_all(b"abc").unwrap();
        SockRef::from(&client).send_out_of_band(b"!").unwrap();
        assert_urgent_behind(&server, b"abc");
        send_all(&client, b"def");
        assert_eq!(read_to_end(&server), (b"def".to_vec(), Ending::Fin));
    }
}

/// Asserts that `socket` gets the bytes `before`, and then an urgent byte.
pub(crate) fn assert_urgent_behind(mut socket: &TcpStream, before: &[u8]) {
    let mut got = vec![0; before.len()];
    socket.read_exact(&mut got).unwrap();
    assert_eq!(got, before);
    // POLLPRI shows that the byte is still urgent, and not just one more byte (tcp(7)).
    wait_for_events(socket, PollFlags::PRI);
    assert_eq!(SockRef::from(socket).recv_out_of_band(&mut [std::mem::MaybeUninit::uninit()]).unwrap(), 1);
}

#[test]
fn urgent_data_before_the_end_is_not_the_end() {
    // All of it is in the socket before the relay looks. splice(2) returns 0 at the urgent mark once FIN has come.
    let path = Path::new(1, &[]);
    let (mut client, server) = path.connect();
    SockRef::from(&server).set_out_of_band_inline(true).unwrap();
    let rest = pattern(17, 100_000);
    path.relays[0].stop();
    client.write_all(b"abc").unwrap();
    SockRef::from(&client).send_out_of_band(b"!").unwrap();
    send_all(&client, &rest);
    path.relays[0].signal("CONT");
    assert_whole(&server, &[b"abc!", &rest[..]].concat());
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(path.relays[0].flow_end(), (100_004, 0, "finished".into()));
}

#[test]
fn urgent_and_ordinary_bytes_in_turns_all_arrive() {
    for flags in SPLICE_OR_NOT {
        let path = Path::new(1, flags);
        for flow in 0..20 {
            let (client, server) = path.connect();
            SockRef::from(&server).set_out_of_band_inline(true).unwrap();
            // Pieces from one byte to several segments; two in five are sent as urgent.
            let dice = pattern(flow, 120);
            let pieces: Vec<(bool, Vec<u8>)> = dice
                .chunks(2)
                .map(|dice| (dice[0] < 102, pattern(dice[1].into(), [1, 2, 3, 100, 5_000][usize::from(dice[1]) % 5])))
                .collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (urgent, piece) in &pieces {
                        match urgent {
                            true => assert_eq!(SockRef::from(&client).send_out_of_band(piece).unwrap(), piece.len()),
                            false => (&client).write_all(piece).unwrap(),
                        }
                    }
                    client.shutdown(Shutdown::Write).unwrap();
                });
                assert_whole(&server, &pieces.iter().flat_map(|(_, piece)| piece.clone()).collect::<Vec<u8>>());
            });
        }
    }
}

#[test]
fn a_bare_port_serves_ipv4_and_ipv6_and_a_name_is_resolved() {
    let server = server();
    let port = Port::reserve("[::]");
    let listen = port.address().port().to_string();
    let to = format!("localhost:{}", server.local_addr().unwrap().port());
    let relay = Relay::start(&["relay", "--listen", &listen, "--to", &to, "--allow", "127.0.0.0/8,::1"]);
    for (ip, shown) in [("127.0.0.1", "[::ffff:127.0.0.1]:"), ("::1", "[::1]:")] {
        let client = patient(TcpStream::connect((ip, port.address().port())).unwrap());
        talk(&client, &accept(&server));
        drop(client);
        let line = relay.wait_log("flow ended");
        assert!(line["how"] == "finished" && line["peer"].as_str().unwrap().starts_with(shown), "{line}");
    }
}

#[test]
fn a_client_that_is_not_allowed_is_reset_without_a_dial() {
    let path = Path::new(1, &["--allow", "10.0.0.0/8"]);
    for _ in 0..20 {
        reset_by(path.entry());
    }
    let line = path.relays[0].wait_log("refused: not in `allow`");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert_not_dialled(path.server());
    let counters = path.relays[0].counters();
    assert_eq!((&counters["accepted"], &counters["refused"]), (&0.into(), &20.into()), "{counters}");
    assert_eq!(counters["not_allowed"], 20, "{counters}");
}

#[test]
fn connections_above_max_flows_wait() {
    let path = Path::new(1, &["--max-flows", "2"]);
    let ((one, first), (two, _second)) = (path.connect(), path.connect());
    let mut three = path.dial();
    three.write_all(b"patience").unwrap();
    path.relays[0].wait_log("tunnel is full: connections wait in the listen queue");
    let counters = path.relays[0].counters();
    assert_eq!(counters["accepted"], 2, "a third flow was started: {counters}");
    assert_not_dialled(path.server());
    drop((first, one));
    let third = accept(path.server());
    three.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&third), (b"patience".to_vec(), Ending::Fin));
    drop(two);
}

#[test]
fn the_relay_dials_from_the_configured_source_address() {
    let path = Path::new(1, &["--source", "127.0.0.9"]);
    let (_client, server) = path.connect();
    assert_eq!(server.peer_addr().unwrap().ip().to_string(), "127.0.0.9");
}

#[test]
fn both_legs_of_a_live_flow_have_the_presets_and_autotuned_buffers() {
    let path = Path::new(1, &[]);
    let (client, server) = path.connect();
    talk(&client, &server);
    for (leg, end) in [(Leg::Accept, &client), (Leg::Dial, &server)] {
        let Some(socket) = path.relays[0].other_end(end) else { return skip("pidfd_getfd(2) is not allowed here") };
        let read = |row: &Row| row.read(socket.as_fd());
        for row in ROWS.iter().filter(|row| row.when() == When::Start && row.legs.contains(&leg)) {
            // The relay adjusts keepalive during the flow; the next test checks it.
            if let (Preset::Ours(text), false) = (row.preset, row.key.starts_with("keepalive-")) {
                let got = read(row).unwrap().unwrap();
                assert!((row.agrees)(&options::parse(row, text).unwrap(), &got), "{leg}.{} is {got}", row.key);
            }
        }
        assert!(socket.tcp_nodelay().unwrap(), "{leg}");
        assert_eq!(socket.linger().unwrap(), Some(Duration::ZERO), "{leg}");
        match Opt::socket(SO_BUF_LOCK, "SO_BUF_LOCK").get(socket.as_fd()) {
            Ok(locked) => assert_eq!(locked, 0, "{leg}: autotuning of a buffer is off"),
            Err(err) => skip(&format!("before Linux 5.14: {err}")),
        }
    }
}

/// Limits of an active leg: idle and interval of keepalive in seconds, its count, user-timeout in milliseconds, which overrides the
/// count, and rto-max in milliseconds. The user-timeout is 20 days while the peer answers. Before Linux 6.15 a silent peer is given up
/// after 120 s.
const ACTIVE: [u64; 5] = [5, 5, 23, 1_728_000_000, 1000];
/// Limits of an idle leg, with the same fields. A silent peer is given up after 120 s.
const IDLE: [u64; 5] = [60, 15, 4, 0, 120_000];

fn keepalive(socket: &impl AsFd) -> [u64; 5] {
    let [idle, interval, count, timeout] = ["keepalive-idle", "keepalive-interval", "keepalive-count", "user-timeout"]
        .map(|key| match row(Leg::Dial, key).unwrap().read(socket.as_fd()).unwrap() {
            Some(Value::Number(number)) => number,
            other => panic!("{key} is {other:?}"),
        });
    [idle, interval, count, timeout, sockopt::rto_max(socket.as_fd()).map_or(0, |time| time.as_millis() as u64)]
}

/// Returns `limits` as this kernel has them.
fn here(limits: [u64; 5], socket: &impl AsFd) -> [u64; 5] {
    let [idle, interval, count, timeout, rto_max] = limits;
    match sockopt::rto_max(socket.as_fd()) {
        Ok(_) => limits,
        Err(_) => [idle, interval, count, if rto_max == ACTIVE[4] { 0 } else { timeout }, 0],
    }
}

#[test]
fn keepalive_is_fast_on_active_legs_and_slow_on_idle_ones() {
    let user_s = ["--set", "accept.keepalive-count=9", "--set", "dial.user-timeout=100s"];
    let (path, users) = (Path::new(1, &[]), Path::new(1, &user_s));
    let ((client, server), (users_client, users_server)) = (path.connect(), users.connect());
    let legs = [(&path, &client), (&path, &server), (&users, &users_client), (&users, &users_server)];
    let [Some(accept), Some(dial), Some(users_accept), Some(users_dial)] =
        legs.map(|(path, end)| path.relays[0].other_end(end))
    else {
        return skip("pidfd_getfd(2) is not allowed here");
    };
    let both_are = |wanted: [u64; 5]| {
        let wanted = here(wanted, &accept);
        let legs = || {
            quiet_for(&client, Duration::from_millis(10));
            [&accept, &dial].map(keepalive)
        };
        wait_for_value("the keepalive of both legs", legs, |legs| *legs == [wanted, wanted]);
    };
    talk(&client, &server);
    both_are(ACTIVE);
    talk(&users_client, &users_server);
    both_are(IDLE);
    talk(&client, &server);
    both_are(ACTIVE);
    // The relay does not touch the limits of legs where a part of them is configured.
    let users = [[60, 15, 9, 0, 120_000], [60, 15, 4, 100_000, 120_000]].map(|limits| here(limits, &accept));
    assert_eq!([&users_accept, &users_dial].map(keepalive), users);
}

/// Socket option that tells which buffer sizes were set: bit 1 for the send buffer, bit 2 for the receive buffer
/// (asm-generic/socket.h).
const SO_BUF_LOCK: libc::c_int = 72;

/// A socket that dials its own port connects to itself: TCP's simultaneous open (RFC 9293 3.5).
#[test]
fn a_dial_that_connects_to_itself_fails() {
    in_own_network(|| {
        set_sysctl("net/ipv4/ip_local_port_range", "40001 40001");
        for fast_open in ["false", "true"] {
            let set = format!("--set=dial.fastopen={fast_open}");
            let relay = Relay::start(&["relay", "--listen", "127.0.0.1:6000", "--to", "127.0.0.1:40001", &set]);
            relay.stop(); // or the write could meet the reset and take its error from the read
            let mut client = patient(TcpStream::connect("127.0.0.1:6000").unwrap());
            client.write_all(b"echo").unwrap();
            relay.signal("CONT");
            assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
            let why = relay.wait_log("dial failed")["why"].as_str().unwrap().to_string();
            assert!(why.contains("ECONNREFUSED"), "{why}");
        }
    });
}

/// The host gets each kind of address while the relay runs, as with VRRP.
#[test]
fn a_dial_to_any_address_of_this_host_is_recognised_as_a_loop() {
    in_own_network(|| {
        let addresses = ["10.7.7.7", "10.8.8.8", "10.9.9.9", "2001:db8:7::7", "fe80::7"];
        for address in addresses {
            let to = std::net::SocketAddr::new(address.parse().unwrap(), 6000).to_string();
            let mut args = vec!["relay", "--listen", "6000", "--to", &to, "--connect-timeout=1s"];
            args.extend((address == "fe80::7").then_some("--set=dial.bind-device=lo"));
            let relay = Relay::start(&args);
            let clients = Cell::new(0);
            // The relay logs at most one such line a second.
            let failed = || {
                let line = wait_for("the line about a failed dial", || {
                    clients.set(clients.get() + 1);
                    let client = reset_by(([127, 0, 0, 1], 6000).into());
                    relay.try_log("dial failed").ok_or(client)
                });
                line["why"].as_str().unwrap().to_string()
            };
            let why = failed();
            assert!(!why.contains("own listener"), "{address} is not an address of this host yet: {why}");
            match address {
                "10.7.7.7" => ip("address add 10.7.7.7/32 dev lo"),
                "10.8.8.8" => ip("route add local 10.8.0.0/16 dev lo"),
                // A secondary address: the source for it is the primary one.
                "10.9.9.9" => {
                    ["10.9.9.1", "10.9.9.9"].iter().for_each(|own| ip(&format!("address add {own}/24 dev lo")))
                }
                _ => ip(&format!("address add {address}/128 dev lo nodad")),
            }
            // The relay keeps the kernel's answer "not an address of this host" for 10 ms (state/loop_guard.rs), and a dial within
            // that time goes round. ip(8) may take less.
            std::thread::sleep(Duration::from_millis(20));
            // A new IPv6 address works only a moment after ip(8) has ended, because net/ipv6/addrconf.c adds its route in
            // addrconf_dad_work. Of 400 immediate dials without any relay, 25 had no answer.
            wait_for_value("the address leads back", failed, |why| why.contains("the tunnel's own listener"));
            assert_eq!(relay.counters()["accepted"], clients.get(), "it dialled itself");
        }
    });
}

/// A pump yields to others after 1 MiB. If the last send(2) before that took only a part, the pump must keep the rest, because
/// the next pump overwrites the worker's scratch buffer. The test varies the send buffer, so that some sink fills exactly there.
#[test]
fn a_pump_that_yields_with_a_full_sink_keeps_its_bytes() {
    const FLOWS: u64 = 8;
    const SIZE: usize = 1_900_000;
    in_own_network(|| {
        // The silent first hop delays the dial, so that the source has all bytes when the pump begins.
        set_sysctl("net/ipv4/tcp_rmem", "4096 6000000 6000000");
        let silent = Silent::new();
        let server = server();
        SockRef::from(&server).set_recv_buffer_size(16 * 1024).unwrap();
        let hop = Hop::new(&[silent.address(), server.local_addr().unwrap()], &["--connect-timeout", "400ms"]);
        for buffer in (1_140_000..1_190_000).step_by(10_000) {
            set_sysctl("net/ipv4/tcp_wmem", "4096 6000000 6000000");
            let clients: Vec<TcpStream> = (0..FLOWS).map(|_| hop.dial()).collect();
            set_sysctl("net/ipv4/tcp_wmem", &format!("4096 {buffer} {buffer}"));
            std::thread::scope(|scope| {
                for (flow, mut client) in (0..FLOWS).zip(&clients) {
                    scope.spawn(move || {
                        let bytes = pattern(flow, SIZE);
                        // The urgent byte ends splicing; from there on the pump copies.
                        let urgent = 500_000 + (flow as usize * 61_549) % 500_000;
                        client.write_all(&bytes[..urgent]).unwrap();
                        SockRef::from(client).send_out_of_band(&bytes[urgent..=urgent]).unwrap();
                        send_all(client, &bytes[urgent + 1..]);
                    });
                }
                let servers: Vec<TcpStream> = clients.iter().map(|_| server.accept().unwrap().0).collect();
                for server in servers {
                    scope.spawn(move || {
                        SockRef::from(&server).set_out_of_band_inline(true).unwrap();
                        let (got, ending) = read_to_end(&server);
                        let is_one = (0..FLOWS).any(|flow| got == pattern(flow, SIZE));
                        let len = got.len();
                        assert!(is_one && ending == Ending::Fin, "{len} bytes, {ending:?}, send buffer {buffer}");
                    });
                }
            });
        }
    });
}
