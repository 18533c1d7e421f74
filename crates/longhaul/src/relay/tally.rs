//! Bytes of a flow, both ways.

/// The bytes that a flow carried, each counted when the sink's socket took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// From the accept leg to the dial leg.
    pub up: u64,
    /// From the dial leg to the accept leg.
    pub down: u64,
}
