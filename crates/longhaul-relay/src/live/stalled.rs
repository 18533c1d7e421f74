//! The next hops of a tunnel and its clients, as far as they do not answer the flows that carry bytes. The sweep writes it; dials and
//! views read it.

use crate::lock::lock;
use longhaul_core::next_hop::HopKey;
use std::sync::Mutex;
use std::time::Instant;

/// The places of a tunnel that do not answer.
#[derive(Debug, Default)]
pub(crate) struct Stalled(Mutex<Places>);

/// Those places, each with the time of its last answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The clients, if none whose flow carries bytes answers.
    pub(crate) clients: Option<Instant>,
    /// The next hops that answer none of their flows that carry bytes.
    pub(crate) hops: Vec<(HopKey, Instant)>,
}

impl Stalled {
    /// Replaces them.
    pub(crate) fn set(&self, places: Places) {
        *lock(&self.0) = places;
    }

    /// Returns them. Allocates only if a next hop does not answer.
    pub(crate) fn get(&self) -> Places {
        lock(&self.0).clone()
    }
}

impl Places {
    /// Records a leg without an answer since `since`: one to a next hop, or to a client with `None`.
    pub(crate) fn add(&mut self, hop: Option<HopKey>, since: Instant) {
        match hop {
            None => self.clients = self.clients.max(Some(since)),
            Some(key) => match self.hops.iter_mut().find(|(known, _)| *known == key) {
                Some((_, last)) => *last = since.max(*last),
                None => self.hops.push((key, since)),
            },
        }
    }

    /// Records a leg that has had an answer.
    pub(crate) fn remove(&mut self, hop: Option<HopKey>) {
        match hop {
            None => self.clients = None,
            Some(key) => self.hops.retain(|(known, _)| *known != key),
        }
    }
}
