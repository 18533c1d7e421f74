//! The record of the values before tune: `/var/lib/longhaul/tune.json`. It is on disk before the first change, and goes when the last
//! change is undone.

use super::place::{Host, ValuePlace};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    longhaul: String,
    format: u64,
    /// The changed places, each once.
    pub(super) changes: Vec<ChangedPlace>,
    /// The kernel modules that tune has loaded.
    pub(super) modules: Vec<String>,
}

/// A changed place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangedPlace {
    pub(super) place: ValuePlace,
    /// The value before the first change; `None` if the file did not exist.
    pub(super) old: Option<String>,
    /// The values that tune has set since, or put into its file, the last one last. After a kill, any of them may be in force.
    pub(super) set: Vec<String>,
}

impl ChangedPlace {
    /// Whether `now` is the value before, or one of tune. A file that is gone has nothing that could be lost.
    pub(super) fn is_ours(&self, now: Option<&str>) -> bool {
        if self.place == ValuePlace::File && now.is_none() {
            return true;
        }
        let is_now = |value: Option<&str>| self.place.is_same(now, value);
        is_now(self.old.as_deref()) || self.set.iter().any(|value| is_now(Some(value)))
    }
}

impl Record {
    /// Returns a record of nothing.
    pub(super) fn new() -> Record {
        Record { longhaul: KIND.into(), format: FORMAT, changes: Vec::new(), modules: Vec::new() }
    }

    /// Reads the record; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is of a newer longhaul: a sentence that says so.
    pub(super) fn read() -> Result<Option<Record>, String> {
        let text = match fs::read(RECORD) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|err| format!("{RECORD}: {err}"))?,
        };
        let damaged =
            |why: String| format!("{RECORD}: {why}. It is damaged: restore the sysctls by hand, and remove it");
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|err| damaged(err.to_string()))?;
        if value.get("longhaul").and_then(serde_json::Value::as_str) != Some(KIND) {
            return Err(damaged("it is no record of tune".into()));
        }
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(newer) if newer > FORMAT => Err(format!(
                "{RECORD}: its format is {newer}, and this longhaul reads {FORMAT}: use the longhaul that wrote it"
            )),
            Some(FORMAT) => {
                let record: Record = serde_json::from_value(value).map_err(|err| damaged(err.to_string()))?;
                match record.changes.iter().find(|change| !change.place.is_plain()) {
                    Some(change) => Err(damaged(format!("{} is no sysctl", change.place))),
                    None => Ok(Some(record)),
                }
            }
            _ => Err(damaged("it has no format".into())),
        }
    }

    /// Returns the change of `place`, if tune has made one.
    pub(super) fn change(&self, place: &ValuePlace) -> Option<&ChangedPlace> {
        self.changes.iter().find(|change| change.place == *place)
    }

    /// Notes that `place` is to have `value`. The first old value stays.
    pub(super) fn note(&mut self, place: &ValuePlace, old: Option<&str>, value: &str) {
        let Some(change) = self.changes.iter_mut().find(|change| change.place == *place) else {
            let (old, set) = (old.map(str::to_string), vec![value.to_string()]);
            return self.changes.push(ChangedPlace { place: place.clone(), old, set });
        };
        change.set.retain(|known| known != value);
        change.set.push(value.into());
    }

    /// Writes the record to disk.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn write(&self, host: &Host) -> io::Result<()> {
        host.replace(Path::new(RECORD), &format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// Removes the record from disk.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn remove(host: &Host) -> io::Result<()> {
        host.remove_unfinished(Path::new(RECORD))?;
        host.remove(Path::new(RECORD))
    }
}

/// The right to change this host. One process has it, until it ends in any way.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Lock {
    /// Takes the lock, and creates the folder of the record.
    ///
    /// # Errors
    /// Another process has it, or it cannot be created: a sentence that says so.
    pub(super) fn take(host: &Host) -> Result<Lock, String> {
        let failed = |err: io::Error| format!("{LOCK}: {err}");
        host.make_folder(Path::new(FOLDER)).map_err(|err| format!("{FOLDER}: {err}"))?;
        loop {
            host.announce(&format!("create {LOCK}")).map_err(failed)?;
            let file = File::options().create(true).truncate(false).write(true).open(LOCK).map_err(failed)?;
            if !longhaul_sys::process::try_lock(&file).map_err(|err| failed(err.into()))? {
                return Err("another longhaul changes the sysctls of this host now; wait until it has ended".into());
            }
            // Whoever had the lock may have removed the file since it was opened here.
            let inode = |found: fs::Metadata| (found.dev(), found.ino());
            if fs::metadata(LOCK).map(inode).ok() == file.metadata().map(inode).ok() {
                return Ok(Lock(file));
            }
        }
    }

    /// Gives the lock back. Without a record, nothing of tune is left on disk then.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn release(self, host: &Host) -> io::Result<()> {
        if Path::new(RECORD).exists() {
            return Ok(());
        }
        host.remove_unfinished(Path::new(RECORD))?;
        host.remove(Path::new(LOCK))?;
        host.remove_empty_folder(Path::new(FOLDER))
    }
}

const KIND: &str = "tune";
/// The version of the record that is read here.
const FORMAT: u64 = 1;
/// The folder of the record.
pub(super) const FOLDER: &str = "/var/lib/longhaul";
/// The record.
pub(super) const RECORD: &str = "/var/lib/longhaul/tune.json";
const LOCK: &str = "/var/lib/longhaul/tune.lock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_no_other_file() {
        for name in ["net.ipv4.tcp_rmem", "net.ipv4.conf.eth0-1.mtu"] {
            assert!(ValuePlace::Sysctl(name.into()).is_plain(), "{name}");
        }
        for name in ["/etc/passwd", "kernel.core_pattern", "net/../../etc/passwd", "net...etc", "net.a b", ""] {
            assert!(!ValuePlace::Sysctl(name.into()).is_plain(), "{name}");
        }
        assert!(
            ValuePlace::Route("10.20.0.0/16".into()).is_plain()
                && !ValuePlace::Route("default; reboot".into()).is_plain()
        );
    }

    #[test]
    fn the_first_old_value_stays_and_the_last_set_one_is_last() {
        let place = ValuePlace::Sysctl("net.ipv4.tcp_rmem".into());
        let mut record = Record::new();
        for (old, value) in [("1", "2"), ("2", "3"), ("3", "2")] {
            record.note(&place, Some(old), value);
        }
        record.note(&ValuePlace::File, None, "text");
        let [of_sysctl, of_file] = &record.changes[..] else { panic!("{record:?}") };
        assert_eq!((of_sysctl.old.as_deref(), &of_sysctl.set[..]), (Some("1"), &["3".to_string(), "2".into()][..]));
        assert_eq!(of_file.old, None);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
