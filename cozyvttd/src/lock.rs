//! Mutexes of the standard library, held for a moment and never across a wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a mutex. What it guards is whole between any two statements of ours, so that a
/// panic of somebody who held it is no reason to do without.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
