//! Where pastes come from: files, the files of a folder, and standard input.

use super::local;
use crate::say;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

/// One paste: the settings of one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
    /// This machine.
    Local,
}

impl Source {
    /// Returns the name of the host, unless the paste has one: that of the file without its extension.
    pub(super) fn name(&self) -> String {
        match self {
            Source::Stdin => "stdin".into(),
            Source::Local => "localhost".into(),
            Source::File(path) => {
                let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
                stem.chars().filter(|char| !say::is_invisible(*char)).collect()
            }
        }
    }

    /// Returns what messages call the paste.
    pub(super) fn title(&self) -> String {
        match self {
            Source::Stdin => "standard input".into(),
            Source::File(path) => path.display().to_string().chars().filter(|char| !say::is_invisible(*char)).collect(),
            Source::Local => "this machine".into(),
        }
    }

    /// Opens the paste. For this machine, runs the commands.
    ///
    /// # Errors
    /// The file cannot be opened; there is no `sh`.
    pub(super) fn open(&self) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Source::Stdin => Box::new(io::stdin().lock()),
            Source::File(path) => Box::new(File::open(path)?),
            Source::Local => {
                let shown = local::read()?;
                let missing = shown.missing.iter();
                missing.for_each(|program| {
                    say::note(format_args!("note: {program} is not installed: what it shows is left out"))
                });
                Box::new(Cursor::new(shown.text))
            }
        })
    }
}

/// Returns the pastes that `named` names: files, folders, and `-`.
///
/// # Errors
/// A name cannot be read, or a folder has no file: a sentence that says so.
pub(super) fn sources(named: &[PathBuf]) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for path in named {
        match path.as_os_str() == "-" {
            true => sources.push(Source::Stdin),
            false if is_folder(path)? => sources.extend(files(path)?),
            false => sources.push(Source::File(path.clone())),
        }
    }
    // Twice the same paste is once.
    let mut seen = HashSet::new();
    sources.retain(|source| seen.insert(source.clone()));
    Ok(sources)
}

fn is_folder(path: &Path) -> Result<bool, String> {
    fs::metadata(path).map(|about| about.is_dir()).map_err(|err| format!("{}: {err}", path.display()))
}

/// Returns the files of a folder in the order of their names, without hidden ones and without the folders in it.
fn files(folder: &Path) -> Result<Vec<Source>, String> {
    let named = |err: io::Error| format!("{}: {err}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(named)? {
        let path = entry.map_err(named)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!(
            "{} has no file in it: put the paste of each host into a file there; `longhaul audit --collect aix` prints what to run on a host",
            folder.display()
        ));
    }
    files.sort();
    Ok(files.into_iter().map(Source::File).collect())
}
