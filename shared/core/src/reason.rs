//! Why an event ends in the dead-letter queue.

use std::fmt;

/// Why an event was given up.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// No further attempt fits into `MAX_AGE` after the first failure.
    MaxAgeExceeded,
    /// `MAX_ATTEMPTS` attempts have failed.
    MaxAttemptsExceeded,
    /// The error is of a type that is never retried.
    NotRetryable,
    /// The record names a function that this handler may not invoke.
    TargetNotAllowed,
    /// Lambda's recursive-loop detection stopped the target.
    RecursionStopped,
    /// The record carries no payload.
    PayloadMissing,
    /// The envelope is too large for an asynchronous invocation.
    PayloadTooLarge,
    /// Lambda refuses the request for good.
    InvokeRejected,
    Cancelled,
    /// The message has none of the known forms.
    Unreadable,
}

impl Reason {
    pub const ALL: [Self; 10] = [
        Self::MaxAgeExceeded,
        Self::MaxAttemptsExceeded,
        Self::NotRetryable,
        Self::TargetNotAllowed,
        Self::RecursionStopped,
        Self::PayloadMissing,
        Self::PayloadTooLarge,
        Self::InvokeRejected,
        Self::Cancelled,
        Self::Unreadable,
    ];

    /// Its name in attributes, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxAgeExceeded => "max_age_exceeded",
            Self::MaxAttemptsExceeded => "max_attempts_exceeded",
            Self::NotRetryable => "not_retryable",
            Self::TargetNotAllowed => "target_not_allowed",
            Self::RecursionStopped => "recursion_stopped",
            Self::PayloadMissing => "payload_missing",
            Self::PayloadTooLarge => "payload_too_large",
            Self::InvokeRejected => "invoke_rejected",
            Self::Cancelled => "cancelled",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
