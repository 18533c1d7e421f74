//! Requests and answers of one size, one at a time on each connection. With one connection, one byte and no rate, this
//! measures the round trip of a small message.

use crate::error::{LabError, joined};
use crate::plan::place::Host;
use crate::traffic::exchange::{self, Server, ask, percentiles};
use crate::traffic::row::{Drive, Heeds, Kind, LARGEST_MESSAGE, Measured, varies};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Requests on every connection, each sent after the answer to the previous one. The scenario's rate limits the requests per
/// second of all connections together.
pub(crate) const REQUEST: Kind = Kind {
    name: "request",
    what: "requests and answers",
    subject: "this traffic (request)",
    keys: &[Heeds::Rate],
    max_size: LARGEST_MESSAGE,
    figures: &[varies("count"), varies("p50_us"), varies("p99_us"), varies("per_second")],
    run,
    ..Kind::BASE
};

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let count = drive.traffic.connections;
    let time = drive.traffic.time;
    let size = drive.traffic.size.map_or(1, |size| size.0 as usize);
    let every = drive.traffic.rate.map_or(Duration::ZERO, |rate| interval(f64::from(count) / rate));
    let _server = Server::start(drive, count, move |mut peer| exchange::answer(&mut peer, size))?;
    let entry = drive.running.entry;
    let open = |_| joined(drive.wan.on(Host::A, move || exchange::open(entry, size)));
    let clients = (0..count).map(open).collect::<Result<Vec<TcpStream>, LabError>>()?;
    (drive.began)();
    let start = Instant::now();
    let times = std::thread::scope(|scope| {
        let running: Vec<_> = clients
            .into_iter()
            .map(|mut peer| scope.spawn(move || ask(&mut peer, size, every, || start.elapsed() < time)))
            .collect();
        let ended = running.into_iter().map(|client| match client.join() {
            Ok(times) => times.map_err(exchange::failed),
            Err(_) => Err(LabError::Panicked("a client's thread")),
        });
        ended.collect::<Result<Vec<Vec<Duration>>, LabError>>()
    });
    let times = times?.concat();
    let took = start.elapsed().as_secs_f64();
    let count = times.len();
    let bytes = (count * size) as u64;
    let [p50, p99] = percentiles(times, Duration::from_micros(1));
    let figures = vec![("count", count as f64), ("p50_us", p50), ("p99_us", p99), ("per_second", count as f64 / took)];
    Ok(Measured { bytes, checked: true, speed: bytes as f64 / took, figures, ..Measured::default() })
}

/// Returns `seconds` as a time of at most a day.
fn interval(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(86_400))
}
