//! Small messages across an outage of the link, one connection each way. Measures the time from the return of the link to the
//! first byte that arrives.

use crate::error::LabError;
use crate::plan::place::Direction;
use crate::traffic::exchange;
use crate::traffic::raw;
use crate::traffic::row::{Drive, Kind, Measured, varies};
use crate::traffic::stream::{BLOCK, block, matches};
use longhaul_sys::uninterrupted;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A message every 50 ms on one connection from A to B and one from B to A. They end once bytes have arrived on both after the
/// last outage of the schedule, whatever the scenario's time.
pub(crate) const OUTAGE: Kind = Kind {
    name: "outage",
    what: "small messages across the outage of the schedule: seconds from its end to the first byte",
    subject: "this traffic (outage)",
    figures: &[varies("up_s"), varies("down_s")],
    max_connections: 1,
    run,
    ..Kind::BASE
};

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let schedules = Direction::BOTH.into_iter().flat_map(|direction| drive.setup.link.schedule(direction));
    let end = schedules.filter(|change| change.row().key == "down").filter_map(|change| change.end()).max();
    let end = end.ok_or_else(|| LabError::Lacking("no outage ends: write link.down, such as \"5s to 25s\"".into()))?;
    let listener = raw::listener(drive)?;
    let (up, down) = (raw::open(drive, &listener)?, raw::open(drive, &listener)?);
    for socket in [&up.0, &up.1, &down.0, &down.1] {
        exchange::patient(socket, end + LONGEST_WAIT).map_err(LabError::io("setting timeouts"))?;
    }
    (drive.began)();
    let back = Instant::now() + end;
    let enough = [AtomicBool::new(false), AtomicBool::new(false)];
    let is_enough = || enough.iter().all(|enough| enough.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        let mut directions = Vec::new();
        for ((sender, receiver), enough) in [up, (down.1, down.0)].into_iter().zip(&enough) {
            let sends = scope.spawn(move || send(sender, is_enough));
            directions.push((sends, scope.spawn(move || receive(receiver, back, enough))));
        }
        let mut measured = Measured { checked: true, ..Measured::default() };
        for ((sends, receives), figure) in directions.into_iter().zip(["up_s", "down_s"]) {
            let panicked = |_| LabError::Panicked("a thread of the messages");
            let received = receives.join().map_err(panicked)?;
            // The other direction must not wait for this one if it failed.
            enough.iter().filter(|_| received.is_err()).for_each(|enough| enough.store(true, Ordering::Relaxed));
            let (got, first) = received?;
            let sent = sends.join().map_err(panicked)??;
            if got != sent {
                return Err(LabError::Bytes(format!("the stream ended after {got} of {sent} bytes")));
            }
            measured.bytes += got;
            measured.figures.push((figure, first.as_secs_f64()));
        }
        Ok(measured)
    })
}

/// Sends a message every 50 ms until `is_enough`. Returns the number of bytes.
fn send(mut socket: TcpStream, is_enough: impl Fn() -> bool) -> Result<u64, LabError> {
    let mut sent = 0;
    while !is_enough() {
        let rest = &block()[sent % BLOCK..];
        let message = &rest[..rest.len().min(MESSAGE)];
        socket.write_all(message).map_err(LabError::io("sending"))?;
        sent += message.len();
        std::thread::sleep(INTERVAL);
    }
    socket.shutdown(Shutdown::Write).map_err(LabError::io("sending"))?;
    Ok(sent as u64)
}

/// Compares the messages until the stream ends. Returns the number of bytes, and the time from `back` to the first one after it;
/// sets `enough` then.
fn receive(mut socket: TcpStream, back: Instant, enough: &AtomicBool) -> Result<(u64, Duration), LabError> {
    let (mut got, mut first) = (0, None);
    let mut message = [0; MESSAGE];
    loop {
        let read = uninterrupted(|| socket.read(&mut message));
        let length = read.map_err(LabError::io(format!("receiving after {got} bytes")))?;
        if length == 0 {
            let none = || LabError::Unfinished("no byte arrived after the outage".into());
            return Ok((got, first.ok_or_else(none)?));
        }
        if !matches(block(), got, &message[..length]) {
            return Err(LabError::Bytes(format!("wrong bytes arrived after {got}")));
        }
        got += length as u64;
        let since = Instant::now().checked_duration_since(back);
        if let (None, Some(since)) = (first, since) {
            first = Some(since);
            enough.store(true, Ordering::Relaxed);
        }
    }
}

/// Bytes of a message.
const MESSAGE: usize = 64;
const INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait for the first byte after an outage. The kernel's own timer waits 2 minutes at most.
const LONGEST_WAIT: Duration = Duration::from_secs(150);
