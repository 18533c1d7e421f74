//! Which probers are known, and how many probes this process answers: whoever may connect cannot use them to load the WAN. A prober
//! that does not send its payload keeps nobody out: [`longhaul_core::places`] decides who gives way.

use crate::live::own_probes::OwnProbes;
use crate::lock::lock;
use longhaul_core::places::{self, Places};
use longhaul_core::ration::{Ration, Shares};
use longhaul_core::sources::Source;
use longhaul_core::wire::proof::Key;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The limits of all tunnels together, and what is known of probers.
#[derive(Debug)]
pub(crate) struct Probes {
    used: Mutex<Used>,
    /// The key that probers must prove.
    key: Mutex<Option<Arc<Key>>>,
    /// Admits the daemon's own probes.
    pub(crate) own: Arc<OwnProbes>,
}

#[derive(Debug)]
struct Used {
    ration: Shares,
    /// Each with the notice that its probe has lost it.
    places: Places<Arc<Notify>>,
}

impl Default for Probes {
    fn default() -> Probes {
        let ration = Shares::new(Ration::new(BURST, PAUSE), Ration::new(BURST_OF_A_SOURCE, PAUSE_OF_A_SOURCE));
        let used = Mutex::new(Used { ration, places: Places::new(TOGETHER, OF_A_SOURCE) });
        Probes { used, key: Mutex::default(), own: Arc::default() }
    }
}

impl Probes {
    /// Returns a place for a probe of `source` to answer, or `None` when there are too many. A probe whose prober sends too
    /// little may lose its place to this one.
    pub(crate) fn begin(&self, source: Source) -> Option<Place<'_>> {
        let (mut used, now) = (lock(&self.used), Instant::now());
        if !used.ration.spend(source, now) {
            return None;
        }
        let lost = Arc::new(Notify::new());
        let places::Place { number, gave_way } = used.places.take(source, now, lost.clone())?;
        if let Some(gave_way) = gave_way {
            gave_way.notify_one();
        }
        Some(Place { probes: self, number, lost })
    }

    /// Returns whether a probe of `source` may be passed on now.
    pub(crate) fn may_pass_on(&self, source: Source) -> bool {
        lock(&self.used).ration.spend(source, Instant::now())
    }

    /// Sets the key that probers must prove from now on. Returns the old one.
    pub(crate) fn set_key(&self, key: Option<Arc<Key>>) -> Option<Arc<Key>> {
        std::mem::replace(&mut *lock(&self.key), key)
    }

    /// Returns the key that probers must prove, if there is one.
    pub(crate) fn key(&self) -> Option<Arc<Key>> {
        lock(&self.key).clone()
    }
}

/// A place among the probes that are answered at the same time. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    probes: &'a Probes,
    number: u64,
    /// Notified when another probe has got this place.
    lost: Arc<Notify>,
}

impl Place<'_> {
    /// Waits until another probe has got this place. The wait may be dropped.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Records that `bytes` bytes of the payload were echoed.
    pub(crate) fn echoed(&self, bytes: usize) {
        lock(&self.probes.used).places.sent(self.number, bytes, Instant::now());
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.probes.used).places.free(self.number);
    }
}

/// Number of probes that may come at once.
const BURST: u32 = 150;

/// Time after which one more probe may come: 30 a second.
const PAUSE: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// Number of probes that may come at once from one source.
const BURST_OF_A_SOURCE: u32 = 100;

/// Time after which one more probe may come from one source: 20 a second, enough for 600 tunnels that are verified every
/// 30 s. A stranger leaves at least 10 a second to the near relay.
const PAUSE_OF_A_SOURCE: Duration = Duration::from_millis(50);

/// Number of probes that are answered at the same time. Each holds a buffer of 64 KiB.
const TOGETHER: usize = 24;

/// Number of those that come from one source. A far relay sees the probes of all tunnels of a near relay as one source's.
const OF_A_SOURCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let probes = Probes::default();
        let source = |ip: &str| Source::from(ip.parse::<IpAddr>().unwrap());
        let one = || probes.begin(source("2001:db8::1"));
        let other = || probes.begin(source("2001:db8:0:1::1"));
        let places: Vec<_> = std::iter::from_fn(one).collect();
        assert_eq!(places.len(), OF_A_SOURCE);
        assert!(probes.begin(source("2001:db8::2")).is_none(), "a /64 is one source");
        let others: Vec<_> = std::iter::from_fn(other).collect();
        assert_eq!(others.len(), TOGETHER - OF_A_SOURCE);
        drop(places);
        assert!(one().is_some());
    }

    #[test]
    fn a_source_uses_up_its_share_of_the_passed_on_probes_and_no_more() {
        let probes = Probes::default();
        let source = |ip: &str| Source::from(ip.parse::<IpAddr>().unwrap());
        let start = Instant::now();
        let passed = (0..1000).filter(|_| probes.may_pass_on(source("192.0.2.1"))).count();
        let more = start.elapsed().as_nanos() / PAUSE_OF_A_SOURCE.as_nanos() + 1;
        assert!((100..=100 + more).contains(&(passed as u128)), "{passed} in {:?}", start.elapsed());
        assert!(probes.may_pass_on(source("192.0.2.2")) && probes.begin(source("192.0.2.2")).is_some());
    }
}
