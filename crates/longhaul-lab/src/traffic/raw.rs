//! Raw TCP: a generator and a sink that check every byte of the [`stream`](crate::traffic::stream).

use crate::error::{LabError, joined};
use crate::plan::law;
use crate::plan::place::{Direction, Host};
use crate::traffic::row::{Counts, Drive, Heeds, Kind, LARGEST_STREAM, Measured, warm_up};
use crate::traffic::stream::{BLOCK, block, matches};
use crate::world::wan::Wan;
use longhaul_sys::uninterrupted;
use longhaul_units::Bytes;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that send as fast as they can for a while.
pub(crate) const RAW: Kind = Kind {
    name: "raw",
    what: "raw TCP",
    subject: "this TCP transfer",
    laws: &[law::WINDOW],
    counts: Counts::Speed,
    keys: &[Heeds::Direction],
    max_size: LARGEST_STREAM,
    run,
    ..Kind::BASE
};

/// The end of a sender's stream.
#[derive(Clone, Copy, Debug)]
enum Until {
    Bytes(u64),
    Time(Duration),
}

/// Sends for the scenario's time, or its size, up or down.
fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let bulk = Bulk::open(drive, &listener(drive)?)?;
    (drive.began)();
    bulk.run(drive)
}

/// Returns a listener on host B, for [`Bulk`] and for the messages beside it.
pub(crate) fn listener(drive: &Drive<'_>) -> Result<TcpListener, LabError> {
    let server = drive.server();
    joined(drive.wan.on(Host::B, move || listen(server)))
}

/// The scenario's connections, open and idle.
pub(crate) struct Bulk {
    pairs: Vec<Pair>,
}

impl Bulk {
    /// Opens the connections.
    pub(crate) fn open(drive: &Drive<'_>, listener: &TcpListener) -> Result<Bulk, LabError> {
        // On a busy machine the block takes longer than a short run. It must exist before the clock starts.
        block();
        let pairs = (0..drive.traffic.connections).map(|_| Pair::open(drive, listener)).collect::<Result<_, _>>()?;
        Ok(Bulk { pairs })
    }

    /// Sends on all connections.
    pub(crate) fn run(self, drive: &Drive<'_>) -> Result<Measured, LabError> {
        match drive.traffic.size {
            Some(size) => self.send_bytes(size),
            None => self.send_for(drive),
        }
    }

    /// Sends for the scenario's time and returns the speed after the start.
    ///
    /// When the time is over, bytes in flight get the same time again to arrive. Then the connection is cut off. If no byte has
    /// arrived yet, the first byte gets [`SILENCE`]. A path that carries nothing is a result with the speed 0, not an error.
    pub(crate) fn send_for(self, drive: &Drive<'_>) -> Result<Measured, LabError> {
        let time = drive.traffic.time;
        let arrived = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let connections = self.start(Until::Time(time), &arrived)?;
        std::thread::sleep(warm_up(drive.setup, time));
        let from = Instant::now();
        let before = arrived.load(Ordering::Relaxed);
        std::thread::sleep((start + time).saturating_duration_since(from));
        let to = Instant::now();
        let after = arrived.load(Ordering::Relaxed);
        let latest = || match arrived.load(Ordering::Relaxed) {
            0 => to + SILENCE,
            _ => to + time.max(DRAIN),
        };
        let ends = connections.into_iter().map(|connection| connection.end(latest)).collect::<Result<Vec<End>, _>>()?;
        let bytes = ends.iter().map(|end| end.bytes).sum();
        let cut = ends.iter().filter(|end| end.is_cut).count();
        Ok(Measured { bytes, cut, checked: true, ..Measured::between(after - before, from, to) })
    }

    /// Sends exactly `size` on each connection. Returns the speed from the first byte to the last.
    fn send_bytes(self, size: Bytes) -> Result<Measured, LabError> {
        let start = Instant::now();
        let mut bytes = 0;
        let mut last = start;
        for connection in self.start(Until::Bytes(size.0), &Arc::default())? {
            let end = connection.end(|| start + LONGEST)?;
            if end.bytes != size.0 {
                return Err(LabError::Unfinished(format!(
                    "{} of {} bytes arrived in {}",
                    end.bytes,
                    size.0,
                    longhaul_units::show_duration(LONGEST)
                )));
            }
            (bytes, last) = (bytes + end.bytes, last.max(end.last));
        }
        Ok(Measured { checked: true, ..Measured::between(bytes, start, last) })
    }

    fn start(self, until: Until, arrived: &Arc<AtomicU64>) -> Result<Vec<Connection>, LabError> {
        self.pairs.into_iter().map(|pair| pair.start(until, Arc::clone(arrived))).collect()
    }
}

/// Both ends of an idle connection.
struct Pair {
    sender: TcpStream,
    receiver: TcpStream,
}

/// A connection in use.
struct Connection {
    /// The receiver's socket, to cut the connection off.
    socket: TcpStream,
    /// Whether the connection was cut off.
    is_cut: Arc<AtomicBool>,
    sender: JoinHandle<Result<u64, LabError>>,
    receiver: JoinHandle<Result<(u64, Instant), LabError>>,
}

/// The end of a connection.
struct End {
    /// Bytes that arrived, all of them compared.
    bytes: u64,
    /// The time at which the last byte arrived.
    last: Instant,
    /// Whether the connection was cut off.
    is_cut: bool,
}

impl Pair {
    /// Opens a connection. Connections are opened one after the other, so that each accepted socket belongs to the client just
    /// made.
    fn open(drive: &Drive<'_>, listener: &TcpListener) -> Result<Pair, LabError> {
        let (client, accepted) = open(drive, listener)?;
        let (sender, receiver) = match drive.traffic.direction {
            Direction::Out => (client, accepted),
            Direction::Back => (accepted, client),
        };
        // Limits the unsent bytes for which the end of the time would have to wait.
        let kept = socket2::SockRef::from(&sender).set_tcp_notsent_lowat(UNSENT);
        kept.map_err(LabError::io("setting TCP_NOTSENT_LOWAT"))?;
        Ok(Pair { sender, receiver })
    }

    fn start(self, until: Until, arrived: Arc<AtomicU64>) -> Result<Connection, LabError> {
        let Pair { sender, receiver } = self;
        let socket = receiver.try_clone().map_err(LabError::io("keeping a socket"))?;
        let sender = std::thread::spawn(move || send(sender, until));
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let receiver = std::thread::spawn(move || receive(receiver, &arrived, &cut));
        Ok(Connection { socket, is_cut, sender, receiver })
    }
}

impl Connection {
    /// Waits for the end of the connection. Cuts it off if it has not ended by `latest`, which may change meanwhile.
    fn end(self, latest: impl Fn() -> Instant) -> Result<End, LabError> {
        let is_over = || self.sender.is_finished() && self.receiver.is_finished();
        while !is_over() && Instant::now() < latest() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_cut = !is_over();
        if is_cut {
            // The receiver then ends without an error. The sender sees the end of the connection, or runs until its time is over.
            self.is_cut.store(true, Ordering::Relaxed);
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        let (got, last) = joined(self.receiver)?;
        let end = End { bytes: got, last, is_cut };
        if is_cut {
            return Ok(end);
        }
        match joined(self.sender)? {
            sent if sent == got => Ok(end),
            sent => Err(LabError::Bytes(format!("the stream ended after {got} of {sent} bytes"))),
        }
    }
}

/// Opens a connection. Returns A's end and B's end.
pub(crate) fn open(drive: &Drive<'_>, listener: &TcpListener) -> Result<(TcpStream, TcpStream), LabError> {
    let entry = drive.running.entry;
    meet(listener, drive.wan.on(Host::A, move || connect(entry)))
}

/// Sends `bytes` bytes from host A to the address `sink` of host B, and compares them. Returns the time that it took.
///
/// # Errors
/// A connection failed, nothing moved for a minute, or the received bytes differ from the sent bytes.
pub fn transfer(wan: &Wan, sink: SocketAddr, bytes: u64) -> Result<Duration, LabError> {
    let listener = joined(wan.on(Host::B, move || listen(sink)))?;
    let (sender, receiver) = meet(&listener, wan.on(Host::A, move || connect(sink)))?;
    Bulk { pairs: vec![Pair { sender, receiver }] }.send_bytes(Bytes(bytes)).map(|measured| measured.over)
}

fn listen(sink: SocketAddr) -> Result<TcpListener, LabError> {
    let what = format!("listening on {sink}");
    let listener = TcpListener::bind(sink).map_err(LabError::io(what.clone()))?;
    listener.set_nonblocking(true).map_err(LabError::io(what))?;
    Ok(listener)
}

fn connect(entry: SocketAddr) -> Result<TcpStream, LabError> {
    let socket = TcpStream::connect(entry).map_err(LabError::io(format!("connecting to {entry}")))?;
    patient(&socket).map(|()| socket).map_err(LabError::io("connecting"))
}

/// Sets timeouts. Nagle's algorithm stays as it is in a program that moves bulk.
fn patient(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

/// Returns both ends of the connection that `client` opens.
fn meet(
    listener: &TcpListener,
    client: JoinHandle<Result<TcpStream, LabError>>,
) -> Result<(TcpStream, TcpStream), LabError> {
    let accepted = accept(listener, &client);
    if let (Err(why), false) = (&accepted, client.is_finished()) {
        return Err(LabError::NotConnected(format!("{why}, and the client's connect did not return")));
    }
    // The client's error is the cause, so it comes before an accept that timed out.
    let client = joined(client)?;
    Ok((client, accepted?))
}

/// Accepts the connection that `client` opens. Returns an error if none arrives in time, even if the client is connected.
fn accept(listener: &TcpListener, client: &JoinHandle<Result<TcpStream, LabError>>) -> Result<TcpStream, LabError> {
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                let what = LabError::io("accepting");
                return socket.set_nonblocking(false).and_then(|()| patient(&socket)).map(|()| socket).map_err(what);
            }
            Err(err) if err.kind() == ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {
                // A relay may have accepted the client and failed to dial. Then no connection arrives here.
                if client.is_finished() && start.elapsed() > GRACE {
                    return Err(LabError::NotConnected(
                        "the client connected, but no connection arrived at the far end".into(),
                    ));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(err) => return Err(LabError::io("accepting")(err)),
        }
    }
}

/// Sends the stream. Waits until the receiver has every byte and closes. Returns the number of bytes sent.
fn send(mut socket: TcpStream, until: Until) -> Result<u64, LabError> {
    let what = "sending";
    let block = block();
    let start = Instant::now();
    let mut sent = 0;
    loop {
        let left = match until {
            Until::Bytes(bytes) => bytes - sent,
            Until::Time(time) if start.elapsed() < time => u64::MAX,
            Until::Time(_) => 0,
        };
        if left == 0 {
            break;
        }
        let rest = &block[(sent % BLOCK as u64) as usize..];
        let length = (rest.len() as u64).min(left).min(PIECE) as usize;
        match uninterrupted(|| socket.write(&rest[..length])) {
            Ok(written) => sent += written as u64,
            Err(err) => return Err(LabError::io(what)(err)),
        }
    }
    socket.shutdown(Shutdown::Write).map_err(LabError::io(what))?;
    // The sink closes when it has every byte. An earlier reset means that the path is broken.
    match uninterrupted(|| socket.read(&mut [0])) {
        Ok(0) => Ok(sent),
        Ok(_) => Err(LabError::Bytes("bytes came back from the sink, which never sends".into())),
        Err(err) => Err(LabError::io("waiting for the far end to receive every byte")(err)),
    }
}

/// Compares received bytes with the stream until the connection ends or is cut off. Returns the number of bytes, and the time
/// of the end.
fn receive(mut socket: TcpStream, arrived: &AtomicU64, is_cut: &AtomicBool) -> Result<(u64, Instant), LabError> {
    let block = block();
    let mut buffer = vec![0; 1 << 18];
    let mut got = 0u64;
    loop {
        let length = match uninterrupted(|| socket.read(&mut buffer)) {
            Ok(0) => {
                // Dropping the socket would not end the connection, because a copy of the descriptor is open. An error is
                // ignored, because a sender that has ended reports its own.
                let _ = socket.shutdown(Shutdown::Write);
                return Ok((got, Instant::now()));
            }
            Ok(length) => length,
            // RFC 1122 4.2.2.13: data that arrives after the cut gets a reset, which ends the connection here too.
            Err(_) if is_cut.load(Ordering::Relaxed) => return Ok((got, Instant::now())),
            Err(err) => return Err(LabError::io(format!("receiving after {got} bytes"))(err)),
        };
        if !matches(block, got, &buffer[..length]) {
            return Err(LabError::Bytes(format!("wrong bytes arrived between {got} and {}", got + length as u64)));
        }
        got += length as u64;
        arrived.fetch_add(length as u64, Ordering::Relaxed);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time of a transfer with a fixed size.
const LONGEST: Duration = Duration::from_secs(600);
/// Maximum time from a client's connect until the connection arrives at the far end.
const GRACE: Duration = Duration::from_secs(15);
/// Minimum time that bytes in flight get when the time is over.
const DRAIN: Duration = Duration::from_secs(15);
/// Additional time for the first byte when the time is over, because a busy machine may not have begun. Short, because a path
/// that carries nothing waits for all of it.
const SILENCE: Duration = Duration::from_secs(3);
/// Maximum of unsent bytes in a sender's socket: twice what a super-packet needs, and soon sent.
const UNSENT: u32 = 1 << 20;
/// Maximum bytes of a write: small, so that a slow sender notices the end of its time.
const PIECE: u64 = 128 << 10;
