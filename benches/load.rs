//! The load generator of `benches/run`: what iperf3 does not measure. Blocking sockets and threads on purpose, so that
//! it is the same small, known cost beside each relay that it is pointed at.
//!
//! ```text
//! bench-load serve ADDR THREADS            echoes each connection's bytes until its end; prints "ready"
//! bench-load serve-hold ADDR               echoes one byte of each connection, then keeps it open; prints "ready"
//! bench-load rate ADDR THREADS SECONDS     connect, one byte there and back, close; prints JSON
//! bench-load pingpong ADDR COUNT           one byte there and back, COUNT times on one connection; prints JSON
//! bench-load hold ADDR COUNT               opens COUNT connections, one byte each, prints "ready", ends at EOF of stdin
//! ```

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", address, threads] => number(threads).and_then(|threads| serve(address, threads)),
        ["serve-hold", address] => serve_hold(address),
        ["rate", address, threads, seconds] => {
            number(threads).and_then(|threads| rate(address, threads, number(seconds)?))
        }
        ["pingpong", address, count] => number(count).and_then(|count| pingpong(address, count)),
        ["hold", address, count] => number(count).and_then(|count| hold(address, count)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: see the head of benches/load.rs")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("bench-load {}: {err}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn number(word: &str) -> io::Result<u32> {
    word.parse().map_err(|err| io::Error::new(io::ErrorKind::InvalidInput, format!("{word}: {err}")))
}

/// Each thread accepts and serves one connection after the other: no thread is made per connection, which would cost
/// more than the connection.
fn serve(address: &str, threads: u32) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("ready");
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // A connection that was reset is its client's affair; the next one counts.
                    let _ = listener.accept().and_then(|(peer, _)| echo(peer));
                }
            });
        }
    });
    Ok(())
}

fn echo(mut peer: TcpStream) -> io::Result<()> {
    peer.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    loop {
        match peer.read(&mut buffer)? {
            0 => return Ok(()),
            count => peer.write_all(&buffer[..count])?,
        }
    }
}

fn serve_hold(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("ready");
    let mut held = Vec::new();
    loop {
        let (mut peer, _) = listener.accept()?;
        let mut byte = [0];
        // An end before the byte is a connection nobody holds.
        if peer.read_exact(&mut byte).and_then(|()| peer.write_all(&byte)).is_ok() {
            held.push(peer);
        }
    }
}

/// One byte there and back on a connection that is already open.
fn round(peer: &mut TcpStream) -> io::Result<()> {
    peer.write_all(b"x")?;
    peer.read_exact(&mut [0])
}

fn open(address: &str) -> io::Result<TcpStream> {
    let peer = TcpStream::connect(address)?;
    peer.set_nodelay(true)?;
    // A relay that loses a byte must end the measurement, not hang it.
    peer.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(peer)
}

fn rate(address: &str, threads: u32, seconds: u32) -> io::Result<()> {
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds.into());
    let workers: Vec<(Vec<Duration>, u32)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| connect_until(address, end))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
    });
    let elapsed = began.elapsed().as_secs_f64();
    let failed: u32 = workers.iter().map(|(_, failed)| failed).sum();
    let times: Vec<Duration> = workers.into_iter().flat_map(|(times, _)| times).collect();
    let per_second = times.len() as f64 / elapsed;
    println!("{{\"per_second\": {per_second:.1}, \"failed\": {failed}, {}}}", quantiles(times));
    Ok(())
}

fn connect_until(address: &str, end: Instant) -> (Vec<Duration>, u32) {
    let (mut times, mut failed) = (Vec::new(), 0);
    while Instant::now() < end {
        let began = Instant::now();
        match open(address).and_then(|mut peer| round(&mut peer)) {
            Ok(()) => times.push(began.elapsed()),
            Err(_) => failed += 1,
        }
    }
    (times, failed)
}

fn pingpong(address: &str, count: u32) -> io::Result<()> {
    let mut peer = open(address)?;
    let warm_up = count / 10;
    for _ in 0..warm_up {
        round(&mut peer)?;
    }
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let began = Instant::now();
        round(&mut peer)?;
        times.push(began.elapsed());
    }
    println!("{{{}}}", quantiles(times));
    Ok(())
}

fn hold(address: &str, count: u32) -> io::Result<()> {
    let mut held = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let mut peer = open(address)?;
        round(&mut peer)?;
        held.push(peer);
    }
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// `"count": N, "p50_us": .., "p99_us": ..`, by nearest rank.
fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
        times.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    format!("\"count\": {}, \"p50_us\": {:.1}, \"p99_us\": {:.1}", times.len(), at(50), at(99))
}
