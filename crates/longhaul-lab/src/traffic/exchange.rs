//! Small messages and their answers: a server on host B that answers, clients on host A, and the times of the answers.
//!
//! Blocking sockets and a few threads keep the cost small, known, and equal for all carriers.

use crate::error::{LabError, joined};
use crate::plan::place::Host;
use crate::traffic::row::Drive;
use crate::traffic::stream::{block, matches};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads on host B that accept connections and serve them. The drop waits for connections being served, so clients must close
/// theirs before.
pub(crate) struct Server {
    listener: TcpListener,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
}

impl Server {
    /// Starts `threads` threads. Each accepts connections and serves them with `serve`, one after the other. There is no thread
    /// per connection, because its start would cost more than the connection.
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
                    // A reset is the client's business. The thread continues with the next connection.
                    let _ = patient(&peer, PATIENCE).and_then(|()| serve(peer));
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
        // Wakes the threads in accept(2), which fails with EINVAL.
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

/// Connects to `entry`, for a thread on host A. Neither the connection nor a later read or write takes longer than `patience`.
pub(crate) fn connect(entry: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let peer = TcpStream::connect_timeout(&entry, patience)?;
    patient(&peer, patience)?;
    Ok(peer)
}

/// Connects to `entry` and exchanges one message, so that the connection is open from end to end.
pub(crate) fn open(entry: SocketAddr, size: usize) -> Result<TcpStream, LabError> {
    let mut peer = connect(entry, PATIENCE).map_err(LabError::io(format!("connecting to {entry}")))?;
    once(&mut peer, size).map_err(failed)?;
    Ok(peer)
}

/// Sends one message of `size` bytes and receives its answer.
pub(crate) fn once(peer: &mut TcpStream, size: usize) -> io::Result<()> {
    let message = vec![b'x'; size];
    let mut answer = vec![0; size];
    peer.write_all(&message)?;
    peer.read_exact(&mut answer)?;
    if message == answer { Ok(()) } else { Err(differs()) }
}

/// Runs one client: sends a message of `size` bytes, waits for its answer, and repeats this while `go_on` returns true. Messages
/// are at least `every` apart. Returns the time of each answer, at least one.
///
/// # Errors
/// The connection failed, or an answer differs from its message.
pub(crate) fn ask(
    peer: &mut TcpStream,
    size: usize,
    every: Duration,
    go_on: impl Fn() -> bool,
) -> io::Result<Vec<Duration>> {
    let messages = Messages::of(size);
    let mut answer = vec![0; size];
    let mut times = Vec::new();
    let mut next = Instant::now();
    loop {
        // A long pause must end when `go_on` does.
        while go_on() && Instant::now() < next {
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(PAUSE));
        }
        if !go_on() && !times.is_empty() {
            return Ok(times);
        }
        let began = Instant::now();
        next = began + every;
        let message = messages.get(times.len());
        peer.write_all(message)?;
        peer.read_exact(&mut answer)?;
        times.push(began.elapsed());
        if message != answer {
            return Err(differs());
        }
    }
}

/// Messages of one size. Each begins one byte later in the stream than the previous one.
struct Messages {
    stream: Vec<u8>,
    size: usize,
}

impl Messages {
    fn of(size: usize) -> Messages {
        Messages { stream: block().iter().copied().cycle().take(size + 251).collect(), size }
    }

    fn get(&self, number: usize) -> &[u8] {
        &self.stream[number % 251..][..self.size]
    }
}

/// A message and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The time at which the message was due.
    pub(crate) asked: Instant,
    /// The time from then to the end of its answer.
    pub(crate) time: Duration,
}

/// Sends a message of `size` bytes `every` so often until `end`, whether the answers have come or not, and calls `tell` with each
/// answer. A message waits behind those that were not answered, as a user's do. Returns all answers.
///
/// # Errors
/// The connection failed, or an answer differs from its message.
pub(crate) fn echo(
    peer: &mut TcpStream,
    size: usize,
    every: Duration,
    end: Instant,
    tell: impl Fn(Answer),
) -> io::Result<Vec<Answer>> {
    let messages = &Messages::of(size);
    let start = Instant::now();
    let due = move |number: usize| start + every * number as u32;
    let mut writer = peer.try_clone()?;
    std::thread::scope(|scope| {
        let writes = scope.spawn(move || {
            let mut sent = 0;
            while sent == 0 || due(sent) < end {
                std::thread::sleep(due(sent).saturating_duration_since(Instant::now()));
                writer.write_all(messages.get(sent))?;
                sent += 1;
            }
            Ok::<usize, io::Error>(sent)
        });
        let mut answers = Vec::new();
        let mut answer = vec![0; size];
        while answers.is_empty() || due(answers.len()) < end {
            peer.read_exact(&mut answer)?;
            let asked = due(answers.len());
            let answered = Answer { asked, time: asked.elapsed() };
            if messages.get(answers.len()) != answer {
                return Err(differs());
            }
            tell(answered);
            answers.push(answered);
        }
        let wrong = || io::Error::other("the thread that sends the messages panicked");
        writes.join().map_err(|_| wrong())??;
        Ok(answers)
    })
}

/// Sends a request of `size` bytes and waits for the answer of one byte.
pub(crate) fn request(peer: &mut TcpStream, size: usize) -> io::Result<()> {
    let bytes: Vec<u8> = block().iter().copied().cycle().take(size).collect();
    peer.write_all(&bytes)?;
    let mut answer = [0];
    peer.read_exact(&mut answer)?;
    if answer == [RIGHT] { Ok(()) } else { Err(differs()) }
}

/// Receives one [`request`] of `size` bytes, compares it, and answers with one byte.
pub(crate) fn serve_once(peer: &mut TcpStream, size: usize) -> io::Result<()> {
    let mut bytes = vec![0; size];
    peer.read_exact(&mut bytes)?;
    let answer = if matches(block(), 0, &bytes) { RIGHT } else { WRONG };
    peer.write_all(&[answer])?;
    // The client closes first, so that its end keeps the port.
    let _ = peer.read(&mut [0]);
    Ok(())
}

/// Turns an I/O error of messages into an error of the lab, for `map_err`.
pub(crate) fn failed(err: io::Error) -> LabError {
    match err.kind() {
        io::ErrorKind::InvalidData => LabError::Bytes("an answer differs from its message".into()),
        _ => LabError::io("sending messages")(err),
    }
}

/// Sets timeouts, so that a relay that loses a byte or an ending does not hang the measurement.
pub(crate) fn patient(peer: &TcpStream, patience: Duration) -> io::Result<()> {
    peer.set_nodelay(true)?;
    peer.set_read_timeout(Some(patience))?;
    peer.set_write_timeout(Some(patience))
}

fn differs() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer differs")
}

/// Returns the median and the 99th percentile of `times`, as multiples of `unit`.
pub(crate) fn percentiles(mut times: Vec<Duration>, unit: Duration) -> [f64; 2] {
    times.sort_unstable();
    [50, 99].map(|percent| quantile(&times, percent).as_secs_f64() / unit.as_secs_f64())
}

/// Returns the `percent` percentile of sorted times, by nearest rank; 0 if there are none.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or_default()
}

/// The answer to a request that arrived as it was sent, and to another one.
const RIGHT: u8 = b'+';
const WRONG: u8 = b'-';
/// Timeout of a read or write: longer than any answer, and than the pause before any message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum time until a pause notices its end.
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
