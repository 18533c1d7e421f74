//! The next hops of a tunnel and its clients, as far as they do not answer the flows that carry bytes. The sweep writes it; dials and
//! views read it.

use crate::lock::lock;
use longhaul_core::next_hop::HopKey;
use longhaul_core::stall::{Answer, Outage};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The places of a tunnel that do not answer.
#[derive(Debug, Default)]
pub(crate) struct Stalled(Mutex<SilentPlaces>);

/// Those places, each with the time since which it does not answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct SilentPlaces {
    /// The clients whose flows carry bytes, if none of them answers. Shared, because a copy is made for each dial.
    pub(crate) clients: Option<(Instant, Arc<BTreeSet<IpAddr>>)>,
    /// The next hops that answer none of their flows that carry bytes.
    pub(crate) hops: Vec<(HopKey, Instant)>,
}

/// Where a leg leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TunnelPlace {
    Client(IpAddr),
    Hop(HopKey),
}

/// The outages of a tunnel's places, by one sweep after the other. Each lasts while a leg to the place is stalled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages {
    clients: Option<(Outage, BTreeSet<IpAddr>)>,
    hops: Vec<(HopKey, Outage)>,
}

impl Stalled {
    /// Replaces them.
    pub(crate) fn set(&self, places: SilentPlaces) {
        *lock(&self.0) = places;
    }

    /// Returns them. Allocates only if a next hop does not answer.
    pub(crate) fn get(&self) -> SilentPlaces {
        lock(&self.0).clone()
    }
}

impl Outages {
    /// Records a leg to `place` that is stalled since `since`. `before` are the outages by the sweep before.
    pub(crate) fn add(&mut self, place: TunnelPlace, since: Instant, before: Option<&Outages>) {
        let of_before = before.and_then(|before| before.of(place));
        if self.of(place).is_none() {
            let outage = of_before.unwrap_or(Outage::begin(since));
            match place {
                TunnelPlace::Client(_) => self.clients = Some((outage, BTreeSet::new())),
                TunnelPlace::Hop(key) => self.hops.push((key, outage)),
            }
        }
        self.answer(place, Answer::Missing(since));
        if let (TunnelPlace::Client(client), Some((_, clients))) = (place, &mut self.clients) {
            clients.insert(client);
        }
    }

    /// Records what a look at a leg to `place` says.
    pub(crate) fn answer(&mut self, place: TunnelPlace, answer: Answer) {
        let outage = match place {
            TunnelPlace::Client(_) => self.clients.as_mut().map(|(outage, _)| outage),
            TunnelPlace::Hop(key) => self.hops.iter_mut().find(|(known, _)| *known == key).map(|(_, outage)| outage),
        };
        outage.into_iter().for_each(|outage| outage.add(answer));
    }

    /// Returns the places that do not answer.
    pub(crate) fn places(&self, now: Instant) -> SilentPlaces {
        let clients = self.clients.as_ref().and_then(|(outage, clients)| Some((outage.since(now)?, clients.clone())));
        let hops = self.hops.iter().filter_map(|(key, outage)| Some((*key, outage.since(now)?)));
        SilentPlaces { clients: clients.map(|(since, clients)| (since, Arc::new(clients))), hops: hops.collect() }
    }

    fn of(&self, place: TunnelPlace) -> Option<Outage> {
        match place {
            TunnelPlace::Client(_) => self.clients.as_ref().map(|(outage, _)| *outage),
            TunnelPlace::Hop(key) => self.hops.iter().find(|(known, _)| *known == key).map(|(_, outage)| *outage),
        }
    }
}
