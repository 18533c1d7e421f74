//! `longhaul check`: whether a file is good, and what `longhaul run` would do with it.

use super::machine;
use longhaul::config;
use std::path::Path;
use std::process::ExitCode;

/// Says on stderr what is wrong or doubtful in the file at `path`, and on stdout what would run.
pub(super) fn check(path: &Path) -> ExitCode {
    match config::load(path) {
        Ok(loaded) => {
            super::complain(&loaded.warnings);
            super::complain(&machine::warnings(&loaded.config));
            super::print(&format!("{}: {}", path.display(), config::summary(&loaded.config)))
        }
        Err(refused) => super::complain(&refused.messages),
    }
}
