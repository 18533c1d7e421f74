//! Tests every row of the option table against the kernel: sets its sample, reads it back and compares. Covers IPv4 and IPv6,
//! listeners, accepted sockets and dialling sockets.

use longhaul_config::options::{self, Leg, Preset, ROWS, Row, Setting, Value, When};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

const LOOPBACKS: [SocketAddr; 2] =
    [SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0), SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0)];

fn fresh(address: SocketAddr) -> Socket {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).expect("a socket")
}

fn listening(socket: &Socket, address: SocketAddr) -> SockAddr {
    socket.bind(&address.into()).expect("bind");
    socket.listen(8).expect("listen");
    socket.local_addr().expect("the port")
}

/// Returns the rows that are set on `leg` before listen(2) or connect(2).
fn rows(leg: Leg) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.when() == When::Start && row.legs.contains(&leg))
}

/// Sets the row's sample on `socket` and checks that it reads back the same. Returns the sample, or `None` if the kernel asks
/// for a capability.
fn apply(row: &'static Row, socket: &Socket) -> Option<Value> {
    let value = options::parse(row, row.sample).expect("every sample can be read");
    let setting = Setting { row, value: value.clone() };
    match setting.apply(socket.as_fd()) {
        Err(err) if err.hint.contains("CAP_") => {
            println!("SKIP {}: {err}", row.key);
            None
        }
        applied => {
            assert_eq!(applied, Ok(None), "{} = {}", row.key, row.sample);
            Some(value)
        }
    }
}

/// Returns whether a connected socket has the value `asked`, which was set on its listener or on the socket before connect.
fn holds(row: &Row, asked: &Value, socket: &Socket) -> bool {
    let got = row.read(socket.as_fd()).expect("getsockopt").expect("the kernel knows this row");
    match (row.key, asked, &got) {
        // tcp(7) TCP_MAXSEG: on a connected socket it excludes the options of each segment, such as 12 bytes of timestamps.
        ("mss", Value::Number(asked), Value::Number(got)) => (asked - 40..=*asked).contains(got),
        _ => (row.agrees)(asked, &got),
    }
}

#[test]
fn accepted_sockets_inherit_every_option_of_their_listener() {
    for address in LOOPBACKS {
        for row in rows(Leg::Accept) {
            let listener = fresh(address);
            let Some(asked) = apply(row, &listener) else { continue };
            let port = listening(&listener, address);
            let client = fresh(address);
            client.connect(&port).expect("connect");
            // Options that act before there is a connection (defer-accept, fastopen) stay with the listener.
            if row.legs.contains(&Leg::Dial) {
                let (accepted, _) = listener.accept().expect("accept");
                assert!(holds(row, &asked, &accepted), "{} on a socket accepted at {address}", row.key);
            }
        }
    }
}

#[test]
fn a_running_listener_takes_every_live_option() {
    for address in LOOPBACKS {
        let live = |row: &&'static Row| (row.live)(&options::parse(row, row.sample).expect("every sample can be read"));
        for row in rows(Leg::Accept).filter(live) {
            let listener = fresh(address);
            let port = listening(&listener, address);
            let Some(asked) = apply(row, &listener) else { continue };
            let client = fresh(address);
            client.connect(&port).expect("connect");
            if row.legs.contains(&Leg::Dial) {
                let (accepted, _) = listener.accept().expect("accept");
                assert!(holds(row, &asked, &accepted), "{} on a socket accepted at {address}", row.key);
            }
        }
    }
}

#[test]
fn a_dialling_socket_takes_every_option_and_keeps_it() {
    for address in LOOPBACKS {
        let listener = fresh(address);
        let port = listening(&listener, address);
        for row in rows(Leg::Dial) {
            let socket = fresh(address);
            let Some(asked) = apply(row, &socket) else { continue };
            socket.connect(&port).expect("connect");
            assert!(holds(row, &asked, &socket), "{} on a socket connected to {address}", row.key);
            drop(listener.set_nonblocking(true).and_then(|()| listener.accept()));
        }
    }
}

#[test]
fn the_kernel_takes_every_word_of_a_row() {
    for row in ROWS {
        for (word, number) in row.words {
            let socket = fresh(LOOPBACKS[1]);
            let value = options::parse(row, word).expect("a word of the row");
            assert_eq!(value, Value::Number(*number));
            assert_eq!(Setting { row, value }.apply(socket.as_fd()), Ok(None), "{} = {word}", row.key);
        }
    }
}

#[test]
fn dscp_on_an_ipv6_socket_also_sets_the_ipv4_tos() {
    let row = ROWS.iter().find(|row| row.key == "dscp").expect("the row");
    let socket = fresh(LOOPBACKS[1]);
    apply(row, &socket).expect("dscp needs no capability");
    assert_eq!(socket.tclass_v6().expect("IPV6_TCLASS") >> 2, 10, "af11");
    assert_eq!(socket.tos_v4().expect("IP_TOS") >> 2, 10, "af11");
}

#[test]
fn mptcp_reads_back_the_protocol_of_the_socket() {
    let row = ROWS.iter().find(|row| row.key == "mptcp").expect("the row");
    let asked = Setting { row, value: Value::Switch(true) };
    let plain = fresh(LOOPBACKS[0]);
    assert_eq!(asked.apply(plain.as_fd()).map(|mismatch| mismatch.is_some()), Ok(true));
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(multipath) => assert_eq!(asked.apply(multipath.as_fd()), Ok(None)),
        Err(err) => println!("SKIP this kernel has no MPTCP: {err}"),
    }
}

#[test]
fn the_table_is_complete() {
    for row in ROWS {
        for leg in Leg::ALL.into_iter().filter(|leg| row.legs.contains(leg)) {
            let same = |other: &&Row| other.key == row.key && other.legs.contains(&leg);
            assert_eq!(ROWS.iter().filter(same).count(), 1, "{} is not unique on a leg", row.key);
        }
        for text in [row.key, row.short, row.source, row.sample] {
            assert!(!text.is_empty(), "{} has an empty column", row.key);
        }
        let ends = |text: &str| text.ends_with('.');
        assert!(!ends(row.short) && !ends(row.caution) && (row.help.is_empty() || ends(row.help)), "{}", row.key);
        if let Preset::Ours(_) = row.preset {
            assert!(Leg::ALL.into_iter().all(|leg| row.legs.contains(&leg)), "{}: a preset needs both legs", row.key);
        }
    }
}
