//! Results of the probes that the daemon makes of its own tunnels. They survive a reload and a drain.

use super::lock::lock;
use crate::verify::Findings;
use longhaul_config::Tunnel;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// The results of all tunnels, by name.
#[derive(Debug, Default)]
pub(super) struct Verified(Mutex<BTreeMap<String, Arc<History>>>);

/// The results of one tunnel.
#[derive(Debug)]
pub(super) struct History(Mutex<VerifyView>);

/// Results of a tunnel's probes as they were at one moment.
#[derive(Clone, Debug)]
pub struct VerifyView {
    /// Whether the tunnel is whole.
    pub standing: Standing,
    /// Time since which it has this standing, and the same broken stage.
    pub since: SystemTime,
    /// Time of the last result. `None` before the first one.
    pub last: Option<SystemTime>,
    /// Time between two probes.
    pub interval: Duration,
    /// Maximum time of a probe.
    pub timeout: Duration,
    /// Where the tunnel is broken, if it is.
    pub fault: Option<Fault>,
    /// Why no probe can be made now. `None` if one can.
    pub hindrance: Option<String>,
    /// The last results, the newest last. At most 100. Shared, so that a copy of the view costs the same with any number.
    pub results: Arc<VecDeque<Outcome>>,
    /// Number of probes in a row that the listener did not take although it had a permit.
    unaccepted: u32,
}

/// Whether a tunnel is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no result yet.
    Pending,
    /// The last probe went through.
    Whole,
    /// The last probe did not go through.
    Broken,
}

/// Where a tunnel is broken, and how it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The stage, such as `WAN`.
    pub stage: String,
    /// `refused`, `no answer` or `failed`.
    pub cause: &'static str,
    /// Details, and a remedy if there is one.
    pub why: String,
}

/// Result of one probe.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time when the probe ended.
    pub at: SystemTime,
    /// Where the tunnel is broken. `None` if it is whole.
    pub fault: Option<Fault>,
    /// Time that the probe took.
    pub took: Duration,
    /// Round-trip time of a small message over the whole path.
    pub rtt: Option<Duration>,
    /// Bytes per second, there and back at the same time.
    pub goodput: Option<f64>,
}

impl Verified {
    /// Returns the history of `tunnel`, which is probed from now on. A probe takes up to `timeout`.
    pub(super) fn begin(&self, tunnel: &str, interval: Duration, timeout: Duration) -> Arc<History> {
        let mut histories = lock(&self.0);
        let history = histories.entry(tunnel.into()).or_insert_with(|| Arc::new(History::new(interval)));
        let mut view = history.view_mut();
        (view.interval, view.timeout) = (interval, timeout);
        drop(view);
        history.clone()
    }

    /// Forgets the histories of all tunnels but those of `tunnels` that are probed.
    pub(super) fn keep(&self, tunnels: &[Arc<Tunnel>]) {
        let is_probed = |name: &str| tunnels.iter().any(|tunnel| tunnel.name == name && tunnel.verify.is_some());
        lock(&self.0).retain(|name, _| is_probed(name));
    }

    /// Returns the results of each tunnel that is probed.
    pub(super) fn views(&self) -> BTreeMap<String, VerifyView> {
        let histories = lock(&self.0).clone();
        histories.into_iter().map(|(name, history)| (name, history.view())).collect()
    }

    /// Returns whether a listener accepts nothing although its process runs.
    pub(super) fn is_stuck(&self) -> bool {
        lock(&self.0).values().any(|history| history.view_mut().unaccepted >= STUCK_AFTER)
    }
}

impl History {
    fn new(interval: Duration) -> History {
        History(Mutex::new(VerifyView {
            standing: Standing::Pending,
            since: SystemTime::now(),
            last: None,
            interval,
            timeout: Duration::ZERO,
            fault: None,
            hindrance: None,
            results: Arc::default(),
            unaccepted: 0,
        }))
    }

    /// Returns the results so far.
    pub(super) fn view(&self) -> VerifyView {
        self.view_mut().clone()
    }

    /// Records why no probe can be made now. The standing stays as it is.
    pub(super) fn hindered(&self, why: String) {
        self.view_mut().hindrance = Some(why);
    }

    /// Adds a result. Returns the new standing if it differs from the one before, also by the broken stage or by the cause.
    pub(super) fn add(&self, outcome: Outcome) -> Option<Standing> {
        let mut view = self.view_mut();
        let standing = if outcome.fault.is_some() { Standing::Broken } else { Standing::Whole };
        let place = |fault: &Option<Fault>| fault.as_ref().map(|fault| (fault.stage.clone(), fault.cause));
        let is_change = (view.standing, place(&view.fault)) != (standing, place(&outcome.fault));
        if is_change {
            view.since = outcome.at;
        }
        view.standing = standing;
        view.last = Some(outcome.at);
        view.hindrance = None;
        view.fault.clone_from(&outcome.fault);
        let results = Arc::make_mut(&mut view.results);
        if results.len() == MAX_RESULTS {
            results.pop_front();
        }
        results.push_back(outcome);
        is_change.then_some(standing)
    }

    /// Records whether the listener took the last probe. Returns whether it is stuck since this call.
    pub(super) fn accepted(&self, accepted: bool) -> bool {
        let mut view = self.view_mut();
        view.unaccepted = if accepted { 0 } else { view.unaccepted.saturating_add(1) };
        view.unaccepted == STUCK_AFTER
    }

    fn view_mut(&self) -> MutexGuard<'_, VerifyView> {
        lock(&self.0)
    }
}

impl Fault {
    /// Returns the place where `findings` end on a path with `hops` relays after the first. `None` if it is whole.
    pub(super) fn of(findings: &Findings, hops: u8) -> Option<Fault> {
        let trouble = findings.trouble.as_ref()?;
        let (stage, why) = (trouble.stage.name(hops), trouble.why.clone());
        Some(Fault { stage, cause: trouble.kind.name(), why })
    }
}

/// Number of results that are kept for each tunnel.
const MAX_RESULTS: usize = 100;

/// Number of probes in a row that the listener did not take, after which it counts as stuck.
const STUCK_AFTER: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stage: Option<&str>) -> Outcome {
        let fault = stage.map(|stage| Fault { stage: stage.into(), cause: "refused", why: String::new() });
        Outcome { at: SystemTime::now(), fault, took: Duration::from_millis(3), rtt: None, goodput: None }
    }

    #[test]
    fn a_change_is_another_standing_or_another_stage() {
        let history = History::new(Duration::from_secs(1));
        let results = [Some("WAN"), Some("WAN"), Some("LAN"), None, None, Some("LAN")];
        let changes = results.map(|stage| history.add(outcome(stage)));
        let (broken, whole) = (Some(Standing::Broken), Some(Standing::Whole));
        assert_eq!(changes, [broken, None, broken, whole, None, broken]);
        let view = history.view();
        assert_eq!((view.standing, view.fault.unwrap().stage), (Standing::Broken, "LAN".into()));
        assert_eq!((view.last, view.since), (view.results.back().map(|last| last.at), view.results[5].at));
    }

    #[test]
    fn a_hundred_results_are_kept() {
        let history = History::new(Duration::from_secs(1));
        (0..150).for_each(|_| assert!(history.add(outcome(None)) != Some(Standing::Broken)));
        let view = history.view();
        assert!(Arc::ptr_eq(&view.results, &history.view().results), "views share the results");
        history.add(outcome(Some("WAN")));
        let is_whole = |view: &VerifyView| view.results.back().is_some_and(|last| last.fault.is_none());
        assert!(view.results.len() == 100 && is_whole(&view), "a view does not change");
        assert!(history.view().results.len() == 100 && !is_whole(&history.view()));
    }

    #[test]
    fn a_listener_is_stuck_after_two_probes_and_until_it_takes_one() {
        let verified = Verified::default();
        let history = verified.begin("one", Duration::from_secs(1), Duration::ZERO);
        assert_eq!([false, false, false].map(|accepted| history.accepted(accepted)), [false, true, false]);
        assert!(verified.is_stuck());
        assert!(!history.accepted(true) && !verified.is_stuck());
        history.accepted(false);
        history.accepted(false);
        verified.keep(&[]);
        assert!(!verified.is_stuck() && verified.views().is_empty(), "the tunnel is gone");
    }
}
