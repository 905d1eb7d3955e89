//! The one place where this crate reads a clock: a function's author is not asked for the time.

use std::time::SystemTime;

use comeback_core::Timestamp;

/// The present.
#[allow(
    clippy::disallowed_methods,
    reason = "the edge of the crate: everything else takes the time"
)]
pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}
