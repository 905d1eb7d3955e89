//! Logs failed writes of records.
//!
//! A key may be a card number or an address, so only its hash is logged. To find the log lines of a key, compare
//! `key_hash` with the start of `printf %s 'scope#key' | sha256sum`.

use comeback_core::fault::StoreFault;
use tracing::{error, warn};

use super::{record::Held, request::hash};

/// The operation was run but could not be marked as done, so a repetition will run it again.
pub(super) fn not_completed(scope: &str, held: &Held, fault: &StoreFault) {
    error!(
        target: "comeback::idempotency",
        scope,
        key_hash = &hash(&held.key)[..16],
        owner = held.record.claim.token.owner,
        %fault,
        "the operation was run but not marked as done: once its lease is over, a repetition runs it again"
    );
}

/// The operation failed, but its key could not be freed, or not held for the given time. The lease stays as it is.
pub(super) fn not_rewritten(scope: &str, held: &Held, fault: &StoreFault, outcome: &str) {
    warn!(
        target: "comeback::idempotency",
        scope,
        key_hash = &hash(&held.key)[..16],
        owner = held.record.claim.token.owner,
        %fault,
        "{outcome}"
    );
}
