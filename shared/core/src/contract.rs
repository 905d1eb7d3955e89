//! The contract as data: the settings with their bounds, defaults and meanings.
//!
//! The handler reads its settings by this table. `examples/contract.rs` prints it as JSON, from which
//! `infra/contract/generate.py` writes what CDK, SAM, Terraform and the documents say about settings.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{duration, in_flight::IN_FLIGHT_MAX, json::Pointer};

/// The names that a deployment needs of the ledger's table: its string key, the attribute by which items expire, and
/// the index of the register, from the ARN of a function to the milliseconds since 1970 at which an event is due.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Table {
    pub key: &'static str,
    pub expiry: &'static str,
    pub index: &'static str,
    pub index_key: &'static str,
    pub index_sort_key: &'static str,
}

pub const TABLE: Table = Table {
    key: "id",
    expiry: "expires_at",
    index: "waiting",
    index_key: "target",
    index_sort_key: "due_at",
};

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setting {
    pub name: &'static str,
    pub scope: Scope,
    #[serde(flatten)]
    pub value: Value,
    /// What it means. A name between backticks is another setting.
    pub meaning: &'static str,
    /// The section of the documents that says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<&'static str>,
}

/// What a setting is about, and so who sets it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// How events are retried. `POLICIES` can override it for one function or queue.
    Policy,
    Handler,
    /// What the handler retries. A deployment derives it from the functions and queues that are attached.
    Functions,
    /// A queue or a table, which a deployment creates.
    Resource,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Value {
    Duration(Durations),
    /// A whole number from 1.
    Whole {
        max: u32,
        default: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        alias_of: Option<&'static str>,
    },
    Choice {
        options: &'static [&'static str],
        default: &'static str,
    },
    /// `true` or `false`, which is the default.
    Flag {
        #[serde(skip_serializing_if = "Option::is_none")]
        needs: Option<&'static str>,
    },
    /// Texts, separated by commas.
    List {
        default: Option<&'static str>,
    },
    Json {
        example: &'static str,
    },
    /// A JSON pointer into a payload.
    Pointer {
        pattern: &'static str,
    },
    Text {
        default: Option<&'static str>,
        is_required: bool,
    },
}

/// The bounds of a duration, and its default.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Durations {
    #[serde(serialize_with = "written")]
    pub min: Duration,
    /// A setting whose value is the lower bound if it is above `min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<&'static str>,
    #[serde(serialize_with = "written")]
    pub max: Duration,
    #[serde(serialize_with = "written")]
    pub default: Duration,
}

fn written<S: serde::Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&duration::format(*value))
}

/// SQS counts visibility timeouts in whole seconds.
pub const BASE_BACKOFF: Durations = Durations {
    min: Duration::from_secs(1),
    at_least: None,
    max: Duration::from_hours(12),
    default: Duration::from_secs(1),
};

/// SQS keeps a message for at most 14 days. A wait of 13 days leaves a day for the attempt after it.
pub const MAX_BACKOFF: Durations = Durations {
    min: BASE_BACKOFF.min,
    at_least: Some("BASE_BACKOFF"),
    max: Duration::from_hours(13 * 24),
    default: Duration::from_hours(12),
};

/// With less than two seconds, the last chance for an attempt would be before the shortest first backoff ends.
pub const MAX_AGE: Durations = Durations {
    min: Duration::from_secs(2),
    at_least: None,
    max: Duration::from_hours(365 * 24),
    default: Duration::from_hours(24),
};

pub(crate) const JITTERS: [&str; 3] = ["full", "equal", "none"];

const POLICY: Setting = Setting {
    name: "",
    scope: Scope::Policy,
    value: Value::List { default: None },
    meaning: "",
    page: None,
};
const HANDLER: Setting = Setting { scope: Scope::Handler, ..POLICY };
const FUNCTIONS: Setting = Setting { scope: Scope::Functions, ..POLICY };
const RESOURCE: Setting = Setting { scope: Scope::Resource, ..POLICY };

/// All settings, in the order in which the documents list them.
pub const SETTINGS: [Setting; 19] = [
    Setting {
        name: "DEAD_LETTER_QUEUE_URL",
        value: Value::Text { default: None, is_required: true },
        meaning: "where events are sent when they are given up",
        ..RESOURCE
    },
    Setting {
        name: "BASE_BACKOFF",
        value: Value::Duration(BASE_BACKOFF),
        meaning: "the first backoff; its ceiling doubles with each attempt",
        ..POLICY
    },
    Setting {
        name: "MAX_BACKOFF",
        value: Value::Duration(MAX_BACKOFF),
        meaning: "the ceiling of one backoff",
        ..POLICY
    },
    Setting {
        name: "MAX_AGE",
        value: Value::Duration(MAX_AGE),
        meaning: "how long after its first failure an event may still be retried; longer than `BASE_BACKOFF`",
        ..POLICY
    },
    Setting {
        name: "MAX_ATTEMPTS",
        value: Value::Whole { max: u32::MAX, default: None, alias_of: None },
        meaning: "how many times an event may be re-invoked; without it, as often as `MAX_AGE` allows",
        ..POLICY
    },
    Setting {
        name: "MAX_RETRIES",
        value: Value::Whole { max: u32::MAX, default: None, alias_of: Some("MAX_ATTEMPTS") },
        meaning: "another name of `MAX_ATTEMPTS`",
        ..POLICY
    },
    Setting {
        name: "JITTER",
        value: Value::Choice { options: &JITTERS, default: JITTERS[0] },
        meaning: "how a backoff is drawn: `full` between `BASE_BACKOFF` and the ceiling, `equal` between half the \
                  ceiling and the ceiling; `none` is the ceiling",
        ..POLICY
    },
    Setting {
        name: "NON_RETRYABLE_ERRORS",
        meaning: "error types that are never retried, in addition to `PermanentFailure`; `*` matches any run of \
                  characters; matched against the whole type and its last segment, after `.` or `::`",
        ..POLICY
    },
    Setting {
        name: "TENANT_ID",
        value: Value::Pointer { pattern: Pointer::PATTERN },
        meaning: "a JSON pointer to the tenant id in the payload, such as /tenant/id, which functions with tenant \
                  isolation need",
        ..POLICY
    },
    Setting {
        name: "DURABLE",
        value: Value::Flag { needs: None },
        meaning: "whether the function is durable: each attempt then has an execution name, with which Lambda starts \
                  it once",
        ..POLICY
    },
    Setting {
        name: "TARGET_FUNCTIONS",
        value: Value::List { default: Some("same account and region") },
        meaning: "the names or ARNs of the functions that may be re-invoked, and the queues, as `sqs:NAME` or by their \
                  ARNs, whose messages may be sent back; `*` allowed",
        ..FUNCTIONS
    },
    Setting {
        name: "POLICIES",
        value: Value::Json { example: r#"{"orders":{"MAX_AGE":"7d","MAX_ATTEMPTS":50}}"# },
        meaning: "function name, or `sqs:NAME` of a queue → its own policy",
        ..FUNCTIONS
    },
    Setting {
        name: "DLQ_TARGET",
        value: Value::Text { default: None, is_required: false },
        meaning: "the function whose own dead-letter queue the messages come from",
        ..FUNCTIONS
    },
    Setting {
        name: "QUEUE_TARGETS",
        value: Value::Json { example: r#"{"retry-orders":["orders"]}"# },
        meaning: "queue name → the functions that records from it may name, or the queue, as `sqs:NAME` or by its ARN, \
                  whose messages it gets; messages from other queues may name none",
        ..FUNCTIONS
    },
    Setting {
        name: "IN_FLIGHT_MAX",
        value: Value::Whole { max: u32::MAX, default: Some(IN_FLIGHT_MAX.get()), alias_of: None },
        meaning: "how many messages of a queue may wait in flight; further waits are kept as delays, which have no \
                  limit but are less precise; more than 120,000 need a raised quota of SQS",
        page: Some("waiting.md#a-long-outage"),
        ..HANDLER
    },
    Setting {
        name: "LEDGER_TABLE",
        value: Value::Text { default: None, is_required: false },
        meaning: "a DynamoDB table that makes each failure re-invoke its target once",
        page: Some("ledger.md"),
        ..RESOURCE
    },
    Setting {
        name: "PROBE",
        value: Value::Flag { needs: Some("LEDGER_TABLE") },
        meaning: "whether a function that is down is probed with one event at a time, instead of being re-invoked for \
                  every event; with `REGISTER`, waiting events are brought forward when it has recovered",
        page: Some("waiting.md#a-target-that-is-down"),
        ..HANDLER
    },
    Setting {
        name: "REGISTER",
        value: Value::Flag { needs: Some("LEDGER_TABLE") },
        meaning: "whether the ledger lists waiting events, so that operators can see them, retry them now, cancel \
                  them, and pause a function",
        page: Some("waiting.md#what-waits"),
        ..HANDLER
    },
    Setting {
        name: "RETRY_QUEUE_URL",
        value: Value::Text { default: Some("from the record"), is_required: false },
        meaning: "needed only if it can't be derived from the message's `eventSourceARN`",
        ..RESOURCE
    },
];

pub fn names(scope: Scope) -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(move |setting| setting.scope == scope).map(|setting| setting.name)
}

/// One invalid setting, with its expected and its actual value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    pub(crate) name: String,
    expected: String,
    got: Option<String>,
}

impl Fault {
    pub(crate) fn new(
        name: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), expected: expected.into(), got: Some(got.into()) }
    }

    /// The same fault, for a value nested in the one that `prefix` names.
    pub(crate) fn within(self, prefix: &str) -> Self {
        Self { name: format!("{prefix}{}", self.name), ..self }
    }

    pub(crate) fn missing(name: &str, expected: &str) -> Self {
        Self { name: name.to_owned(), expected: expected.to_owned(), got: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, expected, got } = self;
        match got {
            Some(got) => write!(f, "{name} must be {expected}, got {got:?}"),
            None => write!(f, "{name} must be {expected}, and is not set"),
        }
    }
}
