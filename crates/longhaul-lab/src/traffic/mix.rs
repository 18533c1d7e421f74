//! Bulk transfers with an interactive session beside them. Measures how long a small message waits behind the bulk.

use crate::error::LabError;
use crate::plan::law;
use crate::traffic::exchange::{self, ask, percentiles};
use crate::traffic::raw::{self, Bulk};
use crate::traffic::row::{Counts, Drive, Heeds, Kind, LARGEST_MESSAGE, Measured, varies};
use std::time::{Duration, Instant};

/// Raw transfers on the scenario's connections, and one more connection with small messages both ways. The scenario's rate is
/// the number of messages per second, and `size` is the size of a message. The speed is that of the bulk.
pub(crate) const MIX: Kind = Kind {
    name: "mix",
    what: "bulk transfers, and small messages beside them",
    subject: "this traffic (mix)",
    laws: &[law::WINDOW],
    counts: Counts::Both,
    keys: &[Heeds::Rate],
    max_size: LARGEST_MESSAGE,
    // A disturbance delays an answer. It also slows the bulk, so less data waits before the answer.
    figures: &[varies("base_ms"), varies("p50_ms"), varies("p99_ms"), varies("count")],
    run,
    ..Kind::BASE
};

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let size = drive.traffic.size.map_or(MESSAGE, |size| size.0 as usize);
    let every = Duration::try_from_secs_f64(1.0 / drive.traffic.rate.unwrap_or(RATE)).unwrap_or(Duration::from_secs(1));
    let listener = raw::listener(drive)?;
    let (mut client, mut served) = raw::open(drive, &listener)?;
    for end in [&client, &served] {
        end.set_nodelay(true).map_err(LabError::io("setting TCP_NODELAY"))?;
    }
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The answers end with the connection, which is an error here.
            let _ = exchange::answer(&mut served, size);
        });
        let start = Instant::now();
        let base =
            ask(&mut client, size, every, || start.elapsed() < drive.traffic.time / 4).map_err(exchange::failed)?;
        let bulk = Bulk::open(drive, &listener)?;
        (drive.began)();
        let end = Instant::now() + drive.traffic.time;
        let talk = scope.spawn(move || ask(&mut client, size, every, || Instant::now() < end));
        let measured = bulk.send_for(drive);
        let times = talk.join().map_err(|_| LabError::Panicked("the thread of the small messages"));
        let mut measured = measured?;
        let times = times?.map_err(exchange::failed)?;
        let count = times.len() as f64;
        let ([base, _], [p50, p99]) = (percentiles(base, MILLISECOND), percentiles(times, MILLISECOND));
        measured.figures = vec![("base_ms", base), ("p50_ms", p50), ("p99_ms", p99), ("count", count)];
        Ok(measured)
    })
}

const MILLISECOND: Duration = Duration::from_millis(1);
/// Default size of a message in bytes: a key and its echo with their escape sequences, or a small query.
const MESSAGE: usize = 64;
/// Default number of messages per second: fast typing, or a screen that is redrawn.
const RATE: f64 = 20.0;
