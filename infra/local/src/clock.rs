//! The one place that reads the clock.

use std::time::Duration;

use comeback_core::Timestamp;

/// The present, as every step on the model is given it.
#[allow(
    clippy::disallowed_methods,
    reason = "the shell's one source of the present; everything below it takes `now`"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::from(std::time::SystemTime::now())
}

/// How long it is until `then`; nothing if that has passed.
pub(crate) fn until(then: Timestamp) -> Duration {
    then.signed_duration_since(now()).to_std().unwrap_or(Duration::ZERO)
}
