//! Errors, warnings and notes about the value of a key.

use crate::document::Severity;

/// The form in which a tunnel is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// As keys of a file.
    File,
    /// As flags of `longhaul relay`.
    Flags,
}

/// An error, a warning or a note about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// With an error, the tunnel cannot be used.
    pub severity: Severity,
    /// The key, such as `to` or `dial.mss`.
    pub key: String,
    /// Names the mistake and what to write instead.
    pub text: String,
}

impl Remark {
    /// Returns an error about `key`.
    pub(crate) fn error(key: &str, text: String) -> Remark {
        Remark { severity: Severity::Error, key: key.into(), text }
    }

    /// Returns a warning about `key`.
    pub(crate) fn warning(key: &str, text: String) -> Remark {
        Remark { severity: Severity::Warning, key: key.into(), text }
    }
}

/// For `Row::check`: nothing can be wrong with a value that could be parsed.
pub(crate) fn no_remarks<M>(_: &M, _: Syntax) -> Vec<Remark> {
    Vec::new()
}
