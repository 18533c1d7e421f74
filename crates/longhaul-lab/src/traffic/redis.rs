//! A real redis-benchmark to a real redis-server: many small messages, or a few large ones, by an independent program. It does not
//! check its bytes.

use crate::error::LabError;
use crate::plan::law;
use crate::plan::place::Host;
use crate::traffic::row::{Drive, Kind, LARGEST_MESSAGE, Measured, Traffic, varies};
use crate::world::requirement::Requirement;
use std::io::{Error, ErrorKind};
use std::process::{Command, Stdio};
use std::time::Duration;

/// SET on each connection, one after the other, with values of the scenario's size.
pub(crate) const REDIS: Kind = Kind {
    name: "redis",
    what: "SET of redis-benchmark",
    subject: "this traffic (redis)",
    needs: &[
        Requirement::program("redis-benchmark", "redis-tools", "redis"),
        Requirement::program("redis-server", "redis-server", "redis"),
    ],
    max_size: LARGEST_MESSAGE,
    figures: &[varies("per_second"), varies("p50_us"), varies("p99_us")],
    run: |drive| run(drive, 1),
    ..Kind::BASE
};

/// The same with 16 requests under way on each connection.
pub(crate) const REDIS_PIPELINE: Kind = Kind {
    name: "redis-pipeline",
    what: "SET of redis-benchmark, 16 in a pipeline",
    subject: "this traffic (redis-pipeline)",
    run: |drive| run(drive, 16),
    ..REDIS
};

fn run(drive: &Drive<'_>, pipeline: u32) -> Result<Measured, LabError> {
    let (server, entry, traffic) = (drive.server(), drive.running.entry, drive.traffic);
    let size = traffic.size.map_or(3, |size| size.0);
    let mut command = Command::new("redis-server");
    command.args(["--bind", &server.ip().to_string(), "--port", &server.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let _server = drive.wan.spawn(Host::B, command)?.wait_for("Ready to accept connections")?;
    let line = law::slowest(drive.setup, traffic.load(), &[law::LINE]);
    let rtt = if drive.setup.has_wan() { drive.setup.link.rtt } else { Duration::ZERO };
    let requests = requests(traffic, size, pipeline, line, rtt);
    let (host, port) = (entry.ip().to_string(), entry.port().to_string());
    let [clients, size_text, number, pipeline] =
        [traffic.connections.into(), size, requests, pipeline.into()].map(|number: u64| number.to_string());
    let words = ["-h", &host, "-p", &port, "-t", "set", "-c", &clients, "-d", &size_text, "-n", &number];
    (drive.began)();
    let text = drive.wan.output(Host::A, "redis-benchmark", &[&words[..], &["-P", &pipeline, "--csv"]].concat())?;
    read(&text, size, requests).ok_or_else(|| {
        let what = format!("it has no row \"SET\": {}", text.trim());
        LabError::io("reading the CSV of redis-benchmark")(Error::new(ErrorKind::InvalidData, what))
    })
}

/// Returns the number of requests that take about the traffic's time: redis-benchmark has no time, only a number. It has one thread,
/// which makes some 60,000 requests a second, eight times as many in a pipeline, and moves about 1 GB/s. A WAN allows `line` bytes a
/// second, and on each connection `pipeline` requests in each `rtt`.
fn requests(traffic: Traffic, size: u64, pipeline: u32, line: f64, rtt: Duration) -> u64 {
    let by_program: f64 = if pipeline > 1 { 480e3 } else { 60e3 };
    let by_rtt = f64::from(traffic.connections * pipeline) / rtt.as_secs_f64();
    let by_bytes = line.min(1e9) / size.max(1) as f64;
    let least = f64::from(traffic.connections);
    (traffic.time.as_secs_f64() * by_program.min(by_rtt).min(by_bytes)).max(least) as u64
}

/// Reads the output of `redis-benchmark --csv` for `requests` values of `size` bytes: its columns are the test, requests a second, and
/// the times in ms: mean, least, median, 95 %, 99 % and most. It writes the row when each request has its answer.
fn read(text: &str, size: u64, requests: u64) -> Option<Measured> {
    let row = text.lines().find_map(|line| line.strip_prefix("\"SET\","))?;
    let columns: Vec<f64> = row.split(',').map_while(|column| column.trim_matches('"').parse().ok()).collect();
    let [per_second, _, _, p50, _, p99, ..] = columns[..] else { return None };
    let figures = vec![("per_second", per_second), ("p50_us", p50 * 1e3), ("p99_us", p99 * 1e3)];
    Some(Measured { bytes: requests * size, speed: per_second * size as f64, figures, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::place::Direction;

    #[test]
    fn output_of_redis_benchmark_is_read() {
        let head = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n";
        let row = r#""SET","50000.50","0.500","0.100","0.250","0.900","1.500","3.000""#;
        let measured = read(&format!("{head}{row}\n"), 100, 7).unwrap();
        assert_eq!(measured.figures, [("per_second", 50000.5), ("p50_us", 250.0), ("p99_us", 1500.0)]);
        assert_eq!((measured.speed, measured.bytes), (5_000_050.0, 700));
        assert!(read(head, 100, 7).is_none() && read(r#""SET","1","2""#, 100, 7).is_none());
    }

    #[test]
    fn the_number_of_requests_follows_size_and_path() {
        let (connections, time, direction) = (2, Duration::from_secs(2), Direction::Out);
        let traffic = Traffic { kind: &REDIS, connections, time, size: None, rate: None, direction, outside: None };
        let requests = |size, pipeline, line, rtt| requests(traffic, size, pipeline, line, Duration::from_millis(rtt));
        let on_a_machine =
            [(3, 1), (3, 16), (1_000_000, 1)].map(|(size, pipeline)| requests(size, pipeline, f64::INFINITY, 0));
        assert_eq!(on_a_machine, [120_000, 960_000, 2_000]);
        assert_eq!(requests(3, 1, 12e6, 50), 80, "two in each round trip");
        assert_eq!(requests(1_000_000, 16, 12e6, 50), 24, "as many as the line carries");
        assert_eq!(requests(16 << 20, 1, 1e5, 50), 2);
    }
}
