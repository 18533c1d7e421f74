//! Explains the speed of a run in a sentence, from the measurements.

use crate::measure::done::Done;
use crate::report::columns::shown;
use crate::report::run::{RunReport, Verdict};
use crate::report::verdict::Assessment;
use crate::scenario::model::Run;
use crate::traffic::row::{Counts, Measured};
use longhaul_core::path::diagnosis::{Finding, Kind};

/// Returns the reasons for a result: missed expectations, the limit of the speed, and the disturbance if the verdict does not
/// already name it.
pub(crate) fn why(run: &Run, done: &Done, assessment: &Assessment, report: &RunReport) -> String {
    let mut sentences: Vec<String> = assessment.reasons.clone();
    let counts = run.traffic.kind.counts;
    if counts != Counts::Figures {
        sentences.extend(limit(run, done, report));
    }
    if counts != Counts::Speed {
        sentences.push(figures(&done.measured));
    }
    sentences.extend(dropped(run, done));
    if let (Some(_), Some(last)) = (run.expect.cpu, done.seen.series.last()) {
        let share = 100.0 * done.seen.relay_cpu.as_secs_f64() / last.t_s.max(1e-9);
        sentences.push(format!("the relays together used {share:.0} % of one CPU"));
    }
    if report.disturbance.disturbed && assessment.verdict != Verdict::Unclear {
        sentences.push(report.disturbance.words());
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

/// Returns sentences about the limit of the speed: the finding, and what it cannot know.
fn limit(run: &Run, done: &Done, report: &RunReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if done.measured.speed == 0.0 {
        let when = if done.measured.bytes == 0 { "" } else { " in the measured time" };
        sentences.push(format!("nothing arrived{when}"));
    }
    if !run.setup.has_wan() {
        sentences.push("no WAN: limited by the machine itself".into());
        return sentences;
    }
    let Some(finding) = &done.seen.finding else {
        sentences.push("ended before TCP_INFO could be read: only a longer transfer shows its limit".into());
        return sentences;
    };
    sentences.push(sentence(finding));
    // The finding says nothing about the speed of all connections, or of a run whose limit is unknown. The laws do.
    if finding.kind == Kind::Unknown || run.traffic.connections > 1 {
        let line = report.ceiling.map(|speed| ("most that the line carries", speed));
        let law = report.formula.zip(report.computed).or(line);
        sentences.extend(law.map(|(formula, speed)| format!("computed: {formula} = {} MB/s", shown(speed))));
    }
    sentences
}

/// Writes a finding as a sentence: the limit, what shows it, and what would come next.
fn sentence(finding: &Finding) -> String {
    let Finding { kind, evidence, what_if, then, .. } = finding;
    let next = then.map(|then| format!(" ({then})")).unwrap_or_default();
    let lifted = what_if.map(|rate| format!("; without it {:.1} Mbit/s{next}", rate.0 as f64 / 1e6));
    format!("{kind}: {evidence}{}", lifted.unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sampler::Seen;
    use crate::report::run::blank;
    use crate::scenario::read::read;
    use longhaul_units::Rate;

    #[test]
    fn the_finding_is_a_sentence_beside_what_it_cannot_know() {
        let text = "about = \"a\"\nsource = \"b\"\n[link]\nrtt = \"63ms\"\nrate = \"1Gbit/s\"\n[host]\nwindow = \"256KiB\"\n\
            [[run]]\nid = \"wan\"\ncarriers = [\"direct\"]\ntraffic = \"raw\"\ncomputed = \"window\"\n\
            [[run]]\nid = \"hop\"\ntopology = \"one-hop\"\ncarriers = [\"direct\"]\n";
        let scenario = read("small", "small.toml", text).unwrap();
        let said = |at: usize, speed: f64, finding: Option<Finding>| {
            let run = &scenario.runs[at];
            let measured = Measured { bytes: speed as u64, speed, ..Measured::default() };
            let done = Done { measured, seen: Seen { finding, ..Seen::default() }, ..Done::default() };
            limit(run, &done, &blank(run, Some(run.carriers[0]))).join("; ")
        };
        let short = Finding::unknown("too short");
        let window = Finding {
            kind: Kind::ReceiverWindow,
            what_if: Some(Rate(900_000_000)),
            then: Some(Kind::LinkRate),
            ..Finding::unknown("it is full")
        };
        assert_eq!(said(1, 9e9, Some(short.clone())), "no WAN: limited by the machine itself");
        assert_eq!(said(0, 1.0, None), "ended before TCP_INFO could be read: only a longer transfer shows its limit");
        assert_eq!(said(0, 1.0, Some(short.clone())), "unknown: too short; computed: window / RTT = 4.16 MB/s");
        assert_eq!(
            said(0, 0.0, Some(window.clone())),
            "nothing arrived; receiver-window: it is full; without it 900.0 Mbit/s (link-rate)"
        );
    }
}
