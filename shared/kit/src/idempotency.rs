//! Runs an operation once for a key, and gives every repetition the same answer.
//!
//! A retried operation may run twice. For the charge of a card, something must remember that it was made, and what
//! the answer was:
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
//!     assert_eq!(receipt, "ch_1", "and the card was charged once");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a record
//!
//! | step | what is written | what a repetition gets meanwhile |
//! |---|---|---|
//! | the operation is claimed | held, until Lambda has certainly ended this invocation | [`Error::InProgress`], which brings the event back at that time |
//! | it succeeds | done, with its answer | the answer |
//! | it fails or panics | nothing: the record is removed | it runs |
//! | it fails and may have been done, under [`Idempotency::holding`] | held for the given time | [`Error::InProgress`] |
//! | its process dies | nothing | it runs when the lease is over |
//! | another intent comes under its key | nothing | [`Error::Mismatch`] |
//!
//! The first write expects that there is no record, and returns the existing one if it fails. So an operation
//! costs two writes, and a repetition one call. Every later write names its fencing token: a late owner can
//! neither overwrite nor erase what another one has written, and gets [`Error::LostLease`].
//!
//! # What a caller can rely on
//!
//! - *An operation that was marked as done does not run again while its record is kept.* Every repetition gets the
//!   same answer, which `serde_json` must be able to write and to read.
//! - *Another version of the function gives the same answer for the same intent.* If the intent is the whole
//!   deserialised event and the new version has one more member, the intent changes: events that are being retried
//!   end as [`Error::Mismatch`], in the dead-letter queue. So use a tuple of the values that matter as the intent.
//!   New versions must be able to read the answers of older ones.
//! - *An operation that returns an error may run again*, at once, because its key is free. That is right after a
//!   refusal. After a timeout, a connection that broke after the request was sent, or a truncated response, the
//!   effect may have happened ([`may_be_done`](crate::transient::may_be_done)). So pass the key of the [`Request`]
//!   to the service, if it takes an `idempotency-key`. If it takes none, ask it what was done before you return
//!   such an error. Give its client a timeout that ends before the lease does. Otherwise an operation that hangs
//!   may act after its lease is over.
//! - *An effect that was not marked as done is repeated* when the lease is over, for example if the process died
//!   in between or the store failed. Nothing can prevent that for an effect outside of the store, and the same key
//!   at its service helps. Writes to DynamoDB can be made in one transaction with the mark: see
//!   `Idempotency::run_in_transaction`.
//! - *If the store fails while the operation runs, the answer is returned all the same*, because after an error
//!   the retry loop would repeat the operation. The mark is tried a few times, then an error is logged.
//! - *A repetition after the record has expired is a first request* and runs the operation. So a record is kept
//!   for longer than the retry loop can bring its event back (see [`Idempotency::kept_for`]). If your callers may
//!   repeat later than that, keep records longer, or make the effect itself refuse old requests.
//! - *Expiry is judged here*, not by the store's own deletion, which may be days late.

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

/// The holder and the state of an operation. A [`Store`] compares this part of a [`Record`].
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
/// Parts of a [`Claim`], whose example shows them.
pub use comeback_core::claim::{State, Token};
/// The fault of a [`Store`].
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

/// The time that is added to the retention. `MAX_AGE` counts from the first failure, which may come a function's
/// life after the completion. The last attempt may come as late as `MAX_AGE` allows, and then wait in Lambda's
/// queue. The clocks may differ, too.
const MARGIN: Duration = LIFE_MAX.saturating_add(QUEUED_MAX).saturating_add(CLOCK_SKEW_MAX);

/// Runs an operation once for each key, and gives every repetition the same answer.
///
/// Make one for each operation, and use it for all invocations of an execution environment. See the [module](self)
/// for an example.
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
    /// For the operation with this name. Each name has its own keys.
    ///
    /// Only the name separates keys. Two functions that share a table and a name share their records, and one gets
    /// the answers of the other. That is right if both perform the same operation. Otherwise start the name with
    /// the function's name.
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
    /// assert_eq!(charge.await?, "ch_1", "it shares the records");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is empty, has more than 256 bytes, or contains a `#`.
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

    /// Sets how long answers are kept after the operation was done; 24 h by default. Use the handler's `MAX_AGE`.
    /// 6 h 15 min 10 s are added, because the last attempt of an event may come that late.
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
    /// If it is shorter than the longest lease.
    pub fn kept_for(self, retention: Duration) -> Result<Self, BadRequest> {
        if retention < LEASE_MAX {
            let [least, got] = [LEASE_MAX, retention].map(duration::format);
            let fault = format!("answers must be kept for at least {least}, got {got}");
            return Err(BadRequest::one(fault));
        }
        Ok(Self { retention, ..self })
    }

    /// Reads the time from this clock, for tests.
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
