//! What the process has done so far, as numbers that only grow (but for those that say "now").

use super::lock;
use super::{How, Tally};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::{info, warn};

/// Every counter, each written where it happens.
#[derive(Debug, Default)]
pub struct Counters {
    /// Flows open now.
    pub flows_now: AtomicU64,
    /// Connections accepted and allowed.
    pub accepted: AtomicU64,
    /// Connections that were reset before a flow began: the allow-list has not got them, too many flows come from the tunnel's own
    /// next hop, or they came to a socket of systemd's without a tunnel.
    pub refused: AtomicU64,
    /// Times that a connection could not be accepted: EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC.
    pub accept_errors: AtomicU64,
    /// Times that connections of a tunnel had to wait because no permit was to be had.
    pub without_permit: AtomicU64,
    /// Flows whose dial no address answered.
    pub dials_failed: AtomicU64,
    /// Flows that ended well, in both directions.
    pub finished: AtomicU64,
    /// Flows that ended with RST. `dials_failed` and the next five say why.
    pub reset: AtomicU64,
    /// Flows of which a peer sent RST.
    pub reset_by_peer: AtomicU64,
    /// Flows of which a peer did not answer any more.
    pub timed_out: AtomicU64,
    /// Flows of which a leg failed with another errno.
    pub leg_failed: AtomicU64,
    /// Flows that `linger-half-open` ended.
    pub half_open_too_long: AtomicU64,
    /// Flows that longhaul cut: drain timeout, second signal.
    pub cut: AtomicU64,
    /// Bytes that ended flows carried from accept leg to dial leg.
    pub bytes_up: AtomicU64,
    /// Bytes that ended flows carried from dial leg to accept leg.
    pub bytes_down: AtomicU64,
    /// Times that bulk was copied through user space because no pipe was to be had, or the socket refused splice.
    pub copied: AtomicU64,
}

impl Counters {
    /// Counts a flow that has ended.
    pub(super) fn ended(&self, how: How, tally: &Tally) {
        let why = match how {
            How::Finished => None,
            How::Reset(_) => Some(&self.reset_by_peer),
            How::TimedOut(_) => Some(&self.timed_out),
            How::Failed(..) => Some(&self.leg_failed),
            How::DialFailed => Some(&self.dials_failed),
            How::HalfOpenTooLong => Some(&self.half_open_too_long),
            How::Cut => Some(&self.cut),
        };
        match why {
            None => self.finished.fetch_add(1, Relaxed),
            Some(why) => why.fetch_add(1, Relaxed) + self.reset.fetch_add(1, Relaxed),
        };
        self.bytes_up.fetch_add(tally.up, Relaxed);
        self.bytes_down.fetch_add(tally.down, Relaxed);
    }

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
            reset_by_peer = now(&self.reset_by_peer),
            timed_out = now(&self.timed_out),
            leg_failed = now(&self.leg_failed),
            half_open_too_long = now(&self.half_open_too_long),
            cut = now(&self.cut),
            bytes_up = now(&self.bytes_up),
            bytes_down = now(&self.bytes_down),
            copied = now(&self.copied),
            "counters"
        );
    }
}

/// Lets one line a second of each tunnel through to the log and counts those that it held back.
#[derive(Debug)]
pub(super) struct Throttles {
    /// The message of the line.
    line: &'static str,
    tunnels: Mutex<HashMap<String, Throttle>>,
    /// Rung when a first line is held back, for the task that writes how many were. Without it nobody is told.
    bell: Option<Arc<Notify>>,
}

impl Throttles {
    /// Returns throttles for a line that does not say how many were held back.
    pub(super) fn uncounted(line: &'static str) -> Throttles {
        Throttles { line, tunnels: Mutex::default(), bell: None }
    }

    /// Returns throttles for a line with the field `more`. `bell` rings when [`flush`](Throttles::flush) will have something
    /// to write.
    pub(super) fn counted(line: &'static str, bell: &Arc<Notify>) -> Throttles {
        Throttles { bell: Some(bell.clone()), ..Throttles::uncounted(line) }
    }

    /// Returns `Some(n)` when this line of `tunnel`, or of a socket without one, may be written, after `n` that were not.
    pub(super) fn pass(&self, tunnel: &str, now: Instant) -> Option<u64> {
        let mut tunnels = self.tunnels();
        if !tunnels.contains_key(tunnel) {
            tunnels.insert(tunnel.into(), Throttle { next: now, held_back: 0 });
        }
        let throttle = tunnels.get_mut(tunnel)?;
        let passed = throttle.pass(now);
        if let (None, 1, Some(bell)) = (passed, throttle.held_back, &self.bell) {
            bell.notify_one();
        }
        passed
    }

    /// Writes how many lines were held back, of each tunnel whose next line has been due since `due` and has not come.
    /// Returns whether some are still held back.
    pub(super) fn flush(&self, due: Instant) -> bool {
        let mut is_left = false;
        for (tunnel, throttle) in self.tunnels().iter_mut() {
            match throttle.take(due) {
                Some(more) => warn!(%tunnel, line = self.line, more, "lines held back"),
                None => is_left |= throttle.held_back > 0,
            }
        }
        is_left
    }

    fn tunnels(&self) -> MutexGuard<'_, HashMap<String, Throttle>> {
        lock(&self.tunnels)
    }
}

#[derive(Debug)]
struct Throttle {
    /// The earliest moment of the next line.
    next: Instant,
    held_back: u64,
}

impl Throttle {
    fn pass(&mut self, now: Instant) -> Option<u64> {
        if now < self.next {
            self.held_back += 1;
            return None;
        }
        self.next = now + PERIOD;
        Some(std::mem::take(&mut self.held_back))
    }

    /// Returns how many were held back, when there are some and the next line has been due since `due`.
    fn take(&mut self, due: Instant) -> Option<u64> {
        (self.held_back > 0 && self.next <= due).then(|| std::mem::take(&mut self.held_back))
    }
}

/// The time between two lines of one tunnel. The next line has as long again to come and to bring the count with it.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::options::Leg;
    use std::future::Future;
    use std::task::{Context, Waker};

    #[test]
    fn one_event_a_second_of_each_tunnel_is_logged() {
        let throttles = Throttles::uncounted("line");
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(throttles.pass("a", start), Some(0));
        assert_eq!(throttles.pass("a", at(10)), None);
        assert_eq!(throttles.pass("b", at(10)), Some(0));
        assert_eq!(throttles.pass("a", at(999)), None);
        assert_eq!(throttles.pass("a", at(1000)), Some(2));
    }

    #[test]
    fn each_reset_has_one_reason() {
        let counters = Counters::default();
        let resets = [
            How::Reset(Leg::Accept),
            How::TimedOut(Leg::Dial),
            How::Failed(Leg::Dial, libc::EHOSTUNREACH),
            How::DialFailed,
            How::HalfOpenTooLong,
            How::Cut,
        ];
        let tally = Tally { up: 3, down: 5 };
        [How::Finished].into_iter().chain(resets).for_each(|how| counters.ended(how, &tally));
        let reasons = [
            &counters.reset_by_peer,
            &counters.timed_out,
            &counters.leg_failed,
            &counters.dials_failed,
            &counters.half_open_too_long,
            &counters.cut,
        ];
        assert_eq!(reasons.map(|reason| reason.load(Relaxed)), [1; 6]);
        let all = [&counters.finished, &counters.reset, &counters.bytes_up, &counters.bytes_down];
        assert_eq!(all.map(|counter| counter.load(Relaxed)), [1, 6, 21, 35]);
    }

    #[test]
    fn what_is_held_back_is_told_once_when_no_line_follows() {
        let (bell, start) = (Arc::default(), Instant::now());
        let throttles = Throttles::counted("line", &bell);
        let rings = || std::pin::pin!(bell.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert_eq!(throttles.pass("a", start), Some(0));
        assert!(!rings() && !throttles.flush(start), "nothing is held back");
        assert_eq!((throttles.pass("a", start), throttles.pass("a", start)), (None, None));
        assert!(rings() && !rings(), "once");
        assert!(throttles.flush(start + PERIOD / 2), "not yet");
        assert!(!throttles.flush(start + PERIOD), "written");
        assert_eq!(throttles.pass("a", start + PERIOD), Some(0), "and not counted again");
    }
}
