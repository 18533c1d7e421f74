//! Random flows, some of which one end resets: every byte, every ending, and how long the other end waits for the reset.

use super::exchange::Server;
use super::raw::{BLOCK, block, joined, matches};
use super::{Counts, Drive, Kind, Measured, THREADED, grows, shrinks, stays};
use crate::lab::problem::Problem;
use crate::lab::spec::Host;
use longhaul_sys::uninterrupted;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// As many workers as the scenario has connections, each with one flow after the other: a request of random length, an
/// answer of random length, and for two flows of three a reset by one end at a random byte.
pub(super) const RESETS: Kind = Kind {
    name: "resets",
    what: "random flows with resets",
    laws: &[],
    counts: Counts::Figures,
    keys: &[],
    largest: 0,
    figures: &[shrinks("flows"), shrinks("resets"), grows("latest_s"), grows("over_15s"), stays("wrong")],
    most: THREADED,
    run,
};

fn run(drive: &Drive<'_>) -> Result<Measured, Problem> {
    let (count, time, entry) = (drive.traffic.connections, drive.traffic.time, drive.running.entry);
    let ledger = Arc::new(Ledger { block: block(), ends: Mutex::default() });
    let servers = Arc::clone(&ledger);
    // An end that waits in silence keeps its thread, and the others need theirs.
    let server = Server::start(drive, WAITING * count, move |peer| servers.serve(peer))?;
    (drive.began)();
    let start = Instant::now();
    let workers: Vec<_> = (0..count)
        .map(|worker| {
            let ledger = Arc::clone(&ledger);
            drive.wan.on(Host::A, move || {
                let mut seed = Random(u64::from(worker + 1) << 32 | 1);
                while start.elapsed() < time {
                    ledger.request(entry, seed.next())?;
                }
                Ok(())
            })
        })
        .collect();
    workers.into_iter().try_for_each(joined)?;
    drop(server); // when its last flow has ended
    ledger.measured(start.elapsed())
}

/// What a flow does, known to both of its ends.
struct Plan {
    seed: u64,
    up: u64,
    down: u64,
    /// Who resets, after how many bytes that it has sent and received.
    reset: Option<(Side, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Client,
    Server,
}

/// How a flow ended for one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Both sent FIN, and every byte came.
    Whole,
    /// This end sent a reset.
    Resets,
    /// This end got a reset.
    Reset,
    /// Nothing came for [`PATIENCE`].
    Silence,
}

/// One end of a flow while it runs.
struct End<'a> {
    socket: TcpStream,
    plan: &'a Plan,
    side: Side,
    block: &'a [u8],
    buffer: Vec<u8>,
    /// Bytes sent and received so far.
    moved: u64,
    received: u64,
}

/// All flows, with what each end has seen and when.
struct Ledger {
    block: Vec<u8>,
    ends: Mutex<HashMap<(u64, Side), Seen>>,
}

struct Seen {
    ending: Ending,
    at: Instant,
    received: u64,
    /// What must not be; empty is good.
    wrong: String,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut random = Random(seed);
        let (up, down) = (random.length(), random.length());
        let after = random.next() % (up + down + 1);
        let reset = [None, Some((Side::Client, after)), Some((Side::Server, after))];
        Plan { seed, up, down, reset: reset[(random.next() % 3) as usize] }
    }
}

/// xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    /// From 64 bytes to 1 MiB, each doubling as likely as the next.
    fn length(&mut self) -> u64 {
        let doublings = self.next() % 14;
        (64 << doublings) + self.next() % (64 << doublings)
    }
}

impl Ledger {
    /// One flow, as its client.
    fn request(&self, entry: SocketAddr, seed: u64) -> Result<(), Problem> {
        let connecting = Problem::io(format!("connecting to {entry}"));
        let mut socket = TcpStream::connect_timeout(&entry, PATIENCE).map_err(connecting)?;
        // The server has the plan before a reset may overtake it.
        let greeted = patient(&socket).and_then(|()| socket.write_all(&seed.to_ne_bytes()));
        greeted.and_then(|()| socket.read_exact(&mut [0; 8])).map_err(Problem::io("greeting host B"))?;
        let plan = Plan::of(seed);
        self.note(End::new(socket, &plan, Side::Client, &self.block));
        Ok(())
    }

    /// One flow, as its server.
    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        patient(&socket)?;
        let mut seed = [0; 8];
        socket.read_exact(&mut seed)?;
        socket.write_all(&seed)?;
        let plan = Plan::of(u64::from_ne_bytes(seed));
        self.note(End::new(socket, &plan, Side::Server, &self.block));
        Ok(())
    }

    /// Runs one end to its end, and keeps what came of it.
    fn note(&self, mut end: End<'_>) {
        let (ran, at) = (end.run(), Instant::now());
        let (ending, mut wrong) = match ran {
            Ok(ending) => (ending, String::new()),
            Err(err) if err.kind() == ErrorKind::InvalidData => (Ending::Reset, err.to_string()),
            Err(err) if err.kind() == ErrorKind::WouldBlock => (Ending::Silence, String::new()),
            Err(_) => (Ending::Reset, String::new()),
        };
        if ending == Ending::Reset && wrong.is_empty() && end.plan.reset.is_none() {
            wrong = format!("{:?} got a reset that nobody sent, after {} bytes", end.side, end.received);
        }
        let seen = Seen { ending, at, received: end.received, wrong };
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert((end.plan.seed, end.side), seen);
    }

    /// The figures, once every flow has ended.
    fn measured(&self, took: Duration) -> Result<Measured, Problem> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waits = Vec::new();
        let mut wrong = 0;
        for ((seed, side), seen) in ends.iter() {
            if !seen.wrong.is_empty() {
                wrong += 1;
                eprintln!("flow {seed:x}: {}", seen.wrong);
            }
            if seen.ending == Ending::Resets {
                let other = if *side == Side::Client { Side::Server } else { Side::Client };
                // An end that is not there still waits.
                let known = ends.get(&(*seed, other)).filter(|other| other.ending != Ending::Silence);
                waits.push(known.map_or(PATIENCE, |other| other.at.saturating_duration_since(seen.at)));
            }
        }
        let bytes = ends.values().map(|seen| seen.received).sum::<u64>();
        let latest = waits.iter().max().copied().unwrap_or_default();
        let late = waits.iter().filter(|wait| **wait > LATE).count();
        let clients = ends.keys().filter(|(_, side)| *side == Side::Client).count();
        let figures = vec![
            ("flows", clients as f64),
            ("resets", waits.len() as f64),
            ("latest_s", latest.as_secs_f64()),
            ("over_15s", late as f64),
            ("wrong", f64::from(wrong)),
        ];
        Ok(Measured { bytes, checked: true, speed: bytes as f64 / took.as_secs_f64(), figures, ..Measured::default() })
    }
}

impl<'a> End<'a> {
    fn new(socket: TcpStream, plan: &'a Plan, side: Side, block: &'a [u8]) -> End<'a> {
        End { socket, plan, side, block, buffer: vec![0; PIECE], moved: 0, received: 0 }
    }

    /// Does what the plan says, and sees how the flow ends.
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
            self.socket.shutdown(Shutdown::Write)?;
        }
        match uninterrupted(|| self.socket.read(&mut self.buffer))? {
            0 => Ok(Ending::Whole),
            _ => Err(wrong(format!("{:?} got more than was sent", self.side))),
        }
    }

    /// How many bytes it may still move before its own reset.
    fn left(&self) -> Option<u64> {
        let (_, after) = self.plan.reset.filter(|(side, _)| *side == self.side)?;
        Some(after.saturating_sub(self.moved))
    }

    /// False when its own reset is due.
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

    /// False when its own reset is due.
    fn receive(&mut self, bytes: u64) -> io::Result<bool> {
        while self.received < bytes {
            let length = (bytes - self.received).min(self.left().unwrap_or(u64::MAX)).min(PIECE as u64) as usize;
            if length == 0 {
                return Ok(false);
            }
            let got = uninterrupted(|| self.socket.read(&mut self.buffer[..length]))?;
            if got == 0 {
                let received = self.received;
                return Err(wrong(format!("{:?} got FIN after {received} of {bytes} bytes", self.side)));
            }
            if !matches(self.block, self.plan.seed + self.received, &self.buffer[..got]) {
                return Err(wrong(format!("{:?} got wrong bytes after {} bytes", self.side, self.received)));
            }
            self.received += got as u64;
            self.moved += got as u64;
        }
        Ok(true)
    }
}

fn patient(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

fn wrong(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Longer than any relay at its defaults leaves a host in silence.
const PATIENCE: Duration = Duration::from_secs(130);
/// How soon the other end must know.
const LATE: Duration = Duration::from_secs(15);
/// Threads on host B for each client.
const WAITING: u32 = 4;
/// Bytes of a read or write.
const PIECE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Without anything between them, the ends see what the plans say.
    #[test]
    fn every_flow_ends_as_planned() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let entry = listener.local_addr().unwrap();
        let ledger = Ledger { block: block(), ends: Mutex::default() };
        const FLOWS: u64 = 60;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..FLOWS).for_each(|_| ledger.serve(listener.accept().unwrap().0).unwrap()));
            (1..=FLOWS).for_each(|seed| ledger.request(entry, seed << 40).unwrap());
        });
        let ends = ledger.ends.lock().unwrap();
        for ((seed, side), seen) in ends.iter() {
            let wanted = match Plan::of(*seed).reset {
                None => Ending::Whole,
                Some((by, _)) if by == *side => Ending::Resets,
                Some(_) => Ending::Reset,
            };
            assert_eq!((seen.ending, seen.wrong.as_str()), (wanted, ""), "{side:?} of {seed:x}");
        }
        let resets = ends.values().filter(|seen| seen.ending == Ending::Resets).count();
        assert!(ends.len() == 2 * FLOWS as usize && resets > 20, "{resets} of {}", ends.len());
    }
}
