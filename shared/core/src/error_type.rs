//! The error that a failed function reports, and what it means for the retry.
//!
//! Each runtime spells an error's type in its own way, and none lets a function choose another:
//!
//! | runtime | the type of `orders.PaymentError`, as it stands in a failure record |
//! |---|---|
//! | Python, Node.js, Go, .NET | `PaymentError` |
//! | Java | `com.example.orders.PaymentError`; nested in another class, `com.example.Orders$PaymentError` |
//! | Ruby | `Function<Orders::PaymentError>`; while the function is loaded `Init<…>`, of the runtime itself `Runtime<…>` |
//! | Rust | the name in the kit's `Failure`, else the path of the type, such as `orders::PaymentError` |
//! | Lambda itself | `Runtime.ExitError` (a crash), `Sandbox.Timedout`, `Extension.Crash` and the like |
//!
//! So a pattern is matched against the whole type and against its last segment.

use std::time::Duration;

use crate::{duration, pattern};

/// The error type with which a target asks for a later retry. The message begins with the duration.
const RETRY_AFTER: &str = "RetryAfter";

/// The error type that is never retried, whatever the settings say.
const PERMANENT_FAILURE: &str = "PermanentFailure";

/// The error types with which circuit breakers in a function say that they are open, so that the function has not
/// called what it depends on. `docs/errors.md` lists their libraries.
const OPEN_BREAKERS: [&str; 4] = [
    "CircuitBreakerOpenError",
    "CircuitBreakerError",
    "CallNotPermittedException",
    "BrokenCircuitException",
];

/// The codes with which EventBridge stops an event that would go round for ever, or that it can't turn into what the
/// target is to get.
const STOPPED_DELIVERIES: [&str; 4] =
    ["LOOP_DETECTED", "THIRD_ACCOUNT_HOP_DETECTED", "THIRD_REGION_HOP_DETECTED", "INVALID_JSON"];

/// The end of the codes of EventBridge that say that it could not encrypt or decrypt an event.
const OF_ENCRYPTION: &str = "CRYPTION_FAILURE";

/// The prefixes with which Ruby's runtime client wraps the name of an error's class.
const RUBY_CLASSIFICATIONS: [&str; 3] = ["Function<", "Init<", "Runtime<"];

/// The prefixes of Lambda's own error types, and of errors of Ruby's runtime client itself. Each of these errors may be
/// gone at the next attempt.
const LAMBDAS_OWN: [&str; 4] = ["Runtime.", "Sandbox.", "Extension.", "Runtime<"];

/// The error in the response of a failed invocation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ErrorReport {
    /// The runtime's name for the error. Crashes and time-outs have one since 2025; before, they had only a message.
    pub error_type: Option<String>,
    pub message: Option<String>,
}

impl ErrorReport {
    /// The target's retry hint, which is the minimum time to wait: an error of type `RetryAfter` whose message begins
    /// with a duration, such as `120s: the upstream says 429`.
    pub fn retry_after(&self) -> Option<Duration> {
        let (Some(error_type), Some(message)) = (&self.error_type, &self.message) else {
            return None;
        };
        let asked = message.split(|c: char| c == ':' || c.is_whitespace()).next()?;
        (last_segment(class(error_type)) == RETRY_AFTER).then(|| duration::parse(asked))?
    }
}

impl ErrorReport {
    /// Whether a circuit breaker of the function's own has refused a call. The function has run, and is not down.
    pub fn is_of_open_breaker(&self) -> bool {
        let class = self.error_type.as_deref().map(class);
        class.is_some_and(|class| OPEN_BREAKERS.contains(&last_segment(class)))
    }

    /// Whether EventBridge has stopped the event's delivery, so that it must not be made.
    pub(crate) fn is_of_stopped_delivery(&self) -> bool {
        self.error_type.as_deref().is_some_and(|code| STOPPED_DELIVERIES.contains(&code))
    }

    /// Whether EventBridge could not encrypt or decrypt the event. Its dead letter has the event in cipher.
    pub(crate) fn is_of_encryption(&self) -> bool {
        self.error_type.as_deref().is_some_and(|code| code.ends_with(OF_ENCRYPTION))
    }
}

/// The error types that are never retried: `PermanentFailure`, and those that a setting names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NonRetryable(Vec<String>);

impl NonRetryable {
    /// The patterns of a comma-separated list; `*` matches any characters.
    pub fn parse(list: &str) -> Self {
        Self::from_iter(list.split(','))
    }

    /// Whether a pattern matches every error of a function's own.
    pub fn is_everything(&self) -> bool {
        self.0.iter().any(|pattern| pattern.bytes().all(|byte| byte == b'*'))
    }

    pub fn covers(&self, error: &ErrorReport) -> bool {
        let Some(whole) = &error.error_type else {
            return false;
        };
        names(whole)[2] == PERMANENT_FAILURE || self.0.iter().any(|pattern| means(pattern, whole))
    }
}

impl<'a> FromIterator<&'a str> for NonRetryable {
    fn from_iter<I: IntoIterator<Item = &'a str>>(patterns: I) -> Self {
        Self(pattern::list(patterns))
    }
}

/// Whether a pattern of the settings means an error of this type. `*Error` means the function's own errors, and not a
/// crash, `Runtime.ExitError`.
pub fn means(pattern: &str, error_type: &str) -> bool {
    let is_lambdas_own = LAMBDAS_OWN.iter().any(|namespace| error_type.starts_with(namespace));
    let matches = |name: &&str| pattern::matches(pattern, name);
    !(is_lambdas_own && pattern.starts_with('*')) && names(error_type).iter().any(matches)
}

/// The names that patterns are matched against: the whole type, its class, and the last segment of the class.
pub fn names(error_type: &str) -> [&str; 3] {
    let class = class(error_type);
    [error_type, class, last_segment(class)]
}

/// `Function<Orders::PaymentError>` → `Orders::PaymentError`.
fn class(error_type: &str) -> &str {
    let inside = |classification| error_type.strip_prefix(classification)?.strip_suffix('>');
    RUBY_CLASSIFICATIONS.into_iter().find_map(inside).unwrap_or(error_type)
}

/// `app.errors.PaymentError`, `app::PaymentError<T>` and `com.example.Orders$PaymentError` → `PaymentError`.
fn last_segment(class: &str) -> &str {
    let generic = class.split_once('<').map_or(class, |(generic, _)| generic);
    // Scala's objects end in `$`.
    let name = generic.trim_end_matches('$');
    name.rsplit(['.', ':', '$']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Object;

    fn report(error_type: &str, message: &str) -> ErrorReport {
        ErrorReport { error_type: Some(error_type.into()), message: Some(message.into()) }
    }

    #[test]
    fn an_open_breaker_of_a_library_is_known_by_its_error_type() {
        for (error_type, expected) in [
            ("CircuitBreakerOpenError", true),
            ("pybreaker.CircuitBreakerError", true),
            ("io.github.resilience4j.circuitbreaker.CallNotPermittedException", true),
            ("BrokenCircuitException", true),
            ("Error", false),
            ("MyCircuitBreakerErrors", false),
        ] {
            assert_eq!(report(error_type, "").is_of_open_breaker(), expected, "{error_type}");
        }
        assert!(!ErrorReport::default().is_of_open_breaker());
    }

    #[test]
    fn a_star_alone_covers_everything_and_one_beside_letters_does_not() {
        for (list, expected) in
            [("", false), ("*Error", false), ("*", true), ("A, **", true), ("A*", false)]
        {
            assert_eq!(NonRetryable::parse(list).is_everything(), expected, "{list}");
        }
    }

    #[test]
    fn an_error_is_known_by_its_whole_type_or_its_last_segment() {
        let table = [
            ("ValidationError", "ValidationError", true),
            ("ValidationError", "app.errors.ValidationError", true),
            ("app.errors.*", "app.errors.ValidationError", true),
            ("ValidationError", "MyValidationError", false),
            ("*ValidationError", "MyValidationError", true),
            ("validationerror", "ValidationError", false),
            ("A, B ,C", "B", true),
            ("", "PermanentFailure", true),
            ("", "NotPermanentFailure", false),
            ("", "com.example.PermanentFailure$", true),
            ("", "Init<Orders::PermanentFailure>", true),
            ("", "Function<PermanentFailureLater>", false),
            ("*", "Runtime<Errno::ECONNRESET>", false),
            ("ECONNRESET", "Runtime<Errno::ECONNRESET>", true),
            ("Function<RuntimeError>", "Function<RuntimeError>", true),
            ("Orders::*", "Function<Orders::PaymentError>", true),
            ("PaymentError", "com.example.Orders$PaymentError", true),
            ("Orders", "com.example.Orders$PaymentError", false),
            ("PaymentError", "app::PaymentError<app::Permanent>", true),
            ("Permanent", "app::PaymentError<app::Permanent>", false),
            (",", "", false),
        ];
        for (list, error_type, expected) in table {
            let never = NonRetryable::parse(list);
            assert_eq!(never.covers(&report(error_type, "")), expected, "{list:?} {error_type:?}");
        }
        assert!(
            !NonRetryable::parse("*").covers(&ErrorReport::default()),
            "an error without a type"
        );
    }

    #[test]
    fn an_error_of_lambdas_own_is_given_up_only_where_it_is_named() {
        for own in ["Runtime.ExitError", "Sandbox.Timedout", "Extension.Crash"] {
            let (namespace, name) = own.split_once('.').unwrap();
            let covers = |list: &str| NonRetryable::parse(list).covers(&report(own, ""));
            for list in ["*", "*Error", "*.*", "*o*", "Error"] {
                assert!(!covers(list), "{list:?} {own:?}");
            }
            for list in [own, name, &format!("{namespace}.*"), &format!("*,{own}")] {
                assert!(covers(list), "{list:?} {own:?}");
            }
        }
        let of_a_function = report("RuntimeError", "");
        assert!(NonRetryable::parse("*Error").covers(&of_a_function));
    }

    /// The responses in the failure records of each runtime, from its client's source.
    const RESPONSES: [(&str, &str); 7] = [
        ("Python", include_str!("../fixtures/responses/python.json")),
        ("Node.js", include_str!("../fixtures/responses/nodejs.json")),
        ("Java", include_str!("../fixtures/responses/java.json")),
        (".NET", include_str!("../fixtures/responses/dotnet.json")),
        ("Ruby", include_str!("../fixtures/responses/ruby.json")),
        ("Go", include_str!("../fixtures/responses/go.json")),
        ("Rust", include_str!("../fixtures/responses/rust.json")),
    ];

    #[test]
    fn every_runtimes_errors_are_understood() {
        for (runtime, responses) in RESPONSES {
            let responses = Object::read(responses).unwrap();
            let failed_with = |name| {
                let response = responses.object(name)?;
                let text = |name| response.text(name).map(Into::into);
                Some(ErrorReport { error_type: text("errorType"), message: text("errorMessage") })
            };
            let permanent = failed_with("permanent").unwrap();
            assert!(NonRetryable::default().covers(&permanent), "{runtime}: {permanent:?}");
            let later = failed_with("later").unwrap();
            assert_eq!(later.retry_after(), Some(Duration::from_secs(120)), "{runtime}: {later:?}");
            let named = failed_with("named").unwrap();
            assert!(!NonRetryable::default().covers(&named), "{runtime}: {named:?}");
            assert!(NonRetryable::parse("PaymentError").covers(&named), "{runtime}: {named:?}");
        }
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
            let asked = report(error_type, message).retry_after();
            assert_eq!(asked, expected.map(Duration::from_secs), "{error_type} {message:?}");
        }
    }
}
