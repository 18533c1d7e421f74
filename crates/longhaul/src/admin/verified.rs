//! The results of the daemon's own probes as the [`Snapshot`](super::snapshot::Snapshot) shows them.

use super::snapshot::{VerifyResult, VerifyState, VerifyStateName};
use super::time::{milliseconds, seconds_since_1970};
use crate::relay::{Outcome, VerifyView};
use crate::verify::Trouble;

/// Returns `view` as the snapshot shows it.
pub(super) fn state(view: &VerifyView) -> VerifyState {
    VerifyState { history: view.results.iter().map(result).collect(), ..summary(view) }
}

/// Returns the same without the history.
pub(super) fn summary(view: &VerifyView) -> VerifyState {
    let last = view.results.back();
    let why = |Trouble { why, .. }: &Trouble| why.clone();
    VerifyState {
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
        why: last.and_then(|last| last.trouble.as_ref()).map(why).or_else(|| view.hindrance.clone()),
        hindrance: view.hindrance.clone(),
        history: Vec::new(),
    }
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
