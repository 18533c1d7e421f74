//! Rules about the daemon's own probes of a tunnel.

use super::facts::{At, Phase, ProbeFacts, ProbeResult, TunnelFacts, Whereabouts};
use super::problem::{Health, Problem};
use super::stage::{Stage, Trouble};
use crate::next_hop::Resets;
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

impl ProbeFacts {
    /// Returns the health of the tunnel by its last result alone. A broken one is broken until a newer result says otherwise, however
    /// many probes are refused. Only if the address is or was elsewhere, nobody knows whether it is still so.
    pub fn health(&self, at: At) -> Health {
        let is_current = self.no_newer(at).is_none();
        let has_moved = self.was_elsewhere() || self.returned_at.is_some();
        match (self.last.as_ref().map(|last| &last.trouble), is_current) {
            // That host tells how the tunnel is now, or the probe that is under way.
            (Some(Some(_)), false) if has_moved && self.is_old(self.age(at)) => Health::Unknown,
            (Some(Some(_)), false) if has_moved => Health::Doubtful,
            (Some(Some(_)), _) => Health::Broken,
            (None | Some(None), false) => Health::Unknown,
            (Some(None), true) => Health::Good,
            (None, true) => Health::Waiting,
        }
    }

    /// Returns whether no result has come for longer than the interval and a probe's maximum time.
    pub fn is_overdue(&self, at: At) -> bool {
        self.age(at) > self.interval + self.timeout
    }

    /// Returns why there is no newer result. `None` if none is overdue and a probe can be made.
    pub fn no_newer(&self, at: At) -> Option<Cow<'_, str>> {
        match (&self.hindrance, at.phase) {
            (Some(why), _) => Some(why.as_str().into()),
            (None, _) if !self.is_overdue(at) => None,
            (None, Phase::Serving) => Some("the next probe is overdue".into()),
            (None, phase) => Some(format!("the daemon is {} and makes no probes", phase.text()).into()),
        }
    }

    /// Returns the time from which a newer result is waited for: that of the last result, or that of the return of the address if
    /// that was later. `None` before both.
    pub fn waited_since(&self) -> Option<SystemTime> {
        self.last.as_ref().map(|last| last.at).into_iter().chain(self.returned_at).max()
    }

    /// Returns whether the last probe found the tunnel whole although its only next hop has reset flows before. A probe sends no request,
    /// so it does not refute resets that go on.
    pub fn refutes(&self, resets: &Resets, now: SystemTime) -> bool {
        let last = self.last.as_ref().filter(|last| last.trouble.is_none());
        let began = last.and_then(|last| last.at.checked_sub(last.took));
        let age = began.and_then(|began| now.duration_since(began).ok());
        resets.last >= RESETS_GO_ON && age.is_some_and(|age| age < resets.last)
    }

    /// Returns whether another host has the address, and what failed `age` ago did so too long ago to count. While a tunnel is
    /// broken through both relays, keepalived gives each of them the address more often.
    pub(super) fn is_old_and_elsewhere(&self, age: Duration) -> bool {
        matches!(self.address, Whereabouts::Elsewhere { .. }) && self.is_old(age)
    }

    fn is_old(&self, age: Duration) -> bool {
        age > ELSEWHERE_DOUBT
    }

    /// Returns whether another host has the address, or had it after the last result.
    fn was_elsewhere(&self) -> bool {
        self.address != Whereabouts::Here
    }

    /// Returns the age of the last result, or of the first probe before it.
    fn age(&self, at: At) -> Duration {
        at.since(self.last.as_ref().map_or(self.since, |last| last.at))
    }

    /// Returns the last result if the tunnel was broken.
    fn broken(&self) -> Option<(&ProbeResult, &Trouble)> {
        self.last.as_ref().and_then(|last| Some((last, last.trouble.as_ref()?)))
    }
}

/// Returns the age of the last result and why there is no newer one, as views write it after the state:
/// `; last result 10s ago, no newer one: no flow is free`. Before the first result, only why there is none. Empty if a newer one
/// is not due. `last_age` is in seconds.
pub fn lateness(no_newer: Option<&str>, last_age: Option<f64>) -> String {
    match (no_newer, last_age) {
        (Some(why), Some(last)) => {
            format!("; last result {} ago, no newer one: {why}", longhaul_units::age(last))
        }
        (Some(why), None) => format!(": {why}"),
        (None, _) => String::new(),
    }
}

/// Returns the problem that the last probe found: a probe goes the way of a new flow.
pub(super) fn broken_stage(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let probes = tunnel.probes?;
    let (last, Trouble { stage, cause, why, .. }) = probes.broken()?;
    let place = match stage {
        Stage::Data => "the payload did not come back whole: ".into(),
        stage => stage.number(last.hops).map(|number| number + ": ").unwrap_or_default(),
    };
    let late = lateness(probes.no_newer(at).as_deref(), Some(probes.age(at).as_secs_f64()));
    let evidence = format!("{place}{} ({why}){late}", cause.name());
    Some(Problem::new(*stage, probes.health(at), probes.since, evidence))
}

/// Returns the problem of a tunnel whose probes have no newer result. A broken one has its problem already. A daemon that drains
/// makes no probes, and a backup relay has made none of an address that another host has, or had until now.
pub(super) fn no_result(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let is_due =
        |probes: &&ProbeFacts| probes.broken().is_none() && at.phase == Phase::Serving && !probes.was_elsewhere();
    let probes = tunnel.probes.filter(is_due)?;
    let why = probes.no_newer(at)?;
    let since = probes.waited_since().unwrap_or(probes.since);
    let evidence = format!("no result for {}: {why}", longhaul_units::age(at.since(since).as_secs_f64()));
    Some(Problem::new(Stage::Verify, probes.health(at), since, evidence))
}

/// Time after the last reset for which more may come.
const RESETS_GO_ON: Duration = Duration::from_secs(30);

/// Time for which a failure counts after the address has left.
const ELSEWHERE_DOUBT: Duration = Duration::from_secs(120);
