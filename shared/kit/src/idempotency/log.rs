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

/// The operation may have been done, but a repetition will run it sooner than it should.
pub(super) fn not_held(scope: &str, held: &Held, fault: &StoreFault) {
    warn!(
        target: "comeback::idempotency",
        scope,
        key_hash = &hash(&held.key)[..16],
        owner = held.record.claim.token.owner,
        %fault,
        "the key could not be held: once its lease is over, a repetition runs the operation"
    );
}

/// The operation failed, and a repetition has to wait for the end of the lease.
pub(super) fn not_released(scope: &str, held: &Held, fault: &StoreFault) {
    warn!(
        target: "comeback::idempotency",
        scope,
        key_hash = &hash(&held.key)[..16],
        owner = held.record.claim.token.owner,
        %fault,
        "the key could not be freed: a repetition waits until the lease is over"
    );
}
