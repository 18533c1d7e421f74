//! Tests probes of a path: the answers, the daemon's own, the key; and measurements.

mod key;
mod measure;
mod segments;
mod through;
pub(crate) mod verified;
pub(crate) mod verify;
