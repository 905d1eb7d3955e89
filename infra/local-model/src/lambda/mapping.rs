//! An event source mapping: how a queue is polled for a function.
//!
//! The settings are AWS's. The [`Poller`] stands for AWS's pollers.

use std::{sync::Arc, time::Duration};

use comeback_core::{
    Timestamp,
    time::{between, later},
};
use serde::Deserialize;

use super::{
    error::{Faults, LambdaError},
    poller::{BATCHES_MAX, GROWTH_INTERVAL, Held, Poller},
};
use crate::queue_name;

/// The size of a batch: AWS's bounds and default.
const BATCH_SIZE: std::ops::RangeInclusive<i64> = 1..=10_000;
const BATCH_SIZE_DEFAULT: u32 = 10;

const BATCH_SIZE_WITHOUT_WINDOW_MAX: u32 = 10;

/// The batching window, in seconds: AWS's bounds.
const WINDOW_SECS: std::ops::RangeInclusive<i64> = 0..=300;

/// AWS's bounds of a mapping's maximum concurrency.
const MAXIMUM_CONCURRENCY: std::ops::RangeInclusive<i64> = 2..=1_000;

/// The largest payload of a batch, in bytes, as of any synchronous invocation.
const BATCH_BYTES_MAX: usize = 6 * 1024 * 1024;

/// How long each transient state of a mapping lasts. On AWS they take up to a minute together; here they last just
/// long enough to be seen.
const TRANSITION: Duration = Duration::from_millis(100);

/// The transient states of a mapping after a change, by AWS's names.
type Transition = &'static [&'static str];
const ENABLED_FROM_THE_START: Transition = &["Creating", "Enabling"];
const DISABLED_FROM_THE_START: Transition = &[];
const ENABLING: Transition = &["Enabling"];
const DISABLING: Transition = &["Disabling"];
const UPDATING: Transition = &["Updating"];

/// The settings of a create or update request. `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MappingSettings {
    pub batch_size: Option<i64>,
    pub maximum_batching_window_in_seconds: Option<i64>,
    pub function_response_types: Option<Vec<String>>,
    pub scaling_config: Option<ScalingConfig>,
    pub enabled: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScalingConfig {
    pub maximum_concurrency: Option<i64>,
}

#[derive(Debug)]
pub struct Mapping {
    pub uuid: Arc<str>,
    pub event_source_arn: Arc<str>,
    pub queue: Arc<str>,
    pub function: Arc<str>,
    pub batch_size: u32,
    pub window: Duration,
    pub report_batch_item_failures: bool,
    pub maximum_concurrency: Option<u32>,
    pub enabled: bool,
    pub last_modified: Timestamp,
    transition: Transition,
    /// When it starts to poll, if it is enabled.
    polls_from: Timestamp,
    pub(crate) poller: Poller,
}

impl Mapping {
    pub fn new(
        now: Timestamp,
        uuid: Arc<str>,
        event_source_arn: &str,
        function: Arc<str>,
        settings: &MappingSettings,
    ) -> Result<Self, LambdaError> {
        let queue = queue_name(event_source_arn).ok_or_else(|| {
            LambdaError::invalid(format_args!(
                "an event source must be an SQS queue of this account and region here, got \
                 {event_source_arn}"
            ))
        })?;
        let mut mapping = Self {
            uuid,
            event_source_arn: event_source_arn.into(),
            queue: queue.into(),
            function,
            batch_size: BATCH_SIZE_DEFAULT,
            window: Duration::ZERO,
            report_batch_item_failures: false,
            maximum_concurrency: None,
            enabled: true,
            last_modified: now,
            transition: ENABLED_FROM_THE_START,
            polls_from: now,
            poller: Poller::default(),
        };
        mapping.set(now, settings)?;
        let first = if mapping.enabled { ENABLED_FROM_THE_START } else { DISABLED_FROM_THE_START };
        mapping.transition_to(first);
        Ok(mapping)
    }

    fn transition_to(&mut self, transition: Transition) {
        self.transition = transition;
        if transition.ends_with(ENABLING) {
            let steps = u32::try_from(transition.len()).unwrap_or(u32::MAX);
            self.polls_from = later(self.last_modified, TRANSITION.saturating_mul(steps));
        }
    }

    pub fn state(&self, now: Timestamp) -> &'static str {
        let steps = between(self.last_modified, now).as_millis() / TRANSITION.as_millis();
        let transient = usize::try_from(steps).ok().and_then(|step| self.transition.get(step));
        transient.copied().unwrap_or(if self.enabled { "Enabled" } else { "Disabled" })
    }

    pub fn polls(&self, now: Timestamp) -> bool {
        self.enabled && now >= self.polls_from
    }

    /// Applies `settings`. If any of them is invalid, nothing changes.
    pub fn set(&mut self, now: Timestamp, settings: &MappingSettings) -> Result<(), LambdaError> {
        check(settings)?;
        let number = |given: i64| u32::try_from(given).unwrap_or(u32::MAX);
        let batch_size = settings.batch_size.map_or(self.batch_size, number);
        let window = match settings.maximum_batching_window_in_seconds {
            Some(secs) => Duration::from_secs(number(secs).into()),
            None => self.window,
        };
        if batch_size > BATCH_SIZE_WITHOUT_WINDOW_MAX && window.is_zero() {
            return Err(LambdaError::invalid(format_args!(
                "Maximum batch window in seconds must be greater than 0 if maximum batch size is \
                 greater than {BATCH_SIZE_WITHOUT_WINDOW_MAX}"
            )));
        }
        self.batch_size = batch_size;
        self.window = window;
        if let Some(types) = &settings.function_response_types {
            self.report_batch_item_failures = !types.is_empty();
        }
        if let Some(scaling) = settings.scaling_config {
            self.maximum_concurrency = scaling.maximum_concurrency.map(number);
        }
        let enabled = settings.enabled.unwrap_or(self.enabled);
        let transition = match (self.enabled, enabled) {
            (false, true) => ENABLING,
            (true, false) => DISABLING,
            (true, true) | (false, false) => UPDATING,
        };
        self.enabled = enabled;
        if !self.enabled {
            // The messages that it holds become visible again in the queue.
            self.poller.held.clear();
            self.poller.held_bytes = 0;
        }
        self.last_modified = now;
        self.transition_to(transition);
        Ok(())
    }

    fn batches_max(&self) -> u32 {
        self.poller.granted().min(self.maximum_concurrency.unwrap_or(BATCHES_MAX))
    }

    pub(crate) fn may_deliver(&mut self, now: Timestamp) -> bool {
        if self.poller.paused_until.is_some_and(|until| now < until) {
            return false;
        }
        self.poller.grow(now);
        self.poller.running < self.batches_max()
    }

    pub fn wanted(&self) -> usize {
        let size = usize::try_from(self.batch_size).unwrap_or(usize::MAX);
        size.saturating_sub(self.poller.held.len())
    }

    /// When the held messages are delivered: at once if they fill a batch.
    fn ready_at(&self) -> Option<Timestamp> {
        let first = self.poller.held.front()?;
        let full = self.wanted() == 0 || self.poller.held_bytes > BATCH_BYTES_MAX;
        Some(if full { first.received_at } else { later(first.received_at, self.window) })
    }

    pub(crate) fn holds_batch(&self, now: Timestamp) -> bool {
        self.ready_at().is_some_and(|at| at <= now)
    }

    pub(crate) fn take_batch(&mut self, now: Timestamp) -> Option<Vec<Held>> {
        if self.ready_at()? > now {
            return None;
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(first) = self.poller.held.front() {
            bytes += first.bytes();
            let full = batch.len() >= usize::try_from(self.batch_size).unwrap_or(usize::MAX);
            if !batch.is_empty() && (full || bytes > BATCH_BYTES_MAX) {
                break;
            }
            self.poller.held_bytes -= first.bytes();
            batch.extend(self.poller.held.pop_front());
        }
        Some(batch)
    }

    /// When to poll again, if the queue's next message becomes visible at `visible_at`.
    pub(crate) fn next_poll(&self, visible_at: Option<Timestamp>) -> Option<Timestamp> {
        if !self.enabled {
            return None;
        }
        let wanted = if self.wanted() > 0 { visible_at } else { None };
        let mut at = match (self.ready_at(), wanted) {
            (Some(ready), Some(visible)) => ready.min(visible),
            (ready, visible) => ready.or(visible)?,
        };
        if self.poller.running >= self.batches_max() {
            let bound = self.maximum_concurrency.unwrap_or(BATCHES_MAX);
            if self.poller.granted() >= bound {
                // Only the end of a run allows another batch.
                return None;
            }
            at = at.max(later(self.poller.granted_at, GROWTH_INTERVAL));
        }
        Some(self.poller.paused_until.map_or(at, |until| at.max(until)).max(self.polls_from))
    }
}

fn check(settings: &MappingSettings) -> Result<(), LambdaError> {
    let mut faults = Faults::default();
    faults.range("batchSize", settings.batch_size, BATCH_SIZE);
    let window = settings.maximum_batching_window_in_seconds;
    faults.range("maximumBatchingWindowInSeconds", window, WINDOW_SECS);
    let maximum = settings.scaling_config.and_then(|scaling| scaling.maximum_concurrency);
    faults.range("scalingConfig.maximumConcurrency", maximum, MAXIMUM_CONCURRENCY);
    for other in settings.function_response_types.iter().flatten() {
        if other != "ReportBatchItemFailures" {
            faults.constraint(
                "functionResponseTypes",
                other,
                "Member must satisfy enum value set: [ReportBatchItemFailures]",
            );
        }
    }
    faults.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:q";

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_timestamp_millis(millis).unwrap()
    }

    fn mapping(settings: &MappingSettings) -> Result<Mapping, LambdaError> {
        Mapping::new(at(0), "m".into(), ARN, "f".into(), settings)
    }

    fn batches_of(size: i64, window: i64) -> Mapping {
        mapping(&MappingSettings {
            batch_size: Some(size),
            maximum_batching_window_in_seconds: Some(window),
            ..MappingSettings::default()
        })
        .unwrap()
    }

    fn hold(mapping: &mut Mapping, id: &str, received_at: Timestamp, bytes: usize) {
        mapping.poller.hold(Held {
            message_id: id.into(),
            receipt_handle: id.into(),
            trace_header: None,
            record: Payload::of(&"x".repeat(bytes.saturating_sub(2))),
            received_at,
            hidden_until: at(30_000),
        });
    }

    fn ids(batch: Option<Vec<Held>>) -> Vec<String> {
        batch.into_iter().flatten().map(|held| held.message_id.to_string()).collect()
    }

    #[test]
    fn a_mapping_passes_through_awss_states_and_polls_once_it_is_enabled() {
        let mut mapping = batches_of(10, 0);
        let enabled = |enabled| MappingSettings { enabled, ..MappingSettings::default() };
        let states = |mapping: &Mapping, from: i64| {
            [0, 99, 100, 199, 200].map(|millis| mapping.state(at(from + millis)))
        };
        assert_eq!(
            states(&mapping, 0),
            ["Creating", "Creating", "Enabling", "Enabling", "Enabled"]
        );
        assert_eq!([199, 200].map(|millis| mapping.polls(at(millis))), [false, true]);
        assert_eq!(mapping.next_poll(Some(at(0))), Some(at(200)));

        mapping.set(at(1_000), &enabled(None)).unwrap();
        assert_eq!(states(&mapping, 1_000)[1..3], ["Updating", "Enabled"]);
        assert!(mapping.polls(at(1_000)));
        mapping.set(at(2_000), &enabled(Some(false))).unwrap();
        assert_eq!(states(&mapping, 2_000)[1..3], ["Disabling", "Disabled"]);
        assert!(!mapping.polls(at(2_000)));
        mapping.set(at(3_000), &enabled(Some(true))).unwrap();
        assert_eq!(states(&mapping, 3_000)[1..3], ["Enabling", "Enabled"]);
        assert_eq!([3_099, 3_100].map(|millis| mapping.polls(at(millis))), [false, true]);

        let off = super::Mapping::new(at(0), "m".into(), ARN, "f".into(), &enabled(Some(false)));
        assert_eq!(states(&off.unwrap(), 0)[..2], ["Disabled", "Disabled"]);
    }

    #[test]
    fn a_batch_stays_within_a_payload() {
        let mut mapping = batches_of(10, 0);
        for id in ["a", "b", "c", "d"] {
            hold(&mut mapping, id, at(0), 2 * 1024 * 1024);
        }
        assert_eq!(ids(mapping.take_batch(at(0))), ["a", "b"]);
        assert_eq!(ids(mapping.take_batch(at(0))), ["c", "d"]);
    }

    #[test]
    fn concurrency_grows_while_there_is_work_for_more_however_short_the_batches_are() {
        let mut mapping = batches_of(1, 0);
        for tenth in 0..=20 {
            let now = at(tenth * 100);
            while mapping.may_deliver(now) {
                mapping.poller.delivered(now);
            }
            (0..mapping.poller.running).for_each(|_| mapping.poller.finished());
        }
        assert_eq!(mapping.poller.granted(), 15);
        mapping.poller.delivered(at(2_000));
        mapping.poller.drained();
        assert!(mapping.may_deliver(at(4_000)));
        assert_eq!(mapping.poller.granted(), 15, "there was not enough work");
    }
}
