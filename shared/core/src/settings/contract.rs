//! The contract as data: the settings with their bounds, defaults and meanings.
//!
//! The handler reads its settings by this table. `examples/contract.rs` prints it as JSON, from which
//! `infra/contract/generate.py` writes what CDK, SAM, Terraform and the documents say about settings.

use std::time::Duration;

use serde::Serialize;

use super::{
    buckets::RecordBuckets,
    policy::{SLACK_MAX, SLACK_PART, STAY_MAX},
    setting::{FunctionsOnly, Scope, Setting, Value},
    targets::{DlqTarget, QueueTargets, Targets},
};
use crate::{
    Attempt, backoff::Jitter, error_type::NonRetryable, in_flight::IN_FLIGHT_MAX, json::Pointer,
};

/// The names that a deployment needs of the ledger's table: its string keys, the attribute by which items expire,
/// the index of the register, from the ARN of a function to the milliseconds since 1970 at which an event is due, and
/// the beginning of the keys of operators' orders, which end with the unique id of whoever gave them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Table {
    pub key: &'static str,
    pub sort_key: &'static str,
    pub expiry: &'static str,
    pub index: &'static str,
    pub index_key: &'static str,
    pub index_sort_key: &'static str,
    pub history: &'static str,
}

pub const TABLE: Table = Table {
    key: "id",
    sort_key: "run",
    expiry: "expires_at",
    index: "waiting",
    index_key: "target",
    index_sort_key: "due_at",
    history: "history/",
};

/// How long before the end of its age an event's last attempt is made: so many seconds, or this part of the age if that
/// is less. The first backoff must end by then.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LastChance {
    pub slack_seconds_max: u64,
    pub slack_part: u32,
}

pub const LAST_CHANCE: LastChance =
    LastChance { slack_seconds_max: SLACK_MAX.as_secs(), slack_part: SLACK_PART };

const POLICY: Setting = Setting {
    name: "",
    scope: Scope::Policy,
    functions_only: None,
    for_errors: false,
    alias_of: None,
    value: Value::List { default: None, put: |_, _, _| {} },
    meaning: "",
    page: None,
};
/// A setting that an error can have a value of its own for.
const ERROR: Setting = Setting { for_errors: true, ..POLICY };
const MEMBER: Setting = Setting { scope: Scope::Member, ..POLICY };
const HANDLER: Setting = Setting { scope: Scope::Handler, ..POLICY };
const FUNCTIONS: Setting = Setting { scope: Scope::Functions, ..POLICY };
const RESOURCE: Setting = Setting { scope: Scope::Resource, ..POLICY };

const ATTEMPTS: Value = Value::Whole {
    max: u32::MAX,
    default: None,
    put: |it, most| it.policy.max_attempts = Some(Attempt::from(most)),
};

const URL: &str =
    "the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/123456789012/name";

/// All settings, in the order in which the documents list them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "DEAD_LETTER_QUEUE_URL",
        value: Value::Text {
            default: None,
            is_required: true,
            expected: URL,
            put: |it, text| set(&mut it.dead_letter_queue_url, queue_url(text)),
        },
        meaning: "where events are sent when they are given up",
        ..RESOURCE
    },
    Setting {
        name: "BASE_BACKOFF",
        // SQS counts visibility timeouts in whole seconds.
        value: Value::Duration {
            min: Duration::from_secs(1),
            at_least: None,
            max: Duration::from_hours(12),
            default: Duration::from_secs(1),
            place: |it| &mut it.policy.backoff.base,
        },
        meaning: "the first backoff; its ceiling doubles with each attempt",
        ..ERROR
    },
    Setting {
        name: "MAX_BACKOFF",
        value: Value::Duration {
            min: Duration::from_secs(1),
            at_least: Some("BASE_BACKOFF"),
            max: STAY_MAX,
            default: Duration::from_hours(12),
            place: |it| &mut it.policy.backoff.max,
        },
        meaning: "the ceiling of one backoff",
        ..ERROR
    },
    Setting {
        name: "BACKOFFS",
        value: Value::Durations {
            min: Duration::from_secs(1),
            max: STAY_MAX,
            example: "1m,10m,3h",
            instead_of: &["BASE_BACKOFF", "MAX_BACKOFF"],
            place: |it| &mut it.policy.backoffs,
        },
        meaning: "the ceilings of the first, the second and the further backoffs, instead of `BASE_BACKOFF` and \
                  `MAX_BACKOFF`; the last one repeats",
        page: Some("errors.md#a-list-of-backoffs"),
        ..ERROR
    },
    Setting {
        name: "MAX_AGE",
        // With less than two seconds, the last chance for an attempt would be before the shortest first backoff ends.
        value: Value::Duration {
            min: Duration::from_secs(2),
            at_least: None,
            max: Duration::from_hours(365 * 24),
            default: Duration::from_hours(24),
            place: |it| &mut it.policy.max_age,
        },
        meaning: "how long after its first failure an event may still be retried; longer than `BASE_BACKOFF`",
        ..ERROR
    },
    Setting {
        name: "MAX_ATTEMPTS",
        value: ATTEMPTS,
        meaning: "how many times an event may be re-invoked; without it, as often as `MAX_AGE` allows",
        ..ERROR
    },
    Setting {
        name: "MAX_RETRIES",
        alias_of: Some("MAX_ATTEMPTS"),
        value: ATTEMPTS,
        meaning: "another name of `MAX_ATTEMPTS`",
        ..ERROR
    },
    Setting {
        name: "JITTER",
        value: Value::Choice {
            options: &[
                ("full", |it| it.policy.backoff.jitter = Jitter::Full),
                ("equal", |it| it.policy.backoff.jitter = Jitter::Equal),
                ("none", |it| it.policy.backoff.jitter = Jitter::None),
            ],
            default: "full",
        },
        meaning: "how a backoff is drawn: `full` between `BASE_BACKOFF`, or the shortest of `BACKOFFS`, and the ceiling, \
                  `equal` between half the ceiling and the ceiling; `none` is the ceiling",
        ..ERROR
    },
    Setting {
        name: "NON_RETRYABLE_ERRORS",
        functions_only: Some(FunctionsOnly::Ignored),
        value: Value::List {
            default: None,
            put: |it, list, _| it.policy.non_retryable = NonRetryable::parse(list),
        },
        meaning: "error types that are never retried, in addition to `PermanentFailure`; `*` matches any run of \
                  characters; matched against the whole type and its last segment, after `.` or `::`",
        ..POLICY
    },
    Setting {
        name: "TENANT_ID",
        functions_only: Some(FunctionsOnly::Refused),
        value: Value::Pointer {
            pattern: Pointer::PATTERN,
            put: |it, pointer| it.policy.tenant_id = Some(pointer),
        },
        meaning: "a JSON pointer to the tenant id in the payload, such as /tenant/id, which functions with tenant \
                  isolation need",
        ..POLICY
    },
    Setting {
        name: "DURABLE",
        functions_only: Some(FunctionsOnly::Refused),
        value: Value::Flag { default: false, needs: None, place: |it| &mut it.policy.durable },
        meaning: "whether the function is durable: each attempt then has an execution name, with which Lambda starts \
                  it once",
        ..POLICY
    },
    Setting {
        name: "TRANSPARENT",
        functions_only: Some(FunctionsOnly::Refused),
        value: Value::Flag {
            default: false,
            needs: Some("LEDGER_TABLE"),
            place: |it| &mut it.policy.transparent,
        },
        meaning: "whether the function is re-invoked with its original payload, without an envelope; the ledger then \
                  has what the envelope would say",
        ..POLICY
    },
    Setting {
        name: "ERRORS",
        functions_only: Some(FunctionsOnly::Refused),
        value: Value::Json {
            example: r#"{"RateLimited*":{"BASE_BACKOFF":"1m"}}"#,
            put: |it, text, _| it.errors = Some(text.to_owned()),
        },
        meaning: "in a policy of `POLICIES` only: error type → the settings of events that failed last with such an \
                  error; the first type that matches decides, as in `NON_RETRYABLE_ERRORS`, and the function's policy \
                  has the rest",
        page: Some("errors.md"),
        ..MEMBER
    },
    Setting {
        name: "TARGET_FUNCTIONS",
        value: Value::List {
            default: Some("same account and region"),
            put: |it, list, faults| it.targets = Targets::read(list, faults),
        },
        meaning: "the names or ARNs of the functions that may be re-invoked, and the queues, as `sqs:NAME` or by their \
                  ARNs, whose messages may be sent back; `*` allowed",
        ..FUNCTIONS
    },
    Setting {
        name: "POLICIES",
        value: Value::Json {
            example: r#"{"orders":{"MAX_AGE":"7d","MAX_ATTEMPTS":50}}"#,
            put: |it, text, _| it.own_policies = Some(text.to_owned()),
        },
        meaning: "function name, or `sqs:NAME` of a queue → its own policy; `*` → the `ERRORS` of all functions",
        ..FUNCTIONS
    },
    Setting {
        name: "DLQ_TARGET",
        value: Value::Text {
            default: None,
            is_required: false,
            expected: "the name or the ARN of a function",
            put: |it, text| set(&mut it.dlq_target, DlqTarget::parse(text)),
        },
        meaning: "the function whose own dead-letter queue the messages come from",
        ..FUNCTIONS
    },
    Setting {
        name: "QUEUE_TARGETS",
        value: Value::Json {
            example: r#"{"retry-orders":["orders"]}"#,
            put: |it, text, faults| it.queue_targets = Some(QueueTargets::read(text, faults)),
        },
        meaning: "queue name → the functions that records from it may name, or the queue, as `sqs:NAME` or by its ARN, \
                  whose messages it gets; messages from other queues may name none",
        ..FUNCTIONS
    },
    Setting {
        name: "IN_FLIGHT_MAX",
        value: Value::Whole {
            max: u32::MAX,
            default: Some(IN_FLIGHT_MAX.get()),
            put: |it, most| it.in_flight_max = most,
        },
        meaning: "how many messages of a queue may wait in flight; further waits are kept as delays, which have no \
                  limit but are less precise; more than 120,000 need a raised quota of SQS",
        page: Some("waiting.md#a-long-outage"),
        ..HANDLER
    },
    Setting {
        name: "LEDGER_TABLE",
        value: Value::Text {
            default: None,
            is_required: false,
            expected: "the name or the ARN of a DynamoDB table",
            put: |it, text| set(&mut it.ledger_table, table(text)),
        },
        meaning: "a DynamoDB table that makes each failure re-invoke its target once",
        page: Some("ledger.md"),
        ..RESOURCE
    },
    Setting {
        name: "RECORD_BUCKETS",
        value: Value::List {
            default: None,
            put: |it, list, faults| it.record_buckets = RecordBuckets::read(list, faults),
        },
        meaning: "the names of the buckets from which failure records may be read; a record that no queue can take, as \
                  it is larger than 1 MiB, goes to a bucket",
        page: Some("records.md"),
        ..RESOURCE
    },
    Setting {
        name: "PROBE",
        value: Value::Flag {
            default: false,
            needs: Some("LEDGER_TABLE"),
            place: |it| &mut it.probe,
        },
        meaning: "whether a function that is down is probed with one event at a time, instead of being re-invoked for \
                  every event; with `REGISTER`, waiting events are brought forward when it has recovered",
        page: Some("waiting.md#a-target-that-is-down"),
        ..HANDLER
    },
    Setting {
        name: "REGISTER",
        value: Value::Flag {
            default: false,
            needs: Some("LEDGER_TABLE"),
            place: |it| &mut it.register,
        },
        meaning: "whether the ledger lists waiting events, so that operators can see them, retry them now, cancel \
                  them, and pause a function",
        page: Some("operate/waiting.md#the-register"),
        ..HANDLER
    },
    Setting {
        name: "HISTORY_RETENTION",
        // DynamoDB deletes expired items within a few days, so hours would promise too much.
        value: Value::Duration {
            min: Duration::from_hours(24),
            at_least: None,
            max: Duration::from_hours(3_650 * 24),
            default: Duration::from_hours(400 * 24),
            place: |it| &mut it.history_retention,
        },
        meaning: "how long the ledger keeps the record of an operator's order",
        page: Some("operate/history.md"),
        ..HANDLER
    },
    Setting {
        name: "RETRY_QUEUE_URL",
        value: Value::Text {
            default: Some("from the record"),
            is_required: false,
            expected: URL,
            put: |it, text| set(&mut it.retry_queue_url, queue_url(text)),
        },
        meaning: "needed only if it can't be derived from the message's `eventSourceARN`",
        ..RESOURCE
    },
];

/// Puts a text that was good into its place. Returns whether it was.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_good = value.is_some();
    if is_good {
        *place = value;
    }
    is_good
}

fn queue_url(text: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let (host, name) = rest.split_once('/')?;
    let is_whole = !host.is_empty() && !name.trim_matches('/').is_empty();
    (is_whole && !text.contains(char::is_whitespace)).then(|| text.to_owned())
}

/// DynamoDB's own rule for table names; an ARN names a table of another account.
fn table(text: &str) -> Option<String> {
    let named = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let name = match text.strip_prefix("arn:").map(|rest| rest.split_once(":table/")) {
        Some(parts) => parts.filter(|(owner, _)| owner.contains(":dynamodb:"))?.1,
        None => text,
    };
    let is_name = (3..=255).contains(&name.len()) && name.chars().all(named);
    is_name.then(|| text.to_owned())
}
