//! Bulk transfers with small messages or short requests beside them: how long they wait behind the bulk.

use crate::error::LabError;
use crate::plan::law;
use crate::traffic::connections::{work, worker};
use crate::traffic::exchange::{self, Answer, Server, echo, percentiles};
use crate::traffic::outside;
use crate::traffic::raw::{self, Bulk};
use crate::traffic::row::{Counts, Drive, Heeds, Kind, LARGEST_MESSAGE, Measured, exact, varies, warm_up};
use std::time::{Duration, Instant};

/// Raw transfers on the scenario's connections, and one more connection with small messages and their answers. The scenario's
/// rate is the number of messages per second, and `size` is the size of a message. The speed is that of the bulk.
///
/// A quarter of the time before the bulk, the messages have the line alone. The percentiles are of the messages after the warm-up,
/// as the speed is; `start_s` is about the messages of the warm-up.
pub(crate) const MIX: Kind = Kind {
    name: "mix",
    what: "bulk transfers, and small messages beside them",
    subject: "this traffic (mix)",
    laws: &[law::WINDOW],
    counts: Counts::Both,
    keys: &[Heeds::Rate, Heeds::Outside],
    max_size: LARGEST_MESSAGE,
    // A disturbance delays an answer. It also slows the bulk, so less data waits before the answer.
    figures: &[
        varies("base_ms"),
        varies("p50_ms"),
        varies("p99_ms"),
        varies("count"),
        varies("start_s"),
        varies("outside_MBps"),
    ],
    run: mix,
    ..Kind::BASE
};

/// Raw transfers on the scenario's connections, and eight workers beside them: each connects, sends a request of `size`, 100 kB by
/// default, waits for an answer of a byte, closes, and begins anew. They have the line alone for a while first.
pub(crate) const POSTS: Kind = Kind {
    name: "posts",
    what: "bulk transfers, and new connections with a request of 100 kB beside them, eight at once",
    keys: &[Heeds::Outside],
    subject: "this traffic (posts)",
    figures: &[
        varies("base_p50_ms"),
        varies("base_p99_ms"),
        varies("p50_ms"),
        varies("p99_ms"),
        varies("count"),
        exact("refused"),
        varies("outside_MBps"),
    ],
    run: posts,
    ..MIX
};

fn mix(drive: &Drive<'_>) -> Result<Measured, LabError> {
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
        let base = echo(&mut client, size, every, Instant::now() + drive.traffic.time / 4, |_| {})
            .map_err(exchange::failed)?;
        let bulk = Bulk::open(drive, &listener)?;
        (drive.began)();
        let start = Instant::now();
        let outside = outside::Running::begin(drive)?;
        let tell = |answer: Answer| drive.beside.answered(answer.time);
        let talk = scope.spawn(move || echo(&mut client, size, every, start + drive.traffic.time, tell));
        let measured = bulk.send_for(drive);
        let answers = talk.join().map_err(|_| LabError::Panicked("the thread of the small messages"));
        let mut measured = outside.end(measured)?;
        let answers = answers?.map_err(exchange::failed)?;
        let warm = start + warm_up(drive.setup, drive.traffic.time);
        let [base, _] = percentiles(base.into_iter().map(|answer| answer.time).collect(), MILLISECOND);
        let slow = |answer: &&Answer| answer.time.as_secs_f64() * 1e3 > base + SLOW_MS;
        let early = answers.iter().filter(|answer| answer.asked < warm);
        let start_s = early.filter(slow).count() as f64 * every.as_secs_f64();
        let late = answers.iter().filter(|answer| answer.asked >= warm).map(|answer| answer.time);
        let [p50, p99] = percentiles(late.collect(), MILLISECOND);
        let figures = [("base_ms", base), ("p50_ms", p50), ("p99_ms", p99), ("count", answers.len() as f64)];
        measured.figures.extend(figures.into_iter().chain([("start_s", start_s)]));
        Ok(measured)
    })
}

fn posts(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let size = drive.traffic.size.map_or(REQUEST, |size| size.0 as usize);
    let listener = raw::listener(drive)?;
    let bulk = Bulk::open(drive, &listener)?;
    // From now on, the connections to B are requests.
    drop(listener);
    let _server = Server::start(drive, 2 * WORKERS, move |mut peer| exchange::serve_once(&mut peer, size))?;
    let entry = drive.running.entry;
    let post_until =
        |end: Instant| work(drive, WORKERS, move || worker(entry, end, PATIENCE, |peer| exchange::request(peer, size)));
    let base = post_until(Instant::now() + drive.traffic.time / 4)?;
    (drive.began)();
    let outside = outside::Running::begin(drive)?;
    let (measured, posted) = std::thread::scope(|scope| {
        let bulk = scope.spawn(move || bulk.send_for(drive));
        std::thread::sleep(warm_up(drive.setup, drive.traffic.time));
        let rest = drive.traffic.time - warm_up(drive.setup, drive.traffic.time);
        let posted = post_until(Instant::now() + rest);
        (bulk.join().unwrap_or(Err(LabError::Panicked("the bulk's thread"))), posted)
    });
    let mut measured = outside.end(measured)?;
    let posted = posted?;
    let unanswered = [&base, &posted].map(|worked| worked.late + worked.refused).iter().sum::<u32>();
    let (count, refused) = (posted.times.len() as f64, f64::from(unanswered));
    let [base_p50, base_p99] = percentiles(base.times, MILLISECOND);
    let [p50, p99] = percentiles(posted.times, MILLISECOND);
    measured.figures.extend([("base_p50_ms", base_p50), ("base_p99_ms", base_p99), ("p50_ms", p50), ("p99_ms", p99)]);
    measured.figures.extend([("count", count), ("refused", refused)]);
    Ok(measured)
}

const MILLISECOND: Duration = Duration::from_millis(1);
/// Default size of a message in bytes: a key and its echo with their escape sequences, or a small query.
const MESSAGE: usize = 64;
/// Default number of messages per second: a screen that is redrawn.
const RATE: f64 = 50.0;
/// Milliseconds above the base for which a message of the start counts as slow.
const SLOW_MS: f64 = 50.0;
/// Default size of a request in bytes.
const REQUEST: usize = 100_000;
/// Number of requests at once.
const WORKERS: u32 = 8;
/// Maximum time of a request before it counts as refused.
const PATIENCE: Duration = Duration::from_secs(30);
