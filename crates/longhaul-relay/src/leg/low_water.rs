//! Sets SO_RCVLOWAT of bulk flows to the mark that [`longhaul_core::low_water`] computes, and resets it when the source
//! goes quiet.
//!
//! Sleeping and waking up took a fifth of the relay's time at 40 Gbit/s (docs/design/data-path.md). So a source with 2
//! Gbit/s or more wakes us only once per half a millisecond's worth of bytes. Four rules keep this harmless. A flow
//! below that rate has no mark. A source that gets answers has none. FIN, RST and a full receive buffer wake the pump
//! at once (tcp(7)). A guard resets the mark when nothing came for a millisecond, so the last bytes of a burst wait 2 ms
//! at most.
//!
//! The guard is a thread of its own, and it sleeps while no flow has a mark. A timer of the runtime in its place cost
//! as much as the mark saved.

use crate::leg::stream::Stream;
use crate::lock::lock;
use longhaul_core::low_water::Meter;
use longhaul_sys::sockopt::set_receive_low_water;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The low-water mark of one source, as its pump sees it.
#[derive(Debug)]
pub(crate) struct LowWater {
    /// Created when a flow first shows bulk, and kept.
    mark: Option<Arc<Mark>>,
    meter: Meter,
}

/// A source's mark. Its pump sets it, and the guard resets it.
#[derive(Debug)]
struct Mark {
    socket: Weak<Stream>,
    /// Locked during the system call, so that it always matches the kernel's value.
    now: Mutex<Now>,
    /// Whether bytes came since the guard's last look.
    seen: AtomicBool,
}

/// The current value of a mark.
#[derive(Debug)]
struct Now {
    /// The kernel's value in bytes; 1 is its default.
    bytes: u32,
    /// Whether the guard watches it. The guard watches it for a while even after the pump has reset it to 1. The guard
    /// must not have it in its list twice: one look would clear `seen`, and the other would take the source for quiet
    /// and reset the mark.
    watched: bool,
}

/// The marks that the guard watches.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    set: Mutex<Vec<Weak<Mark>>>,
    added: Condvar,
    guard: OnceLock<bool>,
}

impl LowWater {
    pub(crate) const fn new() -> LowWater {
        LowWater { mark: None, meter: Meter::new() }
    }

    /// Counts `bytes` that the source gave.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.meter.filled(bytes);
        if let Some(mark) = &self.mark {
            mark.seen.store(true, Relaxed);
        }
    }

    /// Sets the number of bytes that the pump of an empty source waits for, once in an epoch. `answered` is the number
    /// of bytes that have moved in the other direction. `clock` is read only if bytes came since the last wait.
    pub(crate) fn wait(
        &mut self,
        source: &Arc<Stream>,
        marks: &Arc<Marks>,
        answered: u64,
        clock: impl FnOnce() -> Instant,
    ) {
        if let Some(wanted) = self.meter.wait(answered, clock) {
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
        // Only after `Mark::set` has released the mark's lock, because the guard locks the list first and then a mark.
        if mark.set(source, wanted, marks) {
            marks.watch(mark);
        }
    }
}

impl Mark {
    /// Sets the kernel's mark. Returns true when the guard must start to watch it. If the kernel refuses or there is no
    /// guard, the only effect is that the pump wakes up more often.
    fn set(&self, source: &Stream, wanted: u32, marks: &Arc<Marks>) -> bool {
        let mut now = lock(&self.now);
        if now.bytes == wanted || !marks.guarded() || set_receive_low_water(source.as_fd(), wanted).is_err() {
            return false;
        }
        now.bytes = wanted;
        !std::mem::replace(&mut now.watched, true)
    }

    /// Resets the mark when nothing came since the last look. Returns false when the guard need not watch it any more.
    fn is_needed(&self) -> bool {
        if self.seen.swap(false, Relaxed) {
            return true;
        }
        let mut now = lock(&self.now);
        if let (Some(socket), true) = (self.socket.upgrade(), now.bytes != 1) {
            // This also makes the kernel wake the pump for the bytes that are there (net/ipv4/tcp.c, tcp_set_rcvlowat).
            // It fails only on a socket that is gone.
            let _ = set_receive_low_water(socket.as_fd(), 1);
        }
        *now = Now { bytes: 1, watched: false };
        false
    }
}

impl Marks {
    /// Starts the guard at the first call. Returns false when it could not be started.
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

/// Interval between the guard's looks. The guard resets a mark at the first look that finds no new byte.
const PERIOD: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;
    use longhaul_sys::sockopt::Opt;

    fn source() -> Arc<Stream> {
        Arc::new(pair().0)
    }

    /// Returns the kernel's mark.
    fn mark(source: &Stream) -> u32 {
        Opt::socket(libc::SO_RCVLOWAT, "SO_RCVLOWAT").get(source.as_fd()).unwrap()
    }

    /// With a clock of its own and without the guard, so that the machine's speed does not change the rates.
    #[tokio::test]
    async fn the_rate_between_two_waits_is_the_mark_that_the_kernel_has() {
        let (source, marks) = (source(), Arc::new(Marks { guard: OnceLock::from(true), ..Marks::default() }));
        let (mut low_water, start) = (LowWater::new(), Instant::now());
        let mut at = |micros: u64, bytes: usize| {
            if bytes > 0 {
                low_water.filled(bytes);
            }
            low_water.wait(&source, &marks, 0, || start + Duration::from_micros(micros));
            mark(&source)
        };
        assert_eq!(at(0, 1_000_000), 1, "an epoch begins");
        assert_eq!(at(1_000, 1_250_000), 524_288, "10 Gbit/s");
        assert_eq!(at(1_500, 1), 524_288, "an epoch lasts a millisecond");
        assert_eq!(at(3_000, 1_250_000 - 1), 262_144, "5 Gbit/s");
        assert_eq!(lock(&marks.set).len(), 1, "the guard has to watch it");
        assert_eq!(at(4_000, 100_000), 1, "800 Mbit/s");
    }

    /// The kernel has the mark, and the guard alone resets the mark of a quiet source.
    #[tokio::test]
    async fn the_guard_takes_a_quiet_mark_away() {
        let (source, marks) = (source(), Arc::<Marks>::default());
        let mut low_water = LowWater::new();
        low_water.set(&source, &marks, 65_536);
        assert_eq!(mark(&source), 65_536);
        let started = Instant::now();
        while mark(&source) != 1 {
            assert!(started.elapsed() < Duration::from_secs(60), "the guard did nothing");
            tokio::task::yield_now().await;
        }
        // Pump and guard change the same mark as fast as they can: there is no deadlock, and a mark that is reset and
        // set again is watched once.
        for _ in 0..50_000 {
            low_water.set(&source, &marks, 65_536);
            low_water.set(&source, &marks, 1);
            assert!(lock(&marks.set).len() <= 1, "one mark is watched twice");
        }
    }
}
