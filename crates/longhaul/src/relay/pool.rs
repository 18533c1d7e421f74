//! Empty pipes that wait for bytes. A pump takes one when its source has something and gives it back when the pipe is
//! empty and the source too, so an idle flow has none.
//!
//! Lock-free, because every wake-up of every flow comes by here.

use crossbeam_queue::ArrayQueue;
use longhaul_sys::limits::page_size;
use longhaul_sys::splice::Pipe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use tracing::warn;

/// The most pipes of a process, whatever its descriptors: more pumps than this in motion at once copy.
pub(super) const MOST_PIPES: usize = 8192;

/// What a pipe grows to when a fill shows bulk: 256 slots, which take a wake-up's worth of segments at 10 Gbit/s.
/// docs/design/data-path.md has the figures for 16, 64, 256 and 1024 slots.
pub(super) const BULK: usize = 1 << 20;

/// The pool. Counts what it made, so that pipes never take descriptors or pipe pages from somebody else.
#[derive(Debug)]
pub(super) struct Pool {
    empty: ArrayQueue<Pipe>,
    most: AtomicUsize,
    made: AtomicUsize,
    /// Pages of all pipes that may be in use, `None` for no bound.
    most_pages: Option<usize>,
    pages: AtomicUsize,
    said: AtomicBool,
}

impl Pool {
    /// A pool of at most `most` pipes, which together have at most `most_pages` pages.
    pub(super) fn new(most: usize, most_pages: Option<u64>) -> Pool {
        let most_pages = most_pages.map(|pages| usize::try_from(pages).unwrap_or(usize::MAX));
        let pool = Pool {
            empty: ArrayQueue::new(MOST_PIPES),
            most: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            most_pages,
            pages: AtomicUsize::new(0),
            said: AtomicBool::new(false),
        };
        pool.set_most(most);
        pool
    }

    /// From now on there are at most `most` pipes; those above it are closed when they are given back.
    pub(super) fn set_most(&self, most: usize) {
        self.most.store(most.min(self.most_pages.map_or(usize::MAX, |pages| pages / DEFAULT_SLOTS)), Relaxed);
        while self.made.load(Relaxed) > self.most() {
            let Some(pipe) = self.empty.pop() else { break };
            self.discard(pipe);
        }
    }

    /// How many pipes there may be.
    pub(super) fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// An empty pipe, or `None` when there can be no more: then the pump copies.
    pub(super) fn take(&self) -> Option<Pipe> {
        self.empty.pop().or_else(|| self.make())
    }

    /// Takes an empty pipe back.
    pub(super) fn give(&self, pipe: Pipe) {
        let spare = if self.made.load(Relaxed) > self.most() { Err(pipe) } else { self.empty.push(pipe) };
        if let Err(pipe) = spare {
            self.discard(pipe);
        }
    }

    /// Closes a pipe that may still hold bytes: it is never used again.
    pub(super) fn discard(&self, pipe: Pipe) {
        self.pages.fetch_sub(pipe.capacity() / page_size(), Relaxed);
        self.made.fetch_sub(1, Relaxed);
        drop(pipe);
    }

    /// Gives `pipe`, which is empty, room for bulk, unless it has it or the user's pages do not allow it.
    pub(super) fn grow(&self, pipe: &mut Pipe) {
        let before = pipe.capacity() / page_size();
        let more = (BULK / page_size()).saturating_sub(before);
        // Half of the pages stay for new pipes: a small pipe for every flow beats a large one for a few.
        let room = self.most_pages.is_none_or(|most| self.pages.load(Relaxed) + more <= most / 2);
        // A failure leaves the pipe as it was, which is slower and not wrong.
        if more > 0 && room && pipe.grow(BULK).is_ok() {
            self.pages.fetch_add(pipe.capacity() / page_size() - before, Relaxed);
        }
    }

    fn make(&self) -> Option<Pipe> {
        let bound = self.made.fetch_update(Relaxed, Relaxed, |made| (made < self.most()).then_some(made + 1));
        if bound.is_err() {
            self.say_once(format_args!("all {} pipes are in use", self.most()));
            return None;
        }
        match Pipe::new() {
            Ok(pipe) if pipe.capacity() >= DEFAULT_SLOTS * page_size() => {
                self.pages.fetch_add(pipe.capacity() / page_size(), Relaxed);
                return Some(pipe);
            }
            // Two slots: splice through them is slower than copying 64 KiB at a time.
            Ok(_) => self.say_once(format_args!("this user's pipes are above fs.pipe-user-pages-soft")),
            Err(err) => self.say_once(format_args!("{err}")),
        }
        self.made.fetch_sub(1, Relaxed);
        None
    }

    fn say_once(&self, why: std::fmt::Arguments<'_>) {
        if !self.said.swap(true, Relaxed) {
            warn!(
                %why,
                "no more pipes: flows go on by copying, slower; raise RLIMIT_NOFILE or fs.pipe-user-pages-soft, or grant CAP_SYS_RESOURCE"
            );
        }
    }
}

/// Slots of a new pipe (pipe(7): 16 pages).
const DEFAULT_SLOTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_bound() {
        let pool = Pool::new(2, None);
        let (one, two) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        pool.give(one);
        pool.discard(two);
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn a_lower_bound_closes_what_is_above_it() {
        let pool = Pool::new(3, None);
        let (one, two, three) = (pool.take().unwrap(), pool.take().unwrap(), pool.take().unwrap());
        pool.give(one);
        pool.set_most(1);
        pool.give(two);
        assert_eq!(pool.made.load(Relaxed), 1);
        pool.give(three);
        assert!(pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn large_pipes_leave_half_of_the_pages_to_others() {
        let pool = Pool::new(100, Some(1024));
        let mut pipes: Vec<Pipe> = (0..3).map(|_| pool.take().unwrap()).collect();
        pipes.iter_mut().for_each(|pipe| pool.grow(pipe));
        let sizes: Vec<usize> = pipes.iter().map(|pipe| pipe.capacity()).collect();
        assert_eq!(sizes, [BULK, 65536, 65536]);
        assert_eq!(pool.most(), 64);
    }
}
