//! Why an event ends in the dead-letter queue.

use std::fmt;

macro_rules! reasons {
    ($($variant:ident, $name:literal, $later:literal, $cause:literal;)*) => {
        /// Why an event was given up.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Reason {
            $(#[doc = $cause] $variant,)*
        }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in attributes, logs and metrics.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Whether the event may succeed if it is sent again.
            pub fn may_succeed_later(self) -> &'static str {
                match self { $(Self::$variant => $later,)* }
            }

            pub fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause,)* }
            }
        }
    };
}

reasons! {
    MaxAgeExceeded, "max_age_exceeded", "yes", "the function was down for longer than `MAX_AGE`";
    MaxAttemptsExceeded, "max_attempts_exceeded", "yes", "the function was down for longer than its attempts last";
    NotRetryable, "not_retryable", "no", "a bad event, or a bad deployment";
    TargetNotAllowed, "target_not_allowed", "yes, once attached", "a function that is not attached";
    RecursionStopped, "recursion_stopped", "yes", "`RecursiveLoop` is not `Allow`";
    PayloadMissing, "payload_missing", "no", "an SNS topic as destination, or another sender";
    PayloadTooLarge, "payload_too_large", "yes, without an envelope", "a payload near 1 MiB";
    InvokeRejected, "invoke_rejected", "seldom", "a payload that Lambda refuses";
    Cancelled, "cancelled", "yes, if you redrive it", "an operator";
    AttributeLimit, "attribute_limit", "yes, once", "a queue's message with ten attributes of its own";
    RecordGone, "record_gone", "no", "the bucket's lifecycle is shorter than the event's life";
    PayloadTruncated, "payload_truncated", "no", "a schedule with a payload that is too large for its dead-letter queue";
    Unreadable, "unreadable", "no", "another sender";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
