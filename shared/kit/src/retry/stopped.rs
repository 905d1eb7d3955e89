//! The error of a call that is not retried any more.

use std::{error::Error, fmt, time::Duration};

use super::deadline::to_the_ms;
use crate::{Failure, PermanentFailure, RetryAfter, cause::Cause, failure::asked};

/// A call failed and is not retried any more. It has the reason and the last cause.
///
/// It implements `Error` for every cause, so `?` works everywhere. If a server's retry hint was too long to wait
/// for, its source is a [`RetryAfter`]: a function that fails with it is invoked again at that time.
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
    /// The cause as an error.
    as_error: fn(&E) -> &(dyn Error + 'static),
    /// The server's hint, if the cause itself does not carry it for the retry loop.
    hint: Option<RetryAfter>,
}

impl<E> Stopped<E> {
    /// A call whose last attempt failed with this cause. The server asked to wait for `hint`.
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
        let is_untold = !hint.is_zero() && asked(error).is_none();
        let hint = is_untold.then(|| RetryAfter::new(hint, Words::of(error)));
        Self { operation, attempts, reason, cause, as_error: E::as_error, hint }
    }

    /// The name of the operation.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Why there was no further attempt.
    pub fn reason(&self) -> StopReason {
        self.reason
    }

    /// The error of the last attempt.
    pub fn cause(&self) -> &E {
        &self.cause
    }

    /// The error of the last attempt, by itself.
    pub fn into_cause(self) -> E {
        self.cause
    }
}

impl<E: fmt::Debug + Send + Sync + 'static> Stopped<E> {
    /// Turns this into a handler's error. If the rule calls the cause permanent, it is a [`PermanentFailure`] and
    /// the event is given up at once. Otherwise the error type is that of the cause, and the event comes back.
    /// With `?` instead, the event always comes back until it is too old, which is right if someone may fix the
    /// problem meanwhile.
    ///
    /// ```
    /// # async fn example() {
    /// use comeback::{Failure, retry::{Policy, Retry, Stopped}};
    ///
    /// async fn count(text: &str, retry: &Retry) -> Result<u32, Failure> {
    ///     let call = retry.operation("count").run(async || text.parse::<u32>());
    ///     call.await.map_err(Stopped::into_failure)
    /// }
    ///
    /// let failure = count("twelve", &Retry::new(Policy::default())).await.unwrap_err();
    /// assert_eq!(failure.error_type(), "PermanentFailure");
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example());
    /// ```
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

/// The messages of an error and its sources, for code that cannot own the error.
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

/// Why a call is not retried any more.
///
/// A permanent error is also permanent for the retry loop: see [`Stopped::into_failure`].
///
/// ```
/// # use comeback::retry::StopReason;
/// assert_eq!(StopReason::Permanent.to_string(), "its error is permanent");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// The rule calls the error permanent.
    #[error("its error is permanent")]
    Permanent,
    /// The rule has no opinion on the error.
    #[error("its error is not known to be transient")]
    Unknown,
    /// All attempts of the policy have been made.
    #[error("no more are allowed")]
    Attempts,
    /// The server's retry hint is longer than the policy's maximum delay.
    #[error("the server asks for {:?}, and no delay may exceed {max:?}", to_the_ms(*hint))]
    Hint {
        /// The server's hint.
        hint: Duration,
        /// The longest delay of the policy.
        max: Duration,
    },
    /// After the delay, less than the deadline's minimum would be left.
    #[error(
        "after a delay of {:?}, less than {minimum:?} would remain of the {:?} that are left",
        to_the_ms(*delay),
        to_the_ms(*left)
    )]
    Time {
        /// The delay before the next attempt.
        delay: Duration,
        /// How much time is left.
        left: Duration,
        /// The least time that must be left after the delay.
        minimum: Duration,
    },
    /// The client's retry quota is used up.
    #[error("the retry quota is used up")]
    Quota,
}

impl StopReason {
    /// Its name in tracing events.
    ///
    /// ```
    /// # use comeback::retry::StopReason;
    /// assert_eq!(StopReason::Permanent.as_str(), "permanent");
    /// ```
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
