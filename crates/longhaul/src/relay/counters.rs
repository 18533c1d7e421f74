//! What the process has done so far, as numbers that only grow (but for those that say "now").

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tracing::info;

/// Every counter, each written where it happens.
#[derive(Debug, Default)]
pub struct Counters {
    /// Flows open now.
    pub flows_now: AtomicU64,
    /// Connections accepted and allowed.
    pub accepted: AtomicU64,
    /// Connections that the allow-list turned away, or that came to a socket of systemd's without a tunnel.
    pub refused: AtomicU64,
    /// Times that accept(2) failed and the listener backed off: EMFILE, ENFILE, ENOBUFS, ENOMEM.
    pub accept_errors: AtomicU64,
    /// Dials of which no address answered.
    pub dials_failed: AtomicU64,
    /// Flows that ended well, in both directions.
    pub finished: AtomicU64,
    /// Flows that ended with RST.
    pub reset: AtomicU64,
    /// Bytes that ended flows carried from accept leg to dial leg.
    pub bytes_up: AtomicU64,
    /// Bytes that ended flows carried from dial leg to accept leg.
    pub bytes_down: AtomicU64,
    /// Times that bytes were copied through user space because no pipe was to be had, or the socket refused splice.
    pub copied: AtomicU64,
}

impl Counters {
    /// Writes all of them to the log.
    pub fn log(&self) {
        let now = |counter: &AtomicU64| counter.load(Relaxed);
        info!(
            flows_now = now(&self.flows_now),
            accepted = now(&self.accepted),
            refused = now(&self.refused),
            accept_errors = now(&self.accept_errors),
            dials_failed = now(&self.dials_failed),
            finished = now(&self.finished),
            reset = now(&self.reset),
            bytes_up = now(&self.bytes_up),
            bytes_down = now(&self.bytes_down),
            copied = now(&self.copied),
            "counters"
        );
    }
}

/// Lets one event a second through to the log and counts those that it kept back.
#[derive(Debug)]
pub(super) struct Throttle {
    start: Instant,
    /// Milliseconds from `start` to the earliest moment of the next line.
    next: AtomicU64,
    kept_back: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle { start: Instant::now(), next: AtomicU64::new(0), kept_back: AtomicU64::new(0) }
    }
}

impl Throttle {
    /// `Some(n)` when this event may be logged, after `n` that were not.
    pub(super) fn pass(&self, now: Instant) -> Option<u64> {
        let now = now.saturating_duration_since(self.start).as_millis() as u64;
        let next = self.next.load(Relaxed);
        if now >= next && self.next.compare_exchange(next, now + 1000, Relaxed, Relaxed).is_ok() {
            return Some(self.kept_back.swap(0, Relaxed));
        }
        self.kept_back.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_event_a_second_is_logged() {
        let throttle = Throttle::default();
        let start = throttle.start;
        assert_eq!(throttle.pass(start), Some(0));
        assert_eq!(throttle.pass(start + Duration::from_millis(10)), None);
        assert_eq!(throttle.pass(start + Duration::from_millis(999)), None);
        assert_eq!(throttle.pass(start + Duration::from_millis(1000)), Some(2));
    }
}
