//! Whether a flow moves bytes, for keepalive. The flow's pumps write it and the sweep reads it.

use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Relaxed};

/// The flow's activity: one of [`MOVED`], [`STILL`] and [`IDLE`].
#[derive(Debug)]
pub(crate) struct Pulse(AtomicU8);

impl Pulse {
    /// Returns the pulse of a new flow.
    pub(super) fn new() -> Pulse {
        Pulse(AtomicU8::new(MOVED))
    }

    /// Records that bytes moved. Returns whether the flow was idle before. A pump calls it for each fill; it is mostly
    /// one relaxed load.
    pub(crate) fn beat(&self) -> bool {
        self.0.load(Relaxed) != MOVED && self.0.swap(MOVED, AcqRel) == IDLE
    }

    /// Returns whether bytes moved since the last call.
    pub(crate) fn take_beat(&self) -> bool {
        self.0.compare_exchange(MOVED, STILL, AcqRel, Relaxed).is_ok()
    }

    /// Makes a flow idle. Returns false when bytes moved since the last [`take_beat`](Pulse::take_beat).
    pub(crate) fn rest(&self) -> bool {
        self.0.compare_exchange(STILL, IDLE, AcqRel, Relaxed).is_ok()
    }
}

/// Bytes moved since the last look.
const MOVED: u8 = 0;
/// No byte since the last look.
const STILL: u8 = 1;
/// The sweep does not look at the flow.
const IDLE: u8 = 2;
