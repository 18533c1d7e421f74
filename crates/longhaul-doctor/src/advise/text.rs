//! The advice for a terminal, in lines of at most 80 columns where commands allow it.

use super::advice::{Advice, MEASURED, PredictionRow, SettingChange, Typed};
use crate::show::{about, command, size, speed, time, unverified, wrapped};
use longhaul_core::advice::EVERY_HOST;
use std::fmt::Write as _;

/// Returns the text: the table, the numbers, what to type, and the files of the relays.
pub(super) fn text(advice: &Advice) -> String {
    let parts = [profile(advice), table(advice), numbers(advice), typed(advice), relays(advice)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns what a profile publishes, and what is wrong with it.
fn profile(advice: &Advice) -> String {
    let Some(profile) = advice.question.profile else { return String::new() };
    let mut text = format!("Profile {}: {}\n{}", profile.name, profile.title, about("source", super::profile::SOURCE));
    text += &about("path", profile.path_source);
    for [system, setting, value] in profile.published {
        let _ = writeln!(text, "  {system:<12} {setting:<14} {value}");
    }
    text += "\nWhat contradicts itself, or arithmetic:\n";
    for contradiction in profile.contradictions {
        text += &wrapped(&format!("- {contradiction}"), "  ", "    ");
    }
    text
}

fn table(advice: &Advice) -> String {
    let question = &advice.question;
    let mut text = wrapped(&format!("Path: {}", advice.question.path), "", "  ");
    if let Some(limited) = &question.limited {
        text += &wrapped(&limited.to_string(), "", "  ");
    }
    if let Some(first) = &advice.first {
        text += &wrapped(&first.sentences(), "", "  ");
    }
    text += &wrapped(&format!("Window: {} ({})", advice.hosts.window, advice.window_from), "", "  ");
    if let Some(application) = question.application {
        text += &wrapped(
            &format!("Application: {}. {}{}", application.title, application.what, unverified(application.verified)),
            "",
            "  ",
        );
    }
    let bytes = question.bytes.map(size).unwrap_or_default();
    let _ = writeln!(text, "\n{:<22} {:>7}  {bytes:<12} {:<12} next limit", "", "MB/s", "limited by");
    if let Some((rate, limit)) = advice.measured() {
        let _ = writeln!(text, "{MEASURED:<22} {:>7}  {:<12} {limit}", speed(rate), "");
    }
    advice.rows.iter().for_each(|row| text += &line(row));
    text.push('\n');
    advice.verdict().iter().for_each(|sentence| text += &wrapped(sentence, "", ""));
    text
}

/// Returns a row of the table.
fn line(row: &PredictionRow) -> String {
    let prediction = &row.prediction;
    let time = row.seconds.map(time).unwrap_or_default();
    let then = prediction.then.map(|(limit, rate)| format!("{} at {}", limit.words(), speed(rate))).unwrap_or_default();
    let (title, rate) = (row.title(), speed(prediction.rate));
    let line = format!("{title:<22} {rate:>7}  {time:<12} {:<12} {then}", prediction.limit.words());
    line.trim_end().to_string() + "\n"
}

fn numbers(advice: &Advice) -> String {
    let mut text = String::from("Numbers\n");
    for (name, value) in advice.numbers() {
        let _ = writeln!(text, "  {name:<32} {value}");
    }
    if let Some(encapsulation) = advice.question.path.encapsulation {
        text += &about("source", encapsulation.source);
        text += &about("note", encapsulation.caveat);
    }
    text
}

fn typed(advice: &Advice) -> String {
    advice.systems.iter().map(system).collect::<Vec<_>>().join("\n")
}

fn system(typed: &Typed) -> String {
    let mut text = format!("What to type on both hosts: {}\n", typed.system.title);
    if typed.settings.is_empty() {
        text += "  Nothing: no setting of this system is known to help on this path.\n";
    }
    text += &about("note", EVERY_HOST);
    text += &about("", typed.system.note);
    if typed.settings.iter().any(|change| change.undo.contains("OLD")) {
        text += &about("OLD", "is the value that `read` shows before the change.");
    }
    for (number, change) in typed.settings.iter().enumerate() {
        text += &setting(number + 1, change);
    }
    text
}

fn setting(number: usize, change: &SettingChange) -> String {
    let row = change.setting;
    let mark =
        format!("{}{}", if change.is_first { "; lifts the measured limit" } else { "" }, unverified(row.verified));
    let mut text =
        format!("\n{number}. {} = {} ({}; default {}){mark}\n", row.name, change.value, row.place, row.default);
    text += &command("read", &change.read);
    text += &command("now", &change.set_now);
    text += &command("permanent", &change.set_permanent);
    text += &command("undo", &change.undo);
    text + &about("note", row.caveat) + &about("source", row.source)
}

fn relays(advice: &Advice) -> String {
    let relays = &advice.relays;
    let mut text =
        format!("The near relay\n\n{}\nThe far relay\n\n{}\nSysctls of both relays\n\n", relays.near, relays.far);
    for (name, value) in &relays.sysctls {
        let _ = writeln!(text, "{name} = {value}");
    }
    text + "\n`longhaul tune` sets them where longhaul is installed, and undoes it.\n"
}
