//! The error type of [`Idempotency::run`](super::Idempotency::run).

use std::{convert::Infallible, fmt, time::Duration};

use comeback_core::{Timestamp, claim::Token, fault::StoreFault, time::rfc3339};

use super::fingerprint::Fingerprint;
use crate::{Failure, PermanentFailure, RetryAfter, retry::Stopped};

/// The operation's own error, or the reason why it was not run or its answer is missing.
///
/// A handler can return it with `?`. After an error that no retry can fix, a [`PermanentFailure`], the event is
/// given up. If another execution is running the operation, the error is a [`RetryAfter`], and the event comes
/// back when that lease ends. All others are retried like any error. The operation's own error keeps its type and
/// its verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The operation failed. Its key is free again.
    #[error("{0}")]
    Operation(#[source] E),
    /// The operation failed but may have been done, so its key is held; see
    /// [`Idempotency::holding`](super::Idempotency::holding).
    #[error("{error}")]
    InDoubt {
        /// The operation's error.
        error: E,
        /// Tells the retry loop to retry the event when the key is free.
        #[source]
        come_back: RetryAfter,
    },
    /// The key belongs to a request with another intent.
    #[error("the key belongs to another request")]
    Mismatch(#[source] PermanentFailure),
    /// Another execution is running the operation.
    #[error("the operation is in progress until {} at the latest", rfc3339(*until))]
    InProgress {
        /// When that execution's lease ends.
        until: Timestamp,
        /// Tells the retry loop to retry the event then.
        #[source]
        come_back: RetryAfter,
    },
    /// The operation was run, but its lease ended before it was done, and another execution took over. Its effect
    /// may happen twice. The other execution's outcome counts: a repetition gets that execution's answer, is in
    /// progress while it runs, and runs the operation if it failed.
    #[error("the lease was lost{}", holder(there.as_ref()))]
    LostLease {
        /// The token of the other execution, or `None` if it failed and its record was removed.
        there: Option<Token>,
    },
    /// Too little time is left in this invocation. The operation was not run.
    #[error("less than {minimum:?} is left until the deadline at {}: the operation was not started", rfc3339(*deadline))]
    Late {
        /// The deadline of the invocation.
        deadline: Timestamp,
        /// The required time; see [`Request::with_minimum`](super::Request::with_minimum).
        minimum: Duration,
    },
    /// The store failed. The operation was not run.
    #[error("the idempotency store failed")]
    Store(#[source] StoreFault),
    /// The operation was run once, but its answer could not be stored. Every repetition gets this error.
    #[error("the operation was run, but its answer could not be kept")]
    AnswerNotKept(#[source] PermanentFailure),
    /// The operation was run once, but its answer can't be deserialized as the expected type. To fix this, deploy
    /// a version that can read it.
    #[error("the answer no longer reads as {expected}, at line {line} and column {column}")]
    UnreadableAnswer {
        /// The name of the expected type.
        expected: &'static str,
        /// The line of the error in the answer's JSON, which is not quoted because it may be confidential.
        line: usize,
        /// The column in this line.
        column: usize,
    },
    /// DynamoDB cancelled the transaction. No write was made, and the key is free again.
    #[cfg(feature = "dynamodb")]
    #[error("the transaction was cancelled: {0}")]
    Cancelled(super::Cancelled),
    /// The operation has more writes than fit into a transaction. None was made, and the key is free again.
    #[cfg(feature = "dynamodb")]
    #[error("the transaction is too large")]
    TooManyWrites(#[source] PermanentFailure),
    /// The answer of a transaction can't be stored. No write was made, and the key is free again.
    #[cfg(feature = "dynamodb")]
    #[error("nothing was written, as the answer can't be kept")]
    BadAnswer(#[source] PermanentFailure),
}

impl<E> Error<E> {
    pub(super) fn mismatch(first: Fingerprint, requested: Fingerprint) -> Self {
        let what = format!("expected the intent with the fingerprint {first}, got {requested}");
        Self::Mismatch(PermanentFailure::new(what))
    }

    pub(super) fn answer_not_kept(why: String) -> Self {
        Self::AnswerNotKept(PermanentFailure::new(why))
    }

    /// Returns the operation's own error, or any other error as `Err`.
    ///
    /// # Errors
    ///
    /// If this is not the operation's own error.
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
    /// Converts this into a handler's error. A stopped call is converted with [`Stopped::into_failure`], so the
    /// event is given up at once if its error is permanent.
    pub fn into_failure(self) -> Failure {
        let Self::Operation(stopped) = self else { return self.into() };
        stopped.into_failure()
    }
}

/// For operations whose error type is already a [`Failure`].
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
