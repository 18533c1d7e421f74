//! Times as the [`Snapshot`](crate::admin::snapshot::Snapshot) has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time now, in seconds since 1970 (UTC).
pub(crate) fn now() -> f64 {
    seconds_since_1970(SystemTime::now())
}

/// Returns `time` in seconds since 1970 (UTC).
pub(crate) fn seconds_since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Returns `time` in milliseconds, to the microsecond.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
