//! The clock and the locks of the server. The model is pure and has neither.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use comeback_core::Timestamp;

/// Locks a mutex, even if it is poisoned. A step that panicked may be half done, but other requests still need
/// responses.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current time, which every step on the model takes as an argument.
#[allow(
    clippy::disallowed_methods,
    reason = "the shell's one source of the present; everything below it takes `now`"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// The time until `then`, or zero if that has passed.
pub(crate) fn until(then: Timestamp) -> Duration {
    then.signed_duration_since(now()).to_std().unwrap_or(Duration::ZERO)
}
