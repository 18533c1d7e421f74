//! Why the daemon did not start, or did not go on.

use crate::relay::BindError;
use std::fmt;
use tokio::task::JoinError;

/// Why the daemon did not start, or did not go on.
#[derive(Debug)]
pub enum DaemonError {
    /// A tunnel cannot listen, or the kernel refused one of its options.
    Bind(BindError),
    /// Something else that the process needs; the text says what.
    Process(String),
    /// A listener's task has panicked, which is a bug of ours: its tunnel serves nobody any more. The text is the panic's.
    Panicked(String),
}

impl DaemonError {
    /// Returns a function that takes an error of `what`, a part of the process.
    pub(super) fn process(what: &'static str) -> impl Fn(&dyn fmt::Display) -> DaemonError {
        move |err| DaemonError::Process(format!("{what}: {err}"))
    }

    /// Takes the text of the panic of a listener's task.
    pub(super) fn panicked(err: JoinError) -> DaemonError {
        let said = err.try_into_panic().map_or_else(
            |err| err.to_string(),
            |said| {
                let text = said.downcast_ref::<&str>().map(ToString::to_string);
                text.or_else(|| said.downcast_ref::<String>().cloned()).unwrap_or_default()
            },
        );
        DaemonError::Panicked(said)
    }
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DaemonError::Bind(err) => write!(f, "{err}"),
            DaemonError::Process(text) => f.write_str(text),
            DaemonError::Panicked(said) => write!(f, "a listener has panicked, which is a bug of longhaul: {said}"),
        }
    }
}

impl std::error::Error for DaemonError {}
