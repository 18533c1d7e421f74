//! A moment in half the bytes of an [`Instant`]: every idle flow keeps one.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A moment since the first call of [`Moment::now`], in ns. 64 bits last for 584 years.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Returns the present moment.
    pub(super) fn now() -> Moment {
        Moment(u64::try_from(zero().elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time since this moment.
    pub(crate) fn elapsed(self) -> Duration {
        self.instant().elapsed()
    }

    /// Returns the moment as an instant of the monotonic clock.
    pub(crate) fn instant(self) -> Instant {
        zero() + Duration::from_nanos(self.0)
    }
}

/// Returns the moment that the others count from.
fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_instant_at_which_it_was_taken() {
        let before = Instant::now();
        let moment = Moment::now();
        let after = Instant::now();
        // The first moment of the process is its zero, which is taken after `before`.
        assert!(moment.instant() >= before && moment.instant() <= after, "{moment:?}");
        assert!(moment.elapsed() <= before.elapsed());
    }
}
