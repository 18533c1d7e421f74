//! Writes log lines to stderr: a bounded queue, and one thread that writes.
//!
//! A slow journal, a full disk or a closed pipe must not delay a flow or end a listener. So logging never waits and never
//! fails. A line that finds the queue full, or cannot be written, is lost and counted. Once stderr can be written again, the log
//! says how many lines were lost.
//!
//! tracing-appender 0.2.3 does not replace this file: it needs a sink that batches and counts all the same, panics when the
//! process may have no other thread, does not count a line that it cannot write, and prints to stdout when it cannot stop.

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
    /// Asks for an answer once every earlier entry is written.
    Flush(Sender<()>),
}

impl Queue {
    /// Starts the thread, which writes to `sink`, whole lines only. `notice` writes to the log, past this queue, that so
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
        // A thread of its own: a full queue makes the sender wait, and std has no `send` with a time limit.
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
fn write(queued: &Receiver<Entry>, sink: impl Write, lost: &AtomicU64, notice: impl Fn(u64)) {
    let mut batch = Batch { sink, lost, notice, bytes: Vec::with_capacity(BATCH), lines: 0 };
    while let Ok(first) = queued.recv() {
        for entry in std::iter::once(first).chain(queued.try_iter()) {
            match entry {
                Entry::Line(line) => batch.add(&line),
                Entry::Flush(done) => {
                    batch.write();
                    // It fails when whoever asked has stopped waiting.
                    let _ = done.send(());
                }
            }
        }
        batch.write();
        thread::sleep(PAUSE);
    }
}

/// Lines that are written by one call.
struct Batch<'a, S, N> {
    sink: S,
    lost: &'a AtomicU64,
    notice: N,
    bytes: Vec<u8>,
    lines: u64,
}

impl<S: Write, N: Fn(u64)> Batch<'_, S, N> {
    fn add(&mut self, line: &[u8]) {
        if self.bytes.len() + line.len() > BATCH {
            self.write();
        }
        self.bytes.extend_from_slice(line);
        self.lines += 1;
    }

    fn write(&mut self) {
        if self.lines == 0 {
            return;
        }
        match self.sink.write_all(&self.bytes) {
            Err(_) => drop(self.lost.fetch_add(self.lines, Relaxed)),
            Ok(()) => match self.lost.swap(0, Relaxed) {
                0 => {}
                lines => (self.notice)(lines),
            },
        }
        self.bytes.clear();
        self.lines = 0;
    }
}

/// Bytes of one call: what programs that share a pipe can write without mixing their lines (pipe(7), PIPE_BUF).
const BATCH: usize = 4096;

/// Time that the thread sleeps after a batch. A log line in that time need not wake the thread, which at 10,000 flows a second
/// saves a tenth of the relay's work.
const PAUSE: Duration = Duration::from_millis(5);

/// Lines that wait for a slow stderr: a burst of a few thousand flows that end together, in about 2 MB.
const LINES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that something is to be written, and gives it once somebody takes it; an error once nobody can.
    struct Slow {
        begins: Sender<()>,
        sink: SyncSender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            // Fails where the test has heard enough.
            let _ = self.begins.send(());
            self.sink.send(lines.into()).map_err(io::Error::other)?;
            Ok(lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn says_how_many_lines_a_slow_sink_has_lost() {
        const LOST: usize = 900;
        let ((begins, begun), (sink, written), (notices, noticed)) = (channel(), sync_channel(0), channel());
        let mut queue = Queue::start(Slow { begins, sink }, move |lines| notices.send(lines).unwrap()).unwrap();
        let line = |number: usize| format!("{number:04}\n");
        queue.write_all(line(0).as_bytes()).unwrap();
        begun.recv().unwrap(); // from here on the thread is stuck with it
        for number in 1..=LINES + LOST {
            queue.write_all(line(number).as_bytes()).unwrap();
        }
        queue.flush(Duration::from_millis(1)); // comes back all the same
        let mut got = written.recv().unwrap();
        assert_eq!(noticed.recv().unwrap(), LOST as u64);
        let kept: String = (0..=LINES).map(line).collect();
        while got.len() < kept.len() {
            let batch = written.recv().unwrap();
            assert!(batch.len() <= BATCH && batch.ends_with(b"\n"), "lines are whole");
            got.extend(batch);
        }
        assert!(got == kept.as_bytes(), "not the lines that were kept");
    }

    #[test]
    fn a_sink_that_fails_is_no_error_for_those_who_log() {
        let ((begins, _), (sink, _)) = (channel(), sync_channel(0));
        let mut queue = Queue::start(Slow { begins, sink }, |_| ()).unwrap();
        for _ in 0..10 {
            queue.write_all(b"line").unwrap();
        }
        queue.flush(Duration::from_secs(60));
        assert_eq!(queue.lost.load(Relaxed), 10);
    }
}
