//! Reads a configuration from a file, from standard input or from a text.

use crate::config::Config;
use crate::document::{self, Message, Refused};
use crate::read;
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

/// Reads the file at `path`.
///
/// # Errors
/// The file cannot be read, or it has errors. [`Refused`] holds every error of the file, not only the first.
pub fn load(path: &Path) -> Result<Loaded, Refused> {
    parse(&path.display().to_string(), &document::text(path, HINT)?)
}

/// Reads `source` to its end; messages call it `name`.
///
/// # Errors
/// As [`load`].
pub fn load_from(name: &str, source: impl Read) -> Result<Loaded, Refused> {
    parse(name, &document::text_from(name, source)?)
}

/// Parses a file's `text`; messages call the file `name`. Never panics, whatever the text.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<Loaded, Refused> {
    let (config, warnings) = document::read(name, text, read::whole)?;
    Ok(Loaded { config, warnings })
}

/// Returns the control socket that the file at `path` names, even if the file has errors elsewhere. Returns `None` if it
/// names none.
///
/// # Errors
/// The file cannot be read.
pub fn control_socket(path: &Path) -> Result<Option<PathBuf>, Refused> {
    Ok(read::control_socket(&document::text(path, HINT)?))
}

const HINT: &str = "write the file, or name another with -c FILE";
