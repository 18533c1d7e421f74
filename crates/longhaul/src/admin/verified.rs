//! The results of the daemon's own probes as the [`Snapshot`](super::snapshot::Snapshot) shows them.

use super::snapshot::{VerifyResult, VerifyState, VerifyStateName};
use crate::control::Phase;
use crate::time::{milliseconds, seconds_since_1970};
use longhaul_core::health::Trouble;
use longhaul_relay::{Outcome, VerifyView, Whereabouts};

/// Returns `view` without its history. `phase` is that of the process, and `now` is in seconds since 1970 (UTC).
pub(super) fn summary(view: &VerifyView, phase: Phase, now: f64) -> VerifyState {
    let last = view.results.back();
    let why = |Trouble { why, .. }: &Trouble| why.clone();
    let elsewhere_since = match view.address {
        Whereabouts::Elsewhere { since } => Some(seconds_since_1970(since)),
        Whereabouts::Here | Whereabouts::Returned => None,
    };
    let state = VerifyState {
        state: match last.map(|last| &last.trouble) {
            None => VerifyStateName::Pending,
            Some(None) => VerifyStateName::Whole,
            Some(Some(_)) => VerifyStateName::Broken,
        },
        since_unix_seconds: seconds_since_1970(view.since),
        last_unix_seconds: last.map(|last| seconds_since_1970(last.at)),
        interval_seconds: view.interval.as_secs_f64(),
        timeout_seconds: view.timeout.as_secs_f64(),
        stage: last.and_then(Outcome::stage),
        cause: last.and_then(Outcome::cause).map(Into::into),
        why: last.and_then(|last| last.trouble.as_ref()).map(why),
        hindrance: view.hindrance.clone(),
        elsewhere: elsewhere_since.is_some(),
        returned: view.address == Whereabouts::Returned,
        elsewhere_since_unix_seconds: elsewhere_since,
        returned_unix_seconds: view.returned_at.map(seconds_since_1970),
        overdue: false,
        no_newer: None,
        history: Vec::new(),
    };
    timed(state, phase, now)
}

/// Returns the results, the newest last.
pub(super) fn history(view: &VerifyView) -> Vec<VerifyResult> {
    view.results.iter().map(result).collect()
}

/// Fills `overdue` and `no_newer` from the other fields.
fn timed(state: VerifyState, phase: Phase, now: f64) -> VerifyState {
    let last = state.last_unix_seconds.unwrap_or(state.since_unix_seconds);
    let overdue = now - last > state.interval_seconds + state.timeout_seconds;
    let no_newer = match (&state.hindrance, phase) {
        (Some(why), _) => Some(why.clone()),
        (None, _) if !overdue => None,
        (None, Phase::Serving) => Some("the next probe is overdue".into()),
        (None, phase) => Some(format!("the daemon is {} and makes no probes", phase.text())),
    };
    VerifyState { overdue, no_newer, ..state }
}

fn result(outcome: &Outcome) -> VerifyResult {
    VerifyResult {
        unix_seconds: seconds_since_1970(outcome.at),
        whole: outcome.trouble.is_none(),
        stage: outcome.stage(),
        cause: outcome.cause().map(Into::into),
        seconds: outcome.took.as_secs_f64(),
        rtt_ms: outcome.rtt.map(milliseconds),
        goodput_bits_per_second: outcome.goodput.map(|goodput| (goodput * 8.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_overdue_after_the_interval_and_the_time_of_a_probe() {
        let first = VerifyState {
            since_unix_seconds: 1000.0,
            interval_seconds: 30.0,
            timeout_seconds: 25.0,
            ..VerifyState::default()
        };
        let later = VerifyState { last_unix_seconds: Some(1010.0), ..first.clone() };
        let said = |verify: &VerifyState, now, phase| {
            let verify = timed(verify.clone(), phase, now);
            (verify.overdue, verify.no_newer)
        };
        let none = "the next probe is overdue".to_string();
        for (verify, last) in [(first, 1055.0), (later.clone(), 1065.0)] {
            assert_eq!(said(&verify, last, Phase::Serving), (false, None));
            assert_eq!(said(&verify, last + 0.1, Phase::Serving), (true, Some(none.clone())));
        }
        let draining = "the daemon is draining and makes no probes".to_string();
        assert_eq!(said(&later, 1065.0, Phase::Draining), (false, None));
        assert_eq!(said(&later, 1066.0, Phase::Draining), (true, Some(draining)));
        let hindered = VerifyState { hindrance: Some("no flow of the tunnel is free".into()), ..later };
        assert_eq!(said(&hindered, 1011.0, Phase::Serving), (false, hindered.hindrance.clone()));
        assert_eq!(said(&hindered, 1066.0, Phase::Draining), (true, hindered.hindrance.clone()));
    }
}
