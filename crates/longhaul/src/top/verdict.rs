//! The first lines of the screen. They answer: is it whole, and if not, which stage of which tunnel since when. The word
//! says it, and the colour only repeats it.

use super::model::{Contact, Model};
use crate::admin::client::NoAnswer;
use crate::admin::snapshot::Snapshot;
pub(super) use crate::admin::verdict::Tone;
use crate::admin::verdict::{Verdict, Words};
use crate::figures;

/// A line of text and how good the news is.
pub(super) type Said = (Tone, String);

/// Returns the verdict in one line.
pub(super) fn verdict(model: &Model) -> Said {
    match &model.contact {
        Contact::Asking => (Tone::Plain, format!("ASKING the daemon at {}", model.socket)),
        Contact::Gone { since, why, .. } => {
            let word = match why {
                NoAnswer::NoDaemon(_) | NoAnswer::Hangs(_) => "NOT WHOLE",
                NoAnswer::Refused(_) | NoAnswer::Failed(_) => "CANNOT TELL",
            };
            (Tone::Bad, format!("{word} {}: {why}", since_when(*since, model)))
        }
        Contact::Up => match &model.picture {
            Some((picture, _)) => {
                let verdict = Verdict::of(picture);
                (Words::of(verdict.health).tone, verdict.line(|since| since_when(since, model)))
            }
            None => (Tone::Plain, "ASKING".into()),
        },
    }
}

/// Returns the reasons below the verdict, the worst first.
pub(super) fn reasons(model: &Model) -> Vec<Said> {
    let mut said = Vec::new();
    if let Contact::Gone { unit, .. } = &model.contact {
        said.extend(unit.as_ref().map(|unit| (Tone::Bad, unit.clone())));
        said.push((
            Tone::Plain,
            match &model.picture {
                Some((_, at)) => format!("Everything below is from {}, not from now. Asking again.", time(*at, model)),
                None => "Asking again.".into(),
            },
        ));
    }
    let Some((picture, _)) = &model.picture else { return said };
    said.extend(picture.problems.iter().map(|problem| {
        let words = Words::of(problem.health);
        let tone = if model.contact == Contact::Up { words.tone } else { Tone::Past };
        (tone, format!("{} {}: {problem}", words.problem, since_when(problem.since_unix_seconds, model)))
    }));
    said
}

/// Returns lines about the process: its state, its flows and rates, its cap.
pub(super) fn process(model: &Model) -> Vec<String> {
    let Some((picture, _)) = &model.picture else { return Vec::new() };
    let Snapshot { version, pid, phase, .. } = picture;
    let rate = |rate: Option<f64>| rate.map_or("-".into(), figures::rate);
    let flows = figures::count(picture.flows.len(), "flow");
    let mut lines = vec![
        format!("longhaul {version}, pid {pid}, {}, up {}", phase.text(), figures::age(picture.uptime_seconds)),
        format!("{flows}, up {}bit/s, down {}bit/s", rate(picture.rates.up), rate(picture.rates.down)),
    ];
    lines.extend(picture.cap.clone());
    lines.extend(picture.path_lines());
    lines
}

/// Returns a time and its age: `since 02:03:11 (10m56s)`.
fn since_when(since: f64, model: &Model) -> String {
    format!("since {} ({})", time(since, model), figures::age(model.now - since))
}

/// Returns the time of day of `unix_seconds`.
pub(super) fn time(unix_seconds: f64, model: &Model) -> String {
    figures::clock(unix_seconds, model.now, &model.zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::{Health, Problem};
    use crate::control::Phase;
    use jiff::tz::TimeZone;

    const NOW: f64 = 1_700_000_000.0; // 2023-11-14 22:13:20 UTC

    fn model(snapshot: Snapshot) -> Model {
        let mut model = Model::new("/run/admin.sock".into(), TimeZone::UTC, NOW);
        model.answered(Ok(snapshot));
        model
    }

    fn problem(tunnel: Option<&str>, ago: f64, health: Health) -> Problem {
        Problem {
            tunnel: tunnel.map(Into::into),
            stage: "next hop".into(),
            what: "b:1 is down".into(),
            since_unix_seconds: NOW - ago,
            health,
            ..Problem::default()
        }
    }

    #[test]
    fn the_first_line_says_whether_it_is_whole() {
        let whole = Snapshot { ready: true, ..Snapshot::default() };
        assert_eq!(verdict(&model(whole.clone())), (Tone::Good, "WHOLE: no problem is known".into()));
        let problems = vec![problem(Some("t"), 10.0, Health::Failing)];
        let warned = model(Snapshot { problems, ..whole.clone() });
        assert_eq!(verdict(&warned), (Tone::Warning, "WHOLE, with 1 warning".into()));
        assert_eq!(reasons(&warned)[0].1, "warning since 22:13:10 (10s): tunnel t, next hop: b:1 is down");
        let problems = vec![
            problem(Some("t"), 10.0, Health::Broken),
            problem(None, 656.0, Health::Broken),
            problem(None, 9999.0, Health::Failing),
        ];
        let broken = model(Snapshot { problems, ready: false, ..whole.clone() });
        let want = "NOT WHOLE since 22:13:10 (10s): tunnel t, next hop (and 1 more problem)";
        assert_eq!(verdict(&broken), (Tone::Bad, want.into()));
        assert_eq!(reasons(&broken)[1].1, "BROKEN since 22:02:24 (10m56s): next hop: b:1 is down");
        for phase in [Phase::Draining, Phase::Stopping] {
            let (tone, text) = verdict(&model(Snapshot { phase, ..Snapshot::default() }));
            assert!(tone == Tone::Bad && text.starts_with("NOT WHOLE: "), "{text}");
        }
    }

    #[test]
    fn a_daemon_that_is_gone_is_not_whole_since_then() {
        let mut model = model(Snapshot { ready: true, ..Snapshot::default() });
        model.now = NOW + 1.0;
        model.answered(Err(NoAnswer::NoDaemon("/run/admin.sock".into())));
        model.systemd_said(Some("longhaul.service is failed".into()));
        model.now = NOW + 13.0;
        model.answered(Err(NoAnswer::NoDaemon("/run/admin.sock".into())));
        let want = "NOT WHOLE since 22:13:21 (12s): no daemon at /run/admin.sock";
        assert_eq!(verdict(&model), (Tone::Bad, want.into()));
        let said: Vec<String> = reasons(&model).into_iter().map(|(_, text)| text).collect();
        let below = "Everything below is from 22:13:20, not from now. Asking again.";
        assert_eq!(said, ["longhaul.service is failed", below]);
        model.answered(Err(NoAnswer::Failed("no right".into())));
        assert_eq!(verdict(&model).1, "CANNOT TELL since 22:13:21 (12s): no right");
        model.answered(Ok(Snapshot { ready: true, ..Snapshot::default() }));
        assert_eq!(verdict(&model).0, Tone::Good);
        assert_eq!(reasons(&model), []);
    }
}
