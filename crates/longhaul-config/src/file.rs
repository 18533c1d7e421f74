//! Reads a configuration from a file, from standard input or from a text.

use crate::config::Config;
use crate::document::{self, Message, Severity};
use crate::read::{self, read};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Default path of the daemon's configuration file.
pub const DEFAULT_PATH: &str = "/etc/longhaul/longhaul.toml";

/// A valid configuration, and the warnings about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notes; the configuration can be used despite them.
    pub warnings: Vec<Message>,
}

/// The reasons why a file was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// All errors, warnings and notes about the file; never empty.
    pub messages: Vec<Message>,
}

/// Reads the file at `path`.
///
/// # Errors
/// The file cannot be read, or it has errors. [`Refused`] holds every error of the file, not only the first.
pub fn load(path: &Path) -> Result<Loaded, Refused> {
    let name = path.display().to_string();
    let text = document::text(path, HINT).map_err(|why| unreadable(&name, why))?;
    parse(&name, &text)
}

/// Reads `source` to its end; messages call it `name`.
///
/// # Errors
/// As [`load`].
pub fn load_from(name: &str, source: impl Read) -> Result<Loaded, Refused> {
    let text = document::text_from(source).map_err(|why| unreadable(name, why))?;
    parse(name, &text)
}

/// Parses a file's `text`; messages call the file `name`.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<Loaded, Refused> {
    let (config, problems) = read(text);
    let messages = problems.iter().map(|problem| problem.message(name)).collect();
    match config {
        Some(config) => Ok(Loaded { config, warnings: messages }),
        None => Err(Refused { messages }),
    }
}

/// Returns the control socket that the file at `path` names, even if the file has errors elsewhere. Returns `None` if it
/// names none.
///
/// # Errors
/// The file cannot be read.
pub fn control_socket(path: &Path) -> Result<Option<PathBuf>, Refused> {
    let text = document::text(path, HINT).map_err(|why| unreadable(&path.display().to_string(), why))?;
    Ok(read::control_socket(&text))
}

fn unreadable(name: &str, why: String) -> Refused {
    Refused { messages: vec![Message { severity: Severity::Error, place: name.into(), text: why }] }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.messages.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Refused {}

const HINT: &str = "write the file, or name another with -c FILE";
