//! Makes the changes of a plan, and undoes those of a record. Both can be stopped between any two steps: the record on disk always
//! says enough to undo everything.

use super::place::{FILE, Host, ValuePlace};
use super::plan::{self, Plan};
use super::record::{ChangedPlace, Record};
use std::io;
use std::path::Path;

/// Makes all changes of `plan`, or none. `earlier` is the record on disk.
///
/// # Errors
/// A step failed: a sentence that says which, and whether everything is as before.
pub(super) fn apply(host: &Host, plan: &Plan, earlier: Option<&Record>) -> Result<(), String> {
    // A question may stand on the terminal for long.
    let has_changed = |change: &&plan::Change| change.place.value().ok().as_ref() != Some(&change.present);
    if let Some(change) = plan.changes.iter().find(has_changed) {
        return Err(format!("{} has changed meanwhile; nothing was changed; run it again", change.place));
    }
    let mut record = earlier.cloned().unwrap_or_else(Record::new);
    for change in &plan.changes {
        record.note(&change.place, change.present.as_deref(), &change.value);
    }
    for (place, value) in &plan.file_lines {
        let is_unknown = record.change(place).is_some_and(|change| !change.is_ours(Some(value)));
        if is_unknown {
            record.note(place, None, value);
        }
    }
    let is_new = |name: &&String| !record.modules.contains(name);
    let modules: Vec<String> = plan.modules.iter().filter(is_new).cloned().collect();
    record.modules.extend(modules);
    let mut begun = Begun::default();
    make(host, plan, &record, &mut begun).map_err(|why| {
        let loaded = plan.modules[..begun.modules].iter();
        let loaded: String = loaded.map(|name| format!("; module {name} stays loaded")).collect();
        match revert(host, plan, begun.changes, earlier) {
            Ok(()) => format!("{why}; every value is as it was before{loaded}"),
            Err(also) => format!("{why}; then {also}; `longhaul tune --rollback` tries it again{loaded}"),
        }
    })
}

/// How far a plan has come.
#[derive(Default)]
struct Begun {
    /// Modules that are loaded.
    modules: usize,
    /// Changes that were begun, with the one that failed.
    changes: usize,
}

/// Makes the changes in order, and counts them.
fn make(host: &Host, plan: &Plan, record: &Record, begun: &mut Begun) -> Result<(), String> {
    record.write(host).map_err(|err| format!("the record: {err}"))?;
    for module in &plan.modules {
        host.load(module).map_err(|err| format!("module {module}: {err}"))?;
        begun.modules += 1;
    }
    for change in &plan.changes {
        begun.changes += 1;
        host.set(&change.place, Some(&change.value)).map_err(|err| format!("{}: {err}", change.place))?;
    }
    Ok(())
}

/// Undoes the first `begun` changes of `plan`, and the record of them.
fn revert(host: &Host, plan: &Plan, begun: usize, earlier: Option<&Record>) -> Result<(), String> {
    let mut failed = Vec::new();
    for change in plan.changes[..begun].iter().rev() {
        let before = change.present.as_deref();
        if let Err(err) = restore(host, &change.place, before) {
            failed.push(format!("{} could not be restored to {}: {err}", change.place, before.unwrap_or("nothing")));
        }
    }
    if let Err(err) = host.remove_unfinished(Path::new(FILE)) {
        failed.push(format!("{FILE}: {err}"));
    }
    if !failed.is_empty() {
        return Err(failed.join("; "));
    }
    let restored = earlier.map_or_else(|| Record::remove(host), |record| record.write(host));
    restored.map_err(|err| format!("the record: {err}"))
}

/// How the rollback of one place ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// It has its old value again, or still.
    Restored,
    /// It has a value that neither tune nor anybody before it has set, and keeps it.
    Foreign(Option<String>),
    /// It could not be restored, and why.
    Failed(String),
}

/// The end of a rollback.
#[derive(Debug)]
pub(super) struct RolledBack {
    /// The places of the record, and how each ended.
    pub(super) places: Vec<(ChangedPlace, Undone)>,
    /// The kernel modules that tune has loaded. They stay loaded.
    pub(super) modules: Vec<String>,
}

/// Looks whether tune's file is as tune wrote it, or gone. Another one would set its values again at boot, after a rollback.
///
/// # Errors
/// It is not: a sentence that says what to do.
pub(super) fn check_file(record: &Record) -> Result<(), String> {
    let has_sysctls = record.changes.iter().any(|change| matches!(change.place, ValuePlace::Sysctl(_)));
    let is_fine = match record.change(&ValuePlace::File) {
        Some(file) => file.place.value().is_ok_and(|text| file.is_ours(text.as_deref())),
        // A rollback that had to leave a sysctl has removed the file: somebody has put it back.
        None => !has_sysctls || !Path::new(FILE).exists(),
    };
    match is_fine {
        true => Ok(()),
        false => Err(format!(
            "nothing was restored: {FILE} is not as tune wrote it; move what is to stay to another file beside it, remove it, and run \
             `longhaul tune --rollback` again"
        )),
    }
}

/// Returns how the rollback of `record` would end.
pub(super) fn foresee(record: Record) -> RolledBack {
    let places = record.changes.into_iter().map(|change| (change.clone(), foresee_change(&change)));
    RolledBack { places: places.collect(), modules: record.modules }
}

fn foresee_change(change: &ChangedPlace) -> Undone {
    let now = match change.place.value() {
        Ok(now) => now,
        Err(err) => return Undone::Failed(err.to_string()),
    };
    match change.is_ours(now.as_deref()) {
        true => Undone::Restored,
        false => Undone::Foreign(now),
    }
}

/// Undoes the changes of `record`, and shortens it to those that are left.
///
/// # Errors
/// The record cannot be written or removed.
pub(super) fn roll_back(host: &Host, record: Record) -> io::Result<RolledBack> {
    let undo = |change: ChangedPlace| {
        let undone = match foresee_change(&change) {
            Undone::Restored => match restore(host, &change.place, change.old.as_deref()) {
                Ok(()) => Undone::Restored,
                Err(err) => Undone::Failed(err.to_string()),
            },
            left => left,
        };
        (change, undone)
    };
    // In the order of the changes, the file last: if the host restarts meanwhile, the file sets values of tune again.
    let (of_file, others): (Vec<ChangedPlace>, Vec<ChangedPlace>) =
        record.changes.into_iter().partition(|change| change.place == ValuePlace::File);
    let places: Vec<(ChangedPlace, Undone)> = others.into_iter().chain(of_file).map(undo).collect();
    host.remove_unfinished(Path::new(FILE))?;
    let is_file_left =
        places.iter().any(|(change, undone)| change.place == ValuePlace::File && *undone != Undone::Restored);
    // A file that could not be removed sets the sysctls again at boot.
    let is_kept = |(change, undone): &&(ChangedPlace, Undone)| {
        *undone != Undone::Restored || is_file_left && matches!(change.place, ValuePlace::Sysctl(_))
    };
    let mut rest = Record::new();
    rest.changes = places.iter().filter(is_kept).map(|(change, _)| change.clone()).collect();
    match rest.changes.is_empty() {
        true => Record::remove(host)?,
        false => rest.write(host)?,
    }
    Ok(RolledBack { places, modules: record.modules })
}

/// Sets `place` to the value `old`, unless it has it.
fn restore(host: &Host, place: &ValuePlace, old: Option<&str>) -> io::Result<()> {
    match place.is_same(place.value()?.as_deref(), old) {
        true => Ok(()),
        false => host.set(place, old),
    }
}
