//! Runs an operation once per key, and returns the same answer to every repetition.
//!
//! A retried operation may run twice. Before you charge a card, you must know whether an earlier attempt already
//! charged it. A record in a store remembers that, and the answer:
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
//! The first write expects no record. If there is one, the write fails and returns it. So an operation costs two
//! writes, and a repetition one call. Every later write is conditional on the owner's fencing token. An owner
//! whose lease has ended can therefore neither overwrite nor erase the record of the next owner, and gets
//! [`Error::LostLease`].
//!
//! # What a caller can rely on
//!
//! - *An operation that is marked as done does not run again while its record is kept.* Every repetition gets the
//!   same answer. `serde_json` must be able to serialize and deserialize it.
//! - *Records outlive a deployment.* A new version of the function returns the same answer for the same intent, so
//!   it must be able to deserialize the answers of older versions. Don't use the whole event as the intent. If the
//!   new version adds a field, the intent of events that are being retried changes, and they end in the
//!   dead-letter queue with [`Error::Mismatch`]. Use a tuple of the values that matter.
//! - *An operation that returns an error may run again*, at once, because its key is free. That is correct if the
//!   service refused the request. But after a timeout, a connection that broke after the request was sent, or a
//!   truncated response, the effect may have happened ([`may_be_done`](crate::transient::may_be_done)). So pass
//!   the [`Request`]'s key to the service, if it accepts an `idempotency-key`. If it doesn't, query the service
//!   for the outcome before you return such an error. Set a client timeout that ends before the lease. Otherwise,
//!   an operation that hangs may take effect after its lease has ended.
//! - *An effect that was not marked as done is repeated* when the lease ends, for example if the process died in
//!   between or the store failed. Nothing can prevent that for an effect outside of the store, unless its service
//!   recognises the key. Writes to DynamoDB can be part of the transaction that marks the operation as done: see
//!   `Idempotency::run_in_transaction`.
//! - *If the operation can't be marked as done, its answer is returned all the same*, because an error would make
//!   the retry loop repeat the operation. The write is tried up to five times, then an error is logged.
//! - *After the record has expired, a repetition runs the operation again.* So a record is kept for longer than
//!   the retry loop retries its event (see [`Idempotency::kept_for`]). If your callers may repeat a request later
//!   than that, keep records longer, or make the operation refuse old requests.
//! - *A record expires on time*, even if the store deletes it later. DynamoDB's time to live may be days late.

mod canonical;
mod decide;
#[cfg(feature = "dynamodb")]
mod dynamo;
mod error;
mod fingerprint;
mod holding;
mod log;
mod once;
mod record;
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
    record::{Answer, Lease, Record},
    request::{BadRequest, Request},
    store::{Memory, ReplaceError, Store},
};
use crate::clock;

/// The owner and the state of an operation. A [`Store`] compares this part of a [`Record`].
///
/// ```
/// use comeback::idempotency::{Claim, State, Token};
///
/// let expires_at = "2026-02-02T18:15:30Z".parse().unwrap();
/// let until = "2026-02-01T12:00:40Z".parse().unwrap();
/// let token = Token { generation: 1, owner: "request/4711".to_owned() };
/// let held = Claim { token, state: State::Held { until }, order: None, expires_at };
/// let done = held.done();
/// assert!(done.is(&done) && !done.is(&held));
/// assert!(done.is_expired(expires_at) && !done.is_expired(until));
/// ```
pub use comeback_core::claim::Claim;
/// The parts of a [`Claim`]; see its example.
pub use comeback_core::claim::{State, Token};
/// The error of a call to a [`Store`], and whether it is transient.
///
/// ```
/// use comeback::{
///     idempotency::StoreFault,
///     transient::{Kind, Verdict, judge},
/// };
///
/// let code = Some("Down".to_owned());
/// let fault = StoreFault { passes: true, code, message: "come back later".to_owned() };
/// assert_eq!(fault.to_string(), "Down: come back later");
/// assert_eq!(judge(&fault), Verdict::retry(Kind::Unavailable));
/// ```
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
    /// ```
    /// use comeback::idempotency::{Idempotency, Memory, Request};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = comeback::testing::context(std::time::Duration::from_secs(60));
    /// let table = Memory::new();
    /// let request = Request::new("order 7", &1999, &context)?;
    /// let charges = Idempotency::new("orders/charge", table.clone())?;
    /// charges.run(&request, |_| async { Ok::<_, std::io::Error>("ch_1".to_owned()) }).await?;
    ///
    /// let refunds = Idempotency::new("orders/refund", table.clone())?;
    /// let refund = refunds.run(&request, |_| async { Ok::<_, std::io::Error>("re_1".to_owned()) });
    /// assert_eq!(refund.await?, "re_1");
    ///
    /// let from_a_queue = Idempotency::new("orders/charge", table)?;
    /// let charge = from_a_queue.run(&request, |_| async { Ok::<_, std::io::Error>("ch_2".to_owned()) });
    /// assert_eq!(charge.await?, "ch_1", "both share the records of one scope");
    /// # Ok(())
    /// # }
    /// ```
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
            clock: Arc::new(clock::now),
        })
    }

    /// Sets how long answers are kept after the operation is done; 24 h by default. Use the retry handler's
    /// `MAX_AGE`. Records are kept for 6 h 15 min 10 s longer, because the last attempt of an event may run that
    /// late.
    ///
    /// ```
    /// use std::time::Duration;
    /// use comeback::idempotency::{Idempotency, Memory};
    ///
    /// let charges = Idempotency::new("charges", Memory::new())?;
    /// let charges = charges.kept_for(Duration::from_secs(7 * 24 * 3600))?;
    ///
    /// let error = charges.kept_for(Duration::from_secs(60)).unwrap_err();
    /// assert_eq!(error.to_string(), "answers must be kept for at least 920s, got 1m");
    /// # Ok::<(), comeback::idempotency::BadRequest>(())
    /// ```
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
    ///
    /// ```
    /// use comeback::idempotency::{Idempotency, Memory};
    ///
    /// let noon = "2026-02-01T12:00:00Z".parse().unwrap();
    /// let charges = Idempotency::new("charges", Memory::new())?.with_clock(move || noon);
    /// # Ok::<(), comeback::idempotency::BadRequest>(())
    /// ```
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}
