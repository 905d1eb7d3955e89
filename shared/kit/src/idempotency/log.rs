//! What the log says of operations whose record is not as it should be.
//!
//! A key may be a card's number or a person's address, and is not logged. Its hash is, to find the record
//! by: the beginning of what `printf %s 'scope#key' | sha256sum` prints.

use comeback_core::fault::StoreFault;
use tracing::{error, warn};

use super::{record::Held, request::hash};

/// The operation was run, and a repetition will run it again.
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

/// The operation may have been done, and its repetition comes sooner than it should.
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

/// The operation failed, and its repetition has to wait for the end of the lease.
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
