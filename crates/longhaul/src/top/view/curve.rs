//! The figures of a tunnel over time: a line for each, whose last character is now, and the times in which the tunnel was not well.

use crate::admin::snapshot::{CurveState, Health, IncidentState};
use crate::admin::verdict::Words;
use crate::figures;
use crate::top::model::Model;
use crate::top::verdict::{self, Said, Tone};

/// Returns the lines of `curve`, for a screen of `width` characters.
pub(super) fn lines(curve: &CurveState, model: &Model, width: usize) -> Vec<Said> {
    let columns = width.saturating_sub(NAME_CHARS + TOP_CHARS);
    let seconds = model.span.seconds() as f64 / columns.max(1) as f64;
    let column = |unix_seconds: f64| {
        let before_now = ((model.now - unix_seconds) / seconds).max(0.0) as usize;
        columns.checked_sub(before_now + 1)
    };
    let line = |name: &str, values: Vec<Option<f64>>, write: fn(f64) -> String| {
        let mut tops: Vec<Option<f64>> = vec![None; columns];
        for (at, value) in values.into_iter().enumerate() {
            let middle = curve.from_unix_seconds + (at as f64 + 0.5) * curve.interval_seconds as f64;
            if let (Some(top), Some(value)) = (column(middle).and_then(|at| tops.get_mut(at)), value) {
                *top = Some(top.map_or(value, |top| top.max(value)));
            }
        }
        let top = tops.iter().flatten().copied().fold(0.0, f64::max);
        let drawn: String = tops.iter().map(|value| value.map_or(' ', |value| bar(value, top))).collect();
        (top > 0.0).then(|| (Tone::Plain, format!("  {name:<8} {drawn} {}", write(top))))
    };
    let count = |numbers: &[u32]| numbers.iter().map(|number| Some(f64::from(*number))).collect();
    let figures = [
        line("up", curve.up_bits_per_second.clone(), figures::rate),
        line("down", curve.down_bits_per_second.clone(), figures::rate),
        line("flows", count(&curve.flows), |number| format!("{number:.0}")),
        line("RTT", curve.wan_rtt_ms.clone(), figures::rtt),
        line("failed", count(&curve.failed_dials), |number| format!("{number:.0}")),
    ];
    let mut lines: Vec<Said> = figures.into_iter().flatten().collect();
    let mut marks = vec![' '; columns];
    for incident in &curve.incidents {
        let (from, until) =
            (column(incident.from_unix_seconds + 0.5).unwrap_or(0), column(incident.until_unix_seconds - 0.5));
        let mark = if incident.health == Health::Broken { 'X' } else { '!' };
        until.into_iter().for_each(|until| marks[from.min(until)..=until].fill(mark));
    }
    if marks.iter().any(|mark| *mark != ' ') {
        lines.push((Tone::Bad, format!("  {:<8} {}", "not well", marks.iter().collect::<String>())));
    }
    lines.extend(curve.incidents.iter().rev().take(MAX_INCIDENTS).map(|incident| told(incident, model)));
    let count = curve.incidents.len();
    let more = (count > MAX_INCIDENTS).then(|| format!("  not well {count} times; the last {MAX_INCIDENTS} are shown"));
    lines.extend(more.map(|more| (Tone::Plain, more)));
    lines
}

/// Returns the line of an incident.
fn told(incident: &IncidentState, model: &Model) -> Said {
    let words = Words::of(incident.health);
    let [from, until] = [incident.from_unix_seconds, incident.until_unix_seconds].map(|at| verdict::time(at, model));
    let when = if incident.goes_on { format!("since {from}, still") } else { format!("from {from} to {until}") };
    let worst = words.hop.trim_start_matches(", ");
    (words.tone, format!("  not well {when}: at worst {worst} at the {}", incident.stage))
}

/// Returns the character for `value`, where `top` is the largest one.
fn bar(value: f64, top: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // Only nothing has the lowest bar.
    let height = if value > 0.0 { 1 + (value / top * 6.0).round() as usize } else { 0 };
    BARS[height.min(7)]
}

/// Characters of a line before its bars, and after them.
const NAME_CHARS: usize = 11;
const TOP_CHARS: usize = 9;
/// Number of times that are told in words, the newest ones.
const MAX_INCIDENTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    const NOW: f64 = 1_700_000_000.0; // 2023-11-14 22:13:20 UTC

    #[test]
    fn the_last_character_is_now_and_an_incident_is_below_its_time() {
        // 60 characters of 10 s each.
        let (width, model) = (60 + NAME_CHARS + TOP_CHARS, Model::new("s".into(), TimeZone::UTC, NOW));
        let mut curve = CurveState { from_unix_seconds: NOW - 100.0, interval_seconds: 1, ..CurveState::default() };
        let rate = |second: u64| if second < 50 { Some(8e6) } else { (second >= 70).then_some(0.0) };
        curve.up_bits_per_second = (0..100).map(rate).collect();
        curve.down_bits_per_second = vec![Some(0.0); 100];
        curve.failed_dials = (0..100).map(|second| u32::from(second == 99)).collect();
        let incident = |from, until, health| IncidentState {
            from_unix_seconds: NOW - from,
            until_unix_seconds: NOW - until,
            goes_on: until == 0.0,
            health,
            stage: "WAN".into(),
        };
        curve.incidents = vec![incident(5000.0, 4000.0, Health::Broken), incident(50.0, 30.0, Health::Broken)];
        let said = |curve: &CurveState| lines(curve, &model, width).into_iter().map(|(_, line)| line);
        let mut lines: Vec<String> = said(&curve).collect();
        let blank = " ".repeat(50);
        assert_eq!(lines.remove(0), format!("  up       {blank}█████  ▁▁▁ 8.00M"), "two looks are missing");
        assert_eq!(lines.remove(0), format!("  failed   {blank}▁▁▁▁▁▁▁▁▁█ 1"), "nothing went down");
        assert_eq!(lines.remove(0), format!("  not well {blank}     XX   "));
        assert_eq!(lines[0], "  not well from 22:12:30 to 22:12:50: at worst broken at the WAN");
        assert_eq!(lines.len(), 2);
        curve.incidents.extend([incident(20.0, 15.0, Health::Broken), incident(3.0, 0.0, Health::Doubtful)]);
        let last: Vec<String> = said(&curve).skip(3).collect();
        assert_eq!(last[0], "  not well since 22:13:17, still: at worst doubtful at the WAN");
        assert_eq!((last.len(), &*last[3]), (4, "  not well 4 times; the last 3 are shown"));
        for width in 0..30 {
            super::lines(&curve, &model, width);
        }
    }
}
