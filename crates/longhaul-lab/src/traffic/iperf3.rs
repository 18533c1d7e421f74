//! A real iperf3, for figures from an independent program. It reports the number of bytes that arrived, but does not check
//! them.

use crate::error::LabError;
use crate::plan::law;
use crate::plan::place::{Direction, Host};
use crate::traffic::row::{Counts, Drive, Heeds, Kind, Measured, varies, warm_up};
use crate::world::requirement::Requirement;
use std::process::{Command, Stdio};
use std::time::Duration;

/// One test of the scenario's time, with as many streams as it has connections.
pub(crate) const IPERF3: Kind = Kind {
    name: "iperf3",
    what: "iperf3",
    subject: "this traffic (iperf3)",
    needs: &[IPERF3_PROGRAM],
    laws: &[law::WINDOW],
    counts: Counts::Speed,
    keys: &[Heeds::Direction],
    // A delay causes more retransmissions, and a lower speed causes fewer.
    figures: &[varies("retransmits")],
    run,
    ..Kind::BASE
};

/// The program.
pub(crate) const IPERF3_PROGRAM: Requirement = Requirement::program("iperf3", "iperf3", "iperf3");

fn run(drive: &Drive<'_>) -> Result<Measured, LabError> {
    let server = drive.server();
    let entry = drive.running.entry;
    let traffic = drive.traffic;
    let port = server.port().to_string();
    let streams = traffic.connections.to_string();
    let mut command = Command::new("iperf3");
    command.args(["-s", "-1", "--forceflush", "-B", &server.ip().to_string(), "-p", &port]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let _server = drive.wan.spawn(Host::B, command)?.wait_for("Server listening")?;
    // iperf3 takes whole seconds only.
    let start = warm_up(drive.setup, traffic.time).as_secs_f64().ceil();
    let time = (traffic.time.as_secs_f64() - start).round().max(1.0);
    let start = start.to_string();
    let time = time.to_string();
    let entry = entry.ip().to_string();
    let mut arguments = vec!["-c", &entry, "-p", &port, "-P", &streams, "-O", &start, "-t", &time, "-J"];
    if traffic.direction == Direction::Back {
        arguments.push("-R");
    }
    (drive.began)();
    let text = drive.wan.output(Host::A, "iperf3", &arguments)?;
    read(&text).map_err(|why| {
        LabError::io("reading the JSON of iperf3")(std::io::Error::new(std::io::ErrorKind::InvalidData, why))
    })
}

/// Reads the output of `iperf3 -J`.
///
/// # Errors
/// It is no result of a whole test. The text has the error that iperf3 gives in it, if it gives one.
fn read(text: &str) -> Result<Measured, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|err| err.to_string())?;
    measured(&json).ok_or_else(|| match json["error"].as_str() {
        Some(error) => error.to_owned(),
        None => "it has no end.sum_received".to_owned(),
    })
}

fn measured(json: &serde_json::Value) -> Option<Measured> {
    let received = &json["end"]["sum_received"];
    let retransmits = json["end"]["sum_sent"]["retransmits"].as_f64();
    Some(Measured {
        bytes: received["bytes"].as_u64()?,
        checked: false,
        speed: received["bits_per_second"].as_f64()? / 8.0,
        over: Duration::try_from_secs_f64(received["seconds"].as_f64()?).ok()?,
        figures: retransmits.map(|count| ("retransmits", count)).into_iter().collect(),
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_iperf3_is_read() {
        let text = r#"{"end": {"sum_sent": {"retransmits": 3}, "sum_received": {"bytes": 10, "seconds": 1.5, "bits_per_second": 80.0}}}"#;
        let measured = read(text).unwrap();
        assert_eq!((measured.bytes, measured.speed, measured.checked), (10, 10.0, false));
        assert_eq!(measured.figures, [("retransmits", 3.0)]);
        assert!(read("nonsense").is_err());
        assert_eq!(read(r#"{"end": {}}"#).unwrap_err(), "it has no end.sum_received");
        let refused = r#"{"end": {}, "error": "unable to connect to server: Connection refused"}"#;
        assert_eq!(read(refused).unwrap_err(), "unable to connect to server: Connection refused");
    }
}
