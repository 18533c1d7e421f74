//! The configuration file of `run` and `check`: `FILE`, or `-c FILE`.

use clap::Args;
use std::path::{Path, PathBuf};

/// The flags that name a configuration file.
#[derive(Args)]
pub(super) struct File {
    /// Configuration file
    #[arg(value_name = "FILE", default_value = longhaul_config::DEFAULT_PATH, conflicts_with = "config")]
    file: PathBuf,
    /// The same as FILE
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl File {
    /// Returns the path that was given, or the default; `-` is standard input.
    pub(super) fn path(&self) -> &Path {
        self.config.as_deref().unwrap_or(&self.file)
    }
}

/// The path that means standard input.
pub(super) const STDIN: &str = "-";
