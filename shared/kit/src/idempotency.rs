//! Run an operation once for a key, and answer every repetition the same.
//!
//! Whatever is retried must bear to be run twice. A charge of a card doesn't, unless somebody remembers that it
//! was made, and what came of it:
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
//! | the operation is claimed | held, until Lambda has surely ended this invocation | [`Error::InProgress`], as which it comes back then |
//! | it succeeds | done, with its answer | the answer |
//! | it fails or panics | nothing: the record is removed | it runs |
//! | it fails, in doubt, under [`Idempotency::holding`] | held for the time given | [`Error::InProgress`] |
//! | it dies or is never heard of | nothing | once its lease is over, it runs |
//! | another intent comes under its key | nothing | [`Error::Mismatch`] |
//!
//! The first write expects that there is no record, and one that fails brings along what is there. So an operation
//! costs two writes, and a repetition one call. Every later write names the token that it was given: a late owner
//! can neither overwrite nor erase what another has written, and learns of it ([`Error::LostLease`]).
//!
//! # What a caller can rely on
//!
//! - *While a record is kept, an operation that was marked as done is not run again*, and every repetition is
//!   answered the same. What it answers must be written and read back by `serde_json`.
//! - *Another version of the function answers the same too, if it states the same intent.* It doesn't where the
//!   intent is the event as the function has deserialised it, and the new version knows one more of its members:
//!   events that are being retried then become [`Error::Mismatch`], and dead letters. So state the values that
//!   matter, as a tuple, and leave the rest; and let new versions read what older ones answered.
//! - *An operation that returns an error may be run again*, at once and by anybody: its key is free. A refusal
//!   says that nothing was done. A time-out, a connection that broke after the request was sent, or an answer that
//!   was cut off does not: the effect may have been made ([`may_be_done`](crate::transient::may_be_done)). So let
//!   the service that makes it know a repetition by its key (many take an `idempotency-key`), the same in every
//!   run: that of the [`Request`]. Where it takes none, ask it what was done before you return such an error. And
//!   give its client a time-out that ends before the lease does, else an operation that hangs outlives its right
//!   to act.
//! - *An effect that was made but not marked is made again*, when the lease is over: where the process died in
//!   between, or the store could not be asked any more. Nobody can rule that out for an effect outside of the
//!   store, and the same key at its service is what helps. Writes to DynamoDB can be made together with the mark,
//!   or not at all: see `Idempotency::run_in_transaction`.
//! - *If the store goes down while the operation runs*, the answer is returned all the same: an error would have
//!   the retry loop repeat what was done. The mark is tried a few times, then the log has an error.
//! - *A repetition that comes after the record has expired is a first request*: it runs the operation. So a record
//!   is kept for longer than the retry loop can bring its event back (see [`Idempotency::kept_for`]). For callers
//!   that may repeat later than that, keep records longer, or make the effect itself refuse what was done long
//!   ago.
//! - *Expiry is judged here*, not by a store's own cleaning, which may be days late.

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
    claim::{CLOCKS_APART_MAX, LEASE_MAX, LIFE_MAX},
    duration,
};

use self::request::Scope;
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

/// Who holds an operation, and how far it has come: the part of a [`Record`] by which a [`Store`] tells one from
/// another.
///
/// ```
/// use comeback::idempotency::{Claim, State, Token};
///
/// let expires_at = "2026-02-02T18:15:30Z".parse().unwrap();
/// let until = "2026-02-01T12:00:40Z".parse().unwrap();
/// let token = Token { generation: 1, owner: "request/4711".to_owned() };
/// let held = Claim { token, state: State::Held { until }, expires_at };
/// let done = held.done();
/// assert!(done.is(&done) && !done.is(&held));
/// assert!(done.is_expired(expires_at) && !done.is_expired(until));
/// ```
pub use comeback_core::claim::Claim;
/// Parts of a [`Claim`], whose example shows them.
pub use comeback_core::claim::{State, Token};
/// What a [`Store`] that can't be asked says.
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

/// How long after its first failure an event comes back by default: the handler's `MAX_AGE`.
const KEPT: Duration = Duration::from_hours(24);

/// How long an event may wait in Lambda's own queue: `MaximumEventAgeInSeconds` is 21,600 at most.
const QUEUED_MAX: Duration = Duration::from_hours(6);

/// How much longer than asked for a record is kept. `MAX_AGE` counts from the first failure, which may come as
/// long after the completion as a function lives; the last attempt may be made as late as `MAX_AGE` allows, and
/// then wait in Lambda's queue; and the two may read clocks that are apart.
const MARGIN: Duration = LIFE_MAX.saturating_add(QUEUED_MAX).saturating_add(CLOCKS_APART_MAX);

/// Runs operations once for each key, and answers every repetition the same.
///
/// Make one for each operation, and use it for all invocations of an execution environment. See the [module](self)
/// for an example.
#[derive(Clone)]
pub struct Idempotency<S> {
    scope: Scope,
    store: S,
    kept: Duration,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, store, kept, clock: _ } = self;
        f.debug_struct("Idempotency")
            .field("scope", scope)
            .field("store", store)
            .field("kept", kept)
            .finish_non_exhaustive()
    }
}

impl<S> Idempotency<S> {
    /// For the operation of this name, whose keys are apart from those of other names.
    ///
    /// The name is all that keeps them apart. Two functions that share a table and a name share their records: one
    /// is answered what the other has done. That is right for one operation with two ways to it; any other name
    /// begins with its function's.
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
    /// If the name is empty, has more than 256 bytes, or has a `#`.
    pub fn new(scope: &str, store: S) -> Result<Self, BadRequest> {
        Ok(Self { scope: Scope::new(scope)?, store, kept: KEPT, clock: Arc::new(clock::now) })
    }

    /// Keeps answers for so long after the operation was done; 24 h where nothing else is said. Give it the
    /// handler's `MAX_AGE`: 6 h 15 min and 10 s are added, for which an event's last attempt may be late.
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
    /// If it is shorter than an operation may hold its key.
    pub fn kept_for(self, kept: Duration) -> Result<Self, BadRequest> {
        if kept < LEASE_MAX {
            let [least, kept] = [LEASE_MAX, kept].map(duration::format);
            let fault = format!("answers must be kept for at least {least}, got {kept}");
            return Err(BadRequest::one(fault));
        }
        Ok(Self { kept, ..self })
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
