//! The search for a loop of a tunnel's flows through another relay. Every flow asks for it. A flow that nobody suspects costs one
//! atomic load, and one lock at its end if it was answered.

use crate::lock::lock;
use longhaul_core::loops::Watch;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// The state of the search. Flows that begin lock it only while a source is under suspicion.
#[derive(Debug, Default)]
pub(crate) struct LoopWatch {
    watch: Mutex<Watch>,
    has_suspect: AtomicBool,
}

impl LoopWatch {
    /// Returns the watch if a source is under suspicion or in doubt.
    pub(crate) fn suspecting(&self) -> Option<MutexGuard<'_, Watch>> {
        self.has_suspect.load(Relaxed).then(|| lock(&self.watch))
    }

    /// Changes the watch.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Watch) -> T) -> T {
        let mut watch = lock(&self.watch);
        let changed = change(&mut watch);
        self.has_suspect.store(watch.has_suspect(), Relaxed);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_is_locked_while_it_has_a_suspect() {
        let (loops, from) = (LoopWatch::default(), "192.0.2.1".parse().unwrap());
        assert!(loops.change(|watch| watch.suspect(from, Instant::now())) && loops.suspecting().is_some());
        loops.change(|watch| watch.rest(from));
        let _held = lock(&loops.watch);
        assert!(loops.suspecting().is_none(), "and then nobody waits for the lock");
    }
}
