//! Tests probes of a path: the answers, the daemon's own, the key.

mod key;
mod segments;
pub(crate) mod verified;
pub(crate) mod verify;
