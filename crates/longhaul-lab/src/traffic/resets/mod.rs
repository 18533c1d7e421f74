//! Random flows, some of which are reset by one end. Checks every byte and every ending, and measures the time until the other
//! end gets the reset.

use crate::error::{LabError, joined};
use crate::plan::place::Host;
use crate::traffic::exchange::{self, Server, patient};
use crate::traffic::row::{Drive, Kind, Measured, exact, varies};
use crate::traffic::stream::{BLOCK, Random, block, matches};
use longhaul_sys::uninterrupted;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// As many workers as the scenario has connections, each with one flow after the other. A flow has a request and an answer of
/// random lengths. Two flows of three are reset by one end at a random byte.
pub(crate) const RESETS: Kind = Kind {
    name: "resets",
    what: "random connections with resets from either end",
    subject: "this traffic (resets)",
    figures: &[varies("flows"), varies("resets"), varies("latest_s"), varies("over_15s"), exact("wrong")],
    run,
    ..Kind::BASE
};

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let count = drive.traffic.connections;
    let time = drive.traffic.time;
    let entry = drive.running.entry;
    let endings = Arc::new(Endings::new(PATIENCE));
    let servers = Arc::clone(&endings);
    // An end that waits without an ending occupies its thread, and the other flows need threads too.
    let server = Server::start(drive, WAITING * count, move |peer| servers.serve(peer))?;
    (drive.began)();
    let start = Instant::now();
    let workers: Vec<_> = (0..count)
        .map(|worker| {
            let endings = Arc::clone(&endings);
            drive.wan.on(Host::A, move || {
                let mut seed = Random(u64::from(worker + 1) << 32 | 1);
                while start.elapsed() < time {
                    endings.request(entry, seed.next())?;
                }
                Ok(())
            })
        })
        .collect();
    workers.into_iter().try_for_each(joined)?;
    drop(server); // returns when its last flow has ended
    Ok(endings.measured(start.elapsed()))
}

/// The plan of a flow. Both ends know it.
struct Plan {
    seed: u64,
    up: u64,
    down: u64,
    /// The side that resets, and the number of bytes that it sends and receives before.
    reset: Option<(Side, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Client,
    Server,
}

/// The ending of a flow, as one end sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    /// Both ends sent FIN, and every byte arrived.
    Whole,
    /// This end sent a reset.
    Resets,
    /// This end got a reset.
    Reset,
    /// Nothing arrived until the timeout.
    Silence,
    /// Wrong bytes, an early FIN, or an error other than a reset, in words.
    Wrong(String),
}

/// One end of a flow while it runs.
struct End<'a> {
    socket: TcpStream,
    plan: &'a Plan,
    side: Side,
    block: &'a [u8],
    buffer: Vec<u8>,
    /// Sum of the bytes sent and received so far.
    moved: u64,
    received: u64,
}

/// All flows, with the ending that each end saw and its time.
struct Endings {
    block: &'static [u8],
    /// Maximum time that an end waits for the other.
    patience: Duration,
    ends: Mutex<HashMap<(u64, Side), Seen>>,
}

struct Seen {
    ending: Ending,
    at: Instant,
    received: u64,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut random = Random(seed);
        let (up, down) = (length(&mut random), length(&mut random));
        let after = random.next() % (up + down + 1);
        let reset = [None, Some((Side::Client, after)), Some((Side::Server, after))];
        Plan { seed, up, down, reset: reset[(random.next() % 3) as usize] }
    }

    /// Returns the ending that `side` must see. It does not depend on timing:
    ///
    /// - Without a reset, the server reads FIN after the client's last byte and then closes. So the client reads FIN after the
    ///   server's last byte.
    /// - The end that resets has not sent FIN, because it resets instead. It is in ESTABLISHED, or in CLOSE_WAIT if the other end
    ///   has sent FIN. In both states close(2) with a linger of 0 sends RST, even after every byte and that FIN are acknowledged.
    /// - The other end then never gets a FIN. It reads or writes until it gets the reset. A client that has sent FIN waits for
    ///   the server's FIN. Only the number of bytes before the reset is open, because the reset discards unsent bytes.
    fn ending(&self, side: Side) -> Ending {
        match self.reset {
            None => Ending::Whole,
            Some((by, _)) if by == side => Ending::Resets,
            Some(_) => Ending::Reset,
        }
    }
}

/// Returns a length from 64 bytes to 1 MiB. Each doubling has the same probability.
fn length(random: &mut Random) -> u64 {
    let doublings = random.next() % 14;
    (64 << doublings) + random.next() % (64 << doublings)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, up, down, reset } = self;
        write!(f, "flow {seed:x}, {up} bytes up, {down} down, ")?;
        match reset {
            None => f.write_str("no reset"),
            Some((by, after)) => write!(f, "{by} resets after {after}"),
        }
    }
}

impl Side {
    const BOTH: [Side; 2] = [Side::Client, Side::Server];

    fn other(self) -> Side {
        if self == Side::Client { Side::Server } else { Side::Client }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Side::Client { "client" } else { "server" })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = self.received;
        match &self.ending {
            Ending::Whole => write!(f, "got FIN after all {received} bytes"),
            Ending::Resets => f.write_str("sent a reset"),
            Ending::Reset => write!(f, "got a reset after {received} bytes"),
            Ending::Silence => write!(f, "heard nothing more after {received} bytes"),
            Ending::Wrong(what) => f.write_str(what),
        }
    }
}

impl Endings {
    fn new(patience: Duration) -> Endings {
        Endings { block: block(), patience, ends: Mutex::default() }
    }

    /// Runs the client's end of one flow.
    fn request(&self, entry: SocketAddr, seed: u64) -> Result<(), LabError> {
        let connecting = LabError::io(format!("connecting to {entry}"));
        let mut socket = exchange::connect(entry, PATIENCE).map_err(connecting)?;
        // The greeting ensures that the server knows the plan before a reset can overtake it.
        let greeted = socket.write_all(&seed.to_ne_bytes());
        greeted.and_then(|()| socket.read_exact(&mut [0; 8])).map_err(LabError::io("greeting host B"))?;
        patient(&socket, self.patience).map_err(LabError::io("greeting host B"))?;
        self.note(End::new(socket, &Plan::of(seed), Side::Client, self.block));
        Ok(())
    }

    /// Runs the server's end of one flow.
    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        patient(&socket, PATIENCE)?;
        let mut seed = [0; 8];
        socket.read_exact(&mut seed)?;
        socket.write_all(&seed)?;
        patient(&socket, self.patience)?;
        self.note(End::new(socket, &Plan::of(u64::from_ne_bytes(seed)), Side::Server, self.block));
        Ok(())
    }

    /// Runs one end of a flow and stores its ending.
    fn note(&self, mut end: End<'_>) {
        let ending = end.run().unwrap_or_else(|err| match err.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ending::Reset,
            // socket(7) SO_RCVTIMEO: EAGAIN. tcp(7): ETIMEDOUT after retransmissions without an answer.
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Ending::Silence,
            _ => Ending::Wrong(err.to_string()),
        });
        let seen = Seen { ending, at: Instant::now(), received: end.received };
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert((end.plan.seed, end.side), seen);
    }

    /// Returns the figures. Every flow must have ended.
    fn measured(&self, took: Duration) -> Measured {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let flows: BTreeSet<u64> = ends.keys().map(|(seed, _)| *seed).collect();
        let wrong: Vec<String> = flows.iter().filter_map(|seed| wrong(&Plan::of(*seed), &ends)).collect();
        let resets = ends.iter().filter(|(_, seen)| seen.ending == Ending::Resets);
        let waits: Vec<Duration> = resets
            .map(|((seed, side), resets)| {
                // An end that did not get the reset timed out, or saw FIN instead.
                let told = ends.get(&(*seed, side.other())).filter(|other| other.ending == Ending::Reset);
                told.map_or(self.patience, |other| other.at.saturating_duration_since(resets.at))
            })
            .collect();
        let bytes = ends.values().map(|seen| seen.received).sum::<u64>();
        let latest = waits.iter().max().copied().unwrap_or_default();
        let late = waits.iter().filter(|wait| **wait > LATE).count();
        let figures = vec![
            ("flows", flows.len() as f64),
            ("resets", waits.len() as f64),
            ("latest_s", latest.as_secs_f64()),
            ("over_15s", late as f64),
            ("wrong", wrong.len() as f64),
        ];
        let speed = bytes as f64 / took.as_secs_f64();
        Measured { bytes, checked: true, wrong, speed, figures, ..Measured::default() }
    }
}

/// Returns the observations of both ends of a flow if one of them differs from the plan.
fn wrong(plan: &Plan, ends: &HashMap<(u64, Side), Seen>) -> Option<String> {
    let seen = |side| ends.get(&(plan.seed, side));
    let is_right = |side| seen(side).is_some_and(|seen| seen.ending == plan.ending(side));
    let said = |side| match seen(side) {
        Some(seen) => format!("{side} {seen}"),
        None => format!("{side} never came"),
    };
    (!Side::BOTH.into_iter().all(is_right)).then(|| format!("{plan}: {}", Side::BOTH.map(said).join(", ")))
}

impl<'a> End<'a> {
    fn new(socket: TcpStream, plan: &'a Plan, side: Side, block: &'a [u8]) -> End<'a> {
        End { socket, plan, side, block, buffer: vec![0; PIECE], moved: 0, received: 0 }
    }

    /// Follows the plan and returns the ending of the flow.
    ///
    /// # Errors
    /// `InvalidData`: wrong bytes, or an early FIN. `WouldBlock`: silence. Others: a reset.
    fn run(&mut self) -> io::Result<Ending> {
        let whole = match self.side {
            Side::Client => self.send(self.plan.up)? && self.receive(self.plan.down)?,
            Side::Server => self.receive(self.plan.up)? && self.send(self.plan.down)?,
        };
        if !whole || self.left() == Some(0) {
            socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO))?;
            return Ok(Ending::Resets);
        }
        if self.side == Side::Client {
            // After a reset, shutdown(2) fails with ENOTCONN, and the next read with ECONNRESET.
            self.socket.shutdown(Shutdown::Write).or_else(|err| match err.kind() {
                ErrorKind::NotConnected => Ok(()),
                _ => Err(err),
            })?;
        }
        match uninterrupted(|| self.socket.read(&mut self.buffer))? {
            0 => Ok(Ending::Whole),
            _ => Err(invalid(format!("got more than the {} bytes that were sent", self.received))),
        }
    }

    /// Returns the bytes that this end may still move before its own reset; `None` if it does not reset.
    fn left(&self) -> Option<u64> {
        let (_, after) = self.plan.reset.filter(|(side, _)| *side == self.side)?;
        Some(after.saturating_sub(self.moved))
    }

    /// Sends the next `bytes` bytes of the stream. Returns false if its own reset is due first.
    fn send(&mut self, bytes: u64) -> io::Result<bool> {
        let mut sent = 0;
        while sent < bytes {
            let from = ((self.plan.seed + sent) % BLOCK as u64) as usize;
            let length = (bytes - sent).min(self.left().unwrap_or(u64::MAX)).min(PIECE as u64) as usize;
            if length == 0 {
                return Ok(false);
            }
            let piece = &self.block[from..BLOCK.min(from + length)];
            let written = uninterrupted(|| self.socket.write(piece))? as u64;
            sent += written;
            self.moved += written;
        }
        Ok(true)
    }

    /// Receives until `bytes` bytes have arrived, and compares them. Returns false if its own reset is due first.
    fn receive(&mut self, bytes: u64) -> io::Result<bool> {
        while self.received < bytes {
            let length = (bytes - self.received).min(self.left().unwrap_or(u64::MAX)).min(PIECE as u64) as usize;
            if length == 0 {
                return Ok(false);
            }
            let got = uninterrupted(|| self.socket.read(&mut self.buffer[..length]))?;
            if got == 0 {
                let received = self.received;
                return Err(invalid(format!("got FIN after {received} of {bytes} bytes")));
            }
            if !matches(self.block, self.plan.seed + self.received, &self.buffer[..got]) {
                return Err(invalid(format!("got wrong bytes after {} bytes", self.received)));
            }
            self.received += got as u64;
            self.moved += got as u64;
        }
        Ok(true)
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Timeout of an end: longer than any relay at its defaults keeps a host waiting.
const PATIENCE: Duration = Duration::from_secs(130);
/// Maximum time until the other end must have got the reset.
const LATE: Duration = Duration::from_secs(15);
/// Threads on host B for each client.
const WAITING: u32 = 4;
/// Bytes of a read or write.
const PIECE: usize = 64 << 10;

#[cfg(test)]
mod tests;
