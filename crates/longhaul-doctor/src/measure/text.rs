//! A measured path as text: first what limits it.

use super::measured::{Ended, Found, Measured};
use super::session::NO_ANSWER;
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
    let through = measured.tunnel.as_ref().map_or(String::new(), |tunnel| format!(" through tunnel {tunnel}"));
    writeln!(text, "Path to {}{far}{through}\n", measured.to)?;
    if measured.outcomes.is_empty() && measured.ended.is_none() {
        return one_sided(text, measured);
    }
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
    writeln!(text, "\nround trip {}, connection {}", rtt(measured.min_rtt()), rtt(Some(measured.connect)))?;
    if let Some(mss) = measured.mss {
        writeln!(text, "MSS {mss} bytes")?;
    }
    if let Some(bytes) = measured.bandwidth_delay() {
        writeln!(text, "{} bytes in flight fill the path", bytes.0)?;
    }
    for note in &measured.notes {
        writeln!(text, "note: {note}")?;
    }
    match &measured.ended {
        None => Ok(()),
        Some(Ended::Interrupted) => writeln!(text, "Interrupted: this is what was known so far."),
        Some(Ended::Lost(why)) => writeln!(text, "The session was lost ({why}): this is what was known so far."),
        Some(Ended::Died(_)) => writeln!(text, "The session was lost ({NO_ANSWER}): this is what was known so far."),
    }
}

/// Returns the report of a measurement by RFC 6349: its steps, and the three metrics of each test.
pub(super) fn rfc6349(measured: &Measured) -> String {
    let mut text = String::from("\nRFC 6349\n");
    let of_both = |value: &dyn Fn(Direction) -> String| Direction::ALL.map(value).join(" up, ") + " down";
    let mtu = of_both(&|direction| {
        measured.ladder.path_mtu[direction as usize].map_or("unknown".into(), |mtu| mtu.to_string())
    });
    let rate = of_both(&|direction| measured.rate(direction).map_or("unknown".into(), |(rate, _)| shown(rate)));
    let rtt = measured.min_rtt().map_or("unknown".into(), round_trip);
    let product = measured.bandwidth_delay().map_or("unknown".into(), |bytes| format!("{} bytes", bytes.0));
    let _ = writeln!(text, "1. path MTU: {mtu}\n2. baseline round trip: {rtt}\n3. bottleneck bandwidth: {rate}");
    let _ = writeln!(text, "4. bandwidth-delay product, and least window: {product}\n5. TCP tests");
    let _ = writeln!(
        text,
        "   {:<5} {:>11} {:<8} {:>14} {:>11} {:>10} {:>12}",
        "", "connections", "control", "rate", "time ratio", "efficiency", "buffer delay"
    );
    for outcome in &measured.outcomes {
        let Some(metrics) = measured.metrics(outcome) else { continue };
        let (way, count) = (outcome.run.direction.name(), outcome.run.connections);
        let (ratio, efficiency) = (metrics.transfer_time_ratio, 100.0 * metrics.efficiency);
        let (delay, control, rate) = (100.0 * metrics.buffer_delay, &outcome.sender.congestion, shown(outcome.rate()));
        let _ = writeln!(
            text,
            "   {way:<5} {count:>11} {control:<8} {rate:>14} {ratio:>11.2} {efficiency:>8.2} % {delay:>10.1} %"
        );
    }
    text
}

/// Writes what one end alone has found, first why it is alone.
fn one_sided(text: &mut String, measured: &Measured) -> std::fmt::Result {
    for note in &measured.notes {
        writeln!(text, "{note}")?;
    }
    let shortest = measured.idle.iter().min().map_or("unknown".into(), |rtt| round_trip(*rtt));
    writeln!(text, "\nconnection {shortest}")?;
    measured.mss.map_or(Ok(()), |mss| writeln!(text, "MSS {mss} bytes"))
}

fn limit(text: &mut String, nth: usize, (direction, finding): &Found) -> std::fmt::Result {
    let what = match finding.kind {
        Kind::LinkRate => "the rate of the line".to_string(),
        kind => kind.name().replace('-', " "),
    };
    if finding.kind == Kind::Unknown {
        return writeln!(text, "{nth}. {}: the limit is not known: {}\n", direction.name(), finding.evidence);
    }
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
