//! Log lines that are written at most once a second for each tunnel, with the number of lines that were held back.

use crate::lock::lock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::warn;

/// Makes [`Lines`] from one list, so that a new line is a row of it: its name, whether later lines and the log tell the number held
/// back, and its message.
macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident, $is_counted:literal, $line:literal;)*) => {
        /// The lines of the relay that are throttled.
        #[derive(Debug)]
        pub(crate) struct Lines {
            $($(#[$doc])* pub(crate) $name: Throttles,)*
            /// An FTP control connection is encrypted.
            pub(crate) opaque: Once,
            /// Notified when one of the counted lines begins to be held back.
            held_back: Arc<Notify>,
        }

        impl Default for Lines {
            fn default() -> Lines {
                let held_back: Arc<Notify> = Arc::default();
                let throttles = |line, is_counted: bool| Throttles::new(line, is_counted.then(|| held_back.clone()));
                Lines { $($name: throttles($line, $is_counted),)* opaque: Once::default(), held_back }
            }
        }

        impl Lines {
            fn counted(&self) -> impl Iterator<Item = &Throttles> {
                [$(&self.$name),*].into_iter().filter(|throttles| throttles.notify.is_some())
            }
        }
    };
}

lines! {
    /// A connection was reset before a flow began.
    refused, true, "refused";
    /// A probe was refused.
    probe, true, "probe refused";
    /// A connection has no valid PROXY header.
    header, true, "refused: no valid PROXY header";
    /// A source has too many flows, or begins too many.
    source, true, "refused: limit of its source";
    /// accept(2) failed.
    accept, true, "cannot accept";
    /// A buffer limits a path.
    limit, false, "a buffer limits this path";
    /// A tunnel has reached `max_flows`.
    full, false, "tunnel is full";
    /// No permit was free.
    permit, true, "no descriptors for another flow of this tunnel";
    /// A connection was accepted before startup, and a socket option could not be set on it.
    early, true, "socket option not applied to a connection accepted before startup";
    /// No next hop answered.
    dial, true, "dial failed";
    /// An FTP session refused a command or a reply.
    ftp, true, "refused an FTP data connection";
    /// Nobody connected to an FTP data listener.
    unused, true, "nobody connected to the FTP data listener";
}

impl Lines {
    /// Logs the number of held-back lines when no later line has reported it. Never ends; it may be dropped.
    pub(crate) async fn tell_held_back(&self) {
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
    pub(crate) fn tell_all_held_back(&self) {
        self.flush(Instant::now() + PERIOD);
    }

    /// Writes the counts that have been due since `due`. Returns whether counts are left that are not due yet.
    fn flush(&self, due: Instant) -> bool {
        self.counted().filter(|throttles| throttles.flush(due)).count() > 0
    }
}

/// The throttles of a tunnel by the kind of the line, which is "" for a line of one kind.
type Kinds = BTreeMap<&'static str, Throttle>;

/// Passes one line a second of each tunnel and kind to the log and counts the lines held back.
#[derive(Debug)]
pub(crate) struct Throttles {
    /// The message of the line.
    line: &'static str,
    /// By tunnel and kind.
    tunnels: Mutex<HashMap<String, Kinds>>,
    /// Notified when a first line is held back, for the task that logs the counts. `None` if the counts are not logged.
    notify: Option<Arc<Notify>>,
}

impl Throttles {
    /// Returns throttles for the line `line`. `notify`: it has the field `more`.
    fn new(line: &'static str, notify: Option<Arc<Notify>>) -> Throttles {
        Throttles { line, tunnels: Mutex::default(), notify }
    }

    /// Returns `Some(n)` when this line of `tunnel` may be written, after `n` lines were held back. For a socket
    /// without a tunnel, `tunnel` is its address.
    pub(crate) fn pass(&self, tunnel: &str, now: Instant) -> Option<u64> {
        self.pass_kind(tunnel, "", now)
    }

    /// Like [`pass`](Throttles::pass), for a line of several kinds that do not hold each other back. `kind` is its field
    /// `reason`.
    pub(crate) fn pass_kind(&self, tunnel: &str, kind: &'static str, now: Instant) -> Option<u64> {
        let mut tunnels = lock(&self.tunnels);
        if !tunnels.contains_key(tunnel) {
            tunnels.insert(tunnel.into(), Kinds::new());
        }
        let throttle = tunnels.get_mut(tunnel)?.entry(kind).or_insert(Throttle { next: now, held_back: 0 });
        let passed = throttle.pass(now);
        if let (None, 1, Some(notify)) = (passed, throttle.held_back, &self.notify) {
            notify.notify_one();
        }
        passed
    }

    /// Writes the number of held-back lines of each tunnel and kind whose next line has been due since `due` and has not come.
    /// Returns whether lines of other tunnels are still held back.
    fn flush(&self, due: Instant) -> bool {
        let mut is_left = false;
        for (tunnel, kinds) in lock(&self.tunnels).iter_mut() {
            for (kind, throttle) in kinds {
                match throttle.take(due) {
                    Some(more) => {
                        let reason = (!kind.is_empty()).then_some(*kind);
                        warn!(%tunnel, line = self.line, reason, more, "lines held back");
                    }
                    None => is_left |= throttle.held_back > 0,
                }
            }
        }
        is_left
    }
}

/// Passes one line of each tunnel to the log, and no later one.
#[derive(Debug, Default)]
pub(crate) struct Once(Mutex<HashSet<String>>);

impl Once {
    /// Whether this line of `tunnel` may be written.
    pub(crate) fn pass(&self, tunnel: &str) -> bool {
        let mut passed = lock(&self.0);
        !passed.contains(tunnel) && passed.insert(tunnel.into())
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
    fn one_line_of_each_tunnel_is_logged() {
        let once = Once::default();
        assert_eq!(["a", "b", "a", "b", "a"].map(|tunnel| once.pass(tunnel)), [true, true, false, false, false]);
    }

    #[test]
    fn one_event_a_second_of_each_tunnel_is_logged() {
        let throttles = Throttles::new("line", None);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(throttles.pass("a", start), Some(0));
        assert_eq!(throttles.pass("a", at(10)), None);
        assert_eq!(throttles.pass("b", at(10)), Some(0));
        assert_eq!(throttles.pass("a", at(999)), None);
        assert_eq!(throttles.pass("a", at(1000)), Some(2));
    }

    #[test]
    fn lines_of_different_kinds_do_not_hold_each_other_back() {
        let (throttles, start) = (Throttles::new("line", None), Instant::now());
        let pass = |kind| throttles.pass_kind("a", kind, start);
        assert_eq!(["x", "y", "x", "y", "x"].map(pass), [Some(0), Some(0), None, None, None]);
        let later = |kind| throttles.pass_kind("a", kind, start + PERIOD);
        assert_eq!(["x", "y"].map(later), [Some(2), Some(1)]);
    }

    #[test]
    fn held_back_lines_of_ftp_are_reported() {
        let (lines, start) = (Lines::default(), Instant::now());
        assert_eq!((lines.ftp.pass("a", start), lines.ftp.pass("a", start)), (Some(0), None));
        assert!(lines.flush(start) && !lines.flush(start + PERIOD), "it is reported when it is due");
        assert_eq!(lines.ftp.pass("a", start + PERIOD), Some(0), "and not counted again");
    }

    #[test]
    fn suppressed_lines_are_reported_once_when_no_line_follows() {
        let (notify, start) = (Arc::<Notify>::default(), Instant::now());
        let throttles = Throttles::new("line", Some(notify.clone()));
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
