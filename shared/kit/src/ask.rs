//! What an error asks of the retry loop: never to retry, or to wait.

use std::{error::Error, fmt, time::Duration};

/// Any error, as `lambda_runtime` has it.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// An error that no retry can fix. The event is given up at once, with the reason `not_retryable`.
///
/// ```
/// use comeback::{Failure, PermanentFailure};
///
/// let failure = Failure::from(PermanentFailure::new("order 7 has no lines"));
/// assert_eq!(failure.to_string(), "PermanentFailure: order 7 has no lines");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PermanentFailure(#[source] Asking);

impl PermanentFailure {
    /// Marks an error as permanent.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self(Asking { ask: Ask::Never, cause: cause.into() })
    }
}

/// An error that passes after some time. The event comes back then, or after its next backoff if that is later.
///
/// ```
/// use std::time::Duration;
/// use comeback::{Failure, RetryAfter};
///
/// let failure = Failure::from(RetryAfter::new(Duration::from_secs(120), "the upstream says 429"));
/// assert_eq!(failure.to_string(), "RetryAfter: 120s: the upstream says 429");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}{}", .0.ask, .0)]
pub struct RetryAfter(#[source] Asking);

impl RetryAfter {
    /// Asks for a retry after this time, rounded up to a whole second.
    pub fn new(wait: Duration, cause: impl Into<BoxError>) -> Self {
        Self(Asking { ask: Ask::after(wait), cause: cause.into() })
    }
}

/// What an error asks of its caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ask {
    /// Never to retry.
    Never,
    /// To wait for this many whole seconds.
    After(Duration),
}

impl Ask {
    /// To wait for this time, rounded up to a whole second.
    pub(crate) fn after(wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        Self::After(Duration::from_secs(seconds))
    }

    /// What this error itself asks for.
    pub(crate) fn by(link: &(dyn Error + 'static)) -> Option<Self> {
        let asked = link.downcast_ref::<Asking>().map(|asking| asking.ask);
        asked.or_else(|| link.is::<NeverHeals>().then_some(Self::Never))
    }
}

/// The prefix of a message.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => Ok(()),
            Self::After(wait) => write!(f, "{}s: ", wait.as_secs()),
        }
    }
}

/// An extra link in the chain of sources. Error reports such as `anyhow`'s may hide the type of the error that
/// they were made from, but not the types of its sources.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
struct Asking {
    ask: Ask,
    #[source]
    cause: BoxError,
}

/// The source of errors that are always permanent, such as bad values in an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a retry cannot fix it")]
pub(crate) struct NeverHeals;
