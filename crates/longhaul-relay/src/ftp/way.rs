//! One direction of a control connection.

use longhaul_config::options::Leg;

/// One direction of a control connection.
pub(super) struct Way {
    /// The leg that it reads.
    pub(super) source: Leg,
    /// Bytes for its sink.
    pub(super) out: Vec<u8>,
    /// Number of them up to the urgent one. 0: none is urgent.
    pub(super) urgent: usize,
    /// Number of bytes that were read.
    pub(super) read: u64,
    /// Number of bytes that the sink has taken.
    pub(super) sent: u64,
    /// Whether its source has ended.
    pub(super) has_ended: bool,
    /// Whether its sink broke.
    pub(super) is_stopped: bool,
}

impl Way {
    pub(super) fn new(source: Leg) -> Way {
        Way { source, out: Vec::new(), urgent: 0, read: 0, sent: 0, has_ended: false, is_stopped: false }
    }

    /// Whether no byte waits for the sink.
    pub(super) fn is_sent(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether it neither reads any more nor has bytes for its sink.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopped || self.has_ended && self.out.is_empty()
    }
}
