//! Classifies errors as transient or permanent.
//!
//! A [`Rule`] judges an error with one of three verdicts: retry, never retry, or no opinion. [`Standard`] knows
//! connection errors, timeouts, HTTP statuses and format errors. You can put a specific rule of your own over a
//! general one. The general rule then applies only if yours has no opinion.
//!
//! ```
//! use comeback::transient::{Kind, Rule, Standard, Verdict};
//!
//! #[derive(Debug, thiserror::Error)]
//! enum RatesError {
//!     #[error("the rates are being computed")]
//!     NotReady,
//!     #[error("the connection failed")]
//!     Connection(#[from] std::io::Error),
//! }
//!
//! let rule = Standard.under(|error: &RatesError| match error {
//!     RatesError::NotReady => Verdict::retry(Kind::Unavailable),
//!     RatesError::Connection(_) => Verdict::NoOpinion,
//! });
//! let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
//! assert_eq!(rule.judge(&RatesError::NotReady), Verdict::retry(Kind::Unavailable));
//! assert_eq!(rule.judge(&RatesError::Connection(reset)), Verdict::retry(Kind::InDoubt));
//! ```
//!
//! An error on which no rule has an opinion is not retried.

#[cfg(feature = "aws")]
mod aws;
mod connection;
mod http_status;
mod standard;

use std::time::Duration;

use comeback_core::{Timestamp, time::between};

#[cfg(feature = "aws")]
pub use aws::Aws;
pub use http_status::HttpStatus;
#[cfg(any(feature = "reqwest", feature = "reqwest-0-12"))]
pub use http_status::Response;
pub use standard::{Boxed, Standard, judge, may_be_done};

/// The verdict of a rule on an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The error is transient: another attempt may succeed.
    Retry(Transient),
    /// The error is permanent: no attempt can succeed.
    Never,
    /// A more general rule decides.
    NoOpinion,
}

/// The opinion of a rule on one link in an error's chain of causes.
enum Opinion {
    /// This verdict, regardless of the cause.
    Certain(Verdict),
    /// This verdict, unless the rules know the cause.
    UnlessCauseKnown(Verdict),
    /// The verdict that this function derives from the verdict on the cause.
    #[cfg(feature = "hyper")]
    FromCause(fn(Verdict) -> Verdict),
}

impl Verdict {
    /// The verdict to retry after a fault of this kind, without a retry hint.
    pub const fn retry(kind: Kind) -> Self {
        Self::Retry(Transient::new(kind))
    }

    /// Returns this verdict, or that of a more general rule if this is [`NoOpinion`](Self::NoOpinion).
    #[must_use]
    pub fn or_else(self, general: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Retry(_) | Self::Never => self,
            Self::NoOpinion => general(),
        }
    }

    /// The transient fault, if the verdict is to retry.
    pub(crate) fn transient(self) -> Option<Transient> {
        match self {
            Self::Retry(transient) => Some(transient),
            Self::Never | Self::NoOpinion => None,
        }
    }

    /// Adds a server's retry hint, if the verdict is to retry.
    fn with_hint(self, hint: Option<RetryHint>) -> Self {
        match (self, hint) {
            (Self::Retry(transient), Some(hint)) => Self::Retry(transient.with_hint(hint)),
            (verdict, _) => verdict,
        }
    }
}

/// A transient fault: its kind, and the server's retry hint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transient {
    /// The kind of the fault.
    pub kind: Kind,
    /// The server's retry hint, if there is one.
    pub hint: Option<RetryHint>,
}

impl Transient {
    /// A fault of this kind, without a retry hint.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, hint: None }
    }

    /// Adds a server's retry hint, or replaces it.
    #[must_use]
    pub const fn with_hint(self, hint: RetryHint) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// The kind of a transient fault.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// The service throttled the request. The operation was not done.
    Throttled,
    /// The request timed out. The operation may have been done.
    TimedOut,
    /// The connection broke after the request was sent, the response is unreadable, or the service failed. The
    /// operation may have been done.
    InDoubt,
    /// The service was unreachable or unavailable. The operation was not done.
    Unavailable,
}

impl Kind {
    /// Whether an operation may have been done despite a fault of this kind.
    pub const fn may_be_done(self) -> bool {
        match self {
            Self::TimedOut | Self::InDoubt => true,
            Self::Throttled | Self::Unavailable => false,
        }
    }

    /// The name of the kind in tracing events and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::TimedOut => "timed_out",
            Self::InDoubt => "in_doubt",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A server's retry hint, which says when to send the request again.
///
/// A call honours it if the policy's [maximum](crate::retry::Policy::max) and the deadline allow it. Otherwise the
/// call ends at once, because the server would refuse an earlier attempt. The error,
/// [`Stopped`](crate::retry::Stopped), contains the full hint, and the retry loop honours it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryHint {
    /// Retry after this time, counted from the response.
    In(Duration),
    /// Retry at this time.
    At(Timestamp),
}

impl RetryHint {
    /// Parses the value of a `Retry-After` header: whole seconds, or an HTTP date.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse() {
            Ok(seconds) => Some(Self::In(Duration::from_secs(seconds))),
            Err(_) => httpdate::parse_http_date(text).ok().map(|at| Self::At(at.into())),
        }
    }

    /// How long to wait from `now`, or zero if the time has passed.
    pub fn wait(self, now: Timestamp) -> Duration {
        match self {
            Self::In(wait) => wait,
            Self::At(at) => between(now, at),
        }
    }

    /// Reads the hint from response headers: AWS's own header, in milliseconds, or else `Retry-After`.
    fn among<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Self> {
        let millis = header("x-amz-retry-after").and_then(|text| text.trim().parse().ok());
        millis
            .map(|millis| Self::In(Duration::from_millis(millis)))
            .or_else(|| header("retry-after").and_then(Self::parse))
    }
}

/// Decides whether errors of a type are transient. Every `Fn(&E) -> Verdict` is a rule.
pub trait Rule<E: ?Sized> {
    /// Judges an error.
    fn judge(&self, error: &E) -> Verdict;

    /// Puts a specific rule over this general one, which then applies only if the specific rule has no opinion.
    fn under<S: Rule<E>>(self, specific: S) -> Under<Self, S>
    where
        Self: Sized,
    {
        Under { general: self, specific }
    }
}

impl<E: ?Sized, F: Fn(&E) -> Verdict> Rule<E> for F {
    fn judge(&self, error: &E) -> Verdict {
        self(error)
    }
}

/// A general rule under a specific one; see [`Rule::under`].
#[derive(Clone, Copy, Debug)]
pub struct Under<G, S> {
    general: G,
    specific: S,
}

impl<E: ?Sized, G: Rule<E>, S: Rule<E>> Rule<E> for Under<G, S> {
    fn judge(&self, error: &E) -> Verdict {
        self.specific.judge(error).or_else(|| self.general.judge(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_opinion_counts() {
        let throttled = Verdict::retry(Kind::Throttled);
        let always = |verdict: Verdict| move |_: &str| verdict;
        for (general, specific, most_specific, expected) in [
            (Verdict::Never, throttled, Verdict::NoOpinion, throttled),
            (throttled, Verdict::Never, Verdict::NoOpinion, Verdict::Never),
            (throttled, throttled, Verdict::Never, Verdict::Never),
            (throttled, Verdict::NoOpinion, Verdict::NoOpinion, throttled),
            (Verdict::NoOpinion, Verdict::NoOpinion, Verdict::NoOpinion, Verdict::NoOpinion),
        ] {
            let rule = always(general).under(always(specific)).under(always(most_specific));
            assert_eq!(rule.judge("any"), expected);
        }
    }

    #[test]
    fn a_hint_is_whole_seconds_or_a_date() {
        let at = |text: &str| Some(RetryHint::At(text.parse().unwrap()));
        let seconds = |seconds| Some(RetryHint::In(Duration::from_secs(seconds)));
        for (text, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            (" 3 ", seconds(3)),
            ("18446744073709551615", seconds(u64::MAX)),
            ("18446744073709551616", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", at("1999-12-31T23:59:59Z")),
            ("2026-01-01T00:00:00Z", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(RetryHint::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_date_in_the_past_is_not_waited_for() {
        let now: Timestamp = "1999-12-31T23:59:50Z".parse().unwrap();
        let hint = RetryHint::parse("Fri, 31 Dec 1999 23:59:59 GMT").unwrap();
        assert_eq!(hint.wait(now), Duration::from_secs(9));
        assert_eq!(hint.wait("2000-01-01T00:00:00Z".parse().unwrap()), Duration::ZERO);
    }
}
