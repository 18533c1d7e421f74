//! The datagrams of a session. They find the path MTU of both directions, also where no ICMP comes, whether fragments arrive, and, as
//! trains, the rate of the line.
//!
//! Every number is big-endian.
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 0 | 16 | nonce of the session |
//! | 16 | 4 | number that the answer repeats, or number of the train |
//! | 20 | 1 | kind: see [`Kind`] |
//! | 21 | 1 | 0 |
//! | 22 | 2 | for a question down: payload bytes that the answer shall have; for an answer up: payload bytes that came; of a train: its number in the train, which wraps around |
//! | 24 | .. | padding |

use crate::message::{Train, Trained};
use crate::talk::TICK;
use longhaul_core::wire::probe::Nonce;
use longhaul_sys::{poll, sockopt};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A question about the way up: the datagram itself has the size.
    Up = 1,
    /// A question about the way down: the answer shall have the size, and DF.
    Down = 2,
    /// The same, and the answer may be cut into fragments.
    DownInFragments = 3,
    /// An answer.
    Answer = 4,
    /// One of a train. It has no answer: the receiver counts it.
    Train = 5,
}

/// The fields of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The nonce of the session.
    pub nonce: Nonce,
    /// Number of the question.
    pub number: u32,
    /// The kind.
    pub kind: Kind,
    /// A size in payload bytes; of a train, the number in it.
    pub size: u16,
}

/// Length of a datagram in bytes at least.
pub const HEADER: usize = 24;
/// Length of a datagram in bytes at most: 65,535 bytes of IP packet, less the headers of IPv4 and UDP.
pub const MAX_BYTES: usize = 65_507;

impl Datagram {
    /// Reads the datagram in `bytes`. `None`: it is none.
    pub fn parse(bytes: &[u8]) -> Option<Datagram> {
        let header: &[u8; HEADER] = bytes.first_chunk()?;
        let kind = match header[20] {
            1 => Kind::Up,
            2 => Kind::Down,
            3 => Kind::DownInFragments,
            4 => Kind::Answer,
            5 => Kind::Train,
            _ => return None,
        };
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&header[..16]);
        let number = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        Some(Datagram { nonce, number, kind, size: u16::from_be_bytes([header[22], header[23]]) })
    }

    /// Returns the datagram as it is sent, padded to `bytes` bytes, which are [`HEADER`] to [`MAX_BYTES`].
    pub fn bytes(&self, bytes: usize) -> Vec<u8> {
        let mut written = vec![0; bytes.clamp(HEADER, MAX_BYTES)];
        written[..16].copy_from_slice(&self.nonce);
        written[16..20].copy_from_slice(&self.number.to_be_bytes());
        written[20] = self.kind as u8;
        written[22..24].copy_from_slice(&self.size.to_be_bytes());
        written
    }
}

/// Returns the socket for datagrams at `here`, with room for a train.
///
/// # Errors
/// The port is taken, or there is no socket.
pub fn open(here: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(here)?;
    make_room(&socket)?;
    Ok(socket)
}

/// Gives `socket` room for a train, and makes it O_NONBLOCK.
///
/// # Errors
/// That of fcntl(2).
pub fn make_room(socket: &UdpSocket) -> io::Result<()> {
    // The kernel may give less. Then a train of many datagrams loses some here.
    let _ = sockopt::set_receive_buffer(socket.as_fd(), RECEIVE_BUFFER);
    socket.set_nonblocking(true)
}

/// Answers the datagrams of the session `nonce` that come from `peer`, until `is_over`. Counts those of trains in `tally`.
///
/// # Errors
/// poll(2) fails.
pub(crate) fn answer(
    socket: &UdpSocket,
    nonce: &Nonce,
    peer: IpAddr,
    tally: &Mutex<Tally>,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 65_536];
    let mut answered = 0;
    while !is_over() {
        let (got, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(err) if err.kind() == ErrorKind::WouldBlock => {
                poll::readable(&[socket.as_fd()], TICK)?;
                continue;
            }
            // An ICMP error about an answer. It says nothing that the client does not see.
            Err(_) => continue,
        };
        let asked = Datagram::parse(&buffer[..got]).filter(|asked| asked.nonce == *nonce && from.ip() == peer);
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Some(train) if train.kind == Kind::Train => tally.count(&train, got, Instant::now()),
            Some(question) if answered < MAX_ANSWERS => {
                answered += 1;
                (tally.client, tally.heard) = (Some(from), Some(Instant::now()));
                drop(tally);
                reply(socket, from, &question, got);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The arrivals of a train, and where the client's socket is.
#[derive(Debug, Default)]
pub struct Tally {
    /// Address of the client's socket for datagrams, once one came.
    pub client: Option<SocketAddr>,
    /// When the last question of the client came.
    pub heard: Option<Instant>,
    number: u32,
    /// Time and bytes of each arrival.
    arrivals: Vec<(Instant, usize)>,
    /// Number of the latest in the train, and how many came after one that was sent later.
    latest: u16,
    overtaken: u64,
}

impl Tally {
    /// Begins to count the train `number`.
    pub fn begin(&mut self, number: u32) {
        *self = Tally { client: self.client, heard: self.heard, number, ..Tally::default() };
    }

    /// Counts `one` of `bytes` payload bytes, which arrived.
    pub fn count(&mut self, one: &Datagram, bytes: usize, now: Instant) {
        if one.number != self.number || self.arrivals.len() >= MAX_TRAIN {
            return;
        }
        let ahead = one.size.wrapping_sub(self.latest);
        if self.arrivals.is_empty() || ahead <= u16::MAX / 2 {
            self.latest = one.size;
        } else {
            self.overtaken += 1;
        }
        self.arrivals.push((now, bytes));
    }

    /// Returns what arrived.
    pub fn trained(&self) -> Trained {
        let count = self.arrivals.len();
        let (early_bytes, early_micros) = span(&self.arrivals[..count / 8]);
        let (half_bytes, half_micros) = span(&self.arrivals[count / 2..]);
        let (number, datagrams, overtaken) = (self.number, count as u64, self.overtaken);
        Trained { number, datagrams, micros: 0, overtaken, early_bytes, early_micros, half_bytes, half_micros }
    }
}

/// Returns the bytes of `arrivals` behind the first, with which the time begins, and that time in µs.
fn span(arrivals: &[(Instant, usize)]) -> (u64, u64) {
    let time = arrivals.first().zip(arrivals.last()).map_or(Duration::ZERO, |(first, last)| last.0 - first.0);
    let bytes = arrivals.iter().skip(1).map(|(_, bytes)| *bytes as u64).sum();
    (bytes, u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Sends the train `train` of the session `nonce` to `to`. Returns the number of datagrams, and the time that it took.
///
/// # Errors
/// poll(2) fails.
pub fn send_train(socket: &UdpSocket, to: SocketAddr, nonce: Nonce, train: &Train) -> io::Result<(u64, Duration)> {
    let size = usize::from(train.size).clamp(HEADER, MAX_BYTES);
    let mut datagram = Datagram { nonce, number: train.number, kind: Kind::Train, size: 0 }.bytes(size);
    let (began, time) = (Instant::now(), Duration::from_secs_f64(train.seconds));
    let per_second = train.rate as f64 / size as f64;
    let mut sent = 0;
    while began.elapsed() < time && sent < MAX_TRAIN {
        // What is due by now goes out in a row.
        if sent as f64 > began.elapsed().as_secs_f64() * per_second {
            thread::sleep(BETWEEN_BURSTS);
            continue;
        }
        datagram[NTH].copy_from_slice(&(sent as u16).to_be_bytes());
        match socket.send_to(&datagram, to) {
            Err(err) if err.kind() == ErrorKind::WouldBlock => {
                poll::writable(socket.as_fd(), TICK)?;
            }
            // ENOBUFS: the queue of the interface is full, which is a loss like others.
            _ => sent += 1,
        }
    }
    Ok((sent as u64, began.elapsed()))
}

fn reply(socket: &UdpSocket, to: SocketAddr, question: &Datagram, got: usize) {
    let (bytes, is_whole) = match question.kind {
        Kind::Up => (HEADER, true),
        Kind::Down => (question.size.into(), true),
        Kind::DownInFragments => (question.size.into(), false),
        Kind::Answer | Kind::Train => return,
    };
    let size = u16::try_from(got).unwrap_or(u16::MAX);
    // An answer that this host cannot send, such as one above the MTU of its interface, is one that does not arrive.
    let _ = sockopt::set_do_not_fragment(socket.as_fd(), is_whole);
    let _ = socket.send_to(&Datagram { kind: Kind::Answer, size, ..*question }.bytes(bytes), to);
}

/// Answers of a session at most, so that nobody can use it to load the path.
const MAX_ANSWERS: u32 = 20_000;
/// Place of the number in the train.
const NTH: std::ops::Range<usize> = 22..24;
/// Datagrams of a train at most.
const MAX_TRAIN: usize = 200_000;
const BETWEEN_BURSTS: Duration = Duration::from_micros(500);
/// Receive buffer in bytes: what comes at 1 Gbit/s in some 30 ms, for which the reader may not run.
const RECEIVE_BUFFER: u64 = 4 << 20;

/// Time in which an answer comes if the path has this round trip: some more than it, for a busy host.
pub fn patience(rtt: Duration) -> Duration {
    (rtt * 2 + Duration::from_millis(100)).min(Duration::from_secs(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    proptest! {
        #[test]
        fn a_datagram_is_read_as_it_was_written(nonce in any::<Nonce>(), number in any::<u32>(), kind in 1..=5u8, size in any::<u16>()) {
            let kind = [Kind::Up, Kind::Down, Kind::DownInFragments, Kind::Answer, Kind::Train][usize::from(kind) - 1];
            let datagram = Datagram { nonce, number, kind, size };
            let bytes = datagram.bytes(size.into());
            prop_assert_eq!(Datagram::parse(&bytes), Some(datagram));
            prop_assert_eq!(Datagram::parse(&bytes[..HEADER - 1]), None);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Datagram::parse(&bytes);
        }
    }

    #[test]
    fn the_sizes_that_were_asked_for_come_back_and_strangers_get_nothing() {
        let here = "127.0.0.1:0".parse().unwrap();
        let (client, far) = (UdpSocket::bind(here).unwrap(), open(here).unwrap());
        client.connect(far.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (over, tally) = (AtomicBool::new(false), Mutex::default());
        thread::scope(|scope| {
            scope.spawn(|| answer(&far, &[7; 16], [127, 0, 0, 1].into(), &tally, || over.load(Relaxed)).unwrap());
            let ask = |nonce, number, kind, size, bytes| {
                client.send(&Datagram { nonce, number, kind, size }.bytes(bytes)).unwrap();
            };
            ask([8; 16], 1, Kind::Up, 0, 1000); // of another session
            ask([7; 16], 2, Kind::Up, 0, 1000);
            ask([7; 16], 3, Kind::Down, 900, HEADER);
            ask([7; 16], 4, Kind::DownInFragments, 9, HEADER);
            let mut buffer = [0; 2000];
            for (number, size, bytes) in [(2, 1000, HEADER), (3, 24, 900), (4, 24, HEADER)] {
                let got = client.recv(&mut buffer).unwrap();
                let answer = Datagram::parse(&buffer[..got]).unwrap();
                assert_eq!((answer.number, answer.size, got), (number, size, bytes));
            }
            over.store(true, Relaxed);
        });
        assert_eq!(tally.lock().unwrap().client, Some(client.local_addr().unwrap()));
    }

    #[test]
    fn a_train_is_counted_by_its_second_half() {
        let (start, mut tally) = (Instant::now(), Tally::default());
        assert_eq!(tally.trained(), Trained::default());
        tally.begin(3);
        // A burst at first, and then 1000 bytes each millisecond.
        for at in [0, 0, 0, 0, 0, 1, 2, 3, 4, 5] {
            tally.count(&one(3, 0), 1000, start + Duration::from_millis(at));
        }
        tally.count(&one(2, 0), 1000, start);
        let Trained { number, datagrams, half_bytes, half_micros, overtaken, .. } = tally.trained();
        assert_eq!((number, datagrams, half_bytes, half_micros, overtaken), (3, 10, 4000, 4000, 0));
    }

    #[test]
    fn datagrams_that_were_overtaken_are_counted() {
        let mut tally = Tally::default();
        tally.begin(3);
        // Two come late, and the numbers wrap around.
        for nth in [65_533, 65_535, 65_534, 0, 2, 3, 1] {
            tally.count(&one(3, nth), 1000, Instant::now());
        }
        assert_eq!((tally.trained().datagrams, tally.trained().overtaken), (7, 2));
    }

    fn one(number: u32, nth: u16) -> Datagram {
        Datagram { nonce: [7; 16], number, kind: Kind::Train, size: nth }
    }

    #[test]
    fn a_train_has_its_size_and_ends() {
        let here = "127.0.0.1:0".parse().unwrap();
        let (near, far) = (open(here).unwrap(), open(here).unwrap());
        let train = Train { number: 9, rate: 1_000_000, size: 500, seconds: 0.05, ..Train::default() };
        let (sent, _) = send_train(&near, far.local_addr().unwrap(), [7; 16], &train).unwrap();
        assert!((1..=101).contains(&sent), "{sent}");
        let mut buffer = [0; 2000];
        poll::readable(&[far.as_fd()], Duration::from_secs(60)).unwrap();
        let got = far.recv(&mut buffer).unwrap();
        let one = Datagram::parse(&buffer[..got]).unwrap();
        assert_eq!((got, one.kind, one.number), (500, Kind::Train, 9));
    }
}
