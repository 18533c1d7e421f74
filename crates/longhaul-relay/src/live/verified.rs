//! Results of the probes that the daemon makes of its own tunnels. They survive a reload and a drain.

use crate::lock::lock;
use longhaul_core::health::{Cause, ProbeFacts, ProbeResult, Stage, Whereabouts};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// The results of one tunnel.
#[derive(Debug)]
pub(crate) struct History(Mutex<VerifyView>);

/// Results of a tunnel's probes as they were at one moment.
#[derive(Clone, Debug)]
pub struct VerifyView {
    /// What the rules of health read.
    pub facts: ProbeFacts,
    /// The last results, the newest last. At most 100. Shared, so that a copy of the view costs the same with any number.
    pub results: Arc<VecDeque<ProbeResult>>,
    /// The hindrances since the last result, without digits: a time or a port changes with each probe.
    told: Vec<String>,
    /// Number of probes in a row that the listener did not take although it had a permit.
    unaccepted: u32,
    /// Number of relays after the first on the path that the results are about. `None` before the first call of
    /// [`History::of_path`].
    hops: Option<u8>,
    /// Whether a probe has reached the last relay.
    relays_answered: bool,
}

impl Default for History {
    /// Returns a history without results.
    fn default() -> History {
        let facts = ProbeFacts {
            since: SystemTime::now(),
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            hindrance: None,
            address: Whereabouts::Here,
            returned_at: None,
            last: None,
        };
        let (results, unaccepted, hops, relays_answered) = (Arc::default(), 0, None, false);
        History(Mutex::new(VerifyView { facts, results, told: Vec::new(), unaccepted, hops, relays_answered }))
    }
}

impl History {
    /// Records that the tunnel is probed every `interval` from now on, and that a probe takes up to `timeout`.
    pub(crate) fn begin(&self, interval: Duration, timeout: Duration) {
        let mut view = self.view_mut();
        (view.facts.interval, view.facts.timeout) = (interval, timeout);
    }

    /// Returns whether the listener accepts nothing although the process runs.
    pub(crate) fn is_stuck(&self) -> bool {
        self.view_mut().unaccepted >= STUCK_AFTER
    }

    /// Begins the results of a path with `hops` relays after the first. Forgets the results of a path with another number of
    /// them: they say nothing about this one.
    pub(crate) fn of_path(&self, hops: u8) {
        let mut view = self.view_mut();
        if view.hops.replace(hops).is_some_and(|before| before != hops) {
            (view.facts.since, view.facts.hindrance, view.facts.address) = (SystemTime::now(), None, Whereabouts::Here);
            (view.facts.returned_at, view.facts.last) = (None, None);
            (view.results, view.relays_answered) = (Arc::default(), false);
            view.told.clear();
        }
    }

    /// Returns whether every relay of the path has answered a probe before.
    pub(crate) fn relays_answered(&self) -> bool {
        self.view_mut().relays_answered
    }

    /// Returns whether another host has the address, as far as this one has noticed.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.view_mut().facts.address, Whereabouts::Elsewhere { .. })
    }

    /// Returns the results so far.
    pub(crate) fn view(&self) -> VerifyView {
        self.view_mut().clone()
    }

    /// Records a hindrance. The results stay as they are. Returns whether it is new: there was none before, or only that of the
    /// address, or only others.
    pub(crate) fn hindered(&self, why: String) -> bool {
        let mut view = self.view_mut();
        let words: String = why.chars().filter(|char| !char.is_ascii_digit()).collect();
        if std::mem::replace(&mut view.facts.address, Whereabouts::Here) != Whereabouts::Here {
            view.told.clear();
        }
        view.facts.hindrance = Some(why);
        let is_new = view.told.len() < MOST_TOLD && !view.told.contains(&words);
        if is_new {
            view.told.push(words);
        }
        is_new
    }

    /// Records that no probe is made because another host has the address. That is the normal state of a backup relay.
    pub(crate) fn elsewhere(&self, why: String) {
        let facts = &mut self.view_mut().facts;
        facts.hindrance = Some(why);
        if !matches!(facts.address, Whereabouts::Elsewhere { .. }) {
            facts.address = Whereabouts::Elsewhere { since: SystemTime::now() };
        }
    }

    /// Records that this host has the address, and `why` there is no result yet if another host had it. The last result must not
    /// be fatal again: keepalived would take the address away before the probe has told how the tunnel is now.
    pub(crate) fn returned(&self, why: impl FnOnce() -> String) {
        let facts = &mut self.view_mut().facts;
        if matches!(facts.address, Whereabouts::Elsewhere { .. }) {
            (facts.hindrance, facts.address) = (Some(why()), Whereabouts::Returned);
            facts.returned_at = Some(SystemTime::now());
        }
    }

    /// Records that probes have results. Returns whether they were hindered before, other than by the address.
    pub(crate) fn unhindered(&self) -> bool {
        let mut view = self.view_mut();
        view.told.clear();
        let facts = &mut view.facts;
        let before = std::mem::replace(&mut facts.address, Whereabouts::Here);
        facts.returned_at = None;
        facts.hindrance.take().is_some() && before == Whereabouts::Here
    }

    /// Adds a result. Returns whether it differs from the one before: the tunnel is broken instead of whole or the reverse, or
    /// broken at another stage or with another cause. The first result differs from none. The result of a probe that began
    /// before the last [`of_path`](History::of_path), with another number of relays, is dropped.
    pub(crate) fn add(&self, result: ProbeResult) -> bool {
        let mut view = self.view_mut();
        if view.hops.is_some_and(|hops| hops != result.hops) {
            return false;
        }
        view.relays_answered |= reached_the_last_relay(&result);
        let is_change = view.facts.last.as_ref().is_none_or(|last| place(last) != place(&result));
        if is_change {
            view.facts.since = result.at;
        }
        let results = Arc::make_mut(&mut view.results);
        if results.len() == MAX_RESULTS {
            results.pop_front();
        }
        results.push_back(result.clone());
        view.facts.last = Some(result);
        is_change
    }

    /// Records whether the listener took the last probe. Returns whether it is stuck since this call.
    pub(crate) fn accepted(&self, accepted: bool) -> bool {
        let mut view = self.view_mut();
        view.unaccepted = if accepted { 0 } else { view.unaccepted.saturating_add(1) };
        view.unaccepted == STUCK_AFTER
    }

    fn view_mut(&self) -> MutexGuard<'_, VerifyView> {
        lock(&self.0)
    }
}

fn reached_the_last_relay(result: &ProbeResult) -> bool {
    matches!(place(result), None | Some((Stage::Lan | Stage::FinalHost | Stage::Data, _)))
}

/// Returns where the tunnel is broken, and how it shows.
fn place(result: &ProbeResult) -> Option<(Stage, Cause)> {
    result.trouble.as_ref().map(|trouble| (trouble.stage, trouble.cause))
}

/// Number of results that are kept for each tunnel.
const MAX_RESULTS: usize = 100;

/// Number of probes in a row that the listener did not take, after which it counts as stuck.
const STUCK_AFTER: u32 = 2;

/// Most reasons of a hindrance that are told one by one.
const MOST_TOLD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::health::Trouble;

    fn outcome(stage: Option<Stage>) -> ProbeResult {
        let trouble = stage.map(|stage| Trouble { stage, cause: Cause::Refused, why: String::new(), is_certain: true });
        let (at, took) = (SystemTime::now(), Duration::from_millis(3));
        ProbeResult { at, hops: 1, trouble, took, rtt: None, goodput: None }
    }

    #[test]
    fn a_change_is_between_whole_and_broken_or_to_another_stage_or_cause() {
        let history = History::default();
        let (wan, lan) = (Some(Stage::Link(0)), Some(Stage::Lan));
        let changes = [wan, wan, lan, None, None, lan].map(|stage| history.add(outcome(stage)));
        assert_eq!(changes, [true, false, true, true, false, true]);
        let mut silent = outcome(lan);
        silent.trouble.iter_mut().for_each(|trouble| trouble.cause = Cause::NoAnswer);
        assert!(history.add(silent.clone()) && !history.add(silent));
        let view = history.view();
        let last = view.results.back().unwrap();
        assert_eq!((last.stage().as_deref(), last.cause()), (Some("LAN"), Some("no answer")));
        assert_eq!(view.facts.since, view.results[6].at);
        assert!(History::default().add(outcome(None)), "the first result");
    }

    #[test]
    fn results_of_a_path_with_another_number_of_relays_are_forgotten() {
        let history = History::default();
        history.of_path(1);
        assert!(history.add(outcome(Some(Stage::Relay(1)))) && !history.relays_answered());
        history.add(outcome(None));
        assert!(history.add(outcome(Some(Stage::Relay(1)))) && history.relays_answered());
        history.of_path(1);
        assert_eq!((history.view().results.len(), history.relays_answered()), (3, true), "the same path");
        history.of_path(0);
        let view = history.view();
        assert!(view.results.is_empty() && view.facts.since > SystemTime::UNIX_EPOCH && !history.relays_answered());
        assert!(!history.add(outcome(None)) && history.view().results.is_empty(), "a probe of the path before");
    }

    #[test]
    fn a_hindrance_is_news_once_and_its_end_too_and_a_backup_has_neither() {
        let history = History::default();
        let hindered = || history.hindered("refused".into());
        assert_eq!([hindered(), hindered(), history.unhindered(), history.unhindered()], [true, false, true, false]);
        let why = |why: &str| history.hindered(why.into());
        assert_eq!([why("late by 9s"), why("late by 10s"), why("no key")], [true, false, true]);
        assert!(!why("late by 7s") && !why("no key"), "those that alternate are told once");
        assert!(history.unhindered() && why("no key") && history.unhindered());
        history.elsewhere("192.0.2.7 is elsewhere".into());
        let before = history.view().facts.address;
        history.elsewhere("192.0.2.7 is elsewhere".into());
        assert!(history.is_elsewhere() && history.view().facts.hindrance.is_some());
        assert_eq!(history.view().facts.address, before, "the time stays");
        assert!(hindered() && !hindered() && !history.is_elsewhere(), "the address has come");
        history.elsewhere("192.0.2.7 is elsewhere".into());
        assert!(!history.unhindered() && history.view().facts.hindrance.is_none() && !history.is_elsewhere());
    }

    #[test]
    fn an_address_that_returns_hinders_until_the_next_result_and_is_no_news() {
        let history = History::default();
        let returned = || history.returned(|| "192.0.2.7 is back".into());
        let state = || (history.view().facts.address, history.view().facts.hindrance);
        returned();
        assert_eq!(state(), (Whereabouts::Here, None), "it was here all the time");
        for is_hindered in [false, true] {
            history.elsewhere("192.0.2.7 is elsewhere".into());
            returned();
            returned();
            assert_eq!(state(), (Whereabouts::Returned, Some("192.0.2.7 is back".into())));
            assert!(!is_hindered || history.hindered("refused".into()), "this hindrance is new");
            let view = history.view();
            assert!(!history.is_elsewhere() && view.facts.returned_at.is_some(), "time counts from the return");
            assert_eq!((history.unhindered(), state()), (is_hindered, (Whereabouts::Here, None)));
            assert_eq!(history.view().facts.returned_at, None);
        }
    }

    #[test]
    fn a_hundred_results_are_kept() {
        let history = History::default();
        (0..150).for_each(|number| assert_eq!(history.add(outcome(None)), number == 0));
        let view = history.view();
        assert!(Arc::ptr_eq(&view.results, &history.view().results), "views share the results");
        history.add(outcome(Some(Stage::Lan)));
        let is_whole = |view: &VerifyView| view.results.back().is_some_and(|last| last.trouble.is_none());
        assert!(view.results.len() == 100 && is_whole(&view), "a view does not change");
        assert!(history.view().results.len() == 100 && !is_whole(&history.view()));
    }

    #[test]
    fn a_listener_is_stuck_after_two_probes_and_until_it_takes_one() {
        let history = History::default();
        assert_eq!([false, false, false].map(|accepted| history.accepted(accepted)), [false, true, false]);
        assert!(history.is_stuck());
        assert!(!history.accepted(true) && !history.is_stuck());
    }
}
