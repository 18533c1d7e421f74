//! The verdict in words: the gain of a relay, the effect of tuning the hosts, and the limit in each case.

use crate::carrier::row::Role;
use crate::report::columns::shown;
use crate::report::json::Report;
use crate::report::page::group::{Group, count};
use crate::report::run::{RunReport, Verdict};
use longhaul_doctor::page::Html;

/// Writes the headline of the first figure in large letters, then the other figures, then the count of verdicts.
pub(crate) fn verdict(html: &mut Html, report: &Report, groups: &[Group<'_>]) {
    let mut told = groups.iter().filter_map(|group| Some((group, headline(group)?)));
    match told.next() {
        Some((group, headline)) => {
            html.leaf("p", &[("class", "headline")], &headline);
            html.leaf("p", &[], &details(group).join(" "));
        }
        None => html.leaf("p", &[("class", "headline")], &without_relay(report)),
    }
    let rest: Vec<_> = told.collect();
    if !rest.is_empty() {
        html.node("ul", &[], |html| {
            for (group, headline) in rest {
                html.node("li", &[], |html| {
                    html.leaf("code", &[], group.id);
                    let all = [vec![headline], details(group)].concat();
                    html.text(&format!(": {}", all.join(" ")));
                });
            }
        });
    }
    tally(html, report);
}

/// Returns a sentence about longhaul's speed for this figure; `None` if it was not measured.
pub(crate) fn headline(group: &Group<'_>) -> Option<String> {
    let (run, with) = group.measured(Role::Longhaul)?;
    let what = traffic(run);
    let direct = group.measured(Role::Direct).map(|(_, direct)| direct);
    if group.runs.iter().any(|run| run.verdict == Verdict::Unclear) {
        let instead = direct.map_or_else(String::new, |direct| format!(" instead of {}", shown(direct)));
        let measured = format!("{}{instead} MB/s", shown(with));
        return Some(format!(
            "Undecided, because other programs disturbed the measurement of {what}. Measured: {measured}."
        ));
    }
    let Some(direct) = direct else {
        return Some(format!("With longhaul {what} reaches {} MB/s; there is no run without a relay.", shown(with)));
    };
    let both = format!("{} instead of {} MB/s", shown(with), shown(direct));
    Some(match run.gain_over_direct? {
        gain if gain > 1.05 => format!("With longhaul {what} is {gain:.1} times as fast: {both}."),
        gain if gain > 0.95 => format!("With longhaul {what} is as fast as without a relay: {both}."),
        gain => format!("With longhaul {what} is slower, {gain:.2} times as fast: {both}."),
    })
}

/// Returns sentences about the other carriers, tuned hosts, and the limit of longhaul.
fn details(group: &Group<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_other = |run: &&&RunReport| run.has_role(Role::Relay);
    let others = group.runs.iter().filter(is_other).filter_map(|run| Some((run, run.measured?)));
    let others: Vec<String> =
        others.map(|(run, measured)| format!("{} reaches {} MB/s", run.carrier_name(), shown(measured))).collect();
    if !others.is_empty() {
        sentences.push(sentence(&others.join(", ")));
    }
    sentences.extend(tuned(group));
    if let Some((run, _)) =
        group.measured(Role::Longhaul).filter(|(run, _)| matches!(run.verdict, Verdict::Pass | Verdict::Unjudged))
    {
        if !run.why.is_empty() {
            sentences.push(sentence(&format!("The limit with longhaul: {}", run.why)));
        }
    }
    sentences
}

/// Returns a sentence about the speed of tuned hosts without a relay, measured or else computed.
fn tuned(group: &Group<'_>) -> Option<String> {
    if let Some((run, measured)) = group.tuned.and_then(|run| Some((run, run.measured?))) {
        let text = format!("Tuning the hosts alone gives {} MB/s. The limit is then: {}", shown(measured), run.why);
        return Some(sentence(&text));
    }
    let tuned = group.runs.iter().find_map(|run| run.tuned.as_ref())?;
    Some(format!(
        "Tuning the hosts alone would give at most {} MB/s (computed). The limit is then {}.",
        shown(tuned.computed),
        tuned.formula
    ))
}

/// Returns the sentence for a report without a measured relay.
pub(crate) fn without_relay(report: &Report) -> String {
    let Some((run, measured)) = report.runs.iter().find_map(|run| Some((run, run.measured?))) else {
        return "Nothing was measured: every run failed or was left out.".into();
    };
    let over = if run.is_direct() { "Without a relay".into() } else { format!("Over {}", run.carrier_name()) };
    let mut text = format!("{over} {} reaches {} MB/s", traffic(run), shown(measured));
    if let Some(computed) = run.computed {
        text += &format!("; the computed speed is {}", shown(computed));
    }
    if let Some(formula) = run.formula {
        text += &format!(" ({formula})");
    }
    text + "."
}

/// Writes the number of runs with each verdict, and the reasons of failed and unclear runs.
fn tally(html: &mut Html, report: &Report) {
    let of = |verdict| report.runs.iter().filter(move |run| run.verdict == verdict);
    let parts = [
        (of(Verdict::Pass).count(), "came out as expected"),
        (of(Verdict::Fail).count(), "did not"),
        (of(Verdict::Unjudged).count(), "without an expectation"),
        (of(Verdict::Unclear).count(), "unclear"),
        (of(Verdict::Skip).count(), "left out"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let runs = count(report.runs.len() as u64, "run");
    html.leaf("p", &[], &format!("{runs}: {}.", if parts.is_empty() { "none".into() } else { parts.join(", ") }));
    for verdict in [Verdict::Fail, Verdict::Unclear].into_iter().filter(|verdict| of(*verdict).next().is_some()) {
        let class = if verdict == Verdict::Fail { "faults" } else { "doubts" };
        html.node("ul", &[("class", class)], |html| {
            for run in of(verdict) {
                html.node("li", &[], |html| {
                    html.leaf("code", &[], &run.id);
                    html.text(&format!(" over {}: {}", run.carrier_name(), run.why));
                });
            }
        });
    }
}

/// Returns the traffic as the subject of a sentence.
fn traffic(run: &RunReport) -> String {
    let what = run.traffic.subject;
    match run.connections {
        0 | 1 => what.to_string(),
        several => format!("{what}, {several} at once,"),
    }
}

/// Returns `text` with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
