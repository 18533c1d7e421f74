//! What tune says: the plan as a table, and how a rollback ended.

use super::apply::{RolledBack, Undone};
use super::place::ValuePlace;
use super::plan::{Change, Plan};
use super::record::{ChangedPlace, RECORD};
use crate::path::{Limited, Path};
use crate::show::wrapped;

/// Returns the measured limit, the change that lifts it, and the host that this is of.
pub(super) fn measured(limited: &Limited, path: &Path, has_route: bool) -> String {
    let mut text = wrapped(&limited.to_string(), "", "");
    if let Some(first) = limited.first(path) {
        text += &wrapped(&first.sentences(), "", "");
        let elsewhere = match first.host {
            Some(_) => "The changes below are for this host. Run tune on the host that is named above.",
            None => "None of the changes below lifts that limit.",
        };
        text += &wrapped(elsewhere, "", "");
        if first.host.is_some() && path.is_packet_short() && !has_route {
            text += &wrapped("To change the MSS, add --route NETWORK, such as `--route default`.", "", "");
        }
    }
    text + "\n"
}

/// Returns the plan as text, with a line for each place: first the settings that `lifts` names.
pub(super) fn plan(plan: &Plan, lifts: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    let loaded = plan.modules.iter().map(|name| (format!("module {name}"), "load it".to_string()));
    let is_first = |change: &&Change| match &change.place {
        ValuePlace::Sysctl(name) => lifts(name),
        ValuePlace::Route(_) => lifts("route mtu"),
        ValuePlace::File => false,
    };
    let (first, others): (Vec<&Change>, Vec<&Change>) = plan.changes.iter().partition(is_first);
    let shown =
        |mark: &'static str| move |change: &Change| (change.place.to_string(), new_value(&change.place, change) + mark);
    let changed = first.into_iter().map(shown("; lifts the measured limit")).chain(others.into_iter().map(shown("")));
    table(&mut text, "Changes", loaded.chain(changed).collect());
    table(&mut text, "Left out", plan.left_out.clone());
    table(&mut text, "Enough as it is", plan.enough.clone());
    plan.notes.iter().for_each(|note| text += &format!("{note}\n"));
    if !plan.notes.is_empty() {
        text.push('\n');
    }
    text
}

fn new_value(place: &ValuePlace, change: &Change) -> String {
    match place {
        ValuePlace::File if change.value.contains('=') => "sets these sysctls at boot".into(),
        ValuePlace::File => "sets nothing at boot any more".into(),
        _ if change.present.as_ref() == Some(&change.value) => format!("stays {} after a reboot", change.value),
        _ => format!("{} -> {}", change.present.as_deref().unwrap_or("nothing"), change.value),
    }
}

fn table(text: &mut String, title: &str, lines: Vec<(String, String)>) {
    let width = lines.iter().map(|(place, _)| place.len()).max().unwrap_or_default();
    if !lines.is_empty() {
        *text += &format!("{title}:\n");
    }
    lines.iter().for_each(|(place, value)| *text += &format!("  {place:width$}  {value}\n"));
    if !lines.is_empty() {
        text.push('\n');
    }
}

/// Returns the old values that are in force, or that a rollback will set, below `title`, and the modules that stay.
pub(super) fn restored(title: &str, ended: &RolledBack) -> String {
    let mut text = String::new();
    let restored = ended.places.iter().filter(|(_, undone)| *undone == Undone::Restored);
    let lines = restored.map(|(change, _)| {
        let value = match (&change.place, &change.old) {
            (ValuePlace::File, Some(_)) => "its old text",
            (_, Some(old)) => old,
            (_, None) => "removed",
        };
        (change.place.to_string(), value.to_string())
    });
    table(&mut text, title, lines.collect());
    for name in &ended.modules {
        text += &format!("Module {name} stays loaded. `modprobe -r {name}` unloads it, if nothing uses it.\n");
    }
    text
}

/// Returns a sentence for each place that a rollback leaves.
pub(super) fn left(ended: &RolledBack) -> Vec<String> {
    let sentence = |(change, undone): &(ChangedPlace, Undone)| {
        let place = &change.place;
        match undone {
            Undone::Restored => None,
            Undone::Failed(why) => Some(format!("{place}: {why}; run `longhaul tune --rollback` again")),
            Undone::Foreign(now) => Some(format!(
                "{place} is {}, and stays: the value of tune is {}, and before it was {}; set it to one of these and run `longhaul tune \
                 --rollback` again, or remove {RECORD} to leave it so",
                now.as_deref().unwrap_or("gone"),
                change.set.last().map_or("nothing", String::as_str),
                change.old.as_deref().unwrap_or("nothing"),
            )),
        }
    };
    ended.places.iter().filter_map(sentence).collect()
}
