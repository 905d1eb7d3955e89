//! Runs an operation once per key, and returns the same answer to every repetition.
//!
//! A retried operation may run twice. A record in a store remembers that it was done, and its answer:
//!
//! ```
//! use comeback::idempotency::{Idempotency, Memory, Request};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let context = comeback::testing::context(std::time::Duration::from_secs(60));
//! # async fn charge(_: &str) -> Result<String, std::io::Error> { Ok("ch_1".to_owned()) }
//! let charges = Idempotency::new("charges", Memory::new())?;
//! let request = Request::new("order 7", "charge 100", &context)?;
//! for _ in 0..2 {
//!     let receipt = charges.run(&request, |_lease| charge("order 7")).await?;
//!     assert_eq!(receipt, "ch_1", "the card is charged once");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a record
//!
//! | event | what is written | what a repetition gets from then on |
//! |---|---|---|
//! | the operation is claimed | `Held`, with a lease that outlasts this invocation | [`Error::InProgress`], which brings the event back when the lease ends |
//! | it succeeds | `Done`, with the answer | the answer |
//! | it fails or panics | the record is removed | the operation runs |
//! | it fails but may have been done, with [`Idempotency::holding`] | `Held` for the given time | [`Error::InProgress`] |
//! | its process dies | nothing | [`Error::InProgress`] until the lease ends, then the operation runs |
//! | a request with the same key has another intent | nothing | [`Error::Mismatch`] |
//!
//! An operation costs two writes, and a repetition one call: the first write expects no record, and returns the one
//! that is there. Every later write is conditional on the owner's fencing token. An owner whose lease has ended can
//! therefore neither overwrite nor erase the record of the next owner, and gets [`Error::LostLease`].
//!
//! # What a caller can rely on
//!
//! - *An operation that is marked as done does not run again while its record is kept*, and every repetition gets the
//!   same answer. Later versions of the function must be able to deserialize it.
//! - *An operation that returns an error may run again*, at once, because its key is free. After a timeout, a broken
//!   connection, or a truncated response, the effect may have happened ([`may_be_done`]). So pass the [`Request`]'s
//!   key to the service, which then recognises a repetition, or [hold](Idempotency::holding) the key and query the
//!   outcome. Set a client timeout that ends before the lease.
//! - *An effect that was not marked as done is repeated* when the lease ends, for example if the process died in
//!   between. Only writes to DynamoDB can be part of the transaction that marks the operation as done: see
//!   `Idempotency::run_in_transaction`.
//! - *If the operation can't be marked as done, its answer is returned all the same*, because an error would make
//!   the retry loop repeat the operation. The write is tried up to five times, then an error is logged.
//! - *A record expires on time*, even if the store deletes it later. After that, a repetition runs the operation
//!   again, so a record is kept for longer than the retry loop retries its event (see [`Idempotency::kept_for`]).
//!
//! [`may_be_done`]: crate::transient::may_be_done

#[cfg(feature = "dynamodb")]
mod dynamo;
mod error;
mod fingerprint;
mod holding;
mod once;
mod request;
mod store;
#[cfg(feature = "dynamodb")]
mod transaction;

use std::{fmt, sync::Arc, time::Duration};

use comeback_core::{
    Timestamp,
    claim::{CLOCK_SKEW_MAX, LEASE_MAX, LIFE_MAX},
    duration,
};

use self::request::{SCOPE_MAX, SEPARATOR};
#[cfg(feature = "dynamodb")]
pub use self::{
    dynamo::DynamoStore,
    transaction::{Cancelled, WRITES_MAX},
};
pub use self::{
    error::Error,
    fingerprint::{BadIntent, Fingerprint},
    holding::Holding,
    request::{BadRequest, Request},
    store::{Answer, Lease, Memory, Record, ReplaceError, Store},
};

/// The owner and the state of an operation. A [`Store`] compares this part of a [`Record`].
pub use comeback_core::claim::Claim;
/// The parts of a [`Claim`].
pub use comeback_core::claim::{State, Token};
/// The error of a call to a [`Store`], and whether it is transient.
pub use comeback_core::fault::StoreFault;

/// The default retention: the handler's default `MAX_AGE`.
const RETENTION: Duration = Duration::from_hours(24);

/// The longest time in Lambda's own queue: `MaximumEventAgeInSeconds` is at most 21,600.
const QUEUED_MAX: Duration = Duration::from_hours(6);

/// The time that is added to the retention. `MAX_AGE` counts from the first failure, up to 15 minutes (the longest
/// invocation) after the operation was done. The last attempt may be made as late as `MAX_AGE` allows, and then
/// wait in Lambda's queue. The rest is for clock skew.
const MARGIN: Duration = LIFE_MAX.saturating_add(QUEUED_MAX).saturating_add(CLOCK_SKEW_MAX);

/// Runs an operation once per key, and returns the same answer to every repetition.
///
/// Create one for each operation, and share it between all invocations of an execution environment. See the
/// [module](self) for an example.
#[derive(Clone)]
pub struct Idempotency<S> {
    scope: String,
    store: S,
    retention: Duration,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, store, retention, clock: _ } = self;
        f.debug_struct("Idempotency")
            .field("scope", scope)
            .field("store", store)
            .field("retention", retention)
            .finish_non_exhaustive()
    }
}

impl<S> Idempotency<S> {
    /// Creates the `Idempotency` of one operation. `scope` is the operation's name, and the namespace of its keys.
    ///
    /// Two functions that share a table and a scope share their records, and one gets the answers of the other.
    /// That is correct if both perform the same operation. Otherwise, start the scope with the function's name.
    ///
    /// # Errors
    ///
    /// If the scope is empty, has more than 256 bytes, or contains a `#`.
    pub fn new(scope: &str, store: S) -> Result<Self, BadRequest> {
        if scope.is_empty() || scope.len() > SCOPE_MAX || scope.contains(SEPARATOR) {
            let fault = format!(
                "the scope must have 1 to {SCOPE_MAX} bytes and no {SEPARATOR:?}, got {scope:?}"
            );
            return Err(BadRequest::one(fault));
        }
        Ok(Self {
            scope: scope.to_owned(),
            store,
            retention: RETENTION,
            clock: Arc::new(crate::now),
        })
    }

    /// Sets how long answers are kept after the operation is done; 24 h by default. Use the retry handler's
    /// `MAX_AGE`. Records are kept for 6 h 15 min 10 s longer, because the last attempt of an event may run that
    /// late.
    ///
    /// # Errors
    ///
    /// If the retention is shorter than the longest lease, 15 min 20 s.
    pub fn kept_for(self, retention: Duration) -> Result<Self, BadRequest> {
        if retention < LEASE_MAX {
            let [least, got] = [LEASE_MAX, retention].map(duration::format);
            let fault = format!("answers must be kept for at least {least}, got {got}");
            return Err(BadRequest::one(fault));
        }
        Ok(Self { retention, ..self })
    }

    /// Replaces the system clock, for tests.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}
