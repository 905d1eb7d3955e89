//! The only place where this crate reads the system clock.

use std::time::SystemTime;

use comeback_core::Timestamp;

#[allow(clippy::disallowed_methods, reason = "everything else takes the time as an argument")]
pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}
