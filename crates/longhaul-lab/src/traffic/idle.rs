//! Idle flows. Measures the memory and descriptors that each costs the program on the first relay.

use crate::error::{LabError, joined};
use crate::plan::place::Host;
use crate::traffic::exchange::{self, Server};
use crate::traffic::row::{Drive, Kind, MANY, Measured, exact, varies};
use crate::world::processes::Held;
use longhaul_sys::limits;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// As many flows as the scenario has connections. Each has carried a byte in both directions.
pub(crate) const IDLE: Kind = Kind {
    name: "idle",
    what: "connections that wait",
    subject: "this traffic (idle)",
    figures: &[exact("count"), varies("opened_s"), exact("user_bytes_per_flow"), exact("descriptors_per_flow")],
    max_connections: MANY,
    run,
    ..Kind::BASE
};

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let count = drive.traffic.connections;
    let max = limits::raise_nofile()?;
    if max < u64::from(count) * 2 + SPARE {
        let err = std::io::Error::other(format!("only {max} are allowed; raise them with ulimit -Hn, or hold fewer"));
        return Err(LabError::io(format!("descriptors for both ends of {count} flows"))(err));
    }
    let held = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&held);
    let _server = Server::start(drive, WORKERS.min(count), move |mut peer: TcpStream| {
        let mut byte = [0];
        peer.read_exact(&mut byte)?;
        peer.write_all(&byte)?;
        keep.lock().unwrap_or_else(PoisonError::into_inner).push(peer);
        Ok(())
    })?;
    // The first flow loads code and starts threads that all later flows share.
    let _first = open(drive, 1)?;
    let program = drive.running.programs.first().map(|program| program.id());
    let before = program.map(Held::by).transpose()?;
    (drive.began)();
    let start = Instant::now();
    let flows = open(drive, count)?;
    let opened = start.elapsed();
    // By then a relay has released what it holds for a while after the last byte.
    std::thread::sleep((drive.traffic.time).saturating_sub(opened).max(SETTLE));
    let after = program.map(Held::by).transpose()?;
    let mut figures = vec![("count", flows.len() as f64), ("opened_s", opened.as_secs_f64())];
    if let (Some(before), Some(after)) = (before, after) {
        let each = |before: u64, after: u64| (after as f64 - before as f64) / f64::from(count);
        figures.push(("user_bytes_per_flow", each(before.private, after.private)));
        figures.push(("descriptors_per_flow", each(before.descriptors, after.descriptors)));
    }
    let bytes = flows.len() as u64;
    Ok(Measured { bytes, checked: true, speed: bytes as f64 / opened.as_secs_f64(), figures, ..Measured::default() })
}

/// Opens `count` flows from host A. Several workers share the work, because each flow takes some round trips.
fn open(drive: &Drive<'_>, count: u32) -> Result<Vec<TcpStream>, LabError> {
    let entry = drive.running.entry;
    let workers = WORKERS.min(count);
    let share = move |worker| count / workers + u32::from(worker < count % workers);
    let working: Vec<_> = (0..workers)
        .map(|worker| {
            drive.wan.on(Host::A, move || {
                (0..share(worker)).map(|_| exchange::open(entry, 1)).collect::<Result<Vec<TcpStream>, LabError>>()
            })
        })
        .collect();
    let mut flows = Vec::new();
    for worker in working {
        flows.extend(joined(worker)?);
    }
    Ok(flows)
}

/// Maximum number of flows opened at once: enough to hide the delay of a long path, and not a flood.
const WORKERS: u32 = 64;
/// Descriptors that the lab needs in addition.
const SPARE: u64 = 200;
const SETTLE: Duration = Duration::from_millis(500);
