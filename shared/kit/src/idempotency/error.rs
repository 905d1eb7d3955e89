//! The error of an operation that is run once.

use std::{any::type_name, convert::Infallible, fmt, time::Duration};

use comeback_core::{
    Timestamp,
    claim::Token,
    fault::StoreFault,
    time::{between, rfc3339},
};

use super::fingerprint::Fingerprint;
use crate::{Failure, PermanentFailure, RetryAfter, retry::Stopped};

/// The operation's own error, or the reason why it may not run or has no answer.
///
/// A handler can return it as it is. A permanent error is a [`PermanentFailure`], and the event is given up. If
/// the operation is running elsewhere it is a [`RetryAfter`], and the event comes back when that run has ended.
/// All others are retried like any error. The operation's own error keeps its error type and its verdict.
///
/// ```
/// # use comeback::idempotency::{Idempotency, Memory, Request};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = comeback::testing::context(std::time::Duration::from_secs(60));
/// use comeback::{Failure, idempotency::Error};
///
/// let charges = Idempotency::new("charges", Memory::new())?;
/// let charge = async |amount: u32| {
///     let request = Request::new("order 7", &amount, &context).unwrap();
///     charges.run(&request, |_| async { Ok::<_, std::io::Error>("paid".to_owned()) }).await
/// };
/// charge(100).await?;
/// let error = charge(101).await.unwrap_err();
/// assert!(matches!(error, Error::Mismatch(_)));
/// assert_eq!(Failure::from(error).error_type(), "PermanentFailure");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The operation failed. Its key is free again.
    #[error("{0}")]
    Operation(#[source] E),
    /// The operation failed, and may have been done all the same: its key is held, as
    /// [`Idempotency::holding`](super::Idempotency::holding) says.
    #[error("{error}")]
    InDoubt {
        /// What it failed with.
        error: E,
        /// Asks the retry loop to come back when the key is free.
        #[source]
        come_back: RetryAfter,
    },
    /// The key belongs to a request that asked for something else.
    #[error("the key belongs to another request")]
    Mismatch(#[source] PermanentFailure),
    /// Another execution is running the operation.
    #[error("the operation is in progress until {} at the latest", rfc3339(*until))]
    InProgress {
        /// When that execution's lease ends.
        until: Timestamp,
        /// Asks the retry loop to come back then.
        #[source]
        come_back: RetryAfter,
    },
    /// The operation was run, but its lease ended before it was done, and another owner has taken over. Its effect
    /// may happen twice. The other owner's outcome counts: a repetition gets its answer, waits while it runs, and
    /// runs if it failed.
    #[error("the lease was lost{}", holder(there.as_ref()))]
    LostLease {
        /// The token of the other owner; `None` if its record is gone because its operation has failed.
        there: Option<Token>,
    },
    /// Too little time is left. The operation was not run.
    #[error("less than {minimum:?} is left until the deadline at {}: the operation was not begun", rfc3339(*deadline))]
    Late {
        /// The deadline of the invocation.
        deadline: Timestamp,
        /// How much time should have been left; see [`Request::with_minimum`](super::Request::with_minimum).
        minimum: Duration,
    },
    /// The store failed. The operation was not run.
    #[error("the store of answers can't be asked")]
    Store(#[source] StoreFault),
    /// The operation was run once, but its answer could not be kept. Every repetition gets this error.
    #[error("the operation was run, but its answer could not be kept")]
    AnswerNotKept(#[source] PermanentFailure),
    /// The operation was run once, but its answer can no longer be read as the expected type. A deployment whose
    /// type can read it fixes this.
    #[error("the answer no longer reads as {expected}, at line {line} and column {column}")]
    UnreadableAnswer {
        /// The type that is expected.
        expected: &'static str,
        /// The line of the error in the answer's JSON. The content is left out, because it may be confidential.
        line: usize,
        /// The column in this line.
        column: usize,
    },
    /// DynamoDB has made no write of the transaction. The key is free again.
    #[cfg(feature = "dynamodb")]
    #[error("the transaction was cancelled: {0}")]
    Cancelled(super::Cancelled),
    /// More writes than a transaction may have. None was made, and the key is free again.
    #[cfg(feature = "dynamodb")]
    #[error("the transaction is too large")]
    TooManyWrites(#[source] PermanentFailure),
    /// A transaction's answer could not be kept. No write was made, and the key is free again.
    #[cfg(feature = "dynamodb")]
    #[error("nothing was written, as the answer can't be kept")]
    BadAnswer(#[source] PermanentFailure),
}

impl<E> Error<E> {
    pub(super) fn mismatch(first: Fingerprint, asked: Fingerprint) -> Self {
        let what = format!("expected the intent with the fingerprint {first}, got {asked}");
        Self::Mismatch(PermanentFailure::new(what))
    }

    pub(super) fn in_progress(until: Timestamp, now: Timestamp) -> Self {
        let come_back = RetryAfter::new(between(now, until), "another execution holds the key");
        Self::InProgress { until, come_back }
    }

    pub(super) fn answer_not_kept(why: String) -> Self {
        Self::AnswerNotKept(PermanentFailure::new(why))
    }

    pub(super) fn unreadable<T>(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        Self::UnreadableAnswer { expected: type_name::<T>(), line, column }
    }

    /// The operation's own error, or all other errors.
    ///
    /// ```
    /// use comeback::idempotency::Error;
    ///
    /// let error = Error::Operation("the card was declined");
    /// assert_eq!(error.into_operation().ok(), Some("the card was declined"));
    /// ```
    ///
    /// # Errors
    ///
    /// If it is not the operation's error.
    pub fn into_operation(self) -> Result<E, Error<Infallible>> {
        Err(match self {
            Self::Operation(error) | Self::InDoubt { error, .. } => return Ok(error),
            Self::Mismatch(never) => Error::Mismatch(never),
            Self::InProgress { until, come_back } => Error::InProgress { until, come_back },
            Self::LostLease { there } => Error::LostLease { there },
            Self::Late { deadline, minimum } => Error::Late { deadline, minimum },
            Self::Store(fault) => Error::Store(fault),
            Self::AnswerNotKept(never) => Error::AnswerNotKept(never),
            Self::UnreadableAnswer { expected, line, column } => {
                Error::UnreadableAnswer { expected, line, column }
            }
            #[cfg(feature = "dynamodb")]
            Self::Cancelled(cancelled) => Error::Cancelled(cancelled),
            #[cfg(feature = "dynamodb")]
            Self::TooManyWrites(never) => Error::TooManyWrites(never),
            #[cfg(feature = "dynamodb")]
            Self::BadAnswer(never) => Error::BadAnswer(never),
        })
    }
}

impl<E: fmt::Debug + Send + Sync + 'static> Error<Stopped<E>> {
    /// Turns this into a handler's error. A stopped call goes through [`Stopped::into_failure`], so the event is
    /// given up at once after a permanent error.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use comeback::{
    ///     idempotency::{Error, Idempotency, Memory, Request},
    ///     retry::{Policy, Retry},
    ///     testing,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (once, retry) = (Idempotency::new("count", Memory::new())?, Retry::new(Policy::default()));
    /// let request = Request::new("order 7", "count", &testing::context(Duration::from_secs(30)))?;
    /// let count = once.run(&request, |_| retry.operation("count").run(async || "twelve".parse::<u32>()));
    /// assert_eq!(count.await.map_err(Error::into_failure).unwrap_err().error_type(), "PermanentFailure");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_failure(self) -> Failure {
        let Self::Operation(stopped) = self else { return self.into() };
        stopped.into_failure()
    }
}

/// An operation may fail with what a handler fails with.
impl From<Error<Failure>> for Failure {
    fn from(error: Error<Failure>) -> Self {
        error.into_operation().unwrap_or_else(Self::from)
    }
}

fn holder(there: Option<&Token>) -> String {
    there.map_or_else(String::new, |token| {
        format!(" to {}, generation {}", token.owner, token.generation)
    })
}
