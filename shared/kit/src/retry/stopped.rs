//! The error of a call after its last attempt.

use std::{error::Error, fmt, time::Duration};

use super::deadline::to_millis;
use crate::{Failure, PermanentFailure, RetryAfter, failure::directive};

/// The error type of an operation: an [`Error`], or a type that contains one without implementing the trait, such
/// as `lambda_runtime::Error` and `anyhow::Error`.
///
/// `Form` distinguishes the two cases. The compiler always infers it.
pub trait Cause<Form> {
    /// Returns the error.
    fn as_error(&self) -> &(dyn Error + 'static);
}

/// The form of a [`Cause`] that is itself an [`Error`].
#[derive(Debug)]
pub enum Itself {}

/// The form of a [`Cause`] that contains an [`Error`], accessible with `AsRef`.
#[derive(Debug)]
pub enum Referring {}

impl<E: Error + 'static> Cause<Itself> for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl<E: AsRef<dyn Error + Send + Sync>> Cause<Referring> for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self.as_ref()
    }
}

/// The error of a call: the last attempt's error, and the reason why there was no further attempt.
///
/// It implements `Error` for every cause, so `?` works everywhere. If the last error is transient and has a
/// server's retry hint, the retry loop honours the hint when a function returns this error.
///
/// ```
/// # async fn example() {
/// use std::io;
/// use comeback::retry::{Policy, StopReason, Retry};
///
/// let retry = Retry::new(Policy::default());
/// let missing = || async { Err::<(), _>(io::Error::other("no such rate")) };
/// let stopped = retry.operation("rates").run(missing).await.unwrap_err();
/// assert_eq!(stopped.reason(), StopReason::Unknown);
/// assert_eq!((stopped.operation(), stopped.attempts()), ("rates", 1));
/// assert_eq!(stopped.cause().to_string(), "no such rate");
/// assert_eq!(
///     stopped.to_string(),
///     "rates gave up after 1 attempt: its error is not known to be transient: no such rate"
/// );
/// assert_eq!(stopped.into_cause().kind(), io::ErrorKind::Other);
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example());
/// ```
#[derive(Debug)]
pub struct Stopped<E> {
    operation: &'static str,
    attempts: u32,
    reason: StopReason,
    cause: E,
    /// Converts the cause to an error.
    as_error: fn(&E) -> &(dyn Error + 'static),
    /// The server's hint, unless the retry loop already receives it from the cause.
    hint: Option<RetryAfter>,
}

impl<E> Stopped<E> {
    /// The error of a call whose last attempt failed with this cause. `hint` is the server's retry hint, or zero.
    pub(super) fn after<Form>(
        operation: &'static str,
        attempts: u32,
        reason: StopReason,
        cause: E,
        hint: Duration,
    ) -> Self
    where
        E: Cause<Form>,
    {
        let error = cause.as_error();
        let is_lost = !hint.is_zero() && directive(error).is_none();
        let hint = is_lost.then(|| RetryAfter::new(hint, Words::of(error)));
        Self { operation, attempts, reason, cause, as_error: E::as_error, hint }
    }

    /// The name of the operation.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The number of attempts that were made.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The reason why there was no further attempt.
    pub fn reason(&self) -> StopReason {
        self.reason
    }

    /// The error of the last attempt.
    pub fn cause(&self) -> &E {
        &self.cause
    }

    /// Returns the error of the last attempt.
    pub fn into_cause(self) -> E {
        self.cause
    }
}

impl<E: fmt::Debug + Send + Sync + 'static> Stopped<E> {
    /// Converts this into a handler's error. If the rule judged the cause permanent, it becomes a
    /// [`PermanentFailure`], and the event is given up at once. Otherwise its error type is that of the cause, and
    /// the event comes back. With `?` instead, every event comes back until it is too old. Use `?` if somebody may
    /// fix the problem in the meantime.
    pub fn into_failure(self) -> Failure {
        if self.reason == StopReason::Permanent {
            return PermanentFailure::new(self).into();
        }
        self.into()
    }
}

impl<E> fmt::Display for Stopped<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, attempts, reason, .. } = self;
        let plural = if *attempts == 1 { "" } else { "s" };
        let cause = (self.as_error)(&self.cause);
        write!(f, "{operation} gave up after {attempts} attempt{plural}: {reason}: {cause}")
    }
}

impl<E: fmt::Debug> Error for Stopped<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.hint {
            Some(hint) => Some(hint),
            None => Some((self.as_error)(&self.cause)),
        }
    }
}

/// A copy of the messages of an error and its sources, for code that only borrows the error.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Words {
    words: String,
    source: Option<Box<Words>>,
}

impl Words {
    pub(crate) fn of(error: &dyn Error) -> Self {
        let source = error.source().map(|source| Box::new(Self::of(source)));
        Self { words: error.to_string(), source }
    }
}

/// The reason why a call made no further attempt.
///
/// With [`Stopped::into_failure`], a permanent error is also permanent for the retry loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// The rule judged the error permanent.
    #[error("its error is permanent")]
    Permanent,
    /// The rule had no opinion on the error.
    #[error("its error is not known to be transient")]
    Unknown,
    /// All attempts of the policy have been made.
    #[error("the policy allows no more")]
    Attempts,
    /// The server's retry hint is longer than the policy's maximum delay.
    #[error("the server asks for {:?}, and no delay may exceed {max:?}", to_millis(*hint))]
    Hint {
        /// The server's hint.
        hint: Duration,
        /// The longest delay of the policy.
        max: Duration,
    },
    /// After the delay, less than the deadline's minimum would be left.
    #[error(
        "after a delay of {:?}, less than {minimum:?} would remain of the {:?} that are left",
        to_millis(*delay),
        to_millis(*left)
    )]
    Time {
        /// The delay before the next attempt.
        delay: Duration,
        /// The time until the deadline.
        left: Duration,
        /// The deadline's minimum, which must be left after the delay.
        minimum: Duration,
    },
    /// The client's retry quota is used up.
    #[error("the retry quota is used up")]
    Quota,
}

impl StopReason {
    /// The name of the reason in tracing events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Unknown => "unknown",
            Self::Attempts => "attempts",
            Self::Hint { .. } => "hint",
            Self::Time { .. } => "time",
            Self::Quota => "quota",
        }
    }
}
