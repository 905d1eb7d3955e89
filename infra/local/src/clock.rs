//! The one place that reads the clock.

use std::time::Duration;

use comeback_core::Timestamp;

/// The current time, which every step on the model takes as an argument.
#[allow(
    clippy::disallowed_methods,
    reason = "the shell's one source of the present; everything below it takes `now`"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::from(std::time::SystemTime::now())
}

/// The time until `then`, or zero if that has passed.
pub(crate) fn until(then: Timestamp) -> Duration {
    then.signed_duration_since(now()).to_std().unwrap_or(Duration::ZERO)
}
