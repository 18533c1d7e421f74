//! Which probers are known, and how many probes this process answers: whoever may connect cannot use them to load the WAN. A prober
//! that does not send its payload keeps nobody out: [`longhaul_core::places`] decides who gives way.
//!
//! The next relay sees all probes that come through this one as those of one source. So this relay, which can tell its clients apart,
//! passes fewer of them on than the next one answers to a source: a third of the rate for each relay that follows. The rest is for
//! this relay's own probes, which are not limited here.
//!
//! ```text
//! strangers ──15/s──> relay ──5/s──> .. with 2 relays behind it
//! strangers ──45/s──> relay ──15/s──> .. with 1 relay behind it    own probes: the rest of the 30/s that the next relay allows us
//! ```

use crate::live::flow::Flow;
use crate::live::own_probes::OwnProbes;
use crate::lock::lock;
use ipnet::IpNet;
use longhaul_config::options::Leg;
use longhaul_core::places::{GRACE, Place, Places};
use longhaul_core::ration::{Ration, Shares};
use longhaul_core::sources::Source;
use longhaul_core::wire::proof::Key;
use longhaul_measure::answer::{Answerer, Entry};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The limits of all tunnels together, and what is known of probers.
#[derive(Debug)]
pub(crate) struct Probes {
    used: Mutex<Used>,
    /// The key that probers must prove.
    key: Mutex<Option<Arc<Key>>>,
    /// The clients that may measure without a proof of the key.
    measure_from: Mutex<Vec<IpNet>>,
    /// Answers measuring sessions.
    measuring: Arc<Answerer>,
    /// The tunnel through which this relay lets a program measure at the moment.
    measured: Mutex<Option<String>>,
    /// Admits the daemon's own probes.
    pub(crate) own: Arc<OwnProbes>,
}

#[derive(Debug)]
struct Used {
    ration: Shares,
    /// Each with the notice that its probe has lost it.
    places: Places<Arc<Notify>>,
    /// The probes that were passed on, and their places.
    passed_on: Vec<PassedOn>,
    /// Each with its flow, by which `passed_on` finds the one that gave way.
    places_of_passed_on: Places<Weak<Flow>>,
}

/// A probe that was passed on. It has a place until its flow ends, or is too slow for it, or the next relay does not answer in time.
#[derive(Debug)]
struct PassedOn {
    /// Number of its place.
    place: u64,
    flow: Weak<Flow>,
    /// Number of the prober's bytes at the last look.
    seen: u64,
}

impl Default for Probes {
    fn default() -> Probes {
        let ration = Shares::new(Ration::new(BURST, PAUSE), Ration::new(BURST_OF_A_SOURCE, PAUSE_OF_A_SOURCE));
        let places = Places::new(TOGETHER, OF_A_SOURCE);
        let places_of_passed_on = Places::new(PASSED_ON_TOGETHER, PASSED_ON_OF_A_SOURCE);
        let used = Mutex::new(Used { ration, places, passed_on: Vec::new(), places_of_passed_on });
        let (key, measure_from, measuring) = (Mutex::default(), Mutex::default(), Arc::default());
        Probes { used, key, measure_from, measuring, measured: Mutex::default(), own: Arc::default() }
    }
}

impl Probes {
    /// Returns a place for a probe of `source` to answer, or `None` when there are too many. A probe whose prober sends too
    /// little may lose its place to this one.
    pub(crate) fn begin(&self, source: Source) -> Option<ProbePlace<'_>> {
        let (mut used, now) = (lock(&self.used), Instant::now());
        if !used.ration.spend(source, 1, now) {
            return None;
        }
        let lost = Arc::new(Notify::new());
        let Place { number, gave_way } = used.places.take(source, now, lost.clone())?;
        if let Some(gave_way) = gave_way {
            gave_way.notify_one();
        }
        Some(ProbePlace { probes: self, number, lost })
    }

    /// Returns whether the probe of `flow`, from `source`, may be passed on now, with `hops` to go in its next preface. One whose prober
    /// sends too little may lose its place to this one, here as at the next relay.
    pub(crate) fn may_pass_on(&self, source: Source, flow: &Arc<Flow>, hops: u8) -> bool {
        self.may_pass_on_at(source, flow, hops, Instant::now())
    }

    fn may_pass_on_at(&self, source: Source, flow: &Arc<Flow>, hops: u8, now: Instant) -> bool {
        let mut used = lock(&self.used);
        let Used { ration, passed_on, places_of_passed_on: places, .. } = &mut *used;
        passed_on.retain_mut(|passed| passed.look(places, now));
        // More relays than these are hardly in a row, and a share that is too small is none.
        if !ration.spend(source, COST_OF_A_RELAY.pow(u32::from(hops.min(2)) + 1), now) {
            return false;
        }
        let (flow, seen) = (Arc::downgrade(flow), flow.carried(Leg::Accept));
        let Some(Place { number, gave_way }) = places.take(source, now, flow.clone()) else { return false };
        passed_on.retain(|passed| !gave_way.as_ref().is_some_and(|gone| gone.ptr_eq(&passed.flow)));
        passed_on.push(PassedOn { place: number, flow, seen });
        true
    }

    /// Sets the key that probers must prove from now on. Returns the old one.
    pub(crate) fn set_key(&self, key: Option<Arc<Key>>) -> Option<Arc<Key>> {
        std::mem::replace(&mut *lock(&self.key), key)
    }

    /// Sets the clients that may measure without a proof of the key.
    pub(crate) fn set_measure_from(&self, networks: Vec<IpNet>) {
        *lock(&self.measure_from) = networks;
    }

    /// Returns how a client at `address` begins a measuring session: one of `measure_from` at once, another one with the key.
    pub(crate) fn entry(&self, address: IpAddr) -> Entry {
        let is_listed = lock(&self.measure_from).iter().any(|network| network.contains(&address.to_canonical()));
        match (is_listed, self.key()) {
            (true, _) => Entry::Open,
            (false, Some(key)) => Entry::Key(key),
            (false, None) => Entry::Closed("the client's address is not in the relay's `[probe] measure_from`"),
        }
    }

    /// Returns the side that answers measuring sessions.
    pub(crate) fn measuring(&self) -> &Arc<Answerer> {
        &self.measuring
    }

    /// Notes that the tunnel `name` is measured from now on, until [`measured`](Probes::measured).
    ///
    /// # Errors
    /// Another measurement goes on, through the tunnel with this name.
    pub(crate) fn measure(&self, name: &str) -> Result<(), String> {
        let mut measured = lock(&self.measured);
        match &*measured {
            Some(other) => Err(other.clone()),
            None => {
                *measured = Some(name.into());
                Ok(())
            }
        }
    }

    /// Notes that the measurement through a tunnel has ended.
    pub(crate) fn measured(&self) {
        *lock(&self.measured) = None;
    }

    /// Returns the key that probers must prove, if there is one.
    pub(crate) fn key(&self) -> Option<Arc<Key>> {
        lock(&self.key).clone()
    }
}

/// A place among the probes that are answered at the same time. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct ProbePlace<'a> {
    probes: &'a Probes,
    number: u64,
    /// Notified when another probe has got this place.
    lost: Arc<Notify>,
}

impl ProbePlace<'_> {
    /// Waits until another probe has got this place. The wait may be dropped.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Records that `bytes` bytes of the payload were echoed.
    pub(crate) fn echoed(&self, bytes: usize) {
        lock(&self.probes.used).places.sent(self.number, bytes, Instant::now());
    }
}

impl Drop for ProbePlace<'_> {
    fn drop(&mut self) {
        lock(&self.probes.used).places.free(self.number);
    }
}

impl PassedOn {
    /// Looks how much its prober has sent. Frees its place among `places`, and returns false, if it has none at the next relay: that one does
    /// not answer it, or the flow has ended.
    fn look(&mut self, places: &mut Places<Weak<Flow>>, now: Instant) -> bool {
        let Some(flow) = self.flow.upgrade().filter(|flow| holds_a_place(flow, now)) else {
            places.free(self.place);
            return false;
        };
        let carried = flow.carried(Leg::Accept);
        places.sent(self.place, carried.saturating_sub(self.seen) as usize, now);
        self.seen = carried;
        true
    }
}

/// Whether a probe that was passed on with `flow` may have a place at the next relay. One that does not answer gives it none.
fn holds_a_place(flow: &Flow, now: Instant) -> bool {
    let is_young = now.saturating_duration_since(flow.began.instant()) < GRACE;
    !flow.has_ended() && (is_young || flow.carried(Leg::Dial) > 0)
}

/// Number of probes that may come at once.
const BURST: u32 = 225;

/// Time after which one more probe may come: 45 a second.
const PAUSE: Duration = Duration::from_nanos(1_000_000_000 / 45);

/// Number of probes that may come at once from one source.
const BURST_OF_A_SOURCE: u32 = 150;

/// Time after which one more probe may come from one source: 30 a second. A near relay has them for its own probes and those that it
/// passes on, which are 15 a second at most. So 450 tunnels can be verified every 30 s, whatever strangers do.
const PAUSE_OF_A_SOURCE: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// Number of probes as which one counts that is passed on, for each relay that follows.
const COST_OF_A_RELAY: u32 = 3;

/// Number of probes that are answered at the same time. Each holds a buffer of 64 KiB.
const TOGETHER: usize = 24;

/// Number of passed on probes that may have a place at the next relay at the same time, and of those from one source. They leave half of
/// this relay's places there to its own probes.
const PASSED_ON_TOGETHER: usize = OF_A_SOURCE / 2;
const PASSED_ON_OF_A_SOURCE: usize = 5;

/// Number of those that come from one source. A far relay sees the probes of all tunnels of a near relay as one source's.
const OF_A_SOURCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::how::How;
    use crate::live::registry::Registry;
    use longhaul_config::Tunnel;
    use std::net::SocketAddr;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let probes = Probes::default();
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

    fn source(ip: &str) -> Source {
        Source::from(ip.parse::<std::net::IpAddr>().unwrap())
    }

    /// A stranger floods this relay, and its own probes come from the same address at the next one.
    #[tokio::test]
    async fn what_strangers_may_pass_on_leaves_room_at_the_next_relay() {
        let accept = Arc::new(crate::leg::stream::pair().0);
        let of_probe = || {
            let listen = SocketAddr::from(([127, 0, 0, 1], 1));
            Registry::default().add(Arc::new(Tunnel::new("one", listen, Vec::new())), &Arc::default(), listen, &accept)
        };
        for hops in 0..3 {
            let (here, next, own) =
                (Probes::default(), Probes::default(), Source::from(SocketAddr::from(([192, 0, 2, 9], 1)).ip()));
            let is_taken = || match hops {
                0 => next.begin(own).is_some(),
                hops => next.may_pass_on(own, &of_probe(), hops - 1),
            };
            let pass_on = |ip: &str| {
                let is_passed = here.may_pass_on(source(ip), &of_probe(), hops);
                assert!(!is_passed || is_taken(), "what one relay passes on, the next one takes: {hops} hops to go");
                is_passed
            };
            let passed = (0..1000).filter(|_| pass_on("192.0.2.1")).count();
            assert!(passed > 0 && pass_on("192.0.2.2"), "a prober of another address, with {hops} hops to go");
            let own = (0..1000).filter(|_| is_taken()).count();
            assert!(own > passed, "{own} of its own, and {passed} of strangers, with {hops} hops to go");
        }
    }

    #[tokio::test]
    async fn passed_on_probes_are_bounded_while_the_next_relay_answers_them() {
        let (probes, accept) = (Probes::default(), Arc::new(crate::leg::stream::pair().0));
        let registry = Registry::default();
        let listen = SocketAddr::from(([127, 0, 0, 1], 1));
        let tunnel = Arc::new(Tunnel::new("one", listen, Vec::new()));
        let flow = || registry.add(tunnel.clone(), &Arc::default(), listen, &accept);
        let pass_on = |ip: &str| Some(flow()).filter(|flow| probes.may_pass_on(source(ip), flow, 0));
        let of_one: Vec<_> = std::iter::from_fn(|| pass_on("192.0.2.1")).collect();
        let others: Vec<_> = (2..20).filter_map(|n| pass_on(&format!("192.0.2.{n}"))).collect();
        assert_eq!((of_one.len(), others.len()), (PASSED_ON_OF_A_SOURCE, PASSED_ON_TOGETHER - PASSED_ON_OF_A_SOURCE));
        of_one[0].ended(How::Finished);
        assert!(pass_on("192.0.2.1").is_some() && pass_on("192.0.2.1").is_none());
        let later = Instant::now() + GRACE;
        assert!(!holds_a_place(&of_one[1], later), "the next relay hangs");
        of_one[1].set_carried(Leg::Dial, 1);
        assert!(holds_a_place(&of_one[1], later));
    }

    /// Ten probers of two addresses send nothing. A prober of a third one gets through after the grace, and keeps its place while it sends.
    #[tokio::test]
    async fn silent_probers_do_not_keep_others_from_being_passed_on() {
        let (probes, accept) = (Probes::default(), Arc::new(crate::leg::stream::pair().0));
        let (registry, start) = (Registry::default(), Instant::now());
        let listen = SocketAddr::from(([127, 0, 0, 1], 1));
        let tunnel = Arc::new(Tunnel::new("one", listen, Vec::new()));
        let pass_on = |ip: &str, now| {
            let flow = registry.add(tunnel.clone(), &Arc::default(), listen, &accept);
            flow.set_carried(Leg::Dial, 1);
            Some(flow.clone()).filter(|flow| probes.may_pass_on_at(source(ip), flow, 0, now))
        };
        let silent: Vec<_> = (0..10).filter_map(|n| pass_on(["192.0.2.1", "192.0.2.2"][n % 2], start)).collect();
        assert_eq!((silent.len(), pass_on("192.0.2.3", start).is_some()), (PASSED_ON_TOGETHER, false));
        let sending = pass_on("192.0.2.3", start + GRACE).unwrap();
        sending.set_carried(Leg::Accept, 1 << 20);
        let later = start + 2 * GRACE;
        let others: Vec<_> = (4..20).filter_map(|n| pass_on(&format!("192.0.2.{n}"), later)).collect();
        assert_eq!(others.len(), PASSED_ON_TOGETHER - 1, "all but the one that sends");
        let rest = (4..20).filter_map(|n| pass_on(&format!("192.0.2.{n}"), later + GRACE));
        assert_eq!(rest.count(), PASSED_ON_TOGETHER, "which has stopped");
    }
}
