//! Bytes of a flow, both ways.

/// Number of bytes that a flow carried. A byte counts when the sink's socket has taken it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// From the accept leg to the dial leg.
    pub up: u64,
    /// From the dial leg to the accept leg.
    pub down: u64,
}
