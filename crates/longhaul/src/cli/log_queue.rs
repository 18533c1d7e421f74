//! The way of a log line to stderr: a bounded queue, and one thread that writes.
//!
//! A journal that is slow, a disk that is full, a pipe whose reader is gone: none of it may hold up a flow or end a
//! listener. So whoever logs never waits and never fails; only the thread does. What finds the queue full, or cannot be
//! written, is lost and counted, and the log says how many lines were lost once it can be written again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Takes log lines for the thread that writes them.
#[derive(Clone)]
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

enum Entry {
    Line(Box<[u8]>),
    /// All that was queued before is written; this is told so.
    Flush(Sender<()>),
}

impl Queue {
    /// Starts the thread, which writes to `sink`, one call a line. `notice` writes to the log, past this queue, that so
    /// many lines were lost.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn start(sink: impl Write + Send + 'static, notice: impl Fn(u64) + Send + 'static) -> io::Result<Queue> {
        let (entries, queued) = sync_channel(LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Queue { entries, lost: lost.clone() };
        thread::Builder::new().name("longhaul-log".into()).spawn(move || write(&queued, sink, &lost, notice))?;
        Ok(queue)
    }

    /// Waits until what was logged so far is written, but not for longer than `at_most`.
    pub(super) fn flush(&self, at_most: Duration) {
        let (done, written) = channel();
        let entries = self.entries.clone();
        // A thread of its own, for a full queue makes the sender wait, and std has no `send` with a time limit.
        let waits = thread::Builder::new().spawn(move || entries.send(Entry::Flush(done)));
        if waits.is_ok() {
            // Late or not at all: the lines are lost either way.
            let _ = written.recv_timeout(at_most);
        }
    }
}

/// One call is one line: tracing-subscriber hands over a whole line at once.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.entries.try_send(Entry::Line(line.into())).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what is queued until nobody can log any more.
fn write(queued: &Receiver<Entry>, mut sink: impl Write, lost: &AtomicU64, notice: impl Fn(u64)) {
    while let Ok(first) = queued.recv() {
        for entry in std::iter::once(first).chain(queued.try_iter()) {
            match entry {
                Entry::Line(line) if sink.write_all(&line).is_err() => {
                    lost.fetch_add(1, Relaxed);
                }
                Entry::Line(_) => match lost.swap(0, Relaxed) {
                    0 => {}
                    lines => notice(lines),
                },
                Entry::Flush(done) => {
                    // It fails when whoever asked has stopped waiting.
                    let _ = done.send(());
                }
            }
        }
        thread::sleep(PAUSE);
    }
}

/// How long the thread does not look for lines after the last: whoever logs meanwhile need not wake it, which at 10,000 flows
/// a second is a tenth of the relay's work.
const PAUSE: Duration = Duration::from_millis(1);

/// How many lines wait for a slow stderr: a burst of a few thousand flows that end at once, in some 2 MB.
const LINES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what is written, once somebody takes it; an error once nobody can.
    struct Slow(SyncSender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.send(line.into()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn says_how_many_lines_a_slow_sink_has_lost() {
        let ((sink, written), (notices, noticed)) = (sync_channel(0), channel());
        let mut queue = Queue::start(Slow(sink), move |lines| notices.send(lines).unwrap()).unwrap();
        let all = LINES + 100;
        for line in 0..all {
            queue.write_all(line.to_string().as_bytes()).unwrap();
        }
        queue.flush(Duration::from_millis(1)); // the sink is stuck, and this comes back all the same
        assert_eq!(written.recv().unwrap(), b"0");
        let lost = noticed.recv().unwrap();
        // The thread may have taken one line from the queue before that was full.
        assert!((99..=100).contains(&lost), "{lost}");
        let rest = all - usize::try_from(lost).unwrap() - 1;
        assert_eq!(written.iter().take(rest).count(), rest);
    }

    #[test]
    fn a_sink_that_fails_is_no_error_for_those_who_log() {
        let (sink, written) = sync_channel(0);
        drop(written);
        let mut queue = Queue::start(Slow(sink), |_| ()).unwrap();
        for _ in 0..10 {
            queue.write_all(b"line").unwrap();
        }
        queue.flush(Duration::from_secs(60));
        assert_eq!(queue.lost.load(Relaxed), 10);
    }
}
