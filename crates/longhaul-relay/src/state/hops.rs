//! The state of a tunnel's next hops. [`longhaul_core::next_hop`] decides; this module asks it with the time of day, and
//! logs changes.

use crate::live::counters::Counters;
use crate::live::failure_kind::FailureKind;
use crate::lock::lock;
use crate::names::Names;
use longhaul_config::{NextHop, Tunnel};
use longhaul_core::health::{HopFacts, NameFacts, Noted};
use longhaul_core::next_hop::{Change, Group, HopKey, Member, Resets, Thresholds};
use longhaul_units::show_duration;
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The state of a tunnel's next hops. A reload keeps it for the hops that stay.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    group: Mutex<Group>,
    /// The last failure of each hop that has had one.
    failures: Mutex<HashMap<HopKey, Reason>>,
    /// The hops whose checks see only the connection, because a relay refuses the probe. A failed dial or check does not end
    /// that, so it is logged once.
    refusing: Mutex<HashMap<HopKey, Reason>>,
    random: RandomState,
}

/// A reason in a few words, and the time when it was first given.
#[derive(Debug)]
struct Reason {
    why: Cow<'static, str>,
    at: Instant,
}

/// A check of a hop that passed.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    /// Time of the handshake.
    pub(crate) rtt: Duration,
    /// Why a relay refuses the probe. Only the connection was checked then.
    pub(crate) refusal: Option<String>,
}

/// Why a check of a hop failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// The kind of the failure in a few words, for views, such as `refused`.
    pub(crate) what: Cow<'static, str>,
    /// The address, the call and its error, for the log.
    pub(crate) why: String,
}

impl Hops {
    /// Chooses the order in which to dial the next hops of `tunnel` for `client`, without those that are down, and counts the
    /// first dial. So of two flows that come at the same time, the later one sees the first one's choice.
    pub(crate) fn choose<'a>(&'a self, counters: &'a Counters, tunnel: &'a Tunnel, client: IpAddr) -> Chosen<'a> {
        let now = Instant::now();
        let members = members(tunnel);
        // A single hop is dialled in any case.
        let stalled = if members.len() > 1 { counters.stalled.get().hops } else { Vec::new() };
        let mut group = self.group();
        let order = group.order(tunnel.policy, &members, &stalled, client, self.random.hash_one(now), now);
        let first = order.first().map(|hop| {
            let key = members[*hop].key;
            group.began(key, now);
            Claim { hops: self, counters, tunnel, hop: *hop, key, is_counted: true }
        });
        Chosen { order, first }
    }

    /// Returns every next hop of `tunnel` as configured, those that are down too.
    pub(crate) fn every(tunnel: &Tunnel) -> Chosen<'_> {
        Chosen { order: (0..tunnel.to.len()).collect(), first: None }
    }

    /// Counts a dial to next hop `hop` of `tunnel`, which begins.
    pub(crate) fn claim<'a>(&'a self, counters: &'a Counters, tunnel: &'a Tunnel, hop: usize) -> Claim<'a> {
        let key = tunnel.to[hop].member().key;
        self.group().began(key, Instant::now());
        Claim { hops: self, counters, tunnel, hop, key, is_counted: true }
    }

    /// Records that a flow to `hop`, which `began` then, has ended, and whether it had an answer, or was reset before one. `None`: neither.
    pub(crate) fn ended(&self, hop: &NextHop, has_answered: Option<bool>, began: Instant) {
        let (key, mut group) = (hop.member().key, self.group());
        group.ended(key);
        if let Some(has_answered) = has_answered {
            group.used(key, has_answered, began, Instant::now());
        }
    }

    /// Returns the next hops of `tunnel` that reset many flows.
    pub(super) fn resets<'a>(&self, tunnel: &'a Tunnel, now: Instant) -> Vec<(&'a NextHop, Resets)> {
        let group = self.group();
        let of = |hop: &'a NextHop| Some((hop, group.resets(hop.member().key, now).filter(Resets::are_many)?));
        tunnel.to.iter().filter_map(of).collect()
    }

    /// Records that `hop` answers again.
    pub(super) fn answers(&self, hop: &NextHop) {
        let now = Instant::now();
        self.group().used(hop.member().key, true, now, now);
    }

    /// Records the result of an active check of next hop `hop` of `tunnel`, unless the check `is_over`: a reload has ended it.
    pub(crate) fn checked(
        &self,
        counters: &Counters,
        tunnel: &Tunnel,
        hop: usize,
        result: &Result<Passed, Failed>,
        is_over: impl FnOnce() -> bool,
    ) {
        let thresholds = Thresholds { rise: tunnel.check.rise, fall: tunnel.check.fall };
        let (key, now) = (tunnel.to[hop].member().key, Instant::now());
        let failed = result.as_ref().err();
        let mut group = self.group();
        // Asked with the lock, so that `unchecked` either comes behind this result or has made it over.
        if is_over() {
            return;
        }
        match result {
            Err(failed) => self.note(key, failed.what.clone()),
            Ok(Passed { refusal: Some(why), .. }) => {
                let (why, mut refusing) = (why.clone(), lock(&self.refusing));
                let at = refusing.get(&key).map_or(now, |refusal| refusal.at);
                if refusing.insert(key, Reason { why: why.clone().into(), at }).is_none() {
                    warn!(tunnel = %tunnel.name, next_hop = %tunnel.to[hop], %why, "checks see only the next hop's connection: the probe is refused");
                }
            }
            Ok(Passed { refusal: None, .. }) => {
                lock(&self.refusing).remove(&key);
            }
        }
        if let Ok(Passed { rtt, .. }) = result {
            group.measured(key, *rtt, now);
        }
        let change = group.checked(key, result.is_ok(), thresholds, now);
        drop(group);
        tell(counters, tunnel, hop, change, failed.map(|failed| failed.why.as_str()));
    }

    /// Ends the effect of active checks, because the tunnel no longer has any.
    pub(crate) fn unchecked(&self) {
        let mut group = self.group();
        group.unchecked(Instant::now());
        lock(&self.refusing).clear();
    }

    /// Returns the facts of each next hop of `tunnel`, of which `stalled` do not answer.
    pub(super) fn view(&self, tunnel: &Tunnel, names: &Names, stalled: &[(HopKey, Instant)]) -> Vec<HopFacts> {
        let name_views: Vec<Option<NameFacts>> = tunnel.to.iter().map(|hop| names.view(hop)).collect();
        let (group, failures, refusing) = (self.group(), lock(&self.failures), lock(&self.refusing));
        let now = Instant::now();
        let noted = |reasons: &HashMap<HopKey, Reason>, key: &HopKey| {
            let noted =
                |Reason { why, at }: &Reason| Noted { why: why.clone(), age: now.saturating_duration_since(*at) };
            reasons.get(key).map(noted)
        };
        let view = |(hop, name): (&NextHop, _)| {
            let Member { key, .. } = hop.member();
            HopFacts {
                next_hop: hop.to_string(),
                choice: group.view(key, stalled, now),
                last_failure: noted(&failures, &key),
                name,
                check_refusal: noted(&refusing, &key),
                looped_for: None,
            }
        };
        tunnel.to.iter().zip(name_views).map(view).collect()
    }

    /// Forgets the hops that `tunnel` does not have, except the state of those that have flows. Its new ones are up from now on.
    pub(super) fn keep(&self, tunnel: &Tunnel) {
        let members = members(tunnel);
        self.group().keep(&members, Instant::now());
        let is_kept = |key: &HopKey| members.iter().any(|member| member.key == *key);
        lock(&self.failures).retain(|key, _| is_kept(key));
        lock(&self.refusing).retain(|key, _| is_kept(key));
    }

    /// Keeps the last failure of the hop `key`.
    fn note(&self, key: HopKey, why: Cow<'static, str>) {
        lock(&self.failures).insert(key, Reason { why, at: Instant::now() });
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        lock(&self.group)
    }
}

/// The next hops of a dial.
pub(crate) struct Chosen<'a> {
    /// The order in which to dial them, as indices into the tunnel's `to`.
    pub(crate) order: Vec<usize>,
    /// The claim of the first one.
    pub(crate) first: Option<Claim<'a>>,
}

/// A dial to a next hop that has begun. Dropping it ends the dial without blame.
pub(crate) struct Claim<'a> {
    hops: &'a Hops,
    counters: &'a Counters,
    tunnel: &'a Tunnel,
    hop: usize,
    key: HopKey,
    is_counted: bool,
}

impl Claim<'_> {
    /// Records that the next hop answered after `rtt`. Its flow counts until [`Hops::ended`].
    pub(crate) fn answered(mut self, rtt: Duration) {
        self.is_counted = false;
        let change = self.hops.group().answered(self.key, rtt, Instant::now());
        tell(self.counters, self.tunnel, self.hop, change, None);
    }

    /// Records that the next hop did not answer.
    pub(crate) fn failed(mut self, kind: FailureKind) {
        self.is_counted = false;
        self.hops.note(self.key, kind.name().into());
        let is_alone = self.tunnel.to.len() == 1;
        let change = self.hops.group().failed(self.key, is_alone, Instant::now());
        tell(self.counters, self.tunnel, self.hop, change, None);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            self.hops.group().ended(self.key);
        }
    }
}

fn members(tunnel: &Tunnel) -> Vec<Member> {
    tunnel.to.iter().map(NextHop::member).collect()
}

/// Logs a change of the state of next hop `hop`, and counts it if the hop is lost. `why`: why its check failed.
fn tell(counters: &Counters, tunnel: &Tunnel, hop: usize, change: Option<Change>, why: Option<&str>) {
    let (next_hop, tunnel) = (&tunnel.to[hop], &tunnel.name);
    match change {
        None => {}
        Some(Change::Ejected(pause)) => {
            counters.count(|counters| &counters.hops_lost);
            warn!(%tunnel, %next_hop, pause = %show_duration(pause), "next hop ejected: its dials failed");
        }
        Some(Change::Returned) => info!(%tunnel, %next_hop, "next hop answers again"),
        Some(Change::Down) => {
            counters.count(|counters| &counters.hops_lost);
            warn!(%tunnel, %next_hop, why, "next hop down: its checks failed");
        }
        Some(Change::Up) => info!(%tunnel, %next_hop, "next hop up: its checks succeed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_a_reload_has_ended_says_nothing() {
        let hop = NextHop::new("192.0.2.1", 1);
        let mut tunnel = Tunnel::new("one", "127.0.0.1:1".parse().unwrap(), vec![hop]);
        tunnel.check.fall = 1;
        let (hops, names) = (Hops::default(), Names::default());
        let failed = || Err(Failed { what: "refused".into(), why: "192.0.2.1:1: refused".into() });
        let after = |is_over| {
            hops.checked(&Counters::default(), &tunnel, 0, &failed(), || is_over);
            let facts = hops.view(&tunnel, &names, &[]).remove(0);
            (facts.choice.is_check_failed, facts.choice.failing_for.is_some(), facts.last_failure.is_some())
        };
        assert_eq!((after(true), after(false)), ((false, false, false), (true, true, true)));
    }
}
