//! A request to run an operation once, and its stored key.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use comeback_core::{Timestamp, time::at_millis};
use lambda_runtime::Context;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Fingerprint;
use crate::{envelope::idempotency_key, failure::AlwaysPermanent, retry::Deadline};

/// DynamoDB's limit of a partition key in bytes. All stores use the same keys.
const STORED_KEY_MAX: usize = 2048;

/// The longest scope in bytes. A function's name has at most 140 characters; the rest is for the operation's name.
pub(super) const SCOPE_MAX: usize = 256;

/// Separates scope and key. No scope contains it, so different pairs have different stored keys.
pub(super) const SEPARATOR: char = '#';

/// The prefix of a key that is stored as its hash.
const HASHED: &str = "sha256:";

/// A request to run an operation: its key, its intent, and the deadline of this invocation.
#[derive(Clone, Eq, PartialEq)]
pub struct Request {
    key: String,
    pub(super) fingerprint: Fingerprint,
    pub(super) request_id: String,
    pub(super) deadline: Timestamp,
    pub(super) minimum: Duration,
}

/// Omits the key, because it may be a card number.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key: _, fingerprint, request_id, deadline, minimum } = self;
        f.debug_struct("Request")
            .field("fingerprint", fingerprint)
            .field("request_id", request_id)
            .field("deadline", deadline)
            .field("minimum", minimum)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Creates a request with your own key, such as an order number.
    ///
    /// The `intent` contains the values that must be the same in every repetition. The same key with another
    /// intent is refused as a [`Mismatch`](super::Error::Mismatch). Leave out values that differ between
    /// repetitions, such as the time of the call. Do not use a whole struct, because its JSON changes when a new
    /// version of the function adds a field.
    ///
    /// A key may have any length. If it is too long to be stored, its SHA-256 is used.
    ///
    /// # Errors
    ///
    /// If the key is empty, or the intent cannot be serialized as JSON.
    pub fn new(
        key: &str,
        intent: &(impl Serialize + ?Sized),
        context: &Context,
    ) -> Result<Self, BadRequest> {
        let mut faults = Vec::new();
        if key.is_empty() {
            faults.push("the key must have at least one byte, got \"\"".to_owned());
        }
        match Fingerprint::of(intent) {
            Ok(fingerprint) if faults.is_empty() => Ok(Self {
                key: key.to_owned(),
                fingerprint,
                request_id: context.request_id.clone(),
                deadline: at_millis(context.deadline),
                minimum: Deadline::MINIMUM,
            }),
            fingerprint => {
                faults.extend(fingerprint.err().map(|bad| bad.to_string()));
                Err(BadRequest(faults, AlwaysPermanent))
            }
        }
    }

    /// Creates a request with the event's [`idempotency_key`], which is the same in all its retries.
    ///
    /// # Errors
    ///
    /// If the context has no request id, or the intent cannot be serialized as JSON.
    pub fn of_event(
        intent: &(impl Serialize + ?Sized),
        context: &Context,
    ) -> Result<Self, BadRequest> {
        Self::new(&idempotency_key(context), intent, context)
    }

    /// Sets how much time must be left when the operation starts. The default is that of retries, 5 s
    /// ([`Deadline::MINIMUM`]). If the function's timeout is shorter, such as Lambda's default of 3 s, set a
    /// shorter minimum.
    #[must_use]
    pub fn with_minimum(self, minimum: Duration) -> Self {
        Self { minimum, ..self }
    }

    /// The key of the record in the store.
    pub(super) fn stored_key(&self, scope: &str) -> String {
        let Self { key, .. } = self;
        let too_long = scope.len() + SEPARATOR.len_utf8() + key.len() > STORED_KEY_MAX;
        // A key that looks like a hash is hashed, too, so that it cannot collide with the hash of another key.
        if too_long || key.starts_with(HASHED) {
            return format!("{scope}{SEPARATOR}{HASHED}{}", hash(key));
        }
        format!("{scope}{SEPARATOR}{key}")
    }
}

/// The SHA-256 of a text, in hexadecimal.
pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hash, byte| {
        // Writing to memory cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

/// All faults of a [`Request`], or of the settings of [`Idempotency`](super::Idempotency). No retry can fix them,
/// so a handler that returns this error fails with a [`PermanentFailure`](crate::PermanentFailure).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct BadRequest(Vec<String>, #[source] AlwaysPermanent);

impl BadRequest {
    pub(super) fn one(fault: String) -> Self {
        Self(vec![fault], AlwaysPermanent)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn stored(scope: &str, key: &str) -> String {
        let request = Request::new(key, "intent", &Context::default()).unwrap();
        request.stored_key(scope)
    }

    #[test]
    fn different_requests_have_different_stored_keys() {
        let long = "k".repeat(3000);
        let hashed = stored("a", &long).split_once('#').unwrap().1.to_owned();
        let scopes = ["a", "a/b", "b"];
        let keys = ["k", "#k", "b#k", "/b", "sha256:", &long, &long[1..], &hashed];
        let all: HashSet<_> =
            scopes.iter().flat_map(|scope| keys.iter().map(|key| stored(scope, key))).collect();
        assert_eq!(all.len(), scopes.len() * keys.len());
    }

    #[test]
    fn a_key_that_dynamodb_can_hold_is_stored_as_it_is() {
        assert_eq!(stored("charges", "order#7"), "charges#order#7");
        let scope = "s".repeat(SCOPE_MAX);
        let longest = "k".repeat(STORED_KEY_MAX - SCOPE_MAX - 1);
        assert_eq!(stored(&scope, &longest), format!("{scope}#{longest}"));
        let longer = stored(&scope, &format!("{longest}k"));
        assert_eq!(longer, format!("{scope}#sha256:{}", hash(&format!("{longest}k"))));
    }
}
