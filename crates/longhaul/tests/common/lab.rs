//! Labs for the tests that build one in their own process.

use longhaul_lab::{LabError, LinkSpec, Profile, Wan};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One lab at a time: two cores are few for several.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program has a lab.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lab of four hosts of today; `None` where it cannot be built.
pub(crate) fn lab(link: &LinkSpec) -> Option<Wan> {
    let relay = Profile::relay(link);
    runs(Wan::build(link, [Profile::plain(), relay.clone(), relay, Profile::plain()]))
}

/// Returns what came out; `None` when this machine lacks something for it, which is printed.
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
