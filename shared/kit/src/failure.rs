//! What a function fails with, as the retry loop reads it.
//!
//! Lambda keeps two strings of an error, its type and its message, and the retry loop knows two types:
//! `PermanentFailure` is given up at once, and `RetryAfter` comes back when its message says. A
//! [`Failure`] is made of any error by `?`, and finds these two wherever in the chain of sources they
//! stand, so that a function's layers may wrap errors as they like.

use std::{any::type_name, borrow::Cow, error::Error, fmt, time::Duration};

use lambda_runtime::Diagnostic;

use crate::{clock, idempotency::operations_own, text::without_secrets, transient::HttpStatus};

/// Any error, as `lambda_runtime` has it.
type BoxError = Box<dyn Error + Send + Sync>;

/// The error type that is given up at once.
pub(crate) const PERMANENT: &str = "PermanentFailure";

/// The error type of what tells no other: a string, or an error whose type is no longer known.
const UNNAMED: &str = "Error";

/// What a handler returns where it can't do its work: the error's type and its message.
///
/// It is made of any error by `?`. It isn't an error itself, as `anyhow::Error` isn't, and for the
/// same reason.
///
/// ```
/// use comeback::{Failure, PermanentFailure};
///
/// fn quantity(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse::<u32>().map_err(PermanentFailure::new)?)
/// }
///
/// let failure = quantity("many").unwrap_err();
/// assert_eq!(failure.error_type(), "PermanentFailure");
/// assert_eq!(failure.message(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    error_type: String,
    message: String,
}

impl Failure {
    /// A failure of a type of your own, which `NON_RETRYABLE_ERRORS` may name.
    ///
    /// ```
    /// # use comeback::Failure;
    /// let failure = Failure::new("UpstreamUnavailable", "the ledger answered 503");
    /// assert_eq!(failure.to_string(), "UpstreamUnavailable: the ledger answered 503");
    /// ```
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error_type: error_type.into(), message: without_secrets(&message.into()) }
    }

    /// What the retry loop knows it by.
    pub fn error_type(&self) -> &str {
        &self.error_type
    }

    /// What happened: the messages of the error and of its sources. URLs in it have lost their query, user and
    /// password, which may be secret: a message ends in logs and dead letters.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        match Ask::of(error.as_ref()) {
            Some(Ask::Never) => Self::new(PERMANENT, messages(error.as_ref(), "")),
            Some(ask @ Ask::After(_)) => {
                let hint = ask.to_string();
                Self::new("RetryAfter", format!("{hint}{}", messages(error.as_ref(), &hint)))
            }
            None => {
                let known_by = known_by(type_name::<E>(), error.as_ref());
                Self::new(known_by, messages(error.as_ref(), ""))
            }
        }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self { error_type: failure.error_type, error_message: failure.message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)
    }
}

/// An error that no retry will heal: the event is given up at once, with the reason `not_retryable`.
///
/// ```
/// use comeback::{Failure, PermanentFailure};
///
/// let failure = Failure::from(PermanentFailure::new("order 7 has no lines"));
/// assert_eq!(failure.to_string(), "PermanentFailure: order 7 has no lines");
/// ```
#[derive(Debug)]
pub struct PermanentFailure(Asking);

impl PermanentFailure {
    /// Says that this is for good.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self(Asking { ask: Ask::Never, cause: cause.into() })
    }
}

impl fmt::Display for PermanentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for PermanentFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// An error that is over after some time: the event comes back then, or at its next backoff where
/// that is later.
///
/// ```
/// use std::time::Duration;
/// use comeback::{Failure, RetryAfter};
///
/// let failure = Failure::from(RetryAfter::new(Duration::from_secs(120), "the upstream says 429"));
/// assert_eq!(failure.to_string(), "RetryAfter: 120s: the upstream says 429");
/// ```
#[derive(Debug)]
pub struct RetryAfter(Asking);

impl RetryAfter {
    /// Asks to come back after this time, rounded up to a whole second.
    pub fn new(wait: Duration, cause: impl Into<BoxError>) -> Self {
        Self(Asking { ask: Ask::after(wait), cause: cause.into() })
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.ask, self.0)
    }
}

impl Error for RetryAfter {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// What an error asks of those who would retry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ask {
    /// Not to.
    Never,
    /// To wait for so many whole seconds.
    After(Duration),
}

impl Ask {
    /// To wait for this time, rounded up.
    fn after(wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        Self::After(Duration::from_secs(seconds))
    }

    /// What this error asks for, or the nearest of its sources that asks, be it by a server's response.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        chain(error).find_map(|link| Self::by(link).or_else(|| Self::by_server(link)))
    }

    fn by_server(link: &(dyn Error + 'static)) -> Option<Self> {
        let response = link.downcast_ref::<HttpStatus>()?;
        let wait = response.transient()?.hint?.wait(clock::now());
        (!wait.is_zero()).then(|| Self::after(wait))
    }

    /// What this error itself asks for.
    pub(crate) fn by(link: &(dyn Error + 'static)) -> Option<Self> {
        let asked = link.downcast_ref::<Asking>().map(|asking| asking.ask);
        asked.or_else(|| link.is::<NeverHeals>().then_some(Self::Never))
    }
}

/// The words that begin a message of this kind.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => Ok(()),
            Self::After(wait) => write!(f, "{}s: ", wait.as_secs()),
        }
    }
}

/// A link of its own in the chain of sources. Reports such as `anyhow`'s may hide the type of the
/// error that they were made of, but not the types of its sources.
#[derive(Debug)]
struct Asking {
    ask: Ask,
    cause: BoxError,
}

impl fmt::Display for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for Asking {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// The source of errors that are for good by their nature, such as those of an event's own values.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no retry heals it")]
pub(crate) struct NeverHeals;

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&link| link.source())
}

/// The messages of an error and its sources, without those that an earlier one contains, and without
/// the `hint` that is told before them.
fn messages(error: &(dyn Error + 'static), hint: &str) -> String {
    let mut all = String::new();
    for link in chain(error) {
        let message = link.to_string();
        let message = message.strip_prefix(hint).unwrap_or(&message);
        if all.is_empty() {
            all.push_str(message);
        } else if !all.contains(message) {
            all.push_str(": ");
            all.push_str(message);
        }
    }
    all
}

/// What an error of this type is known by: its name without parameters, and one of this crate by the path that it is
/// used by. A box, a [`Stopped`], and what an operation that is run once has failed with stand for what is in
/// them.
///
/// [`Stopped`]: crate::retry::Stopped
fn known_by(type_name: &'static str, error: &(dyn Error + 'static)) -> Cow<'static, str> {
    let (name, inner) = parameter(type_name).unwrap_or((type_name, ""));
    let stands_for = match name {
        // A box is no link of its own in the chain of sources.
        "alloc::boxed::Box" => Some(error),
        _ if name.starts_with("comeback::retry::") => error.source(),
        _ if name.starts_with("comeback::idempotency::") => operations_own(error),
        _ => None,
    };
    if let Some(error) = stands_for {
        return known_by(inner, error);
    }
    let is_text = ["&str", "alloc::string::String", "alloc::borrow::Cow"].contains(&name);
    if is_text || name.starts_with("dyn ") {
        return UNNAMED.into();
    }
    match name.split("::").collect::<Vec<_>>()[..] {
        ["comeback", module @ ("idempotency" | "retry" | "transient"), .., own] => {
            format!("comeback::{module}::{own}").into()
        }
        _ => name.into(),
    }
}

/// `Wrapper<Inner>` → `Wrapper` and `Inner`.
fn parameter(type_name: &str) -> Option<(&str, &str)> {
    type_name.strip_suffix('>')?.split_once('<')
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, io, num::ParseIntError, sync::mpsc::SendError};

    use comeback_core::error_type::{ErrorReport, NonRetryable};

    use super::*;

    /// As the retry handler reads it from Lambda's record.
    fn report(failure: Failure) -> ErrorReport {
        let record = serde_json::to_value(Diagnostic::from(failure)).unwrap();
        let member = |name: &str| record[name].as_str().map(str::to_owned);
        ErrorReport { error_type: member("errorType"), message: member("errorMessage") }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("charging order 7 failed")]
    struct Charging(#[source] BoxError);

    /// An error whose message repeats that of its source, as many do.
    #[derive(Debug, thiserror::Error)]
    #[error("the gateway says {0}")]
    struct Repeating(#[source] BoxError);

    /// A report that hides what it was made of, as `eyre`'s does, and `anyhow`'s with a backtrace.
    #[derive(Debug)]
    struct Opaque(BoxError);

    impl fmt::Display for Opaque {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    impl Error for Opaque {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.0.source()
        }
    }

    fn not_a_number() -> ParseIntError {
        "x".parse::<u8>().unwrap_err()
    }

    #[test]
    fn any_error_becomes_a_failure_of_its_type_with_the_messages_of_its_chain() {
        let invalid = "invalid digit found in string";
        let table: Vec<(Failure, &str, &str)> = vec![
            ("no luck".into(), "Error", "no luck"),
            ("".into(), "Error", ""),
            (String::from("no luck").into(), "Error", "no luck"),
            (Cow::from("no luck").into(), "Error", "no luck"),
            (BoxError::from("no luck").into(), "Error", "no luck"),
            (lambda_runtime::Error::from(not_a_number()).into(), "Error", invalid),
            (anyhow::anyhow!("no luck").into(), "anyhow::Error", "no luck"),
            (not_a_number().into(), "core::num::error::ParseIntError", invalid),
            (Box::new(not_a_number()).into(), "core::num::error::ParseIntError", invalid),
            (io::Error::other("disk").into(), "std::io::error::Error", "disk"),
            (SendError(7).into(), "std::sync::mpsc::SendError", "sending on a closed channel"),
            (
                Charging(not_a_number().into()).into(),
                "comeback::failure::tests::Charging",
                "charging order 7 failed: invalid digit found in string",
            ),
            (
                Charging(Repeating("429".into()).into()).into(),
                "comeback::failure::tests::Charging",
                "charging order 7 failed: the gateway says 429",
            ),
            (Failure::new("UpstreamUnavailable", "503"), "UpstreamUnavailable", "503"),
        ];
        for (failure, error_type, message) in table {
            assert_eq!((failure.error_type(), failure.message()), (error_type, message));
        }
    }

    #[test]
    fn what_stands_for_another_error_is_known_by_that_ones_name() {
        let two_links = Charging(not_a_number().into());
        for (type_name, expected) in [
            ("app::Upstream", "app::Upstream"),
            ("app::Wrapper<app::Upstream>", "app::Wrapper"),
            ("app::Wrapper<app::Upstream, alloc::vec::Vec<u8>>", "app::Wrapper"),
            ("comeback::retry::stopped::Stopped<app::Upstream>", "app::Upstream"),
            ("comeback::retry::stopped::Stopped<app::Wrapper<u8>>", "app::Wrapper"),
            (
                "comeback::retry::stopped::Stopped<alloc::boxed::Box<app::Upstream>>",
                "app::Upstream",
            ),
            (
                "comeback::retry::stopped::Stopped<alloc::boxed::Box<dyn core::error::Error>>",
                "Error",
            ),
            ("comeback::retry::stopped::Stopped<&str>", "Error"),
        ] {
            assert_eq!(known_by(type_name, &two_links), expected, "{type_name}");
        }
    }

    #[test]
    fn a_permanent_failure_is_given_up_wherever_in_the_chain_it_stands() {
        let declined = || PermanentFailure::new("card declined");
        let busy = RetryAfter::new(Duration::from_secs(9), "busy");
        let failures: Vec<(Failure, &str)> = vec![
            (declined().into(), "card declined"),
            (lambda_runtime::Error::from(declined()).into(), "card declined"),
            (anyhow::Error::from(declined()).into(), "card declined"),
            (anyhow::Error::from(declined()).context("order 7").into(), "order 7: card declined"),
            (Opaque(declined().into()).into(), "card declined"),
            (Charging(declined().into()).into(), "charging order 7 failed: card declined"),
            (
                Charging(Opaque(declined().into()).into()).into(),
                "charging order 7 failed: card declined",
            ),
            (Repeating(declined().into()).into(), "the gateway says card declined"),
            (io::Error::other(declined()).into(), "card declined"),
            (PermanentFailure::new(not_a_number()).into(), "invalid digit found in string"),
            (PermanentFailure::new(busy).into(), "9s: busy"),
        ];
        for (failure, message) in failures {
            let report = report(failure);
            assert!(NonRetryable::default().covers(&report), "{report:?}");
            assert_eq!(report.retry_after(), None);
            assert_eq!(report.message.as_deref(), Some(message));
        }
    }

    #[test]
    fn a_hint_to_wait_is_heard_wherever_in_the_chain_it_stands() {
        let busy = || RetryAfter::new(Duration::from_secs(120), "the upstream says 429");
        let failures: Vec<(Failure, &str)> = vec![
            (busy().into(), "120s: the upstream says 429"),
            (lambda_runtime::Error::from(busy()).into(), "120s: the upstream says 429"),
            (anyhow::Error::from(busy()).into(), "120s: the upstream says 429"),
            (Opaque(busy().into()).into(), "120s: the upstream says 429"),
            (
                Charging(busy().into()).into(),
                "120s: charging order 7 failed: the upstream says 429",
            ),
            (Repeating(busy().into()).into(), "120s: the gateway says 120s: the upstream says 429"),
            (
                RetryAfter::new(Duration::from_secs(120), PermanentFailure::new("429")).into(),
                "120s: 429",
            ),
        ];
        for (failure, message) in failures {
            let report = report(failure);
            assert_eq!(report.retry_after(), Some(Duration::from_secs(120)), "{report:?}");
            assert!(!NonRetryable::default().covers(&report));
            assert_eq!(report.message.as_deref(), Some(message));
        }
    }

    #[test]
    fn a_wait_is_rounded_up_to_a_whole_second() {
        let table = [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1000), 1),
            (Duration::from_millis(1001), 2),
            (Duration::MAX, u64::MAX),
        ];
        for (wait, seconds) in table {
            let report = report(RetryAfter::new(wait, "busy").into());
            assert_eq!(report.retry_after(), Some(Duration::from_secs(seconds)), "{wait:?}");
        }
    }

    #[test]
    fn the_cause_can_still_be_found() {
        let error: BoxError = PermanentFailure::new(not_a_number()).into();
        assert!(chain(error.as_ref()).any(|link| link.is::<ParseIntError>()));
    }
}
