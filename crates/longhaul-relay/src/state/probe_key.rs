//! The shared key that probers must prove.

use crate::lock::lock;
use longhaul_core::wire::proof::Key;
use std::sync::{Arc, Mutex};

/// The shared key of the process, if it has one.
#[derive(Debug, Default)]
pub(crate) struct ProbeKey(Mutex<Option<Arc<Key>>>);

impl ProbeKey {
    /// Returns the key.
    pub(crate) fn now(&self) -> Option<Arc<Key>> {
        lock(&self.0).clone()
    }

    /// Replaces the key. Returns the old one.
    pub(crate) fn set(&self, key: Option<Arc<Key>>) -> Option<Arc<Key>> {
        std::mem::replace(&mut lock(&self.0), key)
    }
}
