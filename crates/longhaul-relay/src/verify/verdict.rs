//! The findings of probes as text, as JSON and as a line for Nagios.

use super::findings::{Findings, Relay};
use super::plan::Plan;
use longhaul_core::health::{Cause, Health, Stage};
use longhaul_core::wire::answer::{Dial, Next};
use longhaul_units::Bytes;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// A tunnel that was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Its name.
    pub tunnel: String,
    /// The probe.
    pub plan: Plan,
    /// How far it came.
    pub findings: Findings,
}

impl Verified {
    /// Returns the health of the tunnel: good, broken, or unknown if somebody did not answer who may not know probes.
    pub fn health(&self) -> Health {
        match &self.findings.trouble {
            None => Health::Good,
            Some(trouble) if trouble.is_certain => Health::Broken,
            Some(_) => Health::Unknown,
        }
    }

    /// Returns one line: the tunnel, and whether it is whole or at which stage it ends.
    pub fn line(&self) -> String {
        let Some(trouble) = &self.findings.trouble else { return format!("{}: whole", self.tunnel) };
        let stage = trouble.stage.name(self.plan.hops);
        match (trouble.is_certain, trouble.stage) {
            (true, _) => format!("{}: BROKEN at the {stage}: {}", self.tunnel, trouble.cause.name()),
            // It answers, so it has not failed.
            (false, Stage::Relay(_)) if trouble.cause == Cause::Failed => {
                format!("{}: cannot tell: the {stage} refuses this probe", self.tunnel)
            }
            (false, _) => format!("{}: cannot tell, {stage}: {}", self.tunnel, trouble.cause.name()),
        }
    }

    /// Returns [`line`](Verified::line) and why the tunnel ends there, without the characters that mean something to Nagios.
    fn nagios_line(&self) -> String {
        let why = self.findings.trouble.as_ref().map(|trouble| format!(": {}", trouble.why));
        format!("{}{}", self.line(), why.unwrap_or_default()).replace('|', "/").replace('\n', " ")
    }

    /// Returns the line and a line for each stage.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.line());
        for (stage, what) in self.rows() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {stage:<10}  {what}");
        }
        text
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let name = |stage: Stage| stage.name(self.plan.hops);
        for (at, relay) in self.findings.relays.iter().enumerate() {
            let way = match (at, self.findings.connected) {
                (0, Some(connected)) => format!("{} accepted after {}, ", self.plan.address, ms(connected)),
                _ => String::new(),
            };
            rows.push((name(Stage::Relay(at)), format!("{way}{}", self.said(at, relay))));
            let stage = if relay.report.next == Next::Echo { Stage::FinalHost } else { Stage::Link(at) };
            rows.extend(dialled(relay).map(|what| (name(stage), what)));
        }
        if let Some(echo) = &self.findings.echo {
            let what = format!(
                "{} there and back, RTT {}, {:.1} MB/s each way, CRC-32C {:08x} on both sides",
                Bytes(echo.bytes.into()),
                ms(echo.rtt),
                echo.goodput() / 1e6,
                echo.checksum
            );
            rows.push((name(Stage::Data), what));
        }
        if let Some(trouble) = &self.findings.trouble {
            rows.push((name(trouble.stage), format!("{}: {}", trouble.cause.name(), trouble.why)));
        }
        rows
    }

    fn said(&self, at: usize, relay: &Relay) -> String {
        let report = &relay.report;
        if report.version.is_empty() {
            // It tells nothing of itself to a prober without the key.
            return format!("answered after {}", ms(relay.after));
        }
        let ahead = self.clock_ahead_us(at, relay);
        let (by, word) = (ahead.unsigned_abs(), if ahead < 0 { "behind" } else { "ahead" });
        format!(
            "reported after {}: {}, longhaul {}, clock {} {word}",
            ms(relay.after),
            report.name,
            report.version,
            ms(Duration::from_micros(by)),
        )
    }

    /// Returns the clock of relay `at` minus ours in µs. The time that the report was on its way is taken as half of the time
    /// that the probe and the report took together, without the dials before the report. Half of that is the uncertainty.
    fn clock_ahead_us(&self, at: usize, relay: &Relay) -> i64 {
        let dials = self.findings.relays.iter().take(at + 1).map(|relay| u64::from(relay.report.dial_us)).sum();
        let travelled = relay.after.saturating_sub(Duration::from_micros(dials));
        let way = self.findings.echo.map_or(travelled, |echo| echo.rtt.min(relay.after)) / 2;
        relay.clock_ahead_us.saturating_add(i64::try_from(way.as_micros()).unwrap_or(i64::MAX))
    }

    fn json(&self) -> Value {
        let findings = &self.findings;
        let relays = findings.relays.iter().enumerate().map(|(at, relay)| {
            let report = &relay.report;
            json!({
                "stage": Stage::Relay(at).name(self.plan.hops),
                "name": report.name,
                "version": report.version,
                "reported_ms": millis(relay.after),
                "clock_ahead_ms": (!report.version.is_empty()).then(|| self.clock_ahead_us(at, relay) as f64 / 1e3),
                "dial": dial_name(report.dial),
                "dial_ms": f64::from(report.dial_us) / 1e3,
                "dial_rtt_ms": (report.rtt_us > 0).then(|| f64::from(report.rtt_us) / 1e3),
                "next_hop": report.next_hop,
            })
        });
        json!({
            "tunnel": self.tunnel,
            "address": self.plan.address.to_string(),
            "verdict": match self.health() {
                Health::Good => "whole",
                Health::Broken => "broken",
                _ => "unknown",
            },
            "stage": findings.trouble.as_ref().map(|trouble| trouble.stage.name(self.plan.hops)),
            "cause": findings.trouble.as_ref().map(|trouble| trouble.cause.name()),
            "why": findings.trouble.as_ref().map(|trouble| &trouble.why),
            "connect_ms": findings.connected.map(millis),
            "relays": relays.collect::<Vec<_>>(),
            "echo": findings.echo.map(|echo| json!({
                "bytes": echo.bytes,
                "rtt_ms": millis(echo.rtt),
                "bytes_per_second": echo.goodput().round(),
                "crc32c": format!("{:08x}", echo.checksum),
            })),
        })
    }
}

/// Returns the JSON document about all of `verified`.
pub fn json(verified: &[Verified]) -> String {
    let tunnels: Vec<_> = verified.iter().map(Verified::json).collect();
    format!("{:#}\n", json!({ "tunnels": tunnels }))
}

/// Returns the line of a Nagios plugin about all of `verified`.
pub fn nagios(verified: &[Verified]) -> String {
    let of = |health| verified.iter().filter(move |tunnel| tunnel.health() == health).map(Verified::nagios_line);
    let bad: Vec<_> = of(Health::Broken).chain(of(Health::Unknown)).collect();
    let word = match verified.iter().map(Verified::health).max() {
        Some(Health::Broken) => "CRITICAL",
        Some(Health::Good) => "OK",
        _ => "UNKNOWN",
    };
    let what = match bad.is_empty() {
        true => of(Health::Good).collect::<Vec<_>>().join(", "),
        false => bad.join(", "),
    };
    let figures = verified.iter().filter_map(|tunnel| Some((&tunnel.tunnel, tunnel.findings.echo?)));
    let figures: String = figures
        .map(|(name, echo)| {
            format!(" '{name} rtt'={:.6}s '{name} goodput'={:.0}B", echo.rtt.as_secs_f64(), echo.goodput())
        })
        .collect();
    let bar = if figures.is_empty() { "" } else { " |" };
    format!("longhaul {word} - {what}{bar}{figures}\n")
}

/// Returns the line about the stage that the relay has dialled, if a connection was made or none was wanted.
fn dialled(relay: &Relay) -> Option<String> {
    let report = &relay.report;
    let rtt = match report.rtt_us {
        0 => String::new(),
        rtt => format!(", RTT {}", ms(Duration::from_micros(rtt.into()))),
    };
    match report.dial {
        Dial::Connected => Some(format!(
            "{} accepted after {}{rtt}",
            report.next_hop,
            ms(Duration::from_micros(report.dial_us.into()))
        )),
        Dial::NotDialled if report.next == Next::Echo => Some("not dialled (verify_final = false)".into()),
        _ => None,
    }
}

fn dial_name(dial: Dial) -> &'static str {
    match dial {
        Dial::Connected => "connected",
        Dial::Refused => "refused",
        Dial::NoAnswer | Dial::PortSilent => "no answer",
        Dial::Failed => "failed",
        Dial::NotDialled => "not dialled",
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", millis(time))
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::findings::Echo;
    use longhaul_config::Tunnel;
    use longhaul_core::health::Trouble;
    use longhaul_core::wire::answer::Report;

    #[test]
    fn no_released_field_of_the_document_is_gone() {
        let tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
        let report = Report {
            nonce: [0; 16],
            hops: 0,
            dial: Dial::Refused,
            next: Next::DialFailed,
            clock_us: 0,
            dial_us: 1,
            rtt_us: 1,
            echo_bytes: 1,
            name: String::new(),
            version: "0.1.0".into(),
            next_hop: String::new(),
            why: String::new(),
        };
        let ms = Duration::from_millis;
        let findings = Findings {
            connected: Some(ms(1)),
            relays: vec![Relay { report, after: ms(1), clock_ahead_us: 0 }],
            echo: Some(Echo { bytes: 1, rtt: ms(1), bulk_bytes: 1, bulk_time: ms(1), checksum: 0 }),
            trouble: Some(Trouble {
                stage: Stage::Relay(0),
                cause: Cause::Refused,
                why: String::new(),
                is_certain: true,
            }),
            ..Findings::default()
        };
        let verified = Verified { tunnel: "t".into(), plan: Plan::of(&tunnel, 1024, None), findings };
        let document = serde_json::from_str(&json(&[verified])).unwrap();
        crate::interface::check("verify", crate::interface::fields(&[document]));
    }
}
