//! The relay's way to lock a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. Nothing in the relay panics half way under a lock, so a poisoned one is as good as any.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
