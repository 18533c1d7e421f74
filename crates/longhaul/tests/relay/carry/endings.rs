//! The matrix of endings: FIN, RST, kill -9, slow reader, dead next hop; in both directions, over one relay and over two. Each
//! cell asserts the bytes and the ending that the other end sees.

use crate::harness::*;
use longhaul_sys::tcp_info::unacknowledged;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Number of bytes that one pipe cannot hold, but the sockets can.
const OVER_A_PIPE: usize = 3_000_000;
/// Number of bytes that all buffers of the path together cannot hold, with [`SMALL_BUFFERS`].
pub(crate) const OVER_ALL_BUFFERS: usize = 40_000_000;
/// Flags for small socket buffers. Without them autotuning gives each socket up to 32 MiB.
pub(crate) const SMALL_BUFFERS: &[&str] = &[
    "--set", "accept.rcvbuf=256KiB", "--set", "accept.sndbuf=256KiB", "--set", "dial.rcvbuf=256KiB", "--set",
    "dial.sndbuf=256KiB",
];

/// One row of the matrix: an action on a flow, and the effect that each end must see.
pub(crate) struct Cell {
    /// Statement that the row tests, for the test's output.
    pub(crate) name: &'static str,
    /// Flags of every relay.
    pub(crate) flags: &'static [&'static str],
    /// Runs the row; the arguments are the path, the end that writes and the end that reads.
    pub(crate) run: fn(&mut Path, TcpStream, TcpStream),
}

/// All rows; `wan.rs` runs them, too.
pub(crate) static CELLS: &[Cell] = &[
    FIN_COMES_LAST, FIN_OF_BOTH, RESET, RESET_AFTER_FIN, KILLED, KILLED_WHEN_FULL, SLOW_READER, RESET_WHEN_FULL,
    EARLY_ANSWER, RESET_BEHIND_FIN,
];

/// Runs `cell` on loopback in both directions: over one relay, over two, and over one without splice.
fn on_loopback(cell: &Cell) {
    for (relays, more) in [(1, &[][..]), (2, &[]), (1, &["--no-splice"])] {
        for up in [true, false] {
            eprintln!("{}: {relays} relays {more:?}, up: {up}", cell.name);
            cell.run_on(&mut Path::new(relays, &[cell.flags, more].concat()), up);
        }
    }
}

impl Cell {
    /// Runs the row on `path`. If `up`, the client is the end that writes, otherwise the server.
    pub(crate) fn run_on(&self, path: &mut Path, up: bool) {
        let (client, server) = path.connect();
        if up { (self.run)(path, client, server) } else { (self.run)(path, server, client) }
    }
}

#[test]
fn fin_comes_after_the_last_byte_and_ends_one_direction_only() {
    on_loopback(&FIN_COMES_LAST);
}

const FIN_COMES_LAST: Cell = Cell {
    name: "fin comes after the last byte and ends one direction only",
    flags: &[],
    run: |path, writer, reader| {
        let (there, back) = (pattern(1, OVER_A_PIPE), pattern(2, OVER_A_PIPE));
        pass_all(&writer, &reader, &there);
        // The other direction stays open without a time limit. socat would have cut it after half a second.
        quiet_for(&writer, Duration::from_millis(700));
        pass_all(&reader, &writer, &back);
        for relay in &path.relays {
            assert_eq!(relay.flow_end(), (OVER_A_PIPE as u64, OVER_A_PIPE as u64, "finished".into()));
        }
    },
};

#[test]
fn simultaneous_fins_lose_nothing() {
    on_loopback(&FIN_OF_BOTH);
}

const FIN_OF_BOTH: Cell = Cell {
    name: "simultaneous fins lose nothing",
    flags: &[],
    run: |path, mut one, mut two| {
        let (there, back) = (pattern(3, 100_000), pattern(4, 100_000));
        std::thread::scope(|scope| {
            for (socket, bytes) in [(&mut one, &there), (&mut two, &back)] {
                scope.spawn(move || send_all(socket, bytes));
            }
        });
        assert_same(&read_to_end(&one).0, &back);
        assert_same(&read_to_end(&two).0, &there);
        assert_eq!(path.relays[0].flow_end(), (100_000, 100_000, "finished".into()));
    },
};

#[test]
fn reset_on_one_leg_is_reset_on_the_other() {
    on_loopback(&RESET);
}

const RESET: Cell = Cell {
    name: "reset on one leg is reset on the other",
    flags: &[],
    run: |path, mut writer, mut reader| {
        let bytes = pattern(5, 10_000);
        writer.write_all(&bytes).unwrap();
        let mut got = vec![0; bytes.len()];
        reader.read_exact(&mut got).unwrap();
        assert_same(&got, &bytes);
        reset(writer);
        assert_eq!(read_to_end(&reader), (Vec::new(), Ending::Reset));
        for relay in &path.relays {
            let (up, down, how) = relay.flow_end();
            assert_eq!(up + down, 10_000);
            assert!(how.starts_with("reset by the "), "{how}");
        }
    },
};

#[test]
fn reset_after_fin_is_still_a_reset() {
    on_loopback(&RESET_AFTER_FIN);
}

const RESET_AFTER_FIN: Cell = Cell {
    name: "reset after fin is still a reset",
    flags: &[],
    run: |path, mut writer, mut reader| {
        send_all(&writer, b"request");
        assert_eq!(read_to_end(&reader), (b"request".to_vec(), Ending::Fin));
        // The answer is half sent when the far program crashes.
        reader.write_all(b"half an ans").unwrap();
        let mut got = [0; 11];
        writer.read_exact(&mut got).unwrap();
        reset(reader);
        assert_eq!(read_to_end(&writer), (Vec::new(), Ending::Reset));
        assert!(path.relays[0].flow_end().2.starts_with("reset by the "));
    },
};

#[test]
fn a_killed_relay_is_never_a_finished_transfer() {
    on_loopback(&KILLED);
}

const KILLED: Cell = Cell {
    name: "a killed relay is never a finished transfer",
    flags: &[],
    run: |path, mut one, mut two| {
        one.write_all(b"half of it").unwrap();
        two.write_all(b"half of that").unwrap();
        two.read_exact(&mut [0; 10]).unwrap();
        one.read_exact(&mut [0; 12]).unwrap();
        // Kills the far one of two relays; KILLED_WHEN_FULL kills the near one.
        path.relays.last().unwrap().signal("KILL");
        assert_eq!(read_to_end(&two), (Vec::new(), Ending::Reset));
        assert_eq!(read_to_end(&one), (Vec::new(), Ending::Reset));
    },
};

#[test]
fn a_relay_killed_while_its_buffers_are_full_is_a_reset_too() {
    on_loopback(&KILLED_WHEN_FULL);
}

const KILLED_WHEN_FULL: Cell = Cell {
    name: "a relay killed while its buffers are full is a reset too",
    flags: SMALL_BUFFERS,
    run: |path, writer, reader| {
        fill_up(&writer, &pattern(6, OVER_ALL_BUFFERS));
        path.relays[0].signal("KILL");
        let (got, ending) = read_to_end(&reader);
        assert_same(&got, &pattern(6, OVER_ALL_BUFFERS)[..got.len()]);
        assert_eq!(ending, Ending::Reset);
        assert_eq!(read_to_end(&writer).1, Ending::Reset);
    },
};

#[test]
fn a_slow_reader_gets_every_byte() {
    on_loopback(&SLOW_READER);
}

const SLOW_READER: Cell = Cell {
    name: "a slow reader gets every byte",
    flags: SMALL_BUFFERS,
    run: |path, writer, reader| {
        let bytes = pattern(7, OVER_ALL_BUFFERS);
        let taken = fill_up(&writer, &bytes);
        std::thread::scope(|scope| {
            scope.spawn(|| send_all(&writer, &bytes[taken..taken + OVER_A_PIPE]));
            assert_whole(&reader, &bytes[..taken + OVER_A_PIPE]);
        });
        reader.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&writer), (Vec::new(), Ending::Fin));
        let (up, down, how) = path.relays[0].flow_end();
        assert_eq!((up.max(down), up.min(down), how.as_str()), ((taken + OVER_A_PIPE) as u64, 0, "finished"));
    },
};

#[test]
fn a_reset_never_overtakes_the_bytes_before_it() {
    on_loopback(&RESET_WHEN_FULL);
}

/// The reader does not read, so the relay is blocked when the writer resets. The reader must then get all bytes that the relay
/// had received, and only then the reset.
const RESET_WHEN_FULL: Cell = Cell {
    name: "a reset never overtakes the bytes before it",
    flags: SMALL_BUFFERS,
    run: |path, writer, reader| {
        let bytes = pattern(8, OVER_ALL_BUFFERS);
        fill_up(&writer, &bytes);
        let is_client = writer.peer_addr().unwrap() == path.entry();
        let beside = if is_client { path.relays.first() } else { path.relays.last() };
        let received = beside.unwrap().other_end(&writer).map(|socket| bytes_received(&socket));
        reset(writer);
        let (got, ending) = read_to_end(&reader);
        assert_same(&got, &bytes[..got.len()]);
        assert_eq!(ending, Ending::Reset);
        if let Some(received) = received {
            assert!(got.len() as u64 >= received, "{} of the {received} bytes that the relay had", got.len());
        }
        assert!(path.relays[0].flow_end().2.starts_with("reset by the "));
    },
};

/// HTTP 413, SMTP 552: the server answers before it has read the whole request. It then closes with unread bytes, which makes
/// the kernel send a reset.
#[test]
fn an_early_answer_arrives_before_the_reset_that_follows_it() {
    on_loopback(&EARLY_ANSWER);
}

const EARLY_ANSWER: Cell = Cell {
    name: "an early answer arrives before the reset that follows it",
    flags: &[],
    run: |path, writer, mut reader| {
        let (upload, answer) = (pattern(9, OVER_ALL_BUFFERS), pattern(10, 1024));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let stopped = (&writer).write_all(&upload).expect_err("nobody reads it all");
                assert!(is_reset(&stopped), "{stopped}");
            });
            reader.read_exact(&mut [0; 100]).unwrap();
            reader.write_all(&answer).unwrap();
            drop(reader);
            let mut got = vec![0; answer.len()];
            (&writer).read_exact(&mut got).unwrap();
            assert_same(&got, &answer);
        });
        // The failed write has taken the error of the reset, so a read may return the end of the stream (tcp(7)).
        let ended = uninterrupted(|| (&writer).read(&mut [0]));
        assert!(matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(is_reset), "{ended:?}");
        for relay in &path.relays {
            assert!(relay.flow_end().2.starts_with("reset by the "));
        }
    },
};

/// The server reads everything, answers and closes; later the client writes again. The server's FIN comes before its reset.
#[test]
fn a_fin_before_the_reset_is_still_a_fin() {
    on_loopback(&RESET_BEHIND_FIN);
}

const RESET_BEHIND_FIN: Cell = Cell {
    name: "a fin before the reset is still a fin",
    flags: &[],
    run: |path, mut writer, mut reader| {
        writer.write_all(b"question").unwrap();
        reader.read_exact(&mut [0; 8]).unwrap();
        reader.write_all(b"answer").unwrap();
        drop(reader); // everything was read, so this sends FIN
        assert_eq!(read_to_end(&writer), (b"answer".to_vec(), Ending::Fin));
        // The peer's socket is closed, so its kernel answers with RST.
        writer.write_all(b"one more").unwrap();
        for relay in &path.relays {
            assert!(relay.flow_end().2.starts_with("reset by the "));
        }
        let ended = wait_for("a write fails", || match writer.write_all(b"and more") {
            Err(err) => Ok(err),
            Ok(()) => Err("it was written"),
        });
        assert!(is_reset(&ended), "{ended}");
    },
};

/// After a reset of one leg, the bytes before it wait for the other leg's peer until it takes none for 30 s. With one of the two
/// readers, bytes are left in the relay; with the other, all bytes are in the kernels' buffers.
#[test]
fn a_reader_that_stops_for_thirty_seconds_after_a_reset_is_reset() {
    let paths = [Path::new(1, SMALL_BUFFERS), Path::new(1, SMALL_BUFFERS)];
    let bytes = pattern(11, OVER_ALL_BUFFERS);
    let [(full, full_writer), (few, mut few_writer)] = paths.each_ref().map(Path::connect);
    SockRef::from(&few).set_recv_buffer_size(8 * 1024).unwrap();
    fill_up(&full_writer, &bytes);
    few_writer.write_all(&bytes[..100_000]).unwrap();
    // Waits until the relay has all bytes, so that the reset loses none.
    wait_until("the writer's kernel has sent its bytes", || unacknowledged(few_writer.as_fd()) == Ok(0));
    let started = Instant::now();
    reset(full_writer);
    reset(few_writer);
    for path in &paths {
        assert_eq!(path.relays[0].flow_end().2, "reset by the dial leg");
        assert!(started.elapsed() > Duration::from_secs(25), "{:?}", started.elapsed());
    }
    for reader in [full, few] {
        let (got, ending) = read_to_end(&reader);
        assert!(!got.is_empty());
        assert_same(&got, &bytes[..got.len()]);
        assert_eq!(ending, Ending::Reset);
    }
}

#[test]
fn a_client_that_gives_up_ends_the_dial() {
    let silent = Silent::new();
    let hop = Hop::new(&[silent.address()], &["--connect-timeout", "10min"]);
    let client = hop.dial();
    send_all(&client, b"never mind");
    reset(client);
    assert_eq!(hop.relay.flow_end(), (0, 0, "reset by the accept leg".into()));
}

/// A machine that is busy for a second hides that it was one, so there are some tries.
#[test]
fn a_client_that_resets_at_once_without_a_byte_is_a_health_check() {
    let server = server();
    for (header, flags) in [("", &[][..]), (HEADER, &["--proxy-in=any", "--allow=127.0.0.1"])] {
        let hop = Hop::new(&[server.local_addr().unwrap()], &[flags, &["--log-level", "debug"]].concat());
        wait_until("it is seen as one", || {
            let mut client = hop.dial();
            client.write_all(header.as_bytes()).unwrap();
            hop.relay.wait_log("flow connected");
            reset(client);
            let (up, down, how) = hop.relay.flow_end();
            assert_eq!((up, down), (0, 0));
            how == "health check"
        });
    }
}

/// That of a client behind another relay.
const HEADER: &str = "PROXY TCP4 192.0.2.9 127.0.0.1 4000 22\r\n";

#[test]
fn a_half_open_flow_is_reset_after_its_linger_and_not_before() {
    let path = Path::new(1, &["--set", "accept.linger-half-open=1s"]);
    let (client, server) = path.connect();
    talk(&client, &server);
    // longhaul-relay/src/half_open_tests.rs tests in virtual time that every byte restarts the linger.
    let started = Instant::now();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&server), (Vec::new(), Ending::Fin));
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(path.relays[0].flow_end(), (4, 4, "half-open too long".into()));
}
