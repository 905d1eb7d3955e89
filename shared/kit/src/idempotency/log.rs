//! Log lines about records that could not be written.
//!
//! A key may be a card number or an address, so only its hash is logged. To find the record of a key, compare it
//! with the start of `printf %s 'scope#key' | sha256sum`.

use comeback_core::fault::StoreFault;
use tracing::{error, warn};

use super::{record::Held, request::hash};

/// The operation ran, but a repetition will run it again.
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

/// The operation failed, and its key stays held until the lease is over, which is too early or too late.
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
