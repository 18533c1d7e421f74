//! SO_RCVLOWAT of bulk flows: the mark that [`longhaul_core::low_water`] computes is told to the kernel, and taken away again.
//!
//! Going to sleep and waking up took a fifth of the relay's time at 40 Gbit/s (docs/design/data-path.md). So a
//! source that brings 2 Gbit/s and more wakes us for half a millisecond's worth of bytes. Three things keep that from
//! hurting: a flow below that rate never has it; FIN, RST and a full receive buffer wake at once (tcp(7)); and a guard
//! takes the mark away when nothing came for a millisecond, so the last bytes of a burst wait 2 ms at the most.
//!
//! The guard is a thread of its own, and it sleeps while no flow has a mark. A timer of the runtime in its place took
//! back all that the mark had won.

use super::lock::lock;
use super::stream::Stream;
use longhaul_core::low_water::Meter;
use longhaul_sys::sockopt::set_receive_low_water;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The low-water mark of one source, as its pump sees it.
#[derive(Debug)]
pub(super) struct LowWater {
    /// Made when a flow first shows bulk, and kept.
    mark: Option<Arc<Mark>>,
    meter: Meter,
}

/// A source's mark, which its pump sets and the guard takes away.
#[derive(Debug)]
struct Mark {
    socket: Weak<Stream>,
    /// Held while the kernel is told, so that the two never differ.
    now: Mutex<Now>,
    /// Whether bytes came since the guard last looked.
    seen: AtomicBool,
}

/// A mark as it is now.
#[derive(Debug)]
struct Now {
    /// The kernel's value in bytes; 1 is its default.
    bytes: u32,
    /// Whether the guard looks after it. It still does for a while when the mark is down to 1, and must not have it twice: one
    /// look would then take `seen` from the other, which would find the source quiet and take the mark away.
    watched: bool,
}

/// The marks that are set, for the guard to look after.
#[derive(Debug, Default)]
pub(super) struct Marks {
    set: Mutex<Vec<Weak<Mark>>>,
    added: Condvar,
    guard: OnceLock<bool>,
}

impl LowWater {
    pub(super) const fn new() -> LowWater {
        LowWater { mark: None, meter: Meter::new() }
    }

    /// Counts `bytes` that the source gave.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.meter.filled(bytes);
        if let Some(mark) = &self.mark {
            mark.seen.store(true, Relaxed);
        }
    }

    /// Sets the number of bytes that the pump of an empty source waits for, once in an epoch. `clock` is read only where bytes came since
    /// the last wait.
    pub(super) fn wait(&mut self, source: &Arc<Stream>, marks: &Arc<Marks>, clock: impl FnOnce() -> Instant) {
        if let Some(wanted) = self.meter.wait(clock) {
            self.set(source, marks, wanted);
        }
    }

    fn set(&mut self, source: &Arc<Stream>, marks: &Arc<Marks>, wanted: u32) {
        if wanted == 1 && self.mark.is_none() {
            return;
        }
        let socket = || Arc::downgrade(source);
        let now = || Mutex::new(Now { bytes: 1, watched: false });
        let new = || Arc::new(Mark { socket: socket(), now: now(), seen: AtomicBool::new(true) });
        let mark = self.mark.get_or_insert_with(new);
        // Only after the mark's lock is given back, because the guard holds the list's lock when it takes the mark's.
        if mark.set(source, wanted, marks) {
            marks.watch(mark);
        }
    }
}

impl Mark {
    /// Tells the kernel; true when the guard is to look after this mark from now on. Where the kernel refuses, or there is
    /// no guard, the pump wakes up more often, and that is all.
    fn set(&self, source: &Stream, wanted: u32, marks: &Arc<Marks>) -> bool {
        let mut now = lock(&self.now);
        if now.bytes == wanted || !marks.guarded() || set_receive_low_water(source.as_fd(), wanted).is_err() {
            return false;
        }
        now.bytes = wanted;
        !std::mem::replace(&mut now.watched, true)
    }

    /// Takes the mark away when nothing came since the last look; false when there is nothing more to look after.
    fn is_needed(&self) -> bool {
        if self.seen.swap(false, Relaxed) {
            return true;
        }
        let mut now = lock(&self.now);
        if let (Some(socket), true) = (self.socket.upgrade(), now.bytes != 1) {
            // This also makes the kernel wake the pump for what there is (net/ipv4/tcp.c, tcp_set_rcvlowat). It fails
            // only on a socket that is gone.
            let _ = set_receive_low_water(socket.as_fd(), 1);
        }
        *now = Now { bytes: 1, watched: false };
        false
    }
}

impl Marks {
    /// Starts the guard at the first call; false when it could not be started.
    fn guarded(self: &Arc<Marks>) -> bool {
        *self.guard.get_or_init(|| {
            let marks = self.clone();
            std::thread::Builder::new().name("longhaul-guard".into()).spawn(move || marks.guard()).is_ok()
        })
    }

    fn watch(&self, mark: &Arc<Mark>) {
        lock(&self.set).push(Arc::downgrade(mark));
        self.added.notify_one();
    }

    fn guard(&self) -> ! {
        loop {
            let mut set = lock(&self.set);
            while set.is_empty() {
                set = self.added.wait(set).unwrap_or_else(PoisonError::into_inner);
            }
            set.retain(|mark| mark.upgrade().is_some_and(|mark| mark.is_needed()));
            drop(set);
            std::thread::sleep(PERIOD);
        }
    }
}

/// Interval at which the guard looks. It takes a mark away at the first look that finds no byte since the look before.
const PERIOD: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_sys::sockopt::receive_low_water;

    fn source() -> Arc<Stream> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let source = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        source.set_nonblocking(true).unwrap();
        Arc::new(Stream::new(source.into()).unwrap())
    }

    /// With a clock of its own and without the guard: whatever the machine does, the rates are these.
    #[tokio::test]
    async fn the_rate_between_two_waits_is_the_mark_that_the_kernel_has() {
        let (source, marks) = (source(), Arc::new(Marks { guard: OnceLock::from(true), ..Marks::default() }));
        let (mut low_water, start) = (LowWater::new(), Instant::now());
        let mut at = |micros: u64, bytes: usize| {
            if bytes > 0 {
                low_water.filled(bytes);
            }
            low_water.wait(&source, &marks, || start + Duration::from_micros(micros));
            receive_low_water(source.as_fd()).unwrap()
        };
        assert_eq!(at(0, 1_000_000), 1, "an epoch begins");
        assert_eq!(at(1_000, 1_250_000), 524_288, "10 Gbit/s");
        assert_eq!(at(1_500, 1), 524_288, "an epoch lasts a millisecond");
        assert_eq!(at(3_000, 1_250_000 - 1), 262_144, "5 Gbit/s");
        assert_eq!(lock(&marks.set).len(), 1, "the guard has to look after it");
        assert_eq!(at(4_000, 100_000), 1, "800 Mbit/s");
    }

    /// The kernel is told, and a mark whose source goes quiet is taken away by the guard alone.
    #[tokio::test]
    async fn the_guard_takes_a_quiet_mark_away() {
        let (source, marks) = (source(), Arc::<Marks>::default());
        let mut low_water = LowWater::new();
        low_water.set(&source, &marks, 65_536);
        assert_eq!(receive_low_water(source.as_fd()), Ok(65_536));
        let started = Instant::now();
        while receive_low_water(source.as_fd()) != Ok(1) {
            assert!(started.elapsed() < Duration::from_secs(60), "the guard did nothing");
            tokio::task::yield_now().await;
        }
        // Pump and guard at the same marks, as fast as they can: neither ever waits for the other for good, and a mark that goes
        // down and up again is watched once.
        for _ in 0..50_000 {
            low_water.set(&source, &marks, 65_536);
            low_water.set(&source, &marks, 1);
            assert!(lock(&marks.set).len() <= 1, "one mark is watched twice");
        }
    }
}
