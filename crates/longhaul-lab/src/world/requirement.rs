//! A program or file that the lab needs, and the packages that contain it.

use crate::error::LabError;
use std::path::{Path, PathBuf};

/// A program or file that must be installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirement {
    /// The name. Messages show it, and a program is searched for in PATH by it.
    pub(crate) name: &'static str,
    /// Files of which at least one must exist; empty for a program in PATH. A relative path begins at the folder of this program.
    pub(crate) places: &'static [&'static str],
    /// The package that contains it on Debian and Ubuntu.
    pub(crate) debian: &'static str,
    /// The package that contains it on RHEL and Fedora.
    pub(crate) rhel: &'static str,
}

impl Requirement {
    /// Returns the requirement of a program in PATH.
    pub(crate) const fn program(name: &'static str, debian: &'static str, rhel: &'static str) -> Requirement {
        Requirement { name, places: &[], debian, rhel }
    }

    /// Returns the path of the program or file.
    ///
    /// # Errors
    /// [`LabError::Missing`] if it is not installed.
    pub(crate) fn find(&self) -> Result<PathBuf, LabError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(self.name));
        let found = match self.places {
            [] => in_path.into_iter().find(|file| file.is_file()),
            places => {
                let folder = std::env::current_exe().ok().and_then(|program| program.parent().map(Path::to_path_buf));
                let folder = folder.unwrap_or_default();
                places.iter().map(|place| folder.join(place)).find(|file| file.is_file())
            }
        };
        found.ok_or_else(|| self.missing())
    }

    /// Returns the error for a requirement that is not installed.
    pub(crate) fn missing(&self) -> LabError {
        let package = match (self.debian, self.rhel) {
            (debian, rhel) if debian == rhel => debian.to_string(),
            (debian, rhel) => format!("{debian} (RHEL: {rhel})"),
        };
        LabError::Missing { program: self.name.to_string(), package }
    }
}

/// Returns the error for a program that is not installed. `program` is a name in PATH or a path. The error names the package if
/// the lab itself needs the program.
pub(crate) fn missing(program: &str) -> LabError {
    let name = Path::new(program).file_name().unwrap_or_default();
    match OWN.iter().find(|own| name == own.name) {
        Some(own) => own.missing(),
        None => LabError::Missing { program: program.to_string(), package: "an unknown package".to_string() },
    }
}

/// The programs that every lab needs, and the programs that its tests call. Carriers and kinds of traffic list their own
/// programs in their rows.
const OWN: &[Requirement] = &[
    Requirement::program("cat", "coreutils", "coreutils"),
    Requirement::program("id", "coreutils", "coreutils"),
    Requirement::program("sha256sum", "coreutils", "coreutils"),
    Requirement::program("ip", "iproute2", "iproute"),
    Requirement::program("ss", "iproute2", "iproute"),
    Requirement::program("unshare", "util-linux", "util-linux"),
    Requirement::program("nft", "nftables", "nftables"),
    Requirement::program("ping", "iputils-ping", "iputils"),
];
