//! Log lines that are written at most once a second for each tunnel, with the number of lines that were held back.

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
    /// A probe was refused.
    pub(super) probe: Throttles,
    /// A connection has no valid PROXY header.
    pub(super) header: Throttles,
    /// A source has too many flows, or begins too many.
    pub(super) source: Throttles,
    /// accept(2) failed.
    pub(super) accept: Throttles,
    /// A buffer limits a path.
    pub(super) limit: Throttles,
    /// A tunnel has reached `max_flows`.
    pub(super) full: Throttles,
    /// No permit was free.
    pub(super) permit: Throttles,
    /// A connection was accepted before startup, and a socket option could not be set on it.
    pub(super) early: Throttles,
    /// No next hop answered.
    pub(super) dial: Throttles,
    /// Notified when one of the counted lines begins to be held back.
    held_back: Arc<Notify>,
}

impl Default for Lines {
    fn default() -> Lines {
        let held_back = Arc::default();
        let counted = |line| Throttles::counted(line, &held_back);
        Lines {
            refused: counted("refused"),
            probe: counted("probe refused"),
            header: counted("refused: no valid PROXY header"),
            source: counted("refused: limit of its source"),
            accept: counted("cannot accept"),
            limit: Throttles::uncounted("a buffer limits this path"),
            full: Throttles::uncounted("tunnel is full"),
            permit: counted("no descriptors for another flow of this tunnel"),
            early: counted("socket option not applied to a connection accepted before startup"),
            dial: counted("dial failed"),
            held_back,
        }
    }
}

impl Lines {
    /// Logs the number of held-back lines when no later line has reported it. Never ends; it may be dropped.
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

    /// Logs the number of lines held back so far. Call it before the process ends.
    pub(super) fn tell_all_held_back(&self) {
        self.flush(Instant::now() + PERIOD);
    }

    /// Writes the counts that have been due since `due`. Returns whether counts are left that are not due yet.
    fn flush(&self, due: Instant) -> bool {
        let Lines { refused, probe, header, source, accept, permit, early, dial, .. } = self;
        let counted = [refused, probe, header, source, accept, permit, early, dial];
        counted.into_iter().filter(|throttles| throttles.flush(due)).count() > 0
    }
}

/// Passes one line a second of each tunnel to the log and counts the lines held back.
#[derive(Debug)]
pub(super) struct Throttles {
    /// The message of the line.
    line: &'static str,
    tunnels: Mutex<HashMap<String, Throttle>>,
    /// Notified when a first line is held back, for the task that logs the counts. `None` if the counts are not logged.
    notify: Option<Arc<Notify>>,
}

impl Throttles {
    /// Returns throttles for a line that does not report the number held back.
    fn uncounted(line: &'static str) -> Throttles {
        Throttles { line, tunnels: Mutex::default(), notify: None }
    }

    /// Returns throttles for a line with the field `more`. Notifies `notify` when [`flush`](Throttles::flush) will have
    /// something to write.
    fn counted(line: &'static str, notify: &Arc<Notify>) -> Throttles {
        Throttles { notify: Some(notify.clone()), ..Throttles::uncounted(line) }
    }

    /// Returns `Some(n)` when this line of `tunnel` may be written, after `n` lines were held back. For a socket
    /// without a tunnel, `tunnel` is its address.
    pub(super) fn pass(&self, tunnel: &str, now: Instant) -> Option<u64> {
        let mut tunnels = self.tunnels();
        if !tunnels.contains_key(tunnel) {
            tunnels.insert(tunnel.into(), Throttle { next: now, held_back: 0 });
        }
        let throttle = tunnels.get_mut(tunnel)?;
        let passed = throttle.pass(now);
        if let (None, 1, Some(notify)) = (passed, throttle.held_back, &self.notify) {
            notify.notify_one();
        }
        passed
    }

    /// Writes the number of held-back lines of each tunnel whose next line has been due since `due` and has not come.
    /// Returns whether lines of other tunnels are still held back.
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

    /// Takes the number of held-back lines, if there are some and the next line has been due since `due`.
    fn take(&mut self, due: Instant) -> Option<u64> {
        (self.held_back > 0 && self.next <= due).then(|| std::mem::take(&mut self.held_back))
    }
}

/// Time between two lines of one tunnel. After it, the next line has as long again to come and to report the count.
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
    fn suppressed_lines_are_reported_once_when_no_line_follows() {
        let (notify, start) = (Arc::<Notify>::default(), Instant::now());
        let throttles = Throttles::counted("line", &notify);
        let notified = || std::pin::pin!(notify.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert_eq!(throttles.pass("a", start), Some(0));
        assert!(!notified() && !throttles.flush(start), "nothing is held back");
        assert_eq!((throttles.pass("a", start), throttles.pass("a", start)), (None, None));
        assert!(notified() && !notified(), "once");
        assert!(throttles.flush(start + PERIOD / 2), "not yet");
        assert!(!throttles.flush(start + PERIOD), "written");
        assert_eq!(throttles.pass("a", start + PERIOD), Some(0), "and not counted again");
    }
}
