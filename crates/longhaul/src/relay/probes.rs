//! Limits the probes that this process answers, so that whoever may connect cannot use them to load the WAN.

use super::lock::lock;
use longhaul_core::ration::Ration;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The limits of all tunnels together, and what is used of them.
#[derive(Debug)]
pub(super) struct Probes(Mutex<Ration>);

impl Default for Probes {
    fn default() -> Probes {
        Probes(Mutex::new(Ration::new(BURST, PAUSE, TOGETHER)))
    }
}

impl Probes {
    /// Returns a place for a probe to answer, or `None` when there are too many.
    pub(super) fn begin(&self) -> Option<Place<'_>> {
        let may = lock(&self.0).begin(Instant::now());
        // Not `then_some`: it would make a place and drop it at once.
        may.then(|| Place(self))
    }

    /// Returns whether a probe may be passed on now.
    pub(super) fn may_pass_on(&self) -> bool {
        lock(&self.0).spend(Instant::now())
    }
}

/// A place among the probes that are answered at the same time. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place<'a>(&'a Probes);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).end();
    }
}

/// Number of probes that may come at once.
const BURST: u32 = 100;

/// Time after which one more probe may come: 20 a second, enough for 600 tunnels that are verified every 30 s.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of probes that are answered at the same time. Each holds a buffer of 64 KiB.
const TOGETHER: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let probes = Probes::default();
        let places: Vec<_> = std::iter::from_fn(|| probes.begin()).collect();
        assert_eq!(places.len(), TOGETHER as usize);
        drop(places);
        assert!(probes.begin().is_some() && probes.may_pass_on());
    }
}
