//! Raw TCP: a generator and a sink that check every byte.
//!
//! The stream is one block of pseudo-random bytes over and over. Its length is a prime, so bytes that are missing,
//! doubled or out of place do not match whatever the size of the pieces they came in.

use super::problem::Problem;
use super::spec::Host;
use super::wan::Wan;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A transfer that arrived whole.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Bytes that arrived, each compared with what was sent.
    pub bytes: u64,
    /// From connecting to the end of the stream at the far end.
    pub took: Duration,
}

/// Sends `bytes` from `from` to `entry`, which leads to a sink on `to` that listens on `sink`; counts what has arrived
/// in `arrived`.
///
/// # Errors
/// A connection failed, nothing moved for a minute, or what arrived is not what was sent.
pub fn transfer(
    wan: &Wan,
    (from, entry): (Host, SocketAddr),
    (to, sink): (Host, SocketAddr),
    bytes: u64,
    arrived: &Arc<AtomicU64>,
) -> Result<Outcome, Problem> {
    let listening = wan.on(to, move || TcpListener::bind(sink).map_err(Problem::io(format!("listening on {sink}"))));
    let listener = joined(listening)?;
    let counter = Arc::clone(arrived);
    let receiver = std::thread::spawn(move || receive(&listener, bytes, &counter));
    let start = Instant::now();
    let sent = joined(wan.on(from, move || send(entry, bytes)));
    if sent.is_err() && !receiver.is_finished() {
        // It may still wait for a connection, and would for ever: give it one that brings nothing.
        let woken = wan.on(to, move || TcpStream::connect(sink).map_err(Problem::io("waking the sink")));
        drop(joined(woken));
    }
    match (sent, joined(receiver)) {
        (Ok(()), end) => Ok(Outcome { bytes, took: end?.duration_since(start) }),
        // Wrong bytes say more than a connection that was closed because of them.
        (Err(_), Err(why @ Problem::Bytes(_))) if arrived.load(Ordering::Relaxed) > 0 => Err(why),
        (Err(why), _) => Err(why),
    }
}

fn send(entry: SocketAddr, bytes: u64) -> Result<(), Problem> {
    let what = || format!("sending to {entry}");
    let mut socket = TcpStream::connect(entry).map_err(Problem::io(format!("connecting to {entry}")))?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(Problem::io(what()))?;
    let block = block();
    let mut sent = 0;
    while sent < bytes {
        let rest = &block[(sent % BLOCK as u64) as usize..];
        let length = (rest.len() as u64).min(bytes - sent) as usize;
        sent += socket.write(&rest[..length]).map_err(Problem::io(what()))? as u64;
    }
    socket.shutdown(Shutdown::Write).map_err(Problem::io(what()))?;
    // The sink closes when it has everything; a reset before that is a broken path.
    socket.set_read_timeout(Some(PATIENCE)).map_err(Problem::io(what()))?;
    match socket.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Problem::Bytes("the sink sent something, which it never does".into())),
        Err(err) => Err(Problem::io(format!("waiting for {entry} to have everything"))(err)),
    }
}

/// Takes one connection and compares what comes; the time at which the last byte was there.
fn receive(listener: &TcpListener, bytes: u64, arrived: &AtomicU64) -> Result<Instant, Problem> {
    let (mut socket, _) = listener.accept().map_err(Problem::io("accepting"))?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(Problem::io("receiving"))?;
    let block = block();
    let mut buffer = vec![0; 1 << 18];
    let mut got = 0u64;
    loop {
        let length = match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(err) if err.kind() == ErrorKind::Interrupted => continue,
            Err(err) => return Err(Problem::io(format!("receiving after {got} of {bytes} bytes"))(err)),
        };
        if !matches(&block, got, &buffer[..length]) {
            return Err(Problem::Bytes(format!("wrong bytes arrived between {got} and {}", got + length as u64)));
        }
        got += length as u64;
        arrived.store(got, Ordering::Relaxed);
    }
    match got == bytes {
        true => Ok(Instant::now()),
        false => Err(Problem::Bytes(format!("the stream ended after {got} of {bytes} bytes"))),
    }
}

/// Whether `bytes` are what the stream has at `offset`.
fn matches(block: &[u8], offset: u64, mut bytes: &[u8]) -> bool {
    let mut at = (offset % BLOCK as u64) as usize;
    while !bytes.is_empty() {
        let length = bytes.len().min(BLOCK - at);
        if bytes[..length] != block[at..at + length] {
            return false;
        }
        (bytes, at) = (&bytes[length..], 0);
    }
    true
}

/// The block that the stream repeats.
pub(super) fn block() -> Vec<u8> {
    let mut state = 0x6c6f_6e67_6861_756cu64;
    let mut next = || {
        // xorshift64 (Marsaglia, 2003): no byte of it compresses.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(&mut next).take(BLOCK).collect()
}

fn joined<T>(thread: JoinHandle<Result<T, Problem>>) -> Result<T, Problem> {
    thread.join().unwrap_or_else(|_| Err(Problem::Bytes("a thread of the transfer ended early".into())))
}

/// The largest prime below 2^20.
const BLOCK: usize = 1_048_573;
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_place_does_not_match() {
        let block = block();
        let stream: Vec<u8> = block.iter().chain(&block).copied().collect();
        assert!(matches(&block, BLOCK as u64 * 7 + 100, &stream[100..BLOCK + 5000]));
        assert!(!matches(&block, 101, &stream[100..5000]));
        assert!(!matches(&block, 65_536, &stream[..65_536]));
    }
}
