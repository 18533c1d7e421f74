//! The errors of the lab. A message names what to do about the error, if something can be done.

use longhaul_sys::SysError;
use std::fmt;
use std::thread::JoinHandle;

/// An error of the lab.
#[derive(Debug)]
pub enum LabError {
    /// A system call failed.
    Sys(SysError),
    /// An operation of the standard library failed.
    Io {
        /// The action that failed, as a phrase.
        what: String,
        /// The error of the operating system.
        err: std::io::Error,
    },
    /// A program that the lab needs is not installed.
    Missing {
        /// The name of the program.
        program: String,
        /// The package that contains the program, on Debian and on RHEL.
        package: String,
    },
    /// Something else that the lab needs is missing. The text says what to do.
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
    /// A program did not report in time that it is ready.
    NotReady {
        /// The program and its arguments.
        program: String,
        /// The end of its output.
        said: String,
    },
    /// The bytes that arrived differ from the bytes that were sent. No other error has this variant, because a report derives
    /// `bytes_ok: false` from it.
    Bytes(String),
    /// A connection did not reach the far end in time.
    NotConnected(String),
    /// A transfer with a fixed size did not end in time.
    Unfinished(String),
    /// A program took too long and was killed.
    Late(String),
    /// A thread of the lab panicked, which is a defect of the lab. The text names the thread.
    Panicked(&'static str),
}

impl LabError {
    /// Returns the error. If the program wrote nothing to stderr, the last lines of `text` become its output.
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

    /// Returns a function for `map_err`, which turns an I/O error of the action `what` into an error of the lab.
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
            LabError::NotReady { program, said } => write!(f, "`{program}` was not ready in time: {}", said.trim()),
            LabError::Late(program) => {
                write!(f, "`{program}` took too long and was killed; set a smaller traffic.size")
            }
            LabError::Panicked(thread) => write!(f, "{thread} panicked, which is a defect of longhaul lab"),
            LabError::Bytes(what)
            | LabError::Lacking(what)
            | LabError::NotConnected(what)
            | LabError::Unfinished(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for LabError {}

impl From<SysError> for LabError {
    fn from(err: SysError) -> LabError {
        LabError::Sys(err)
    }
}

/// Waits for the end of a thread and returns its result.
///
/// # Errors
/// The error of the thread, or [`LabError::Panicked`].
pub(crate) fn joined<T>(thread: JoinHandle<Result<T, LabError>>) -> Result<T, LabError> {
    thread.join().unwrap_or(Err(LabError::Panicked("a thread of the lab")))
}

/// Returns the error about a name that is none of `names`: the nearest one, or all of them after `all`. `what` is what is missing.
pub(crate) fn unknown<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str> + Clone, all: &str) -> String {
    match longhaul_config::suggest::nearest(name, names.clone()) {
        Some(near) => format!("there is no {what}; did you mean {near}?"),
        None => format!("there is no {what}; {all} {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// Number of lines of stdout that an error quotes.
const LINES_SAID: usize = 3;
