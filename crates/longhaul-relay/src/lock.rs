//! Locks mutexes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. A poisoned mutex is as good as any, because nothing here panics in the middle of a change.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
