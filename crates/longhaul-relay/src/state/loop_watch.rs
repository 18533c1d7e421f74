//! The search for a loop of a tunnel's flows through another relay. Every flow asks for it. A flow that nobody suspects costs some
//! atomic operations, and one lock at its end if it was answered. Of many flows at once, one of eight looks at the newest of them, too.

use crate::live::flow::Flow;
use crate::live::registry::Registry;
use crate::lock::lock;
use longhaul_core::loops::Watch;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// The state of the search. Flows that begin lock it only while a source is under suspicion.
#[derive(Debug)]
pub(crate) struct LoopWatch {
    watch: Mutex<Watch>,
    has_suspect: AtomicBool,
    /// The numbers of the tunnel's newest flows; the next one takes the place of the oldest.
    newest: [AtomicU64; NEWEST],
    begun: AtomicUsize,
    /// Number of flows that had begun at the last new suspicion.
    begun_before: AtomicUsize,
}

impl Default for LoopWatch {
    fn default() -> LoopWatch {
        let newest = [const { AtomicU64::new(0) }; NEWEST];
        let (watch, has_suspect) = (Mutex::default(), AtomicBool::new(false));
        LoopWatch { watch, has_suspect, newest, begun: AtomicUsize::new(0), begun_before: AtomicUsize::new(0) }
    }
}

impl LoopWatch {
    /// Returns the watch if a source is under suspicion or in doubt.
    pub(crate) fn suspecting(&self) -> Option<MutexGuard<'_, Watch>> {
        self.has_suspect.load(Relaxed).then(|| lock(&self.watch))
    }

    /// Whether unanswered flows of `from` would be news.
    pub(crate) fn may_suspect(&self, from: IpAddr, now: Instant) -> bool {
        lock(&self.watch).may_suspect(from, now)
    }

    /// Suspects `from`. Returns whether somebody must [test](Watch::suspect) it.
    pub(crate) fn suspect(&self, from: IpAddr, now: Instant) -> bool {
        self.change(|watch| {
            let is_first = watch.suspect(from, now);
            if is_first {
                self.begun_before.store(self.begun.load(Relaxed), Relaxed);
            }
            is_first
        })
    }

    /// Records a flow that begins. Returns how many have begun before it.
    pub(crate) fn begun(&self, flow: &Flow) -> usize {
        let before = self.begun.fetch_add(1, Relaxed);
        self.newest[before % NEWEST].store(flow.number, Relaxed);
        before
    }

    /// Returns the number of flows that have begun since the last new suspicion.
    pub(crate) fn begun_since(&self) -> usize {
        self.begun.load(Relaxed).wrapping_sub(self.begun_before.load(Relaxed))
    }

    /// Returns up to `max` of the newest live flows that are `wanted`, the newest first, among the [`NEWEST`] of the tunnel.
    pub(crate) fn newest(&self, registry: &Registry, wanted: impl Fn(&Flow) -> bool, max: usize) -> Vec<Arc<Flow>> {
        let mut numbers = self.newest.each_ref().map(|number| number.load(Relaxed));
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let mut flows = registry.live(&numbers);
        flows.retain(|flow| wanted(flow));
        flows.truncate(max);
        flows
    }

    /// Changes the watch.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Watch) -> T) -> T {
        let mut watch = lock(&self.watch);
        let changed = change(&mut watch);
        self.has_suspect.store(watch.has_suspect(), Relaxed);
        changed
    }
}

/// Number of the newest flows of a tunnel among which those of one source are looked for.
const NEWEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_locked_while_it_has_a_suspect() {
        let (loops, from) = (LoopWatch::default(), "192.0.2.1".parse().unwrap());
        assert!(loops.change(|watch| watch.suspect(from, Instant::now())) && loops.suspecting().is_some());
        loops.change(|watch| watch.rest(from));
        let _held = lock(&loops.watch);
        assert!(loops.suspecting().is_none(), "and then nobody waits for the lock");
    }
}
