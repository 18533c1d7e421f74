//! Finds the path MTU of both directions by datagrams with DF, and whether fragments arrive. No ICMP is needed.
//!
//! A size that has no answer three times does not pass. Sizes between the largest that passes and the next one that does not are tried
//! until they are neighbours.

use longhaul_core::wire::probe::Nonce;
use longhaul_measure::datagram::{Datagram, HEADER, Kind, Tally, patience};
use longhaul_measure::message::{Direction, Train, Trained};
use longhaul_sys::{poll, sockopt};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The path MTU of both directions, and the fate of fragments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ladder {
    /// The largest IP packet that passes, in bytes, up and down. `None`: no datagram came back.
    pub(super) path_mtu: [Option<u32>; 2],
    /// The sizes that were tried, in bytes of the IP packet, and whether each passed.
    pub(super) steps: [Vec<(u32, bool)>; 2],
    /// Share of datagrams above the path MTU, without DF, that arrived.
    pub(super) fragments: [Option<f64>; 2],
}

/// The client's socket for datagrams of a session.
pub(super) struct Datagrams {
    pub(super) socket: UdpSocket,
    pub(super) to: SocketAddr,
    pub(super) nonce: Nonce,
    /// Time in which an answer comes.
    pub(super) patience: Duration,
    /// Bytes of the IP and UDP headers.
    pub(super) headers: u32,
    number: u32,
}

impl Datagrams {
    /// Returns the datagrams of the session `nonce` of the answerer at `to`, through `socket`, over a path with the round trip `rtt`.
    pub(super) fn new(socket: UdpSocket, to: SocketAddr, nonce: &Nonce, rtt: Duration) -> Datagrams {
        let headers = if to.is_ipv4() { 28 } else { 48 };
        Datagrams { socket, to, nonce: *nonce, patience: patience(rtt), headers, number: 0 }
    }

    /// Finds the path MTU of both directions.
    ///
    /// # Errors
    /// The socket's error.
    pub(super) fn climb(&mut self) -> io::Result<Ladder> {
        let mut ladder = Ladder::default();
        for direction in Direction::ALL {
            let at = direction as usize;
            let steps = steps(|sizes| self.pass(direction, sizes))?;
            let mtu = largest(&steps);
            (ladder.path_mtu[at], ladder.steps[at]) = (mtu, steps);
            // Nothing is longer than 65,535 bytes.
            if let Some(mtu) = mtu.filter(|mtu| mtu + ABOVE + FRAGMENTED <= MAX_PACKET) {
                ladder.fragments[at] = self.fragments(direction, mtu + ABOVE)?;
            }
        }
        Ok(ladder)
    }

    /// Counts the train down that `begin` lets the answerer send. Returns what was sent, which `begin` tells, and what arrived.
    ///
    /// # Errors
    /// That of `begin`.
    pub(super) fn count(
        &self,
        train: &Train,
        begin: impl FnOnce() -> io::Result<Trained>,
    ) -> io::Result<(Trained, Trained)> {
        let (mut tally, over) = (Tally::default(), AtomicBool::new(false));
        tally.begin(train.number);
        let sent = thread::scope(|scope| {
            scope.spawn(|| self.count_arrivals(&mut tally, &over));
            let sent = begin();
            over.store(true, Relaxed);
            sent
        })?;
        Ok((sent, tally.trained()))
    }

    /// Counts the arrivals of a train until `is_sent`, and then until no more come.
    fn count_arrivals(&self, tally: &mut Tally, is_sent: &AtomicBool) {
        let (mut buffer, mut last) = (vec![0; 65_536], Instant::now());
        let deadline = last + TRAIN_TIME;
        while (!is_sent.load(Relaxed) || last.elapsed() < self.patience / 2) && Instant::now() < deadline {
            let Ok((got, from)) = self.socket.recv_from(&mut buffer) else {
                // An error of poll(2) is one of the next call, too.
                let _ = poll::readable(&[self.socket.as_fd()], BETWEEN_LOOKS);
                continue;
            };
            let one = Datagram::parse(&buffer[..got]).filter(|one| one.nonce == self.nonce && one.kind == Kind::Train);
            if let Some(one) = one.filter(|_| from.ip() == self.to.ip()) {
                last = Instant::now();
                tally.count(&one, got, last);
            }
        }
    }

    /// Returns the share of datagrams from `size` bytes on that arrive without DF. `None`: small ones do not arrive, either.
    fn fragments(&mut self, direction: Direction, size: u32) -> io::Result<Option<f64>> {
        let from = |first: u32| (first..first + FRAGMENTED).collect::<Vec<u32>>();
        let arrived = self.try_once(direction, &from(size), false)?.len();
        let small = self.try_once(direction, &from(self.headers + HEADER as u32), true)?.len();
        Ok((small as u32 * 2 >= FRAGMENTED).then(|| arrived as f64 / f64::from(FRAGMENTED)))
    }

    /// Returns which of `sizes`, in bytes of the IP packet, pass whole at one of three tries.
    fn pass(&mut self, direction: Direction, sizes: &[u32]) -> io::Result<BTreeSet<u32>> {
        in_tries(sizes, |left| self.try_once(direction, left, true))
    }

    fn try_once(&mut self, direction: Direction, sizes: &[u32], is_whole: bool) -> io::Result<BTreeSet<u32>> {
        let first = self.number;
        for size in sizes {
            self.number = self.number.wrapping_add(1);
            let payload = (size - self.headers) as usize;
            let (kind, bytes) = match (direction, is_whole) {
                (Direction::Up, _) => (Kind::Up, payload),
                (Direction::Down, true) => (Kind::Down, HEADER),
                (Direction::Down, false) => (Kind::DownInFragments, HEADER),
            };
            let asked = Datagram { nonce: self.nonce, number: self.number, kind, size: payload as u16 };
            sockopt::set_do_not_fragment(self.socket.as_fd(), is_whole).map_err(io::Error::other)?;
            // EMSGSIZE: it is larger than the MTU of the interface. Other errors are of ICMP, about an earlier one.
            let bytes = asked.bytes(bytes);
            let _ = self.socket.send_to(&bytes, self.to).or_else(|_| self.socket.send_to(&bytes, self.to));
        }
        let mut passed = BTreeSet::new();
        let (mut buffer, deadline) = (vec![0; 65_536], Instant::now() + self.patience);
        while passed.len() < sizes.len() {
            let Some(got) = receive(&self.socket, &mut buffer, deadline)? else { break };
            let Some(answer) = Datagram::parse(&buffer[..got]).filter(|answer| answer.nonce == self.nonce) else {
                continue;
            };
            let Some(size) = sizes.get(answer.number.wrapping_sub(first).wrapping_sub(1) as usize) else { continue };
            // The answer proves the size: it repeats what came, or has it.
            let proved = if direction == Direction::Up { answer.size.into() } else { got as u32 };
            if proved + self.headers == *size {
                passed.insert(*size);
            }
        }
        Ok(passed)
    }
}

/// Receives the next datagram on `socket`, which is O_NONBLOCK. Returns its length; `None`: none comes until `deadline`.
///
/// # Errors
/// poll(2) fails.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        match socket.recv(buffer) {
            Ok(got) => return Ok(Some(got)),
            Err(err) if err.kind() == ErrorKind::WouldBlock => drop(poll::readable(&[socket.as_fd()], left)?),
            // One of ICMP, about a datagram that was sent before.
            Err(_) => {}
        }
    }
}

/// Finds the largest IP packet that passes. `pass` returns which of some sizes in bytes do. Returns the sizes that were tried, each with
/// whether it passed, in ascending order.
///
/// # Errors
/// That of `pass`.
pub(super) fn steps(mut pass: impl FnMut(&[u32]) -> io::Result<BTreeSet<u32>>) -> io::Result<Vec<(u32, bool)>> {
    let mut sizes = USUAL.to_vec();
    let mut steps: Vec<(u32, bool)> = Vec::new();
    while !sizes.is_empty() {
        let passed = pass(&sizes)?;
        steps.extend(sizes.iter().map(|size| (*size, passed.contains(size))));
        let Some(good) = largest(&steps) else { break };
        let bad = steps.iter().filter(|(size, passed)| !passed && *size > good).map(|(size, _)| *size).min();
        let gap = bad.unwrap_or(good + 1) - good;
        let step = gap.div_ceil(PIECES).max(1);
        sizes = (1..PIECES + 1).map(|piece| good + piece * step).filter(|size| *size < good + gap).collect();
    }
    steps.sort_unstable();
    Ok(steps)
}

/// Returns the largest size that passed.
pub(super) fn largest(steps: &[(u32, bool)]) -> Option<u32> {
    steps.iter().filter(|(_, passed)| *passed).map(|(size, _)| *size).max()
}

/// Returns which of `sizes` pass at one of three tries.
///
/// # Errors
/// That of `try_once`.
pub(super) fn in_tries(
    sizes: &[u32],
    mut try_once: impl FnMut(&[u32]) -> io::Result<BTreeSet<u32>>,
) -> io::Result<BTreeSet<u32>> {
    let mut passed = BTreeSet::new();
    for _ in 0..TRIES {
        let left: Vec<u32> = sizes.iter().copied().filter(|size| !passed.contains(size)).collect();
        if left.is_empty() {
            break;
        }
        passed.append(&mut try_once(&left)?);
    }
    Ok(passed)
}

/// Sizes of IP packets that are usual on lines and in tunnels, in bytes.
const USUAL: &[u32] = &[576, 1006, 1200, 1280, 1350, 1400, 1420, 1454, 1492, 1500, 4352, 9000, 16_384, 65_535];
/// Sizes that are tried at once between two.
const PIECES: u32 = 16;
const TRIES: u32 = 3;
/// Datagrams that show whether fragments arrive, and how much larger than the path MTU they are.
const FRAGMENTED: u32 = 8;
const ABOVE: u32 = 200;
const MAX_PACKET: u32 = 65_535;
/// Time of a train down at most, with that for its announcement.
const TRAIN_TIME: Duration = Duration::from_secs(12);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::super::dialer::Dialer;
    use super::*;
    use std::collections::HashMap;

    /// Answers like a path that passes packets of `up` bytes one way and `down` the other, and loses the first answer of each size.
    /// Ends with a datagram that is none.
    fn path(socket: &UdpSocket, up: u32, down: u32) {
        let (mut buffer, mut seen) = (vec![0; 65_536], HashMap::<u32, u32>::new());
        while let Ok((got, from)) = socket.recv_from(&mut buffer) {
            let Some(question) = Datagram::parse(&buffer[..got]) else { return };
            let (size, bytes, limit) = match question.kind {
                Kind::Up => (got as u32 + 28, HEADER, up),
                _ => (u32::from(question.size) + 28, question.size.into(), down),
            };
            let count = seen.entry(size).or_default();
            *count += 1;
            if size <= limit && *count > 1 {
                let answer = Datagram { kind: Kind::Answer, size: got as u16, ..question };
                socket.send_to(&answer.bytes(bytes), from).unwrap();
            }
        }
    }

    fn datagrams(to: SocketAddr) -> Datagrams {
        let socket = Dialer::Direct(to).datagrams().unwrap();
        Datagrams::new(socket, to, &[7; 16], Duration::ZERO)
    }

    #[test]
    fn each_direction_is_found_to_the_byte() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = far.local_addr().unwrap();
        let answering = thread::spawn(move || path(&far, 1294, 1500));
        let mut climbing = datagrams(to);
        climbing.patience = Duration::from_millis(400);
        let ladder = climbing.climb().unwrap();
        assert_eq!(ladder.path_mtu, [Some(1294), Some(1500)]);
        assert!(ladder.steps[0].contains(&(1294, true)) && ladder.steps[0].contains(&(1295, false)));
        climbing.socket.send_to(b"end", to).unwrap();
        answering.join().unwrap();
    }

    #[test]
    fn without_answers_nothing_is_known() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = silent.local_addr().unwrap();
        let ladder = datagrams(to).climb().unwrap();
        assert_eq!((ladder.path_mtu, ladder.fragments), ([None, None], [None, None]));
    }
}
