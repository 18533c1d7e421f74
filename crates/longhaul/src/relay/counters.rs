//! What the process has done so far, as numbers that only grow (but for those that say "now").

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
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
    /// Times that a connection could not be accepted: EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC.
    pub accept_errors: AtomicU64,
    /// Times that connections of a tunnel had to wait because no permit was to be had.
    pub without_permit: AtomicU64,
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
    /// Times that bulk was copied through user space because no pipe was to be had, or the socket refused splice.
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
            without_permit = now(&self.without_permit),
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

/// Lets one event a second of each tunnel through to the log and counts those that it kept back.
#[derive(Debug, Default)]
pub(super) struct Throttles(Mutex<HashMap<String, Throttle>>);

impl Throttles {
    /// `Some(n)` when this event of `tunnel`, or of a socket without one, may be logged, after `n` that were not.
    pub(super) fn pass(&self, tunnel: &str, now: Instant) -> Option<u64> {
        // Whoever panicked with the lock has left nothing half done.
        let mut tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tunnels.get_mut(tunnel) {
            Some(throttle) => throttle.pass(now),
            None => tunnels.entry(tunnel.into()).or_insert(Throttle { next: now, kept_back: 0 }).pass(now),
        }
    }
}

#[derive(Debug)]
struct Throttle {
    /// The earliest moment of the next line.
    next: Instant,
    kept_back: u64,
}

impl Throttle {
    fn pass(&mut self, now: Instant) -> Option<u64> {
        if now < self.next {
            self.kept_back += 1;
            return None;
        }
        self.next = now + Duration::from_secs(1);
        Some(std::mem::take(&mut self.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_a_second_of_each_tunnel_is_logged() {
        let throttles = Throttles::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(throttles.pass("a", start), Some(0));
        assert_eq!(throttles.pass("a", at(10)), None);
        assert_eq!(throttles.pass("b", at(10)), Some(0));
        assert_eq!(throttles.pass("a", at(999)), None);
        assert_eq!(throttles.pass("a", at(1000)), Some(2));
    }
}
