//! The error of a call that is not tried again.

use std::{error::Error, fmt, time::Duration};

use super::{Cause, deadline::to_the_ms};
use crate::{Failure, PermanentFailure, RetryAfter, failure::asked};

/// A call has failed and is not tried again: why, and its last cause.
///
/// It is an error whatever the cause is, so that `?` takes it anywhere. Where a server wants to be asked
/// again later than could be waited for here, its source is a [`RetryAfter`] that says so: a function that
/// fails with it is called again then.
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
    /// The cause as the error that it is or leads to.
    as_error: fn(&E) -> &(dyn Error + 'static),
    /// The server's hint, where the cause does not tell it in a way that the retry loop reads.
    hint: Option<RetryAfter>,
}

impl<E> Stopped<E> {
    /// A call whose last attempt has failed with this cause, after which the server wants to be left alone
    /// for so long.
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

    /// Why there is no other.
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
    /// This as a handler fails with it: what the rule says never heals is a [`PermanentFailure`], whose event is
    /// given up at once; everything else is known by its cause and comes back. By `?` it would all come back, until
    /// the event is too old: that is right where somebody may mend it meanwhile.
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
        match self.reason {
            StopReason::Permanent => PermanentFailure::new(self).into(),
            StopReason::Unknown
            | StopReason::Attempts
            | StopReason::Hint { .. }
            | StopReason::Time { .. }
            | StopReason::Quota => self.into(),
        }
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

/// What an error and its sources say, for a place where they themselves can't be.
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

/// Why a call is not tried again.
///
/// What never heals inside the function doesn't heal for the retry loop either: see [`Stopped::into_failure`].
///
/// ```
/// # use comeback::retry::StopReason;
/// assert_eq!(StopReason::Permanent.to_string(), "its error never heals");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// The rule says that the error never heals.
    Permanent,
    /// The rule has no opinion of the error.
    Unknown,
    /// All attempts of the policy are made.
    Attempts,
    /// The server wants to be left alone for longer than the policy waits.
    Hint {
        /// For how long.
        hint: Duration,
        /// What no delay of the policy exceeds.
        max: Duration,
    },
    /// After its delay, less than the deadline's minimum would remain.
    Time {
        /// How long it would have waited.
        delay: Duration,
        /// How much time is left.
        left: Duration,
        /// How much should be when the wait is over.
        minimum: Duration,
    },
    /// The client's calls have used up their retries.
    Quota,
}

impl StopReason {
    /// Its name, as events tell it.
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

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Permanent => f.write_str("its error never heals"),
            Self::Unknown => f.write_str("its error is not known to be transient"),
            Self::Attempts => f.write_str("no more are allowed"),
            Self::Hint { hint, max } => {
                let hint = to_the_ms(hint);
                write!(f, "the server asks for {hint:?}, and no delay may exceed {max:?}")
            }
            Self::Time { delay, left, minimum } => {
                let (delay, left) = (to_the_ms(delay), to_the_ms(left));
                write!(
                    f,
                    "after a delay of {delay:?}, less than {minimum:?} would remain of the {left:?} \
                     that are left"
                )
            }
            Self::Quota => f.write_str("the retry quota is used up"),
        }
    }
}
