//! Kinds of failed dials and checks. A view shows them, and a probe reports them.

/// Kind of a failed dial or check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The address refused the connection.
    Refused,
    /// The address did not answer in time.
    NoAnswer,
    /// The address reset the connection.
    Reset,
    /// A router, or the kernel itself, says that the address cannot be reached.
    Unreachable,
    /// The name has no address, or no resolver tells one.
    Unresolved,
    /// Any other.
    Other,
}

impl FailureKind {
    /// Returns the kind in a few words, for views.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FailureKind::Refused => "refused",
            FailureKind::NoAnswer => "no answer",
            FailureKind::Reset => "reset",
            FailureKind::Unreachable => "unreachable",
            FailureKind::Unresolved => "cannot be resolved",
            FailureKind::Other => "failed",
        }
    }
}
