//! Small messages and their answers: a server on host B that answers, clients on host A, and how long it took them.
//!
//! Blocking sockets and a few threads, so that it is the same small, known cost beside whatever it is pointed at.

use crate::error::LabError;
use crate::plan::place::Host;
use crate::traffic::raw::joined;
use crate::traffic::row::Drive;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads on host B that accept connections and serve them, until dropped. They wait for whoever is being served: clients
/// must have closed before.
pub(crate) struct Server {
    listener: TcpListener,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
}

impl Server {
    /// Starts `threads` of them. Each accepts a connection and serves it with `serve`, one after the other: no thread is
    /// made for a connection, which would cost more than the connection.
    pub(crate) fn start(
        drive: &Drive<'_>,
        threads: u32,
        serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Server, LabError> {
        let address = drive.server();
        let what = format!("listening on {address}");
        let bind = move || TcpListener::bind(address).map_err(LabError::io(what));
        let mut server = Server { listener: joined(drive.wan.on(Host::B, bind))?, threads: Vec::new() };
        let serve = Arc::new(serve);
        for _ in 0..threads {
            let serve = Arc::clone(&serve);
            let listener = server.listener.try_clone();
            let listener = listener.map_err(LabError::io("sharing a socket"))?;
            let body = move || {
                while let Ok((peer, _)) = listener.accept() {
                    // A connection that was reset is its client's affair; the next one counts.
                    let _ = patient(&peer).and_then(|()| serve(peer));
                }
                Ok(())
            };
            server.threads.push(drive.wan.on(Host::B, body));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever waits in accept(2) is woken by this, with EINVAL.
        let _ = socket2::SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Answers each message of `size` bytes with itself, until the connection ends.
pub(crate) fn answer(peer: &mut TcpStream, size: usize) -> io::Result<()> {
    let mut message = vec![0; size];
    loop {
        peer.read_exact(&mut message)?;
        peer.write_all(&message)?;
    }
}

/// A connection to `entry`, for a thread on host A.
pub(crate) fn connect(entry: SocketAddr) -> io::Result<TcpStream> {
    let peer = TcpStream::connect_timeout(&entry, PATIENCE)?;
    patient(&peer)?;
    Ok(peer)
}

/// A connection to `entry` over which one message has gone there and back: its way is open from end to end.
pub(crate) fn open(entry: SocketAddr, size: usize) -> Result<TcpStream, LabError> {
    let mut peer = connect(entry).map_err(LabError::io(format!("connecting to {entry}")))?;
    once(&mut peer, size).map_err(failed)?;
    Ok(peer)
}

/// One message of `size` bytes there and back.
pub(crate) fn once(peer: &mut TcpStream, size: usize) -> io::Result<()> {
    let message = vec![b'x'; size];
    let mut answer = vec![0; size];
    peer.write_all(&message)?;
    peer.read_exact(&mut answer)?;
    if message == answer { Ok(()) } else { Err(differs()) }
}

/// One client: sends a message of `size` bytes, waits for its answer, and again while `go_on`, no more often than `every`;
/// returns how long each answer took, at least one.
///
/// # Errors
/// The connection failed, or what came back is something else.
pub(crate) fn ask(
    peer: &mut TcpStream,
    size: usize,
    every: Duration,
    go_on: impl Fn() -> bool,
) -> io::Result<Vec<Duration>> {
    // Each message begins a byte further on than the one before.
    let stream: Vec<u8> = crate::traffic::raw::block().into_iter().cycle().take(size + 251).collect();
    let mut answer = vec![0; size];
    let mut times = Vec::new();
    let mut next = Instant::now();
    loop {
        // A long pause must not outlast the end.
        while go_on() && Instant::now() < next {
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(PAUSE));
        }
        if !go_on() && !times.is_empty() {
            return Ok(times);
        }
        let began = Instant::now();
        next = began + every;
        let message = &stream[times.len() % 251..][..size];
        peer.write_all(message)?;
        peer.read_exact(&mut answer)?;
        times.push(began.elapsed());
        if message != answer {
            return Err(differs());
        }
    }
}

/// For `map_err`: turns an I/O error of messages into an error of the lab.
pub(crate) fn failed(err: io::Error) -> LabError {
    match err.kind() {
        io::ErrorKind::InvalidData => LabError::Bytes("an answer differs from its message".into()),
        _ => LabError::io("sending messages")(err),
    }
}

/// A relay that loses a byte, or an end, must end the measurement, not hang it.
fn patient(peer: &TcpStream) -> io::Result<()> {
    peer.set_nodelay(true)?;
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))
}

fn differs() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer differs")
}

/// The time within which `percent` of them were done, by nearest rank; 0 when there are none.
pub(crate) fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or_default()
}

/// Microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Longer than any answer takes, and than the pause before any message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum time until a pause sees that it is over.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_nearest_rank() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 50), Duration::from_millis(100));
        assert_eq!(quantile(&times, 99), Duration::from_millis(198));
        assert_eq!(quantile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(quantile(&[], 50), Duration::ZERO);
    }
}
