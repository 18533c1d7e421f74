//! The note of the lab that stands: a file that its process keeps locked. The lock goes with the process, however that ends,
//! so a note without a lock is that of a lab which was killed, whoever has its process number now.

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
    /// The process that keeps the lab.
    pub(crate) process: u32,
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Its run.
    pub(crate) run: String,
    /// A process on each host; none while it is being built.
    pub(crate) anchors: Vec<u32>,
    /// The commands that enter the hosts, and commands to try.
    pub(crate) manual: String,
}

/// The right to have a lab standing; nobody else has it until this is dropped, which removes the note.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    path: PathBuf,
}

/// The result of claiming the right.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// It is ours. A note that lay there is that of a lab which was killed.
    Ours(Claim, Option<Note>),
    /// A lab stands, or is being built.
    Taken(Note),
}

impl Claim {
    /// Claims the right to have a lab of this user standing.
    ///
    /// # Errors
    /// There is no directory for the note, or it cannot be written.
    pub(crate) fn take() -> Result<Claimed, LabError> {
        Claim::take_in(|| Ok(directory()?.join(FILE)))
    }

    /// `place` makes the directory of the note's path.
    fn take_in(mut place: impl FnMut() -> Result<PathBuf, LabError>) -> Result<Claimed, LabError> {
        let mut tries = 0;
        loop {
            let path = &place()?;
            let what = || format!("opening {}", path.display());
            let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
            tries += 1;
            let mut file = match open {
                // Who had it may have removed the directory too.
                Err(err) if err.kind() == ErrorKind::NotFound && tries < TRIES => continue,
                open => open.map_err(LabError::io(what()))?,
            };
            let is_ours = try_lock(&file)?;
            let note = read(&mut file);
            if !is_ours {
                return Ok(Claimed::Taken(note.unwrap_or_default()));
            }
            // Who had it may have removed the file between our opening and our locking it.
            let number = file.metadata().map_err(LabError::io(what()))?.ino();
            if fs::metadata(path).is_ok_and(|now| now.ino() == number) {
                return Ok(Claimed::Ours(Claim { file, path: path.to_path_buf() }, note));
            }
        }
    }

    /// Writes the note.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn write(&mut self, note: &Note) -> Result<(), LabError> {
        let text = serde_json::to_string_pretty(note).unwrap_or_default();
        let written = self.file.rewind().and_then(|()| self.file.set_len(0));
        let written = written.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(LabError::io(format!("writing {}", self.path.display())))
    }

    /// Returns a function that removes the note, for code that ends the process without dropping this.
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

/// Removes the note, and its directory when nothing else is in there.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// The directory for the note: in /run for root, in XDG_RUNTIME_DIR for others, and where that is not set in the directory
/// for temporary files.
fn directory() -> Result<PathBuf, LabError> {
    let user = fs::metadata("/proc/self").map_err(LabError::io("reading /proc/self"))?.uid();
    let of_user = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(path) => path.join(NAME),
        None => std::env::temp_dir().join(format!("{NAME}-{user}")),
    };
    let of_root = (user == 0).then(|| Path::new("/run").join(NAME));
    let mut wrong = LabError::Bytes(String::new());
    for path in of_root.into_iter().chain([of_user]) {
        match own(&path, user) {
            Ok(()) => return Ok(path),
            Err(why) => wrong = why,
        }
    }
    Err(wrong)
}

/// Makes the directory at `path`, or sees that it is this user's alone: others may write where it stands.
fn own(path: &Path, user: u32) -> Result<(), LabError> {
    let what = || format!("making {} for the lab's note", path.display());
    match DirBuilder::new().mode(0o700).create(path) {
        Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map_err(LabError::io(what())),
    }
    let found = fs::symlink_metadata(path).map_err(LabError::io(what()))?;
    match found.is_dir() && found.uid() == user {
        true => Ok(()),
        false => {
            Err(LabError::Bytes(format!("{} is somebody else's; remove it, or set XDG_RUNTIME_DIR", path.display())))
        }
    }
}

const NAME: &str = "longhaul-lab";
const FILE: &str = "standing.json";
/// Number of attempts to open the note. Each fails only where another process removes the directory at that moment.
const TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Returns the result of another process at `path`: this program again, which runs the test below and nothing else.
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
    fn one_at_a_time_and_a_note_without_its_process_counts_for_nothing() {
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

    /// A lab that ends removes the note and its directory; who takes the next may just have seen that directory.
    #[test]
    fn a_directory_that_goes_meanwhile_is_made_again() {
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
