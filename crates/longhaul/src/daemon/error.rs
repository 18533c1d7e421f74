//! Errors that keep the daemon from starting, or end it.

use longhaul_relay::Refused;
use std::fmt;
use tokio::task::JoinError;

/// Why the daemon did not start, or why it ended.
#[derive(Debug)]
pub enum DaemonError {
    /// The relay cannot serve the configuration.
    Refused(Refused),
    /// The process lacks something else that it needs, such as the control socket. The text names it.
    Process(String),
    /// A listener's task has panicked, which is a bug of longhaul. Its tunnel serves nobody any more. The text is the
    /// panic's message.
    Panicked(String),
}

impl DaemonError {
    /// Returns a function that converts an error of `what`, a part of the process.
    pub(super) fn process(what: &'static str) -> impl Fn(&dyn fmt::Display) -> DaemonError {
        move |err| DaemonError::Process(format!("{what}: {err}"))
    }

    /// Returns the error of a listener's task that has panicked, with the panic's message.
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
            DaemonError::Refused(why) => why.fmt(f),
            DaemonError::Process(text) => f.write_str(text),
            DaemonError::Panicked(said) => write!(f, "a listener has panicked, which is a bug of longhaul: {said}"),
        }
    }
}

impl std::error::Error for DaemonError {}
