//! Finds the path MTU of both directions by datagrams with DF, and whether fragments arrive. No ICMP is needed.
//!
//! A size that has no answer at three tries does not pass. Sizes between the largest that passes and the next one that does not are tried
//! until they are neighbours. A round tries sizes of both directions, because each round takes a round trip at least.

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

    /// Finds the path MTU of both directions, which it climbs at once.
    ///
    /// # Errors
    /// The socket's error. `Interrupted`: `stop` says so. `TimedOut`: it is not found until `until`.
    pub(super) fn climb(&mut self, until: Instant, stop: &AtomicBool) -> io::Result<Ladder> {
        let mut climbs = [Climb::default(), Climb::default()];
        loop {
            let probes = of_both(|at| climbs[at].sizes.clone(), true);
            if probes.is_empty() {
                break;
            }
            if Instant::now() + self.patience > until {
                return Err(ErrorKind::TimedOut.into());
            }
            let passed = self.pass(&probes, TRIES, stop)?;
            for direction in Direction::ALL {
                climbs[direction as usize].note(|size| passed.contains(&Probe { direction, size, is_whole: true }));
            }
        }
        let steps = climbs.map(Climb::into_steps);
        let path_mtu = [largest(&steps[0]), largest(&steps[1])];
        Ok(Ladder { fragments: self.fragments(path_mtu, stop)?, path_mtu, steps })
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
        while (!is_sent.load(Relaxed) || last.elapsed() < self.quiet()) && Instant::now() < deadline {
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

    /// Returns the time without arrivals after which no more of a train come.
    pub(super) fn quiet(&self) -> Duration {
        (self.patience / 2).min(QUIET)
    }

    /// Returns for each direction the share of datagrams above the path MTU that arrive without DF. `None`: small ones do not arrive, either.
    fn fragments(&mut self, path_mtu: [Option<u32>; 2], stop: &AtomicBool) -> io::Result<[Option<f64>; 2]> {
        let from = |first: u32| (first..first + FRAGMENTED).collect::<Vec<u32>>();
        // Nothing is longer than 65,535 bytes.
        let mtus = path_mtu.map(|mtu| mtu.filter(|mtu| mtu + ABOVE + FRAGMENTED <= MAX_PACKET));
        let mut probes = of_both(|at| mtus[at].map_or(Vec::new(), |mtu| from(mtu + ABOVE)), false);
        let smallest = self.headers + HEADER as u32;
        probes.extend(of_both(|at| mtus[at].map_or(Vec::new(), |_| from(smallest)), true));
        let passed = self.pass(&probes, 1, stop)?;
        let count = |direction, is_whole| {
            passed.iter().filter(|probe| probe.direction == direction && probe.is_whole == is_whole).count() as u32
        };
        Ok(Direction::ALL.map(|direction| {
            let is_known = count(direction, true) * 2 >= FRAGMENTED;
            is_known.then(|| f64::from(count(direction, false)) / f64::from(FRAGMENTED))
        }))
    }

    /// Returns which of `probes` pass at one of so many tries. The next try does not wait for all answers to the last, which count later, too:
    /// on a long path only the last try takes its patience.
    ///
    /// # Errors
    /// As [`climb`](Datagrams::climb).
    fn pass(&mut self, probes: &[Probe], tries: u32, stop: &AtomicBool) -> io::Result<BTreeSet<Probe>> {
        let (first, mut sent, mut passed) = (self.number, Vec::new(), BTreeSet::new());
        for nth in 1..=tries {
            let left: Vec<Probe> = probes.iter().copied().filter(|probe| !passed.contains(probe)).collect();
            if left.is_empty() {
                break;
            }
            for probe in left {
                self.send(&probe)?;
                sent.push(probe);
            }
            let wait = if nth == tries { self.patience } else { self.patience.min(BETWEEN_TRIES) };
            self.gather(&mut passed, probes.len(), (first, &sent), Instant::now() + wait, stop)?;
        }
        Ok(passed)
    }

    fn send(&mut self, probe: &Probe) -> io::Result<()> {
        self.number = self.number.wrapping_add(1);
        let payload = (probe.size - self.headers) as usize;
        let (kind, bytes) = match (probe.direction, probe.is_whole) {
            (Direction::Up, _) => (Kind::Up, payload),
            (Direction::Down, true) => (Kind::Down, HEADER),
            (Direction::Down, false) => (Kind::DownInFragments, HEADER),
        };
        let asked = Datagram { nonce: self.nonce, number: self.number, kind, size: payload as u16 };
        sockopt::set_do_not_fragment(self.socket.as_fd(), probe.is_whole).map_err(io::Error::other)?;
        // EMSGSIZE: it is larger than the MTU of the interface. Other errors are of ICMP, about an earlier one.
        let bytes = asked.bytes(bytes);
        let _ = self.socket.send_to(&bytes, self.to).or_else(|_| self.socket.send_to(&bytes, self.to));
        Ok(())
    }

    /// Adds to `passed` the probes whose answers come until `deadline`, or until there are `all`. `sent` are those that were sent after the number
    /// `first`.
    fn gather(
        &self,
        passed: &mut BTreeSet<Probe>,
        all: usize,
        (first, sent): (u32, &[Probe]),
        deadline: Instant,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 65_536];
        while passed.len() < all && Instant::now() < deadline {
            if stop.load(Relaxed) {
                return Err(ErrorKind::Interrupted.into());
            }
            // Short waits, so that Ctrl-C is seen.
            let next_look = deadline.min(Instant::now() + BETWEEN_STOPS);
            let Some(got) = receive(&self.socket, &mut buffer, next_look)? else { continue };
            let answer = Datagram::parse(&buffer[..got]).filter(|answer| answer.nonce == self.nonce);
            passed.extend(answer.and_then(|answer| answered(&answer, got as u32, self.headers, (first, sent))));
        }
        Ok(())
    }
}

/// A datagram whose answer shows whether packets of its size pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    direction: Direction,
    /// Bytes of the IP packet.
    size: u32,
    /// Whether it has DF.
    is_whole: bool,
}

/// Returns probes of the `sizes` of both directions.
fn of_both(sizes: impl Fn(usize) -> Vec<u32>, is_whole: bool) -> Vec<Probe> {
    let of = |direction: Direction| {
        sizes(direction as usize).into_iter().map(move |size| Probe { direction, size, is_whole })
    };
    Direction::ALL.into_iter().flat_map(of).collect()
}

/// Returns which of the probes `sent` after the number `first` has passed by `answer`, whose payload has `got` bytes below `headers`. A try is as
/// good as the next.
fn answered(answer: &Datagram, got: u32, headers: u32, (first, sent): (u32, &[Probe])) -> Option<Probe> {
    let probe = sent.get(answer.number.wrapping_sub(first).wrapping_sub(1) as usize)?;
    // The answer proves the size: it repeats what came, or has it.
    let proved = if probe.direction == Direction::Up { answer.size.into() } else { got };
    (proved + headers == probe.size).then_some(*probe)
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

/// The search for the largest IP packet that passes in a direction.
#[derive(Debug)]
pub(super) struct Climb {
    /// Sizes to try next, in bytes. None: it is over.
    pub(super) sizes: Vec<u32>,
    steps: Vec<(u32, bool)>,
}

impl Default for Climb {
    fn default() -> Climb {
        Climb { sizes: USUAL.to_vec(), steps: Vec::new() }
    }
}

impl Climb {
    /// Notes which of the sizes have passed, and chooses the next ones.
    pub(super) fn note(&mut self, has_passed: impl Fn(u32) -> bool) {
        let sizes = std::mem::take(&mut self.sizes);
        if sizes.is_empty() {
            return;
        }
        self.steps.extend(sizes.iter().map(|size| (*size, has_passed(*size))));
        let Some(good) = largest(&self.steps) else { return };
        let bad = self.steps.iter().filter(|(size, passed)| !passed && *size > good).map(|(size, _)| *size).min();
        let gap = bad.unwrap_or(good + 1) - good;
        let step = gap.div_ceil(PIECES).max(1);
        self.sizes = (1..PIECES + 1).map(|piece| good + piece * step).filter(|size| *size < good + gap).collect();
    }

    /// Returns the sizes that were tried, each with whether it passed, in ascending order.
    pub(super) fn into_steps(mut self) -> Vec<(u32, bool)> {
        self.steps.sort_unstable();
        self.steps
    }
}

/// Returns the largest size that passed.
pub(super) fn largest(steps: &[(u32, bool)]) -> Option<u32> {
    steps.iter().filter(|(_, passed)| *passed).map(|(size, _)| *size).max()
}

/// Sizes of IP packets that are usual on lines and in tunnels, in bytes.
const USUAL: &[u32] = &[576, 1006, 1200, 1280, 1350, 1400, 1420, 1454, 1492, 1500, 4352, 9000, 16_384, 65_535];
/// Sizes that are tried at once between two.
const PIECES: u32 = 16;
/// Number of tries of a size.
pub(super) const TRIES: u32 = 3;
/// Time between two tries at most. A queue that overflows for less loses one of them only.
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// Time without arrivals after which a train is over, at most. Outages of a moving radio link are shorter.
const QUIET: Duration = Duration::from_millis(300);
const BETWEEN_STOPS: Duration = Duration::from_millis(100);
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
        let (mut buffer, mut seen) = (vec![0; 65_536], HashMap::<(bool, u32), u32>::new());
        while let Ok((got, from)) = socket.recv_from(&mut buffer) {
            let Some(question) = Datagram::parse(&buffer[..got]) else { return };
            let (size, bytes, limit) = match question.kind {
                Kind::Up => (got as u32 + 28, HEADER, up),
                _ => (u32::from(question.size) + 28, question.size.into(), down),
            };
            let count = seen.entry((question.kind == Kind::Up, size)).or_default();
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

    fn in_a_minute() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn each_direction_is_found_to_the_byte() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = far.local_addr().unwrap();
        let answering = thread::spawn(move || path(&far, 1294, 1500));
        let mut climbing = datagrams(to);
        climbing.patience = Duration::from_millis(400);
        let ladder = climbing.climb(in_a_minute(), &AtomicBool::new(false)).unwrap();
        assert_eq!(ladder.path_mtu, [Some(1294), Some(1500)]);
        assert!(ladder.steps[0].contains(&(1294, true)) && ladder.steps[0].contains(&(1295, false)));
        climbing.socket.send_to(b"end", to).unwrap();
        answering.join().unwrap();
    }

    #[test]
    fn without_answers_nothing_is_known() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = silent.local_addr().unwrap();
        let ladder = datagrams(to).climb(in_a_minute(), &AtomicBool::new(false)).unwrap();
        assert_eq!((ladder.path_mtu, ladder.fragments), ([None, None], [None, None]));
    }

    #[test]
    fn a_climb_ends_at_once_if_it_is_stopped_or_late() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = silent.local_addr().unwrap();
        let mut climbing = datagrams(to);
        climbing.patience = Duration::from_secs(600);
        let ended = |climbed: io::Result<Ladder>| climbed.unwrap_err().kind();
        let later = Instant::now() + Duration::from_secs(3600);
        assert_eq!(ended(climbing.climb(later, &AtomicBool::new(true))), ErrorKind::Interrupted);
        assert_eq!(ended(climbing.climb(in_a_minute(), &AtomicBool::new(false))), ErrorKind::TimedOut);
    }

    #[test]
    fn an_answer_to_an_earlier_try_counts_after_the_next() {
        let (nonce, first) = ([7; 16], u32::MAX - 1);
        let probe = |direction, size| Probe { direction, size, is_whole: true };
        let both = [probe(Direction::Up, 1500), probe(Direction::Down, 1400)];
        // Three tries of two sizes, whose numbers begin again at 0.
        let sent = both.repeat(3);
        let passed = |nth: u32, size: u16, got: u32| {
            let answer = Datagram { nonce, number: first.wrapping_add(nth), kind: Kind::Answer, size };
            answered(&answer, got, 28, (first, &sent))
        };
        for nth in [1, 3, 5] {
            assert_eq!(passed(nth, 1472, 24), Some(both[0]));
            assert_eq!(passed(nth + 1, 24, 1372), Some(both[1]));
        }
        assert_eq!(passed(1, 1400, 24), None, "it came cut");
        assert_eq!((passed(7, 1472, 24), passed(0, 1472, 24)), (None, None), "it is of another round");
    }
}
