//! Why the lab could not do something, with what to do about it.

use longhaul_sys::SysError;
use std::fmt;

/// An error of the lab.
#[derive(Debug)]
pub enum LabError {
    /// The kernel refused something.
    Sys(SysError),
    /// The kernel refused something that the standard library asked for.
    Io {
        /// The action that failed, as a phrase.
        what: String,
        /// The error of the operating system.
        err: std::io::Error,
    },
    /// A program that the lab needs is not installed.
    Missing {
        /// Its name.
        program: String,
        /// The package that brings it, on Debian and on RHEL.
        package: String,
    },
    /// Something else that it needs is missing, in a sentence that says what to do.
    Lacking(String),
    /// A program failed.
    Failed {
        /// The program and its arguments.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of its output.
        said: String,
    },
    /// A program did not say in time that it is ready.
    NotReady {
        /// The program and its arguments.
        program: String,
        /// The end of its output.
        said: String,
    },
    /// The bytes that arrived are not those that were sent.
    Bytes(String),
    /// A program took so long that it was ended.
    Late(String),
}

impl LabError {
    /// Returns the same error, with the end of `text` as the program's output if it wrote nothing to stderr.
    pub(crate) fn or_said(self, text: &str) -> LabError {
        match self {
            LabError::Failed { program, status, said } if said.trim().is_empty() => {
                let lines: Vec<&str> = text.lines().collect();
                let said = lines[lines.len().saturating_sub(LINES_SAID)..].join("\n");
                LabError::Failed { program, status, said }
            }
            other => other,
        }
    }

    /// For `map_err`: an I/O error met while doing `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> LabError {
        let what = what.into();
        move |err| LabError::Io { what, err }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Sys(err) => err.fmt(f),
            LabError::Io { what, err } => write!(f, "{what}: {err}"),
            LabError::Missing { program, package } => write!(f, "{program} is not installed; it comes with {package}"),
            LabError::Failed { program, status, said } => write!(f, "`{program}` ended with {status}: {}", said.trim()),
            LabError::NotReady { program, said } => write!(f, "`{program}` did not get ready in time: {}", said.trim()),
            LabError::Late(program) => {
                write!(f, "`{program}` took too long and was ended; send less with traffic.size")
            }
            LabError::Bytes(what) | LabError::Lacking(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for LabError {}

impl From<SysError> for LabError {
    fn from(err: SysError) -> LabError {
        LabError::Sys(err)
    }
}

/// Lines of stdout that tell what went wrong.
const LINES_SAID: usize = 3;
