//! Turns a function's error into the error type and message that the retry loop reads.
//!
//! Lambda's failure record contains two strings of an error: its type and its message. Two types are special.
//! After a `PermanentFailure` the event is given up at once. After a `RetryAfter` it comes back when the time in
//! the message is over. `?` turns any error into a [`Failure`], and finds these two types anywhere in the chain of
//! sources, so a function may wrap its errors.

use std::{any::type_name, borrow::Cow, error::Error, fmt, time::Duration};

use comeback_core::fault::StoreFault;
use lambda_runtime::Diagnostic;

use crate::transient::HttpStatus;

/// The error type of events that are given up at once.
pub(crate) const PERMANENT: &str = "PermanentFailure";

/// The error type of strings and of `dyn Error`, whose type is erased.
const UNNAMED: &str = "Error";

/// The error of a Lambda handler: its type and its message.
///
/// `?` converts any error into it. Like `anyhow::Error`, it does not implement `Error` itself, because that would
/// conflict with this conversion.
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
    /// Creates a failure with an error type of your own, which you can list in `NON_RETRYABLE_ERRORS`.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error_type: error_type.into(), message: without_secrets(&message.into()) }
    }

    /// The error type that the retry loop sees.
    pub fn error_type(&self) -> &str {
        &self.error_type
    }

    /// The messages of the error and its sources. The query, fragment, user and password of each URL are removed,
    /// because the message ends up in logs and dead letters.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let directive = directive(error.as_ref());
        let error_type = match directive {
            Some(Directive::Never) => PERMANENT.into(),
            Some(Directive::After(_)) => "RetryAfter".into(),
            None => error_type_of(type_name::<E>(), error.as_ref()),
        };
        let hint = directive.map_or_else(String::new, |directive| directive.to_string());
        Self::new(error_type, format!("{hint}{}", messages(error.as_ref(), &hint)))
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

/// The directive of the first error in the chain that has one. A response's retry hint is a directive, too.
pub(crate) fn directive(error: &(dyn Error + 'static)) -> Option<Directive> {
    chain(error).find_map(|link| Directive::of(link).or_else(|| requested_by_server(link)))
}

fn requested_by_server(link: &(dyn Error + 'static)) -> Option<Directive> {
    let response = link.downcast_ref::<HttpStatus>()?;
    let wait = response.verdict().transient()?.hint?.wait(crate::now());
    (!wait.is_zero()).then(|| Directive::after(wait))
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&link| link.source())
}

/// Joins the messages of an error and its sources. Omits a message that an earlier one contains, and the prefix
/// `hint`, which the caller puts in front.
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

/// The error type that the retry loop sees: the type's name without parameters. For a type of this crate, it is
/// the public path. For a box, a [`Stopped`] and the error of an idempotent operation, it is the type of the inner
/// error.
///
/// [`Stopped`]: crate::retry::Stopped
fn error_type_of(type_name: &'static str, error: &(dyn Error + 'static)) -> Cow<'static, str> {
    let (name, inner) = parameter(type_name).unwrap_or((type_name, ""));
    let inner_error = match name {
        // A box is not a link in the chain of sources.
        "alloc::boxed::Box" => Some(error),
        _ if name.starts_with("comeback::retry::") => error.source(),
        _ if name.starts_with("comeback::idempotency::") => {
            error.source().filter(|source| !is_ours(*source))
        }
        _ => None,
    };
    if let Some(error) = inner_error {
        return error_type_of(inner, error);
    }
    let is_text = ["&str", "alloc::string::String", "alloc::borrow::Cow"].contains(&name);
    if is_text || name.starts_with("dyn ") {
        return UNNAMED.into();
    }
    match name.split("::").collect::<Vec<_>>()[..] {
        ["comeback", module @ ("idempotency" | "retry" | "transient"), .., own] => {
            format!("comeback::{module}::{own}").into()
        }
        ["comeback_core", .., "StoreFault"] => "comeback::idempotency::StoreFault".into(),
        _ => name.into(),
    }
}

/// Whether this source was created by this crate, and is not the error of the operation.
fn is_ours(source: &(dyn Error + 'static)) -> bool {
    source.is::<PermanentFailure>() || source.is::<RetryAfter>() || source.is::<StoreFault>()
}

/// Splits `Wrapper<Inner>` into `Wrapper` and `Inner`.
fn parameter(type_name: &str) -> Option<(&str, &str)> {
    type_name.strip_suffix('>')?.split_once('<')
}

/// Any error; the same type as `lambda_runtime::Error`.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// An error that no retry can fix. The event is given up at once, with the reason `not_retryable`.
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

/// Removes the query, fragment, user and password from every URL in a text, because they may be secret.
///
/// HTTP clients quote the whole URL in their errors, including `?api_key=…`.
fn without_secrets(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://").map(|at| at + "://".len()) {
        let (before, after) = rest.split_at(start);
        let end = after.find(ends_url).unwrap_or(after.len());
        // Quotes and brackets may be part of a query. At the end of a URL, they count as text after it.
        let url = after[..end].trim_end_matches(closes);
        let (place, _) = url.split_once(['?', '#']).unwrap_or((url, ""));
        let authority = &place[..place.find(['/', '\\']).unwrap_or(place.len())];
        let user = authority.rfind('@').map_or(0, |at| at + 1);
        clean.push_str(before);
        clean.push_str(&place[user..]);
        rest = &after[url.len()..];
    }
    clean + rest
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || ['"', '<', '>'].contains(&c)
}

fn closes(c: char) -> bool {
    [')', ']', '}', '\'', '`', '\\', '.', ',', ':', ';', '!'].contains(&c)
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, io, num::ParseIntError, sync::mpsc::SendError, time::Duration};

    use comeback_core::error_type::{ErrorReport, NonRetryable};
    use proptest::prelude::*;

    use super::*;

    /// The error, as the retry handler reads it from a failure record.
    fn report(failure: Failure) -> ErrorReport {
        let record = serde_json::to_value(Diagnostic::from(failure)).unwrap();
        let member = |name: &str| record[name].as_str().map(str::to_owned);
        ErrorReport { error_type: member("errorType"), message: member("errorMessage") }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("charging order 7 failed")]
    struct Charging(#[source] BoxError);

    /// An error whose message contains that of its source, as many do.
    #[derive(Debug, thiserror::Error)]
    #[error("the gateway says {0}")]
    struct Repeating(#[source] BoxError);

    /// An error report that hides the type of the error in it, like `eyre`'s, and like `anyhow`'s with a
    /// backtrace.
    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Opaque(BoxError);

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
    fn a_permanent_failure_or_retry_after_is_found_anywhere_in_the_chain() {
        let declined = || PermanentFailure::new("card declined");
        let wait = Duration::from_secs(120);
        let busy = || RetryAfter::new(wait, "the upstream says 429");
        let given_up: Vec<(Failure, &str)> = vec![
            (declined().into(), "card declined"),
            (anyhow::Error::from(declined()).into(), "card declined"),
            (anyhow::Error::from(declined()).context("order 7").into(), "order 7: card declined"),
            (Opaque(declined().into()).into(), "card declined"),
            (Charging(declined().into()).into(), "charging order 7 failed: card declined"),
            (Repeating(declined().into()).into(), "the gateway says card declined"),
            (io::Error::other(declined()).into(), "card declined"),
            (PermanentFailure::new(not_a_number()).into(), "invalid digit found in string"),
            (PermanentFailure::new(busy()).into(), "120s: the upstream says 429"),
        ];
        let delayed: Vec<(Failure, &str)> = vec![
            (busy().into(), "120s: the upstream says 429"),
            (anyhow::Error::from(busy()).into(), "120s: the upstream says 429"),
            (Opaque(busy().into()).into(), "120s: the upstream says 429"),
            (
                Charging(busy().into()).into(),
                "120s: charging order 7 failed: the upstream says 429",
            ),
            (Repeating(busy().into()).into(), "120s: the gateway says 120s: the upstream says 429"),
            (RetryAfter::new(wait, PermanentFailure::new("429")).into(), "120s: 429"),
        ];
        for (failures, retry_after) in [(given_up, None), (delayed, Some(wait))] {
            for (failure, message) in failures {
                let report = report(failure);
                assert_eq!(NonRetryable::default().covers(&report), retry_after.is_none());
                assert_eq!(report.retry_after(), retry_after, "{report:?}");
                assert_eq!(report.message.as_deref(), Some(message));
            }
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
    fn urls_lose_their_query_user_and_password_and_nothing_else_is_changed() {
        for (text, clean) in [
            ("no URL at all? user@example.com :// a?b", "no URL at all? user@example.com :// a?b"),
            (
                "error sending request for url (https://api.example.com/v1?api_key=k&b=a)b)",
                "error sending request for url (https://api.example.com/v1)",
            ),
            ("https://u:p@h:8443/a/b?q#f: timed out", "https://h:8443/a/b: timed out"),
            ("postgres://app:p@ss@db/shop failed", "postgres://db/shop failed"),
            ("https://h?k=1", "https://h"),
            ("https://h/#access_token=1.", "https://h/."),
            ("https://h/@scope/pkg, https://h/b@c?d", "https://h/@scope/pkg, https://h/b@c"),
            (
                r#"{"doc":"https://h/p?k=1","n":"http://h?k"}"#,
                r#"{"doc":"https://h/p","n":"http://h"}"#,
            ),
            (
                r#""{\"doc\":\"https://h/p?k=1\",\"n\":1}""#,
                r#""{\"doc\":\"https://h/p\",\"n\":1}""#,
            ),
            ("<https://h/p?k=1> 'https://u@h/'", "<https://h/p> 'https://h/'"),
            ("via https://a/?u=https://u:p@b/?k=1\nx?y=z", "via https://a/\nx?y=z"),
            ("jdbc:mysql://u:p@db:3306/x?password=p", "jdbc:mysql://db:3306/x"),
            ("http://", "http://"),
        ] {
            assert_eq!(without_secrets(text), clean);
        }
    }

    proptest! {
        #[test]
        fn no_secret_of_a_url_is_left_wherever_it_stands(
            before in "[a-z (\"]{0,9}", path in "(/[a-z@.:]{0,5}){0,3}", around in "[)\\]'\", ]{0,3}",
            secret in "SECRET[A-Z0-9%&=)'/?:@-]{0,9}",
        ) {
            let secret = secret.trim_end_matches(closes);
            for url in [
                format!("https://host{path}?key={secret}"),
                format!("https://host{path}#key={secret}"),
                format!("https://user:{}@host{path}", secret.replace(['/', '?'], "")),
            ] {
                let clean = without_secrets(&format!("{before}{url}{around}after"));
                prop_assert!(!clean.contains("SECRET"), "{}", clean);
                prop_assert!(clean.contains("host"), "{}", clean);
            }
        }
    }
}
