//! The results of the daemon's own probes as the [`Snapshot`](super::snapshot::Snapshot) shows them.

use super::snapshot::{VerifyResult, VerifyState, VerifyStateName};
use super::time::{milliseconds, seconds_since_1970};
use crate::relay::{Outcome, Standing, VerifyView};

/// Returns `view` as the snapshot shows it.
pub(super) fn state(view: &VerifyView) -> VerifyState {
    VerifyState { history: view.results.iter().map(result).collect(), ..summary(view) }
}

/// Returns the same without the history.
pub(super) fn summary(view: &VerifyView) -> VerifyState {
    let fault = view.fault.as_ref();
    VerifyState {
        state: match view.standing {
            Standing::Pending => VerifyStateName::Pending,
            Standing::Whole => VerifyStateName::Whole,
            Standing::Broken => VerifyStateName::Broken,
        },
        since_unix_seconds: seconds_since_1970(view.since),
        last_unix_seconds: view.last.map(seconds_since_1970),
        interval_seconds: view.interval.as_secs_f64(),
        timeout_seconds: view.timeout.as_secs_f64(),
        stage: fault.map(|fault| fault.stage.clone()),
        cause: fault.map(|fault| fault.cause.into()),
        why: fault.map(|fault| fault.why.clone()).or_else(|| view.hindrance.clone()),
        hindrance: view.hindrance.clone(),
        history: Vec::new(),
    }
}

fn result(outcome: &Outcome) -> VerifyResult {
    let fault = outcome.fault.as_ref();
    VerifyResult {
        unix_seconds: seconds_since_1970(outcome.at),
        whole: fault.is_none(),
        stage: fault.map(|fault| fault.stage.clone()),
        cause: fault.map(|fault| fault.cause.into()),
        seconds: outcome.took.as_secs_f64(),
        rtt_ms: outcome.rtt.map(milliseconds),
        goodput_bits_per_second: outcome.goodput.map(|goodput| (goodput * 8.0) as u64),
    }
}
