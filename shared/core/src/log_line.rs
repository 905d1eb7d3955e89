//! The lines of the retry handler's log. `comeback-flow` writes them, and the program reads them.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, time};

/// The decision of a line, or the call to a bucket or to the ledger that failed.
pub mod decision {
    pub const INVOKE: &str = "invoke";
    pub const WAIT: &str = "wait";
    pub const DEAD_LETTER: &str = "dead_letter";
    pub const READ: &str = "read";
    pub const DROP: &str = "drop";
    pub const SPLIT: &str = "split";
    pub const RECALL: &str = "recall";
    pub const CLAIM: &str = "claim";
    pub const MARK: &str = "mark";
    pub const RELEASE: &str = "release";
    pub const REGISTER: &str = "register";
}

/// Passes all fields of a line to a macro: the name, the type, where `T` is a text, and the meaning.
#[macro_export]
macro_rules! with_log_fields {
    ($macro:ident! [$($argument:tt)*]) => {
        $macro! { [$($argument)*]
            decision: T, "`invoke`, `wait`, `dead_letter`, `drop`, `split`; for a bucket `read`; for the ledger `recall`, `claim`, `mark`, `release`, `register`";
            target: T, "the ARN of the function, as in the failure record";
            request_id: T, "the request id of the run that failed";
            event_id: T, "the request id of the first run: the same in all lines about an event. Without an envelope a line has none while it is not known which event the failure continues";
            retry_request_id: T, "the request id of the run that this retry has started: that run belongs to the event, too, unless the line has a `source_arn`";
            trace: T, "the event's X-Ray trace header";
            attempt: u32, "the next attempt, counted from 1";
            due_time: T, "when that attempt is due";
            delay_seconds: f64, "how long this wait lasts. A long wait takes several";
            lateness_ms: u64, "how long after its due time a retry was accepted";
            age_seconds: u64, "the time since the first failure";
            error_type: T, "the type of the function's error, or why the event could not be delivered";
            source_arn: T, "the rule or the schedule that could not deliver the event. The event ends when its target accepts it";
            condition: T, "why Lambda has not run the function: `ZeroReservedConcurrency`, with a reserved concurrency of 0";
            policy: T, "the policy that decides, if it is that of an error: its type in `ERRORS` and the function, such as `RateLimited* of orders`";
            record: T, "where the failure record lies, if it is in a bucket";
            reason: T, "why an event was given up";
            why: T, "what is missing in a message that is not a failure record";
            error: T, "AWS's answer";
            held_until: T, "when the claim of another invocation ends";
            dead_letter_queue_url: T, "the dead-letter queue that can't be used";
            queue_url: T, "the retry queue that can't be used";
            message_id: T, "the id of the message in the retry queue";
            receive_count: u32, "how often the message was received";
            circuit: T, "the new state of a target's circuit";
            was: T, "the old state of a target's circuit";
            down_since: T, "when a target went down whose circuit has a new state";
        }
    };
}

macro_rules! log_line {
    ([] $($name:ident: $type:ty, $meaning:literal;)*) => {
        /// A line. The subscriber of the handler's log adds the timestamp.
        #[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
        #[serde(default)]
        pub struct LogLine<T> {
            pub timestamp: T,
            pub level: T,
            pub message: T,
            $(#[doc = $meaning] pub $name: Option<$type>,)*
        }

        pub const FIELDS: &[(&str, &str)] = &[$((stringify!($name), $meaning)),*];
    };
}

with_log_fields!(log_line![]);

impl<T: AsRef<str>> LogLine<T> {
    pub fn at(&self) -> Option<Timestamp> {
        time::parse(self.timestamp.as_ref())
    }
}
