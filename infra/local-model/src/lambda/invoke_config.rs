//! Asynchronous invocations: a function's settings for them, and the queue in front of them.
//!
//! An event waits here until it is due: at once when it is accepted, a minute after its first failed run, two minutes
//! after its second. Without free concurrency, an event is throttled: it waits for a second, then for twice as long
//! each time, up to five minutes. This does not count as a run. An event leaves the queue for good when it succeeds,
//! when its retries are used up, when it is too old, or when its function may not run at all.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::later};
use serde::Deserialize;

use super::{
    error::{Faults, LambdaError},
    name,
};
use crate::{Payload, bucket_name, queue_name};

/// The number of retries of a failed event: AWS's bounds and default.
const RETRY_ATTEMPTS: std::ops::RangeInclusive<i64> = 0..=2;
const RETRY_ATTEMPTS_DEFAULT: u32 = 2;

/// The maximum age of an event in seconds, after which Lambda gives it up: AWS's bounds and default.
const EVENT_AGE_SECS: std::ops::RangeInclusive<i64> = 60..=21_600;
const EVENT_AGE_SECS_DEFAULT: u32 = 21_600;

/// The settings of a request. `None` means the default, or leaves the setting unchanged in an update.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EventInvokeSettings {
    pub maximum_retry_attempts: Option<i64>,
    pub maximum_event_age_in_seconds: Option<i64>,
    pub destination_config: Option<DestinationConfig>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DestinationConfig {
    on_success: Option<Target>,
    on_failure: Option<Target>,
}

/// The ARN of a queue, a function or a bucket. Without one, there is no destination any more.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Target {
    destination: Option<String>,
}

impl DestinationConfig {
    /// The destination of failures, if there is one.
    pub(super) fn of_failures(&self) -> Result<Option<Destination>, LambdaError> {
        let arn = self.on_failure.as_ref().and_then(|target| target.destination.as_deref());
        arn.filter(|arn| !arn.is_empty()).map(Destination::parse).transpose()
    }

    pub fn on_failure(arn: String) -> Self {
        Self { on_failure: Some(Target { destination: Some(arn) }), ..Self::default() }
    }

    /// The same with a destination of successes.
    #[must_use]
    pub fn and_on_success(self, arn: Option<String>) -> Self {
        Self { on_success: arn.map(|arn| Target { destination: Some(arn) }), ..self }
    }
}

/// An event invoke config. Settings without a value stay `None` instead of the default, because Lambda's API omits
/// them in its responses.
#[derive(Clone, Debug, Default)]
pub struct EventInvokeConfig {
    pub maximum_retry_attempts: Option<u32>,
    pub maximum_event_age_in_seconds: Option<u32>,
    pub on_success: Option<Destination>,
    pub on_failure: Option<Destination>,
    pub last_modified: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub arn: Arc<str>,
    pub kind: DestinationKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    Queue(Arc<str>),
    Function(Arc<str>),
    /// Only on failure.
    Bucket(Arc<str>),
}

impl Destination {
    fn parse(arn: &str) -> Result<Self, LambdaError> {
        let kind = if let Some(queue) = queue_name(arn) {
            DestinationKind::Queue(queue.into())
        } else if arn.starts_with("arn:aws:lambda:") {
            DestinationKind::Function(name::resolve(arn, None)?.into())
        } else if let Some(bucket) = bucket_name(arn) {
            DestinationKind::Bucket(bucket.into())
        } else {
            return Err(LambdaError::invalid(format_args!(
                "The provided destination config is invalid: a destination must be an SQS queue or a \
                 Lambda function of this account and region here, or an S3 bucket, got {arn}"
            )));
        };
        Ok(Self { arn: arn.into(), kind })
    }
}

impl EventInvokeConfig {
    /// Creates a config from `settings`. Settings that are `None` come from `old`.
    pub fn new(
        now: Timestamp,
        old: Option<&Self>,
        settings: &EventInvokeSettings,
    ) -> Result<Self, LambdaError> {
        let (retries, age) =
            (settings.maximum_retry_attempts, settings.maximum_event_age_in_seconds);
        let mut faults = Faults::default();
        faults.range("maximumRetryAttempts", retries, RETRY_ATTEMPTS);
        faults.range("maximumEventAgeInSeconds", age, EVENT_AGE_SECS);
        faults.check()?;
        let number = |given: Option<i64>| given.and_then(|given| u32::try_from(given).ok());
        let old = old.cloned().unwrap_or_default();
        let destination = |given: Option<Target>, old| match given {
            None => Ok(old),
            Some(Target { destination }) => {
                let arn = destination.filter(|arn| !arn.is_empty());
                arn.map(|arn| Destination::parse(&arn)).transpose()
            }
        };
        let config = settings.destination_config.clone().unwrap_or_default();
        let on_success = destination(config.on_success, old.on_success)?;
        if let Some(Destination { arn, kind: DestinationKind::Bucket(_) }) = &on_success {
            return Err(LambdaError::invalid(format_args!(
                "The provided destination config is invalid: a bucket can only be a destination on \
                 failure, got {arn}"
            )));
        }
        Ok(Self {
            maximum_retry_attempts: number(retries).or(old.maximum_retry_attempts),
            maximum_event_age_in_seconds: number(age).or(old.maximum_event_age_in_seconds),
            on_success,
            on_failure: destination(config.on_failure, old.on_failure)?,
            last_modified: now,
        })
    }
}

pub(crate) fn retry_attempts(config: Option<&EventInvokeConfig>) -> u32 {
    config.and_then(|config| config.maximum_retry_attempts).unwrap_or(RETRY_ATTEMPTS_DEFAULT)
}

pub(crate) fn event_age(config: Option<&EventInvokeConfig>) -> Duration {
    let secs = config.and_then(|config| config.maximum_event_age_in_seconds);
    Duration::from_secs(secs.unwrap_or(EVENT_AGE_SECS_DEFAULT).into())
}

/// The wait after the first failed run; after the second it is twice as long.
const RETRY_WAIT: Duration = Duration::from_secs(60);

const THROTTLE_WAIT_MIN: Duration = Duration::from_secs(1);

const THROTTLE_WAIT_MAX: Duration = Duration::from_secs(5 * 60);

#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    pub function: Arc<str>,
    pub request_id: Arc<str>,
    pub payload: Payload,
    /// The trace header of the request, or a new one if the request had none. The header of each run is derived from
    /// this one, so that Lambda's own retries don't count as a loop.
    pub trace_header: Arc<str>,
    pub tenant_id: Option<Arc<str>>,
    pub(crate) accepted_at: Timestamp,
    pub runs: u32,
    /// The number of times it was throttled since its last run.
    pub(crate) throttles: u32,
}

impl QueuedEvent {
    pub(crate) fn retry_at(&self, now: Timestamp) -> Timestamp {
        later(now, RETRY_WAIT.saturating_mul(self.runs))
    }

    pub(crate) fn throttled_until(&self, now: Timestamp) -> Timestamp {
        let factor = 2_u32.saturating_pow(self.throttles.saturating_sub(1));
        later(now, THROTTLE_WAIT_MIN.saturating_mul(factor).min(THROTTLE_WAIT_MAX))
    }
}

/// The waiting events, in the order in which they are due.
#[derive(Default)]
pub(crate) struct AsynchronousQueue {
    waiting: BTreeMap<(Timestamp, u64), QueuedEvent>,
    sequence: u64,
}

impl AsynchronousQueue {
    pub fn push(&mut self, due: Timestamp, event: QueuedEvent) {
        self.sequence += 1;
        self.waiting.insert((due, self.sequence), event);
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<QueuedEvent> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }
}
