//! What to type: the commands for each system, and the files of both relays.

use crate::advise::advice::{Advice, SettingChange, Typed};
use crate::page::{Html, commands, mark, paragraph, section, source};
use longhaul_core::advice::{EVERY_HOST, Setting};

/// Writes the commands for each system.
pub(super) fn systems(html: &mut Html, advice: &Advice) {
    for typed in &advice.systems {
        section(html, &format!("What to type on both hosts: {}", typed.system.title), |html| system(html, typed));
    }
}

fn system(html: &mut Html, typed: &Typed) {
    if typed.settings.is_empty() {
        paragraph(html, "", "Nothing: no setting of this system is known to help on this path.");
    }
    paragraph(html, "", EVERY_HOST);
    if !typed.system.note.is_empty() {
        paragraph(html, "", typed.system.note);
    }
    if typed.settings.iter().any(|change| change.undo.contains("OLD")) {
        paragraph(html, "", "`OLD` is the value that the command to read shows before the change.");
    }
    for (number, change) in typed.settings.iter().enumerate() {
        html.node("div", &[("class", "setting")], |html| setting(html, number + 1, change));
    }
}

fn setting(html: &mut Html, number: usize, change: &SettingChange) {
    let row = change.setting;
    html.node("h4", &[], |html| {
        html.text(&format!("{number}. {} = {}", row.name, change.value));
        mark(html, row.verified);
    });
    let lifts = if change.is_first { "; lifts the measured limit" } else { "" };
    paragraph(html, "source", &format!("{}; default {}{lifts}", row.place, default(row)));
    let set = [("set now", &change.set_now), ("make permanent", &change.set_permanent), ("undo", &change.undo)];
    commands(html, &[&[("read", &change.read)], &set[..]].concat());
    if !row.caveat.is_empty() {
        paragraph(html, "", row.caveat);
    }
    source(html, row.source);
}

/// Returns the default in words, with those of other releases.
fn default(row: &Setting) -> String {
    let default = if row.default.is_empty() { "unknown" } else { row.default };
    let others = if row.other_defaults.is_empty() { String::new() } else { format!(" ({})", row.other_defaults) };
    default.to_string() + &others
}

/// Writes the files of both relays, and their sysctls.
pub(super) fn relays(html: &mut Html, advice: &Advice) {
    let relays = &advice.relays;
    section(html, "Configuration of both relays", |html| {
        for (title, file) in [("The near relay", &relays.near), ("The far relay", &relays.far)] {
            html.leaf("h4", &[], title);
            html.leaf("pre", &[], file.trim_end());
        }
        if !relays.sysctls.is_empty() {
            let lines: Vec<String> = relays.sysctls.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            html.leaf("h4", &[], "Sysctls of both relays");
            html.leaf("pre", &[], &lines.join("\n"));
            paragraph(html, "", "`longhaul tune` sets them where longhaul is installed, and undoes it.");
        }
    });
}
