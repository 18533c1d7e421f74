//! Values of a scenario that conflict, although each of them is valid alone.

/// A key of a scenario whose value conflicts with another key, or has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The key, such as `host.mss`.
    pub(crate) key: String,
    /// The reason, and the text to write instead.
    pub(crate) why: String,
}

impl Conflict {
    /// Returns a conflict of `key`.
    pub(crate) fn new(key: impl Into<String>, why: impl Into<String>) -> Conflict {
        Conflict { key: key.into(), why: why.into() }
    }

    /// Returns a conflict of `key` if `is_wrong`.
    pub(crate) fn when(is_wrong: bool, key: &str, why: impl Into<String>) -> Option<Conflict> {
        is_wrong.then(|| Conflict::new(key, why))
    }

    /// Returns the conflict with its key moved below the table `title`.
    pub(crate) fn below(self, title: &str) -> Conflict {
        Conflict { key: format!("{title}.{}", self.key), ..self }
    }
}
