//! A measured path as text: first what limits it.

use super::measured::{Ended, Found, Measured};
use crate::show::round_trip;
use longhaul_core::path::diagnosis::Kind;
use longhaul_measure::message::Direction;
use longhaul_units::Rate;
use std::fmt::Write;
use std::time::Duration;

/// Returns the report.
pub(super) fn text(measured: &Measured) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write(&mut text, measured);
    text
}

fn write(text: &mut String, measured: &Measured) -> std::fmt::Result {
    let far = if measured.name.is_empty() {
        String::new()
    } else {
        format!(" ({}, longhaul {})", measured.name, measured.version)
    };
    writeln!(text, "Path to {}{far}\n", measured.to)?;
    for (nth, found) in measured.findings().iter().enumerate() {
        limit(text, nth + 1, found)?;
    }
    let rtt = |rtt: Option<Duration>| {
        rtt.map_or("unknown".to_string(), |rtt| {
            // A measured time has no nanoseconds.
            round_trip(Duration::from_micros(rtt.as_micros() as u64))
        })
    };
    let [up, down] = Direction::ALL;
    writeln!(text, "{:24}{:>16}{:>16}", "", "up", "down")?;
    let mut row = |name: &str, value: &dyn Fn(Direction) -> String| {
        writeln!(text, "{name:24}{:>16}{:>16}", value(up), value(down))
    };
    row("rate of the line", &|direction| match measured.rate(direction) {
        Some((rate, true)) => shown(rate),
        Some((rate, false)) => format!("{} or more", shown(rate)),
        None => "unknown".into(),
    })?;
    row("one connection", &|direction| {
        measured.first(direction).map_or("unknown".into(), |first| shown(first.rate()))
    })?;
    row("loss", &|direction| {
        measured.loss(direction).map_or("unknown".into(), |loss| format!("{:.3} %", loss * 100.0))
    })?;
    row("round trip under load", &|direction| rtt(measured.loaded_rtt(direction)))?;
    row("path MTU", &|direction| {
        measured.ladder.path_mtu[direction as usize].map_or("unknown".into(), |mtu| format!("{mtu} bytes"))
    })?;
    writeln!(text, "\nround trip {}", rtt(measured.min_rtt()))?;
    if let Some(bytes) = measured.bandwidth_delay() {
        writeln!(text, "bytes in flight that fill the path: {}", bytes.0)?;
    }
    for note in &measured.notes {
        writeln!(text, "note: {note}")?;
    }
    match &measured.ended {
        None => Ok(()),
        Some(Ended::Interrupted) => writeln!(text, "Interrupted: this is what was known so far."),
        Some(Ended::Lost(why, _)) => writeln!(text, "The session was lost ({why}): this is what was known so far."),
    }
}

fn limit(text: &mut String, nth: usize, (direction, finding): &Found) -> std::fmt::Result {
    let what = match finding.kind {
        Kind::LinkRate => "the rate of the line".to_string(),
        kind => kind.name().replace('-', " "),
    };
    writeln!(text, "{nth}. {}: limited by {what}", direction.name())?;
    writeln!(text, "   {}", finding.evidence)?;
    if let Some(rate) = finding.what_if {
        let then =
            finding.then.map_or(String::new(), |kind| format!(", then limited by {}", kind.name().replace('-', " ")));
        writeln!(text, "   without it: {}{then}", shown(rate))?;
    }
    if !finding.advice.is_empty() {
        writeln!(text, "   {}", finding.advice)?;
    }
    writeln!(text)
}

/// Returns a rate with four digits: a measured one has no more.
fn shown(rate: Rate) -> String {
    let unit = 10u64.pow(rate.0.max(1).ilog10().saturating_sub(3));
    Rate(rate.0 / unit * unit).to_string()
}
