//! Helpers for tests that build a lab in their own process.

use longhaul_lab::{LabError, LinkSpec, Profile, Wan};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while a test has a lab: two cores are too few for several labs.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program has a lab.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds a lab of four hosts with the settings of today; returns `None` if it cannot be built here.
pub(crate) fn lab(link: &LinkSpec) -> Option<Wan> {
    let relay = Profile::relay(link);
    runs(Wan::build(link, [Profile::plain(), relay.clone(), relay, Profile::plain()]))
}

/// Returns the value of `result`. If this machine lacks something for it, prints SKIP and returns `None`. Panics on any other
/// error.
pub(crate) fn runs<T>(result: Result<T, LabError>) -> Option<T> {
    let why = match result {
        Ok(done) => return Some(done),
        Err(why) => why,
    };
    let lacking = match &why {
        LabError::Missing { .. } => true,
        LabError::Sys(err) => err.errno == EPERM || err.call.contains("/dev/net/tun"),
        _ => false,
    };
    assert!(lacking, "{why}");
    assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {why}");
    println!("SKIP: {why}");
    None
}

const EPERM: i32 = 1;
