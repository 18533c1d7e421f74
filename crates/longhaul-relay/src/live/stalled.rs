//! The next hops of a tunnel and its clients, as far as they do not answer the flows that carry bytes. The sweep writes it; dials and
//! views read it.

use crate::lock::lock;
use longhaul_core::next_hop::HopKey;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The places of a tunnel that do not answer.
#[derive(Debug, Default)]
pub(crate) struct Stalled(Mutex<Places>);

/// Those places, each with the time of its last answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The clients whose flows carry bytes, if none of them answers. Shared, because a copy is made for each dial.
    pub(crate) clients: Option<(Instant, Arc<BTreeSet<IpAddr>>)>,
    /// The next hops that answer none of their flows that carry bytes.
    pub(crate) hops: Vec<(HopKey, Instant)>,
}

/// Where a leg leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Client(IpAddr),
    Hop(HopKey),
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
    /// Records a leg to `place` without an answer since `since`.
    pub(crate) fn add(&mut self, place: Place, since: Instant) {
        match place {
            Place::Client(client) => {
                let (last, clients) = self.clients.get_or_insert_with(|| (since, Arc::default()));
                *last = since.max(*last);
                Arc::make_mut(clients).insert(client);
            }
            Place::Hop(key) => match self.hops.iter_mut().find(|(known, _)| *known == key) {
                Some((_, last)) => *last = since.max(*last),
                None => self.hops.push((key, since)),
            },
        }
    }

    /// Records a leg to `place` that has had an answer.
    pub(crate) fn remove(&mut self, place: Place) {
        match place {
            Place::Client(_) => self.clients = None,
            Place::Hop(key) => self.hops.retain(|(known, _)| *known != key),
        }
    }
}
