//! Explains the speed of a run in a sentence, from the measurements.

use crate::carrier::row::Carrier;
use crate::measure::disturbance::Disturbance;
use crate::measure::done::Done;
use crate::plan::law::{self, line};
use crate::report::run::Verdict;
use crate::report::verdict::Assessment;
use crate::scenario::model::Run;
use crate::traffic::row::{Counts, Measured};
use longhaul_core::path::laws::{OPENSSH_WINDOW, window_rate};
use longhaul_units::Bytes;
use std::time::Duration;

/// Returns the reasons for a result: missed expectations, the limit of the speed, and the disturbance if the verdict does not
/// already name it.
pub(crate) fn why(
    run: &Run,
    carrier: &Carrier,
    done: &Done,
    assessment: &Assessment,
    disturbance: &Disturbance,
) -> String {
    let mut sentences: Vec<String> = assessment.reasons.clone();
    let counts = run.traffic.kind.counts;
    if counts != Counts::Figures {
        sentences.extend(limit(run, carrier, done));
    }
    if counts != Counts::Speed {
        sentences.push(figures(&done.measured));
    }
    sentences.extend(dropped(run, done));
    if let (Some(_), Some(last)) = (run.expect.cpu, done.seen.series.last()) {
        let share = 100.0 * done.seen.relay_cpu.as_secs_f64() / last.t_s.max(1e-9);
        sentences.push(format!("the relays together used {share:.0} % of one CPU"));
    }
    if disturbance.disturbed && assessment.verdict != Verdict::Unclear {
        sentences.push(disturbance.words());
    }
    sentences.extend(run.note.clone());
    sentences.join("; ")
}

/// Returns a clause about the stage of the link that dropped the most segments, or the lab itself; `None` if nothing was dropped.
fn dropped(run: &Run, done: &Done) -> Option<String> {
    let link = done.link.as_ref()?;
    let overflowed: u64 = link.iter().map(|way| way.overflowed).sum();
    if overflowed > 0 {
        return Some(format!("the lab's memory was full and lost {overflowed} frames: the figures are wrong"));
    }
    let direction = &link[run.traffic.direction.index()];
    let (stage, counters) = direction.stages.iter().max_by_key(|(_, counters)| counters.segments_lost())?;
    let what = longhaul_link::row(stage)?.traits.dropped_by;
    let lost = counters.segments_lost();
    (lost > 0).then(|| format!("{what} dropped {lost} of {} segments", counters.segments_in))
}

/// Returns a sentence about what limited the speed: the smallest of the possible limits.
fn limit(run: &Run, carrier: &Carrier, done: &Done) -> Option<String> {
    let Done { measured, seen, .. } = done;
    let speed = measured.speed / 1e6;
    if speed == 0.0 {
        return Some(
            if measured.bytes == 0 { "nothing arrived" } else { "nothing arrived in the measured time" }.into(),
        );
    }
    let rtt = if seen.wan.rtt.is_zero() { run.setup.link.rtt } else { seen.wan.rtt };
    let connections = f64::from(run.traffic.connections);
    let per_rtt = |bytes: Bytes| connections * window_rate(bytes, rtt).0 as f64 / 8e6;
    let window = seen.wan.window.min(seen.wan.allowed);
    let whose = if seen.wan.allowed < seen.wan.window { "congestion window" } else { "window" };
    let is_ssh = carrier.law.iter().chain(run.traffic.kind.laws).any(|law| *law == law::OPENSSH);
    let line = line(&run.setup, run.traffic.direction).map(|line| line / 1e6);
    let law = law::loss(&run.setup.link, &seen.wan.congestion, rtt).map(|law| connections * law / 1e6);
    let share = |limit: f64| format!("{:.0} % of it", 100.0 * speed / limit);
    let retransmitted = match seen.wan.retransmitted {
        0 => String::new(),
        count => format!("; {count} segments retransmitted"),
    };
    let sentence = match (line, law) {
        _ if !run.setup.has_wan() => "no WAN: limited by the machine itself".to_string(),
        _ if window.0 == 0 => "ended before TCP_INFO could be read: only a longer transfer shows its limit".to_string(),
        (Some(line), _) if speed > 0.85 * line => {
            format!(
                "the line carries {line:.1} MB/s of TCP payload: {}, {} on the WAN",
                share(line),
                seen.wan.congestion
            )
        }
        (_, Some(law)) if law < per_rtt(window) && speed < 3.0 * law => {
            format!("loss limits {} to about {law:.2} MB/s over {} in the long run", seen.wan.congestion, millis(rtt))
        }
        _ if is_ssh && (!carrier.is_direct() || per_rtt(OPENSSH_WINDOW) < per_rtt(window)) => {
            let cap = per_rtt(OPENSSH_WINDOW);
            format!(
                "OpenSSH's window is 2 MiB: 2 MiB / {} = {cap:.1} MB/s; a window took {:.1} round trips",
                millis(rtt),
                cap / speed
            )
        }
        _ if speed > 0.8 * per_rtt(window) => format!(
            "{whose} of {} bytes in force (TCP_INFO) / {} = {:.2} MB/s: {}",
            window.0,
            millis(rtt),
            per_rtt(window),
            share(per_rtt(window))
        ),
        _ => format!("{} on the WAN, at most {:.0} bytes in flight", seen.wan.congestion, seen.wan.allowed.0),
    };
    Some(sentence + &retransmitted)
}

/// Returns the traffic's further figures as text.
fn figures(measured: &Measured) -> String {
    let figures = measured.figures.iter().map(|(name, value)| format!("{name} {}", digits(*value)));
    figures.collect::<Vec<_>>().join(", ")
}

/// Writes `value` with about as many digits as are exact.
fn digits(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
