//! Empty pipes, kept for reuse. A pump takes one when its source brings bulk, and returns it when pipe and source are
//! empty. So neither an idle flow nor a flow of messages has one. The pool keeps some of the returned pipes and closes
//! the others, so that their descriptors are free after a burst of flows.
//!
//! Lock-free, because every wake-up of a bulk flow uses the pool.

use crate::state::load::Load;
use crossbeam_queue::ArrayQueue;
use longhaul_sys::limits;
use longhaul_sys::splice::Pipe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use tracing::warn;

/// The maximum number of pipes of a process, regardless of its descriptors. Further pumps copy.
const MAX_PIPES: usize = 8192;

/// The maximum number of pipes that the pool keeps. A pump that finds none creates one by two system calls, and two
/// more close it.
const MAX_WAITING: usize = 512;

/// Number of slots of a pipe for bulk: the segments of one wake-up at 10 Gbit/s. A slot holds one piece of a segment,
/// 1,448 bytes from a network card, regardless of the page size. Where pages are 64 KiB the kernel allows an ordinary
/// user 16 of them (pipe(7) fs.pipe-max-size), and pipes keep their size.
const BULK_SLOTS: u32 = 256;

/// Number of slots of all pipes together up to which a pipe may grow: 128 pipes for bulk at once. Above it, pipes stay
/// small.
const MAX_GROWN_SLOTS: usize = 128 * BULK_SLOTS as usize;

/// The pool. It counts its pipes, so that they never use up descriptors or pipe pages that others need.
#[derive(Debug)]
pub(crate) struct Pool {
    empty: ArrayQueue<Pipe>,
    /// Number of pipes that the descriptors allow.
    share: AtomicUsize,
    made: AtomicUsize,
    /// Maximum number of slots of all pipes together, `None` for no limit. The kernel counts each slot as a page of the
    /// user's.
    max_slots: Option<usize>,
    slots: AtomicUsize,
    /// Slots that one pipe may have.
    bulk_slots: u32,
    said: AtomicBool,
}

impl Pool {
    /// Returns a pool of at most as many pipes as `descriptors` allow, which together have at most `max_pages` slots.
    pub(crate) fn new(descriptors: usize, max_pages: Option<u64>) -> Pool {
        let max_pages = max_pages.map(|pages| usize::try_from(pages).unwrap_or(usize::MAX));
        let pool = Pool {
            empty: ArrayQueue::new(MAX_WAITING),
            share: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            max_slots: max_pages,
            slots: AtomicUsize::new(0),
            bulk_slots: limits::pipe_max_slots().map_or(BULK_SLOTS, |max| max.min(BULK_SLOTS)),
            said: AtomicBool::new(false),
        };
        pool.share_out(descriptors);
        pool
    }

    /// Changes the maximum number of pipes to what `descriptors` allow. Pipes above it are closed when they are
    /// returned.
    pub(super) fn share_out(&self, descriptors: usize) {
        self.share.store(Pool::share(descriptors), Relaxed);
        while self.made.load(Relaxed) > self.max() {
            let Some(pipe) = self.empty.pop() else { break };
            self.discard(pipe);
        }
    }

    /// Returns the number of pipes that `descriptors` allow. Pipes take a quarter of the descriptors, two each.
    pub(super) fn share(descriptors: usize) -> usize {
        (descriptors / 8).min(MAX_PIPES)
    }

    /// Returns the maximum number of pipes.
    pub(super) fn max(&self) -> usize {
        self.bound().0
    }

    /// Returns the use of the limits of pipes. The other fields are empty.
    pub(super) fn load(&self) -> Load {
        let (max, more_pipes) = self.bound();
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Load {
            pipes: number(self.made.load(Relaxed).saturating_sub(self.empty.len())),
            max_pipes: number(max),
            more_pipes,
            pipe_pages: number(self.slots.load(Relaxed)),
            max_pipe_pages: self.max_slots.map(number),
            ..Load::default()
        }
    }

    /// Returns the maximum number of pipes, and the remedy that raises it.
    fn bound(&self) -> (usize, &'static str) {
        let bounds = [
            (MAX_PIPES, "there are never more than 8,192"),
            (
                self.share.load(Relaxed),
                "raise RLIMIT_NOFILE (LimitNOFILE=), of which a quarter is for pipes, two for each",
            ),
            (self.max_slots.map_or(usize::MAX, |slots| slots / DEFAULT_SLOTS as usize), MORE_PAGES),
        ];
        bounds.into_iter().min_by_key(|(max, _)| *max).unwrap_or_default()
    }

    /// Returns an empty pipe, or `None` at the maximum. The pump then copies.
    pub(crate) fn take(&self) -> Option<Pipe> {
        self.empty.pop().or_else(|| self.make())
    }

    /// Takes back an empty pipe, and keeps or closes it.
    pub(crate) fn give(&self, pipe: Pipe) {
        let spare = if self.made.load(Relaxed) > self.max() { Err(pipe) } else { self.empty.push(pipe) };
        if let Err(pipe) = spare {
            self.discard(pipe);
        }
    }

    /// Closes a pipe, which may still hold bytes and is therefore not reused.
    pub(crate) fn discard(&self, pipe: Pipe) {
        self.slots.fetch_sub(pipe.slots() as usize, Relaxed);
        self.made.fetch_sub(1, Relaxed);
        drop(pipe);
    }

    /// Enlarges the empty `pipe` for bulk, unless it is large already or too many slots are in use.
    pub(crate) fn grow(&self, pipe: &mut Pipe) {
        let before = pipe.slots();
        let more = self.bulk_slots.saturating_sub(before) as usize;
        if more == 0 {
            return;
        }
        // Half of the user's slots are left for new pipes: a small pipe for every flow is better than a large one for a
        // few.
        let max = self.max_slots.map_or(MAX_GROWN_SLOTS, |max| MAX_GROWN_SLOTS.min(max / 2));
        // On failure the pipe keeps its size, which is slower and does no harm.
        if self.slots.load(Relaxed) + more <= max && pipe.resize(self.bulk_slots).is_ok() {
            self.slots.fetch_add((pipe.slots() - before) as usize, Relaxed);
        }
    }

    fn make(&self) -> Option<Pipe> {
        let bound = self.made.fetch_update(Relaxed, Relaxed, |made| (made < self.max()).then_some(made + 1));
        if bound.is_err() {
            self.say_once(format_args!("all {} pipes are in use", self.max()), self.bound().1);
            return None;
        }
        match Pipe::new() {
            Ok(pipe) if pipe.slots() >= DEFAULT_SLOTS => {
                self.slots.fetch_add(pipe.slots() as usize, Relaxed);
                return Some(pipe);
            }
            // The pipe has two slots. Splice through it is slower than copying 64 KiB at a time.
            Ok(_) => self.say_once(format_args!("this user's pipes are above fs.pipe-user-pages-soft"), MORE_PAGES),
            Err(err) => self.say_once(format_args!("{err}"), self.bound().1),
        }
        self.made.fetch_sub(1, Relaxed);
        None
    }

    fn say_once(&self, why: std::fmt::Arguments<'_>, remedy: &'static str) {
        if !self.said.swap(true, Relaxed) {
            warn!(%why, remedy, "no more pipes: flows are copied, which is slower");
        }
    }
}

/// The remedy for too few pipe pages of the user (pipe(7)).
const MORE_PAGES: &str = "raise fs.pipe-user-pages-soft, or grant CAP_SYS_RESOURCE";

/// Slots of a new pipe (pipe(7): 16 pages).
const DEFAULT_SLOTS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of descriptors that allows `count` pipes.
    fn pipes(count: usize) -> usize {
        8 * count
    }

    #[test]
    fn never_more_than_the_bound() {
        let pool = Pool::new(pipes(2), None);
        let (one, two) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        pool.give(one);
        pool.discard(two);
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn a_lower_bound_closes_what_is_above_it() {
        let pool = Pool::new(pipes(3), None);
        let (one, two, three) = (pool.take().unwrap(), pool.take().unwrap(), pool.take().unwrap());
        pool.give(one);
        pool.share_out(pipes(1));
        pool.give(two);
        assert_eq!(pool.made.load(Relaxed), 1);
        pool.give(three);
        assert!(pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn returned_pipes_beyond_the_limit_are_closed() {
        let pool = Pool::new(pipes(MAX_WAITING + 5), None);
        longhaul_sys::limits::raise_nofile().unwrap();
        let taken: Vec<Pipe> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), MAX_WAITING + 5);
        taken.into_iter().for_each(|pipe| pool.give(pipe));
        assert_eq!((pool.made.load(Relaxed), pool.empty.len()), (MAX_WAITING, MAX_WAITING));
    }

    #[test]
    fn the_remedy_is_of_what_binds() {
        let remedy = |descriptors, pages| Pool::new(descriptors, pages).bound().1;
        assert!(remedy(1000, None).starts_with("raise RLIMIT_NOFILE"));
        assert_eq!(remedy(1000, Some(160)), MORE_PAGES);
        assert_eq!(remedy(1 << 20, None), "there are never more than 8,192");
        let pool = Pool::new(pipes(10), Some(160 * 10));
        pool.share_out(pipes(1000));
        assert_eq!(pool.bound(), (100, MORE_PAGES), "shared out anew");
    }

    #[test]
    fn large_pipes_leave_half_of_the_pages_to_others() {
        let pool = Pool::new(pipes(100), Some(1024));
        let mut pipes: Vec<Pipe> = (0..3).map(|_| pool.take().unwrap()).collect();
        pipes.iter_mut().for_each(|pipe| pool.grow(pipe));
        let slots: Vec<u32> = pipes.iter().map(Pipe::slots).collect();
        assert_eq!(slots, [pool.bulk_slots, DEFAULT_SLOTS, DEFAULT_SLOTS]);
        assert_eq!(pool.max(), 64);
    }
}
