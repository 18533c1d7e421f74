//! Log lines that come at most once a second for each tunnel, with the number of those that were held back.

use super::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::warn;

/// The lines of the relay that are throttled.
#[derive(Debug)]
pub(super) struct Lines {
    /// A connection was reset before a flow began.
    pub(super) refused: Throttles,
    /// accept(2) failed.
    pub(super) accept: Throttles,
    /// A buffer limits a path.
    pub(super) limit: Throttles,
    /// A tunnel has `max_flows`.
    pub(super) full: Throttles,
    /// No permit was to be had.
    pub(super) permit: Throttles,
    /// A connection came before longhaul and lacks an option.
    pub(super) early: Throttles,
    /// No next hop answered.
    pub(super) dial: Throttles,
    /// Rung when one of these begins to hold lines back that are to be counted.
    held_back: Arc<Notify>,
}

impl Default for Lines {
    fn default() -> Lines {
        let held_back = Arc::default();
        let counted = |line| Throttles::counted(line, &held_back);
        Lines {
            refused: counted("refused"),
            accept: counted("cannot accept"),
            limit: Throttles::uncounted("a buffer limits this path"),
            full: Throttles::uncounted("tunnel is full"),
            permit: counted("no descriptors for another flow of this tunnel"),
            early: counted("a connection that came before longhaul lacks an option"),
            dial: counted("dial failed"),
            held_back,
        }
    }
}

impl Lines {
    /// Writes how many lines were held back whenever no later line has said so. Never ends; it is safe to drop.
    pub(super) async fn tell_held_back(&self) {
        loop {
            self.held_back.notified().await;
            loop {
                sleep(2 * PERIOD).await;
                if !self.flush(Instant::now() - PERIOD) {
                    break;
                }
            }
        }
    }

    /// Writes how many lines were held back so far. Call it before the process ends.
    pub(super) fn tell_all_held_back(&self) {
        self.flush(Instant::now() + PERIOD);
    }

    /// Writes the counts that have been due since `due`. Returns whether others are left.
    fn flush(&self, due: Instant) -> bool {
        let counted = [&self.refused, &self.accept, &self.permit, &self.early, &self.dial];
        counted.into_iter().filter(|throttles| throttles.flush(due)).count() > 0
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
    fn uncounted(line: &'static str) -> Throttles {
        Throttles { line, tunnels: Mutex::default(), bell: None }
    }

    /// Returns throttles for a line with the field `more`. `bell` rings when [`flush`](Throttles::flush) will have something
    /// to write.
    fn counted(line: &'static str, bell: &Arc<Notify>) -> Throttles {
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
    fn flush(&self, due: Instant) -> bool {
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
const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
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
