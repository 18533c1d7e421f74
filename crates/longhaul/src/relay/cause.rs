//! Kinds of failed dials and checks, in the words of every view.

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The address refused the connection.
    Refused,
    /// The address did not answer in time.
    NoAnswer,
    /// The address reset the connection.
    Reset,
    /// A router, or the kernel itself, says that the address cannot be reached.
    Unreachable,
    /// Any other, such as a name that cannot be resolved.
    Other,
}

impl Cause {
    /// Returns the cause in one or two words, for views.
    pub(super) fn name(self) -> &'static str {
        match self {
            Cause::Refused => "refused",
            Cause::NoAnswer => "no answer",
            Cause::Reset => "reset",
            Cause::Unreachable => "unreachable",
            Cause::Other => "failed",
        }
    }
}
