//! The note of the lab of `lab up`: a file that the lab's process keeps locked. The lock vanishes with the process, however
//! that ends. So a note without a lock belongs to a killed lab, even if its process number is in use again.

use crate::error::LabError;
use longhaul_sys::process::try_lock;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The content of the note.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Process number of the lab.
    pub(crate) process: u32,
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The run's name.
    pub(crate) run: String,
    /// Process number of each host's anchor; empty while the lab is being built.
    pub(crate) anchors: Vec<u32>,
    /// The commands that enter the hosts, and commands to try.
    pub(crate) manual: String,
}

/// The exclusive right to a lab of this user. The drop ends it and removes the note.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    path: PathBuf,
}

/// The result of claiming the right.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// The right is ours. If there was a note, it belongs to a killed lab.
    Ours(Claim, Option<Note>),
    /// A lab stands, or is being built.
    Taken(Note),
}

impl Claim {
    /// Claims the right to a lab of this user.
    ///
    /// # Errors
    /// There is no directory for the note, or the note cannot be written.
    pub(crate) fn take() -> Result<Claimed, LabError> {
        Claim::take_in(|| Ok(directory()?.join(FILE)))
    }

    /// As [`Claim::take`]. `place` creates the directory and returns the path of the note.
    fn take_in(mut place: impl FnMut() -> Result<PathBuf, LabError>) -> Result<Claimed, LabError> {
        let mut tries = 0;
        loop {
            let path = &place()?;
            let what = || format!("opening {}", path.display());
            let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
            tries += 1;
            let mut file = match open {
                // The previous owner may have removed the directory too.
                Err(err) if err.kind() == ErrorKind::NotFound && tries < TRIES => continue,
                open => open.map_err(LabError::io(what()))?,
            };
            let is_ours = try_lock(&file)?;
            let note = read(&mut file);
            if !is_ours {
                return Ok(Claimed::Taken(note.unwrap_or_default()));
            }
            // The previous owner may have removed the file after we opened it and before we locked it.
            let number = file.metadata().map_err(LabError::io(what()))?.ino();
            if fs::metadata(path).is_ok_and(|now| now.ino() == number) {
                return Ok(Claimed::Ours(Claim { file, path: path.to_path_buf() }, note));
            }
        }
    }

    /// Writes the note.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&mut self, note: &Note) -> Result<(), LabError> {
        let text = serde_json::to_string_pretty(note).unwrap_or_default();
        let written = self.file.rewind().and_then(|()| self.file.set_len(0));
        let written = written.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(LabError::io(format!("writing {}", self.path.display())))
    }

    /// Returns a function that removes the note, for code that ends the process without dropping the claim.
    pub(crate) fn removing(&self) -> impl FnOnce() + Send + 'static {
        let path = self.path.clone();
        move || remove(&path)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn read(file: &mut File) -> Option<Note> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Removes the note, and its directory if that is empty.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// Creates and returns the directory for the note: below /run for root, and below XDG_RUNTIME_DIR for others. If that is not
/// set, the directory is below the one for temporary files.
fn directory() -> Result<PathBuf, LabError> {
    let user = fs::metadata("/proc/self").map_err(LabError::io("reading /proc/self"))?.uid();
    let of_user = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(path) => path.join(NAME),
        None => std::env::temp_dir().join(format!("{NAME}-{user}")),
    };
    let of_root = Path::new("/run").join(NAME);
    if user == 0 && own(&of_root, user).is_ok() {
        return Ok(of_root);
    }
    own(&of_user, user).map(|()| of_user)
}

/// Creates the directory at `path`, or checks that it belongs to this user, because others may write to its parent.
fn own(path: &Path, user: u32) -> Result<(), LabError> {
    let what = || format!("making {} for the lab's note", path.display());
    match DirBuilder::new().mode(0o700).create(path) {
        Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map_err(LabError::io(what())),
    }
    let found = fs::symlink_metadata(path).map_err(LabError::io(what()))?;
    match found.is_dir() && found.uid() == user {
        true => Ok(()),
        false => Err(LabError::Foreign(path.to_path_buf())),
    }
}

const NAME: &str = "longhaul-lab";
const FILE: &str = "standing.json";
/// Maximum number of attempts to open the note. An attempt fails only if another process removes the directory meanwhile.
const TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Returns the result of another process at `path`. It runs this program with the test below only.
    fn found_by_another(path: &Path) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cmd::note::tests::another_process", "--nocapture"]).env(NOTE, path);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find_map(|line| line.strip_prefix("found: ")).unwrap().to_string()
    }

    #[test]
    fn another_process() {
        let Some(path) = std::env::var_os(NOTE) else { return };
        match take_at(Path::new(&path)).unwrap() {
            Claimed::Taken(note) => println!("\nfound: taken by {}", note.process),
            Claimed::Ours(claim, note) => {
                println!("\nfound: free, {}", note.map_or("no note".into(), |note| note.scenario));
                // As SIGKILL does: the note stays.
                std::mem::forget(claim);
            }
        }
    }

    #[test]
    fn one_lab_at_a_time_and_a_note_without_a_process_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lab/standing.json");
        fs::create_dir(path.parent().unwrap()).unwrap();
        assert_eq!(found_by_another(&path), "free, no note");
        let Ok(Claimed::Ours(mut claim, None)) = take_at(&path) else { panic!("it is free") };
        let note = Note { process: 7, scenario: "mitre".into(), ..Note::default() };
        claim.write(&Note { manual: "a longer note".repeat(10), ..note.clone() }).unwrap();
        claim.write(&note).unwrap();
        assert_eq!(found_by_another(&path), "taken by 7");
        let kept = fs::read(&path).unwrap();
        drop(claim);
        assert!(!path.parent().unwrap().exists());
        // As after SIGKILL: the note is there, its lock is not.
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, kept).unwrap();
        assert_eq!(found_by_another(&path), "free, mitre");
        assert!(matches!(take_at(&path), Ok(Claimed::Ours(_, Some(found))) if found == note));
    }

    /// A lab that ends removes the note and its directory, even if another process has just looked at that directory.
    #[test]
    fn a_directory_that_vanishes_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab/standing.json");
        let mut looks = 0;
        let taken = Claim::take_in(|| {
            looks += 1;
            if looks > 1 {
                fs::create_dir(path.parent().unwrap()).unwrap();
            }
            Ok(path.clone())
        });
        assert!(matches!(taken, Ok(Claimed::Ours(_, None))) && looks == 2);
        drop(taken);
        let Err(LabError::Io { .. }) = Claim::take_in(|| Ok(path.clone())) else { panic!("nobody makes it") };
    }

    fn take_at(path: &Path) -> Result<Claimed, LabError> {
        Claim::take_in(|| Ok(path.into()))
    }

    const NOTE: &str = "LONGHAUL_TEST_NOTE";
}
