//! What a failed function says of its error, and what that asks of a retry.

use std::time::Duration;

use crate::{duration, pattern};

/// The error type by which a target says that it wants to wait; its message begins with how long.
const RETRY_AFTER: &str = "RetryAfter";

/// The error type that no target needs to configure: it never heals.
const PERMANENT_FAILURE: &str = "PermanentFailure";

/// What a failed invocation left behind in its response.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ErrorReport {
    /// The runtime's name for the error; absent after a crash or a time-out.
    pub error_type: Option<String>,
    /// Its message.
    pub message: Option<String>,
}

impl ErrorReport {
    /// How long the target asks to wait at least: an error of type `RetryAfter` whose message begins
    /// with a duration, such as `120s: the upstream says 429`.
    pub fn retry_after(&self) -> Option<Duration> {
        let (Some(error_type), Some(message)) = (&self.error_type, &self.message) else {
            return None;
        };
        let wish = message.split(|c: char| c == ':' || c.is_whitespace()).next()?;
        (last_segment(error_type) == RETRY_AFTER).then(|| duration::parse(wish))?
    }
}

/// The error types that never heal: `PermanentFailure` and those that the owner names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NonRetryable(Vec<String>);

impl NonRetryable {
    /// The patterns of a comma-separated list; `*` matches any run.
    pub fn parse(list: &str) -> Self {
        Self::from_iter(list.split(','))
    }

    /// Whether a retry after this error would be in vain.
    pub fn covers(&self, error: &ErrorReport) -> bool {
        let Some(whole) = &error.error_type else {
            return false;
        };
        let last = last_segment(whole);
        last == PERMANENT_FAILURE
            || self
                .0
                .iter()
                .any(|never| pattern::matches(never, whole) || pattern::matches(never, last))
    }
}

impl<'a> FromIterator<&'a str> for NonRetryable {
    fn from_iter<I: IntoIterator<Item = &'a str>>(patterns: I) -> Self {
        Self(crate::settings::list(patterns))
    }
}

/// `app.errors.ValidationError` → `ValidationError`, and the same for Rust's `::`.
fn last_segment(error_type: &str) -> &str {
    error_type.rsplit(['.', ':']).next().unwrap_or(error_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(error_type: &str, message: &str) -> ErrorReport {
        ErrorReport { error_type: Some(error_type.into()), message: Some(message.into()) }
    }

    #[test]
    fn an_error_is_known_by_its_whole_type_or_its_last_segment() {
        let table = [
            ("ValidationError", "ValidationError", true),
            ("ValidationError", "app.errors.ValidationError", true),
            ("ValidationError", "app::errors::ValidationError", true),
            ("app.errors.*", "app.errors.ValidationError", true),
            ("app.errors.*", "lib.errors.ValidationError", false),
            ("ValidationError", "MyValidationError", false),
            ("*ValidationError", "MyValidationError", true),
            ("validationerror", "ValidationError", false),
            ("A, B ,C", "B", true),
            ("", "PermanentFailure", true),
            ("", "comeback::PermanentFailure", true),
            ("", "NotPermanentFailure", false),
            (",", "", false),
        ];
        for (list, error_type, expected) in table {
            let never = NonRetryable::parse(list);
            assert_eq!(never.covers(&report(error_type, "")), expected, "{list:?} {error_type:?}");
        }
        assert!(!NonRetryable::parse("*").covers(&ErrorReport::default()), "a crash has no type");
    }

    #[test]
    fn a_target_says_how_long_to_wait() {
        let table = [
            ("RetryAfter", "120s: the upstream says 429", Some(120)),
            ("kit::RetryAfter", "15m", Some(900)),
            ("RetryAfter", "90 seconds", Some(90)),
            ("RetryAfter", "1h\nbecause", Some(3600)),
            ("RetryAfter", "soon", None),
            ("RetryAfter", "", None),
            ("RetryAfter", "-1s", None),
            ("NotRetryAfter", "120s", None),
            ("RetryAfterAll", "120s", None),
        ];
        for (error_type, message, expected) in table {
            let wish = report(error_type, message).retry_after();
            assert_eq!(wish, expected.map(Duration::from_secs), "{error_type} {message:?}");
        }
    }
}
