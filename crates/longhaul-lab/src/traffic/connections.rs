//! New connections: their number per second, and the time of each.

use crate::error::{LabError, joined};
use crate::plan::place::Host;
use crate::plan::profile::Sysctls;
use crate::traffic::exchange::{self, Server, percentiles};
use crate::traffic::row::{Drive, Kind, Measured, exact, varies};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// As many workers as the scenario has connections. Each connects, sends a byte, waits for its echo, closes, and starts again.
pub(crate) const CONNECTIONS: Kind = Kind {
    name: "connections",
    what: "new connections",
    subject: "this traffic (connections)",
    // If a machine is too busy for 5 s, a connection can fail, but it is not reset.
    figures: &[varies("per_second"), varies("p50_us"), varies("p99_us"), varies("failed"), exact("refused")],
    run,
    ..Kind::BASE
};

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let count = drive.traffic.connections;
    let time = drive.traffic.time;
    let entry = drive.running.entry;
    // Relays with the shipped sysctls keep them, as in production.
    let relays = [Host::Near, Host::Far].into_iter().filter(|_| drive.setup.relay.sysctls == Sysctls::Defaults);
    [Host::A].into_iter().chain(relays).try_for_each(|host| let_ports_go(drive, host))?;
    // A closing connection may still occupy a thread, so there are two threads per worker.
    let _server = Server::start(drive, 2 * count, |mut peer| exchange::answer(&mut peer, 1))?;
    (drive.began)();
    let start = Instant::now();
    let Worked { times, late, refused } =
        work(drive, count, move || worker(entry, start + time, PATIENCE, |peer| exchange::once(peer, 1)))?;
    let took = start.elapsed().as_secs_f64();
    let bytes = times.len() as u64;
    let speed = bytes as f64 / took;
    let [p50, p99] = percentiles(times, Duration::from_micros(1));
    let figures = vec![
        ("per_second", speed),
        ("p50_us", p50),
        ("p99_us", p99),
        ("failed", f64::from(late + refused)),
        ("refused", f64::from(refused)),
    ];
    Ok(Measured { bytes, checked: true, speed, figures, ..Measured::default() })
}

/// The results of one or more workers.
#[derive(Default)]
pub(super) struct Worked {
    /// Duration of each successful connection.
    pub(super) times: Vec<Duration>,
    /// Number of connections without an answer within their patience.
    pub(super) late: u32,
    /// Number of connections that were refused, reset, or ended without an answer.
    pub(super) refused: u32,
}

impl Worked {
    fn and(mut self, more: Result<Worked, LabError>) -> Result<Worked, LabError> {
        let Worked { times, late, refused } = more?;
        self.times.extend(times);
        Ok(Worked { times: self.times, late: self.late + late, refused: self.refused + refused })
    }
}

/// Runs `count` workers on host A, and returns what they have done together.
pub(super) fn work(
    drive: &Drive<'_>,
    count: u32,
    worker: impl Fn() -> Result<Worked, LabError> + Clone + Send + 'static,
) -> Result<Worked, LabError> {
    let workers: Vec<_> = (0..count).map(|_| drive.wan.on(Host::A, worker.clone())).collect();
    workers.into_iter().map(joined).try_fold(Worked::default(), Worked::and)
}

/// Runs one worker: makes one connection after the other until `end`, and `talk`s on each. Nothing of it takes longer than `patience`.
///
/// # Errors
/// A wrong byte came back.
pub(super) fn worker(
    entry: SocketAddr,
    end: Instant,
    patience: Duration,
    talk: impl Fn(&mut TcpStream) -> io::Result<()>,
) -> Result<Worked, LabError> {
    let mut worked = Worked::default();
    while Instant::now() < end {
        let began = Instant::now();
        let done = exchange::connect(entry, patience).and_then(|mut peer| talk(&mut peer));
        match done.map_err(|err| (err.kind(), err)) {
            Ok(()) => worked.times.push(began.elapsed()),
            // socket(7) SO_RCVTIMEO: a read that times out fails with EAGAIN.
            Err((ErrorKind::TimedOut | ErrorKind::WouldBlock, _)) => worked.late += 1,
            Err((ErrorKind::InvalidData, err)) => return Err(exchange::failed(err)),
            Err(_) => worked.refused += 1,
        }
    }
    Ok(worked)
}

/// Lets `host` use more ports and reuse them, so that ports do not limit the number of connections (ip-sysctl).
fn let_ports_go(drive: &Drive<'_>, host: Host) -> Result<(), LabError> {
    joined(drive.wan.on(host, || {
        [("ip_local_port_range", "1024 65535"), ("tcp_tw_reuse", "1")].into_iter().try_for_each(|(name, value)| {
            let path = format!("/proc/sys/net/ipv4/{name}");
            std::fs::write(&path, value).map_err(LabError::io(format!("setting {path}")))
        })
    }))
}

/// Maximum time of a connection before it counts as failed. A listener with a short queue, such as socat's of five, drops
/// connections when the queue is full, and the client retries after 1, 3, 7 seconds.
const PATIENCE: Duration = Duration::from_secs(5);
