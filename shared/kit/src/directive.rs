//! Errors that tell the retry loop to give an event up, or to wait.

use std::{error::Error, fmt, time::Duration};

/// Any error; the same type as `lambda_runtime::Error`.
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
pub struct PermanentFailure(#[source] Marked);

impl PermanentFailure {
    /// Marks an error as permanent.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self(Marked { directive: Directive::Never, cause: cause.into() })
    }
}

/// An error that should be retried after some time. The event comes back after that time, or after its next
/// backoff if that is longer.
///
/// ```
/// use std::time::Duration;
/// use comeback::{Failure, RetryAfter};
///
/// let failure = Failure::from(RetryAfter::new(Duration::from_secs(120), "the upstream says 429"));
/// assert_eq!(failure.to_string(), "RetryAfter: 120s: the upstream says 429");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}{}", .0.directive, .0)]
pub struct RetryAfter(#[source] Marked);

impl RetryAfter {
    /// Marks an error to be retried after this time, rounded up to a whole second.
    pub fn new(wait: Duration, cause: impl Into<BoxError>) -> Self {
        Self(Marked { directive: Directive::after(wait), cause: cause.into() })
    }
}

/// An error's instruction to the retry loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Directive {
    /// Never retry.
    Never,
    /// Wait at least this long; whole seconds.
    After(Duration),
}

impl Directive {
    /// Rounds the wait up to a whole second.
    pub(crate) fn after(wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        Self::After(Duration::from_secs(seconds))
    }

    /// The directive of this error, not of its sources.
    pub(crate) fn of(link: &(dyn Error + 'static)) -> Option<Self> {
        let directive = link.downcast_ref::<Marked>().map(|marked| marked.directive);
        directive.or_else(|| link.is::<AlwaysPermanent>().then_some(Self::Never))
    }
}

/// The prefix of the error message.
impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => Ok(()),
            Self::After(wait) => write!(f, "{}s: ", wait.as_secs()),
        }
    }
}

/// An extra link in the chain of sources. Error reports such as `anyhow`'s may hide the type of the error in them,
/// but not the types of its sources.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
struct Marked {
    directive: Directive,
    #[source]
    cause: BoxError,
}

/// The source of errors that are always permanent, such as bad values in an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a retry cannot fix it")]
pub(crate) struct AlwaysPermanent;
