//! Permits for flows, as many as the descriptors allow. A permit is taken before accept(2), so that accept never fails
//! for lack of descriptors. [`longhaul_core::permits`] does the arithmetic; this module makes tunnels wait.

use crate::lock::lock;
use longhaul_core::permits::{Full, Permits as Book, TunnelId};
use longhaul_core::sources::{Crowded, Limits, Source, Sources};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

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

    /// Serves these tunnels from now on, each with its `max_flows`. Only these have a reserve.
    pub(super) fn serve<'a>(&self, served: impl Iterator<Item = (&'a TunnelPermits, Option<usize>)> + Clone) {
        self.book().serve(served.clone().map(|(permits, max_flows)| (permits.tunnel, max_flows)));
        served.for_each(|(permits, _)| permits.left.notify_waiters());
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

/// A tunnel's part of the permits, and the sources of its flows. A listener and those that it replaced share it.
#[derive(Debug)]
pub(super) struct TunnelPermits {
    all: Arc<Permits>,
    tunnel: TunnelId,
    /// Notified when a flow of the tunnel ends or its limit may have grown.
    left: Notify,
    /// The sources of the flows that began while the tunnel had a limit for each source.
    sources: Mutex<Sources>,
}

impl TunnelPermits {
    /// Returns the part of a new tunnel in `all`.
    pub(super) fn open(all: &Arc<Permits>) -> Arc<TunnelPermits> {
        let tunnel = all.book().open();
        Arc::new(TunnelPermits { all: all.clone(), tunnel, left: Notify::new(), sources: Mutex::default() })
    }

    /// Takes a permit for a flow, and `apart` more for connections of its own.
    ///
    /// # Errors
    /// The tunnel may not have another flow now, with the reason.
    pub(super) fn take(self: &Arc<TunnelPermits>, apart: u8) -> Result<Permit, Full> {
        let taken = self.all.book().take_with(self.tunnel, apart.into());
        taken.map(|()| Permit { of: self.clone(), apart, is_from_next_hop: false, source: None })
    }

    /// Takes a permit for a connection beside a flow's own, if no tunnel needs it for a flow.
    pub(super) fn spare(&self) -> Option<Spare> {
        self.all.book().take_spare().then(|| Spare { permits: self.all.clone() })
    }

    /// Returns futures that are ready when the tunnel, and when the process, may have room again after this call.
    pub(super) fn freed(&self) -> (Notified<'_>, Notified<'_>) {
        (self.left.notified(), self.all.returned.notified())
    }

    /// Returns the number of flows of the tunnel, of the process, and the maximum of the process.
    pub(super) fn used(&self) -> (usize, usize, usize) {
        let book = self.all.book();
        (book.flows(self.tunnel), book.used(), book.all())
    }
}

impl Drop for TunnelPermits {
    /// Each permit keeps its tunnel's part alive, so no permit is left here.
    fn drop(&mut self) {
        self.all.book().close(self.tunnel);
    }
}

/// One flow's permit. Dropping it returns it, used or not, and notifies the waiting tunnels.
#[derive(Debug)]
pub(crate) struct Permit {
    /// The part of its tunnel.
    pub(super) of: Arc<TunnelPermits>,
    /// Number of permits for data connections that it took, too.
    apart: u8,
    is_from_next_hop: bool,
    /// The source that counts the flow. Boxed, because every idle flow has a permit and few tunnels count sources.
    source: Option<Box<Source>>,
}

impl Permit {
    /// Records that the flow's client is a next hop of its tunnel, or sends flows of the tunnel back to it. Returns false
    /// when too many flows have such clients already.
    pub(crate) fn note_next_hop(&mut self, is_limited: bool) -> bool {
        self.is_from_next_hop = self.of.all.book().take_from_next_hop(self.of.tunnel, is_limited);
        self.is_from_next_hop
    }

    /// Counts the flow for its `source`, until the permit is dropped. Call it once.
    ///
    /// # Errors
    /// One of `limits` forbids the source another flow.
    pub(crate) fn note_source(&mut self, source: Source, limits: Limits) -> Result<(), Crowded> {
        let mut sources = lock(&self.of.sources);
        // The clock is read under the lock, so that the times never go back.
        sources.take(source, limits, Instant::now())?;
        self.source = Some(Box::new(source));
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let TunnelPermits { all: permits, tunnel, left, sources } = &*self.of;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::served_tunnel::ServedTunnel;
    use crate::state::shared::Relay;
    use longhaul_config::Tunnel;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes permits until `tunnel` gives no more.
    fn flood(tunnel: &ServedTunnel) -> Vec<Permit> {
        std::iter::from_fn(|| tunnel.try_enter().ok()).collect()
    }

    fn tunnel(relay: &Relay, name: &str, max_flows: Option<usize>) -> Arc<ServedTunnel> {
        let settings = Tunnel::new(name, ([127, 0, 0, 1], 0).into(), Vec::new());
        relay.tunnels.open(Arc::new(Tunnel { max_flows, ..settings }))
    }

    #[tokio::test]
    async fn a_permit_that_comes_back_is_heard_of_by_who_may_have_it() {
        let relay = Relay::new(400);
        let (one, two) = (tunnel(&relay, "one", None), tunnel(&relay, "two", Some(2)));
        relay.tunnels.set(vec![one.clone(), two.clone()]);
        let mut of_one = flood(&one);
        let mut of_two = flood(&two);
        assert_eq!(of_two.len(), 2, "max_flows");
        let waiting = {
            let (relay, two) = (relay.clone(), two.clone());
            tokio::spawn(async move { two.enter(&relay.lines).await })
        };
        tokio::task::yield_now().await;
        of_one.pop();
        of_two.pop();
        let permit = timeout(LONG, waiting).await.unwrap().unwrap();
        assert!(two.gave(&permit) && !one.gave(&permit));
        drop(permit); // kept for the other tunnel from now on
        let waiting = {
            let (relay, one) = (relay.clone(), one.clone());
            of_one.extend(flood(&one));
            tokio::spawn(async move { one.enter(&relay.lines).await })
        };
        tokio::task::yield_now().await;
        assert_eq!(relay.counters.without_permit.load(Relaxed), 1);
        relay.tunnels.set(vec![one.clone()]); // the other tunnel is removed, and its reserve is free
        drop(timeout(LONG, waiting).await.unwrap().unwrap());
        drop((of_one, of_two));
        timeout(LONG, relay.ended()).await.unwrap();
    }

    #[test]
    fn a_permit_that_is_dropped_leaves_room_for_its_source() {
        let relay = Relay::new(1000);
        let tunnel = tunnel(&relay, "one", None);
        let limits = Limits { max_flows: Some(1), new_per_second: None };
        let one = Source::from(std::net::IpAddr::from([192, 0, 2, 7]));
        let mut first = tunnel.try_enter().unwrap();
        let mut second = tunnel.try_enter().unwrap();
        assert_eq!(first.note_source(one, limits), Ok(()));
        assert_eq!(second.note_source(one, limits), Err(Crowded::MaxFlows));
        drop(first);
        assert_eq!(second.note_source(one, limits), Ok(()));
        drop(second);
        assert!(lock(&tunnel.permits.sources).is_empty());
    }

    #[test]
    fn the_place_of_a_next_hop_among_the_clients_comes_back() {
        let relay = Relay::new(1000);
        let tunnel = tunnel(&relay, "one", None);
        relay.tunnels.set(vec![tunnel.clone()]);
        for round in 0..3 {
            let mut permits: Vec<Permit> = (0..100).map(|_| tunnel.try_enter().unwrap()).collect();
            let noted = permits.iter_mut().map(|permit| permit.note_next_hop(false)).filter(|noted| *noted).count();
            assert_eq!(noted, 93, "a quarter, round {round}");
        }
    }
}
