//! The changes that a path asks for on this host, and what is left out of them.

use super::files::BootFiles;
use super::place::{ValuePlace, not_ours};
use super::program;
use super::record::{ChangedPlace, Record};
use super::route;
use super::values::{self, merged};
use crate::advise::relay_goal;
use crate::path::Path;
use longhaul_core::advice::{Fit, Goal, LINUX, Setting};
use longhaul_core::path::BBR;

/// The changes, in the order in which they are made. All of them are made, or none.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Kernel modules to load, before the changes.
    pub(super) modules: Vec<String>,
    pub(super) changes: Vec<Change>,
    /// Places that suffice as they are, and their values.
    pub(super) enough: Vec<(String, String)>,
    /// Places that stay as they are although they do not suffice, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// The sysctls of tune's file, with the values at boot. Where an earlier file has more than tune sets, they are tune's, too.
    pub(super) file_lines: Vec<(ValuePlace, String)>,
    /// Sentences about the changes.
    pub(super) notes: Vec<String>,
}

/// A change of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) place: ValuePlace,
    /// The present value; `None` if the file does not exist.
    pub(super) present: Option<String>,
    /// The value to set.
    pub(super) value: String,
}

/// A sysctl that the path or the file of relays may want to change.
struct Wanted<'w> {
    name: &'w str,
    row: Option<&'static Setting>,
    /// Its value in the file of relays.
    of_relays: Option<&'w str>,
}

impl Plan {
    /// Returns the changes for `path`, for the route to `network` if it is given, and for the sysctls of relays where longhaul is
    /// installed. `record` is that of earlier changes.
    ///
    /// # Errors
    /// There is no such route, or something cannot be read: a sentence that says so.
    pub(super) fn new(path: &Path, network: Option<&str>, record: Option<&Record>) -> Result<Plan, String> {
        let (mut plan, files) = (Plan::default(), BootFiles::read());
        let is_relay = !files.of_relays().is_empty();
        let goal = if is_relay { relay_goal(path) } else { path.goal(&LINUX) };
        if is_relay {
            plan.add_congestion_control(BBR);
        }
        for wanted in wanted(files.of_relays()) {
            plan.add_sysctl(&wanted, &goal, &files, record)?;
        }
        if let Some(network) = network {
            plan.add_route(network, &goal)?;
        }
        plan.add_file(record, &files, &goal)?;
        Ok(plan)
    }

    /// Whether nothing is to be changed.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.modules.is_empty()
    }

    fn add_sysctl(
        &mut self,
        wanted: &Wanted,
        goal: &Goal,
        files: &BootFiles,
        record: Option<&Record>,
    ) -> Result<(), String> {
        let name = wanted.name;
        if wanted.of_relays.is_none() && wanted.row.is_none_or(|row| (row.want)(goal).is_none()) {
            return Ok(());
        }
        if let Some(why) = not_ours(name) {
            self.left_out.push((name.into(), why.into()));
            return Ok(());
        }
        let place = ValuePlace::Sysctl(name.into());
        let present = read(&place)?.unwrap_or_default();
        let for_path = wanted.row.and_then(|row| row.change(&present, goal)).unwrap_or_else(|| present.clone());
        let value = wanted.of_relays.map_or(for_path.clone(), |of_relays| merged(name, &for_path, of_relays));
        if value == present && !self.must_keep(wanted, &value, goal, files, record) {
            self.enough.push((name.into(), present));
            return Ok(());
        }
        if name == CONGESTION && !files.of_relays().is_empty() {
            self.left_out.push((name.into(), "the relay chooses BBR itself, for each connection over the WAN".into()));
            return Ok(());
        }
        let is_offered = match name {
            CONGESTION => self.add_congestion_control(&value),
            "net.core.default_qdisc" => self.add_module(&format!("sch_{value}")),
            _ => true,
        };
        if !is_offered {
            self.left_out.push((name.into(), format!("this kernel has no {value}")));
            return Ok(());
        }
        // tune's file is read last, and must not lower the value of another one.
        let mut value = value;
        if let Some((other, file)) = files.value_before(name) {
            let kept = at_boot(name, other, &value, goal);
            if kept != value {
                self.notes
                    .push(format!("{name}: {} sets it to {other} at boot, which is not lowered.", file.display()));
            }
            value = kept;
        }
        if let Some((_, file)) = files.value_after(name).filter(|(other, _)| *other != value) {
            self.notes
                .push(format!("At boot, {} sets {name}, too. It is read later, so its value counts.", file.display()));
        }
        self.changes.push(Change { place, present: Some(present), value });
        Ok(())
    }

    /// Returns whether `value`, which is in force and suffices, has to go into tune's file: an earlier file sets too little at boot.
    /// Notes why tune cannot keep it: a later file sets too little, or somebody else has set it since tune did.
    fn must_keep(
        &mut self,
        wanted: &Wanted,
        value: &str,
        goal: &Goal,
        files: &BootFiles,
        record: Option<&Record>,
    ) -> bool {
        let name = wanted.name;
        let is_too_little = |other: &str| match wanted.row {
            Some(row) => row.change(other, goal).is_some(),
            None => merged(name, other, value) != other,
        };
        if let Some((other, file)) = files.value_after(name) {
            if is_too_little(other) {
                self.notes.push(format!("{name}: {} sets it to {other} at boot, and is read last.", file.display()));
            }
            return false;
        }
        let Some((other, file)) = files.value_before(name).filter(|(other, _)| is_too_little(other)) else {
            return false;
        };
        let recorded = record.and_then(|record| record.change(&ValuePlace::Sysctl(name.into())));
        if recorded.is_some_and(|change| !change.is_ours(Some(value))) {
            let file = file.display();
            self.notes.push(format!(
                "{name}: somebody else has set it since, so tune does not keep it; {file} sets it to {other} at boot."
            ));
        }
        recorded.is_none()
    }

    /// Plans to load the module of a congestion control, unless the kernel offers it. Returns whether it is offered then.
    fn add_congestion_control(&mut self, name: &str) -> bool {
        let offered = longhaul_sys::limits::sysctl("net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        if offered.split_whitespace().any(|known| known == name) {
            return true;
        }
        let module = format!("tcp_{name}");
        let is_offered = self.add_module(&module);
        let about = format!("module {module}");
        if !is_offered && self.left_out.iter().all(|(known, _)| *known != about) {
            self.left_out.push((about, "this kernel does not have it".into()));
        }
        is_offered
    }

    /// Plans to load a module that the kernel has and that is not loaded yet. Returns whether the kernel has it.
    fn add_module(&mut self, name: &str) -> bool {
        let Some(is_loaded) = program::module(name) else { return false };
        if !is_loaded && self.modules.iter().all(|known| known != name) {
            self.modules.push(name.into());
        }
        true
    }

    fn add_route(&mut self, network: &str, goal: &Goal) -> Result<(), String> {
        let place = ValuePlace::Route(network.into());
        let Some(present) = read(&place)? else {
            return Err(format!("there is no route to {network}; `ip route` lists them"));
        };
        let words = values::rows("route").find_map(|row| (row.want)(goal));
        let is_short = route::mtu(&present).is_some_and(|mtu| mtu <= goal.packet);
        let Some(words) = words.filter(|_| !is_short) else {
            self.enough.push((place.to_string(), present));
            return Ok(());
        };
        self.notes.push(format!(
            "The route to {network} keeps its change until a reboot, or until the network configuration sets it anew."
        ));
        let value = route::with_packets(&present, &words);
        self.changes.push(Change { place, present: Some(present), value });
        Ok(())
    }

    /// Plans the file with the sysctls of this plan and of `record`.
    fn add_file(&mut self, record: Option<&Record>, files: &BootFiles, goal: &Goal) -> Result<(), String> {
        let recorded = record.map(|record| record.changes.as_slice()).unwrap_or_default();
        // The file must not bring back a value where somebody else has set another one since.
        let is_ours = |change: &&ChangedPlace| {
            let present = change.place.value().unwrap_or_default();
            present.is_none_or(|present| change.is_ours(Some(&present)))
        };
        let recorded = recorded.iter().filter(is_ours).filter_map(|change| Some((&change.place, change.set.last()?)));
        let planned = self.changes.iter().map(|change| (&change.place, &change.value));
        let mut lines: Vec<(&str, &str)> = Vec::new();
        for (place, value) in recorded.chain(planned) {
            let ValuePlace::Sysctl(name) = place else { continue };
            match lines.iter_mut().find(|(known, _)| known == name) {
                Some(line) => line.1 = value,
                None => lines.push((name, value)),
            }
        }
        // An earlier file may set more by now than tune did.
        let kept = |(name, value): &(&str, &str)| {
            let kept = files.value_before(name).map(|(other, _)| at_boot(name, other, value, goal));
            (ValuePlace::Sysctl((*name).into()), kept.unwrap_or_else(|| (*value).to_string()))
        };
        self.file_lines = lines.iter().map(kept).collect();
        let lines: String = self.file_lines.iter().map(|(place, value)| format!("{place} = {value}\n")).collect();
        let present = read(&ValuePlace::File)?;
        let value = format!("{HEADER}{lines}");
        let recorded = record.and_then(|record| record.change(&ValuePlace::File));
        // Without a line it stays, and sets nothing: the rollback removes it.
        let is_needed = !lines.is_empty() || recorded.is_some() && present.is_some();
        if !is_needed || present.as_ref() == Some(&value) {
            return Ok(());
        }
        let is_ours = recorded.is_some_and(|recorded| recorded.is_ours(present.as_deref()));
        if present.is_some() && !is_ours {
            return Err(format!(
                "{} is not as tune wrote it: move what is to stay to another file beside it, remove it, and run tune again",
                ValuePlace::File
            ));
        }
        self.changes.push(Change { place: ValuePlace::File, present, value });
        Ok(())
    }
}

/// Returns the value that tune's file is to have where an earlier one has `other`: nothing of that is lowered, and a mode that serves
/// the path stays.
fn at_boot(name: &str, other: &str, value: &str, goal: &Goal) -> String {
    let row = values::rows("sysctl").find(|row| row.name == name && row.fit != Fit::AtLeast);
    let is_served = row.is_some_and(|row| (row.want)(goal).is_some() && row.change(other, goal).is_none());
    if is_served { other.into() } else { merged(name, other, value) }
}

/// Returns the sysctls of the rows of Linux, and those of the file of relays.
fn wanted(of_relays: &[(String, String)]) -> Vec<Wanted<'_>> {
    let rows = values::rows("sysctl").map(|row| Wanted { name: row.name, row: Some(row), of_relays: None });
    let mut wanted: Vec<Wanted> = rows.collect();
    for (name, value) in of_relays {
        match wanted.iter_mut().find(|known| known.name == name) {
            Some(known) => known.of_relays = Some(value),
            None => wanted.push(Wanted { name, row: None, of_relays: Some(value) }),
        }
    }
    wanted
}

fn read(place: &ValuePlace) -> Result<Option<String>, String> {
    place.value().map_err(|err| format!("{place}: {err}"))
}

const CONGESTION: &str = "net.ipv4.tcp_congestion_control";
const HEADER: &str =
    "# Written by `longhaul tune`. `longhaul tune --rollback` removes it and restores the values before.\n";
