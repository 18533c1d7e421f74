//! Counts that the traffic's own threads keep for the sampler, which itself sees only the receiving host's interface.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of the traffic's own threads.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Bytes of another program's flows that have arrived.
    outside: AtomicU64,
    /// The longest answer of a small message since the last look, in microseconds; 0 without one.
    answer: AtomicU64,
}

impl Beside {
    /// Counts `bytes` that have arrived on another program's flow.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.outside.fetch_add(bytes, Relaxed);
    }

    /// Counts the answer of a small message.
    pub(crate) fn answered(&self, after: Duration) {
        self.answer.fetch_max(after.as_micros() as u64, Relaxed);
    }

    /// Returns the bytes of other programs' flows so far.
    pub(crate) fn outside(&self) -> u64 {
        self.outside.load(Relaxed)
    }

    /// Returns the longest answer since the last call.
    pub(crate) fn take_answer(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.answer.swap(0, Relaxed))).filter(|time| !time.is_zero())
    }
}
