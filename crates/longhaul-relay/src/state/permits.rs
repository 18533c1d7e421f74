//! Permits for flows, as many as the descriptors allow. A permit is taken before accept(2), so that accept never fails
//! for lack of descriptors. [`longhaul_core::permits`] does the arithmetic; this module makes tunnels wait.

use crate::live::counters::Counters;
use crate::live::data_problem::DataProblem;
use crate::live::throttle::Lines;
use crate::lock::lock;
use crate::state::hops::{Hops, Served};
use crate::state::queue::Queue;
use longhaul_config::{Protocol, Tunnel};
use longhaul_core::permits::{Full, Permits as Book, TunnelId};
use longhaul_core::sources::{Crowded, Limits, Source, Sources};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::Notify;
use tracing::{info, warn};

/// All permits of the process.
#[derive(Debug)]
pub(super) struct Permits {
    book: Mutex<Book>,
    /// Notified when a change outside a tunnel may have made room for it.
    returned: Notify,
}

impl Permits {
    pub(super) fn new(all: usize) -> Arc<Permits> {
        Arc::new(Permits { book: Mutex::new(Book::new(all)), returned: Notify::new() })
    }

    /// Returns the maximum number of flows.
    pub(super) fn all(&self) -> usize {
        self.book().all()
    }

    /// Returns the maximum number of flows while FTP data connections have the permits that they have now.
    pub(super) fn room(&self) -> usize {
        self.book().room()
    }

    /// Changes the number of permits to `all`. Existing flows keep theirs.
    pub(super) fn set(&self, all: usize) {
        self.book().set(all);
        self.returned.notify_waiters();
    }

    /// Changes the `max_flows` of the process. Existing flows keep their permits.
    pub(crate) fn limit(&self, max_flows: Option<usize>) {
        self.book().limit(max_flows);
        self.returned.notify_waiters();
    }

    /// Serves the tunnels of these gates from now on, each with its `max_flows`. Only these have a reserve.
    pub(super) fn serve<'a>(&self, served: impl IntoIterator<Item = (&'a Arc<Gate>, Option<usize>)>) {
        let served: Vec<_> = served.into_iter().collect();
        self.book().serve(served.iter().map(|(gate, max_flows)| (gate.tunnel, *max_flows)));
        served.iter().for_each(|(gate, _)| gate.left.notify_waiters());
        self.returned.notify_waiters();
    }

    /// Waits until every permit was returned.
    pub(super) async fn returned(&self) {
        loop {
            let returned = self.returned.notified(); // before the look, so that it misses no later notification
            if self.book().are_unused() {
                return;
            }
            returned.await;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

/// A tunnel's access to its permits, the sources of its flows, the state of its next hops, and its counters. A listener
/// and those that it replaced share one gate.
#[derive(Debug)]
pub struct Gate {
    permits: Arc<Permits>,
    tunnel: TunnelId,
    /// Number of permits that each new flow takes for connections of its own, beside the one for itself.
    apart: AtomicU8,
    /// Notified when a flow of the tunnel ends or its limit may have grown.
    left: Notify,
    /// The sources of the flows that began while the tunnel had a limit for each source.
    sources: Mutex<Sources>,
    /// Clients that wait for a permit.
    queue: Arc<Queue>,
    /// The latest problem of the tunnel's FTP data connections.
    pub(crate) data_problem: Arc<DataProblem>,
    pub(crate) hops: Arc<Hops>,
    /// The counters of the tunnel.
    pub(crate) counters: Arc<Counters>,
}

impl Gate {
    /// Returns the gate of a new tunnel. `all` are the counters of the process.
    pub(super) fn new(permits: &Arc<Permits>, all: &Arc<Counters>) -> Arc<Gate> {
        let tunnel = permits.book().open();
        let (permits, hops, counters) = (permits.clone(), Arc::default(), Counters::of_tunnel(all));
        Arc::new(Gate {
            permits,
            tunnel,
            apart: AtomicU8::new(0),
            left: Notify::new(),
            sources: Mutex::default(),
            queue: Arc::default(),
            data_problem: Arc::default(),
            hops,
            counters,
        })
    }

    /// Sets the protocol of the flows that begin from now on. One that carries FTP takes the permits of its data connections
    /// when it begins, so control connections alone can never use up what their data connections need.
    pub fn set_protocol(&self, protocol: Protocol) {
        let apart = match protocol {
            Protocol::Tcp => 0,
            Protocol::Ftp => DATA_CONNECTIONS,
        };
        self.apart.store(apart, Relaxed);
    }

    /// Returns a gate for a data connection of one of this tunnel's flows, which has taken the permit. It counts in the same
    /// counters, and notes problems in the same place.
    pub(crate) fn beside(&self) -> Arc<Gate> {
        let tunnel = self.permits.book().open();
        Arc::new(Gate {
            permits: self.permits.clone(),
            tunnel,
            apart: AtomicU8::new(0),
            left: Notify::new(),
            sources: Mutex::default(),
            queue: Arc::default(),
            data_problem: self.data_problem.clone(),
            hops: Arc::default(),
            counters: self.counters.clone(),
        })
    }

    /// Returns `tunnel`, which this gate belongs to, for views.
    pub(super) fn group(&self, tunnel: Arc<Tunnel>) -> Served {
        let Gate { hops, counters, queue, data_problem, .. } = self;
        let (hops, counters) = (hops.clone(), counters.clone());
        Served { tunnel, hops, counters, queue: queue.clone(), data_problem: data_problem.clone() }
    }

    /// Takes a permit for another flow, if the tunnel may have one now.
    ///
    /// # Errors
    /// The tunnel may not have another flow now, with the reason.
    pub(crate) fn try_enter(self: &Arc<Gate>) -> Result<Permit, Full> {
        let apart = self.apart.load(Relaxed);
        let taken = self.permits.book().take_with(self.tunnel, apart.into());
        taken.map(|()| Permit { gate: self.clone(), apart, is_from_next_hop: false, source: None })
    }

    /// Takes a permit for a connection beside a flow's own, if no tunnel needs it for a flow.
    pub(crate) fn spare(&self) -> Option<Spare> {
        self.permits.book().take_spare().then(|| Spare { permits: self.permits.clone() })
    }

    /// Whether the tunnel may have another flow now.
    pub(crate) fn has_room(self: &Arc<Gate>) -> bool {
        self.try_enter().is_ok()
    }

    /// Waits for a permit for another flow of the tunnel `name`, and logs that it waits. A client is in the listen queue. The
    /// wait may be dropped.
    pub(crate) async fn enter(self: &Arc<Gate>, lines: &Lines, name: &str) -> Permit {
        let (mut said, mut waiting) = (None, None);
        loop {
            // Before the look, because notify_waiters wakes every `Notified` that exists by then. So all waiters look
            // again whenever a permit is free. None can take the notification from another, even if it is dropped or
            // refuses its client.
            let (left, returned) = (self.left.notified(), self.permits.returned.notified());
            let full = match self.try_enter() {
                Ok(permit) => return permit,
                Err(full) => full,
            };
            waiting.get_or_insert_with(|| self.queue.wait(full)).because(full);
            if said != Some(full) {
                self.say(lines, name, full);
                said = Some(full);
            }
            match full {
                Full::MaxFlows => left.await,
                Full::AllFlows | Full::Permits => returned.await,
            }
        }
    }

    /// Logs that connections wait, and why. At most once a second for each tunnel.
    fn say(&self, lines: &Lines, name: &str, full: Full) {
        let (flows, all, permits) = {
            let book = self.permits.book();
            (book.flows(self.tunnel), book.used(), book.all())
        };
        match full {
            Full::MaxFlows => {
                if lines.full.pass(name, Instant::now()).is_some() {
                    info!(tunnel = %name, flows, "tunnel is full: connections wait in the listen queue");
                }
            }
            Full::AllFlows => {
                if lines.full.pass(name, Instant::now()).is_some() {
                    info!(tunnel = %name, flows, flows_of_all = all, most_flows = permits,
                        "relay is full: connections wait in the listen queue");
                }
            }
            Full::Permits => {
                self.counters.count(|counters| &counters.without_permit);
                if let Some(more) = lines.permit.pass(name, Instant::now()) {
                    warn!(
                        tunnel = %name, flows, flows_of_all = all, most_flows = permits, more,
                        remedy = "raise RLIMIT_NOFILE (LimitNOFILE=), or give max_flows to the tunnel with the most flows",
                        "no descriptors for another flow of this tunnel: connections wait in the listen queue"
                    );
                }
            }
        }
    }
}

impl Drop for Gate {
    /// Each permit keeps its gate alive, so no permit is left here.
    fn drop(&mut self) {
        self.permits.book().close(self.tunnel);
    }
}

/// One flow's permit. Dropping it returns it, used or not, and notifies the waiting tunnels.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    /// Number of permits for data connections that it took, too.
    apart: u8,
    is_from_next_hop: bool,
    /// The source that counts the flow. Boxed, because every idle flow has a permit and few tunnels count sources.
    source: Option<Box<Source>>,
}

impl Permit {
    /// Returns the counters of its tunnel.
    pub(crate) fn counters(&self) -> &Counters {
        &self.gate.counters
    }

    /// Whether it is a permit of `gate`.
    pub(crate) fn is_of(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.gate, gate)
    }

    /// Records that the flow's client is a next hop of its tunnel. Returns false when too many flows have such clients
    /// already.
    pub(crate) fn note_next_hop(&mut self) -> bool {
        self.is_from_next_hop = self.gate.permits.book().take_from_next_hop(self.gate.tunnel);
        self.is_from_next_hop
    }

    /// Counts the flow for its `source`, until the permit is dropped. Call it once.
    ///
    /// # Errors
    /// One of `limits` forbids the source another flow.
    pub(crate) fn note_source(&mut self, source: Source, limits: Limits) -> Result<(), Crowded> {
        let mut sources = lock(&self.gate.sources);
        // The clock is read under the lock, so that the times never go back.
        sources.take(source, limits, Instant::now())?;
        self.source = Some(Box::new(source));
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Gate { permits, tunnel, left, sources, .. } = &*self.gate;
        if let Some(source) = self.source.take() {
            let mut sources = lock(sources);
            sources.give_back(*source, Instant::now());
        }
        let mut book = permits.book();
        book.give_back_apart(self.apart.into());
        match self.is_from_next_hop {
            true => book.give_back_from_next_hop(*tunnel),
            false => book.give_back(*tunnel),
        }
        drop(book);
        left.notify_waiters();
        permits.returned.notify_waiters();
    }
}

/// A permit for a connection beside a flow's own. Dropping it returns it.
#[derive(Debug)]
pub(crate) struct Spare {
    permits: Arc<Permits>,
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.permits.book().give_back_spare();
        self.permits.returned.notify_waiters();
    }
}

/// Maximum number of data connections of an FTP control connection, with the one that is awaited. Two, because the next one may
/// begin while the last bytes of the one before are still unacknowledged.
pub(crate) const DATA_CONNECTIONS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shared::Relay;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes permits until `gate` gives no more.
    fn flood(gate: &Arc<Gate>) -> Vec<Permit> {
        std::iter::from_fn(|| gate.try_enter().ok()).collect()
    }

    #[tokio::test]
    async fn a_permit_that_comes_back_is_heard_of_by_who_may_have_it() {
        let relay = Relay::new(400);
        let (one, two) = (relay.gate(), relay.gate());
        relay.permit([(&one, None), (&two, Some(2))]);
        let mut of_one = flood(&one);
        let mut of_two = flood(&two);
        assert_eq!(of_two.len(), 2, "max_flows");
        let waiting = {
            let (relay, two) = (relay.clone(), two.clone());
            tokio::spawn(async move { two.enter(&relay.lines, "two").await })
        };
        tokio::task::yield_now().await;
        of_one.pop();
        of_two.pop();
        let permit = timeout(LONG, waiting).await.unwrap().unwrap();
        assert!(permit.is_of(&two) && !permit.is_of(&one));
        drop(permit); // kept for the other tunnel from now on
        let waiting = {
            let (relay, one) = (relay.clone(), one.clone());
            of_one.extend(flood(&one));
            tokio::spawn(async move { one.enter(&relay.lines, "one").await })
        };
        tokio::task::yield_now().await;
        assert_eq!(relay.counters.without_permit.load(Relaxed), 1);
        relay.permit([(&one, None)]); // the other tunnel is removed, and its reserve is free
        drop(timeout(LONG, waiting).await.unwrap().unwrap());
        drop((of_one, of_two));
        timeout(LONG, relay.ended()).await.unwrap();
    }

    #[test]
    fn a_permit_that_is_dropped_leaves_room_for_its_source() {
        let relay = Relay::new(1000);
        let gate = relay.gate();
        let limits = Limits { max_flows: Some(1), new_per_second: None };
        let one = Source::from(std::net::IpAddr::from([192, 0, 2, 7]));
        let mut first = gate.try_enter().unwrap();
        let mut second = gate.try_enter().unwrap();
        assert_eq!(first.note_source(one, limits), Ok(()));
        assert_eq!(second.note_source(one, limits), Err(Crowded::MaxFlows));
        drop(first);
        assert_eq!(second.note_source(one, limits), Ok(()));
        drop(second);
        assert!(lock(&gate.sources).is_empty());
    }

    #[test]
    fn the_place_of_a_next_hop_among_the_clients_comes_back() {
        let relay = Relay::new(1000);
        let gate = relay.gate();
        relay.permit([(&gate, None)]);
        for round in 0..3 {
            let mut permits: Vec<Permit> = (0..100).map(|_| gate.try_enter().unwrap()).collect();
            let noted = permits.iter_mut().map(Permit::note_next_hop).filter(|noted| *noted).count();
            assert_eq!(noted, 93, "a quarter, round {round}");
        }
    }
}
