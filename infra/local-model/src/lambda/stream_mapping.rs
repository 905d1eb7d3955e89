//! An event source mapping of a stream: how the records of a shard reach a function in order, and what happens to a
//! batch that fails.
//!
//! One batch of a shard runs at a time. A batch that failed is tried again until its attempts are used up, and the
//! shard stands still meanwhile. With bisecting, it is split in two before it is tried again.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::later};
use serde::Deserialize;

use super::{
    error::{Faults, LambdaError},
    invoke_config::{Destination, DestinationConfig},
};

/// AWS's bounds and defaults.
const BATCH_SIZE: std::ops::RangeInclusive<i64> = 1..=10_000;
const BATCH_SIZE_DEFAULT: u32 = 100;
const RETRY_ATTEMPTS: std::ops::RangeInclusive<i64> = -1..=10_000;

/// The wait before a batch is tried again. AWS doesn't document it.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The settings of a create or update request. `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamSettings {
    pub batch_size: Option<i64>,
    pub starting_position: Option<String>,
    pub maximum_retry_attempts: Option<i64>,
    pub bisect_batch_on_function_error: Option<bool>,
    pub function_response_types: Option<Vec<String>>,
    pub destination_config: Option<DestinationConfig>,
    pub enabled: Option<bool>,
}

#[derive(Debug)]
pub struct StreamMapping {
    pub uuid: Arc<str>,
    pub event_source_arn: Arc<str>,
    pub stream: Arc<str>,
    pub function: Arc<str>,
    pub batch_size: u32,
    /// `None` means until it succeeds.
    pub retries_max: Option<u32>,
    pub bisects: bool,
    pub report_batch_item_failures: bool,
    pub on_failure: Option<Destination>,
    pub enabled: bool,
    pub last_modified: Timestamp,
    /// The first record that was not in a batch yet.
    next: u64,
    /// Parts of a batch that are to be tried, in the order of their records.
    parts: VecDeque<Part>,
    is_running: bool,
}

/// Records that are invoked together.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) records: Range<u64>,
    /// How many runs with these records have failed.
    pub(crate) failures: u32,
    due: Timestamp,
}

/// What a run did with its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processed {
    All,
    /// All records from this one on are to be tried again.
    Until(u64),
}

impl StreamMapping {
    /// Creates a mapping of a stream that has the records of `numbers`.
    pub(crate) fn new(
        now: Timestamp,
        uuid: Arc<str>,
        (event_source_arn, stream): (&str, &str),
        function: Arc<str>,
        numbers: Range<u64>,
        settings: &StreamSettings,
    ) -> Result<Self, LambdaError> {
        let next = match settings.starting_position.as_deref() {
            Some("TRIM_HORIZON") => numbers.start,
            Some("LATEST") => numbers.end,
            other => {
                return Err(LambdaError::invalid(format_args!(
                    "StartingPosition must be TRIM_HORIZON or LATEST here, got {other:?}"
                )));
            }
        };
        let mut mapping = Self {
            uuid,
            event_source_arn: event_source_arn.into(),
            stream: stream.into(),
            function,
            batch_size: BATCH_SIZE_DEFAULT,
            retries_max: None,
            bisects: false,
            report_batch_item_failures: false,
            on_failure: None,
            enabled: true,
            last_modified: now,
            next,
            parts: VecDeque::new(),
            is_running: false,
        };
        mapping.set(now, settings)?;
        Ok(mapping)
    }

    /// Applies `settings`. If any of them is invalid, nothing changes.
    pub fn set(&mut self, now: Timestamp, settings: &StreamSettings) -> Result<(), LambdaError> {
        let mut faults = Faults::default();
        faults.range("batchSize", settings.batch_size, BATCH_SIZE);
        faults.range("maximumRetryAttempts", settings.maximum_retry_attempts, RETRY_ATTEMPTS);
        faults.check()?;
        let on_failure = settings.destination_config.as_ref().map(DestinationConfig::of_failures);
        let on_failure = on_failure.transpose()?;
        if let Some(size) = settings.batch_size.and_then(|size| u32::try_from(size).ok()) {
            self.batch_size = size;
        }
        if let Some(retries) = settings.maximum_retry_attempts {
            self.retries_max = u32::try_from(retries).ok();
        }
        self.bisects = settings.bisect_batch_on_function_error.unwrap_or(self.bisects);
        if let Some(types) = &settings.function_response_types {
            self.report_batch_item_failures = !types.is_empty();
        }
        self.on_failure = on_failure.unwrap_or_else(|| self.on_failure.take());
        self.enabled = settings.enabled.unwrap_or(self.enabled);
        self.last_modified = now;
        Ok(())
    }

    /// When a batch can be run next, of a stream that has records up to `end`.
    pub(crate) fn next_due(&self, now: Timestamp, end: u64) -> Option<Timestamp> {
        if self.is_running || !self.enabled {
            return None;
        }
        match self.parts.front() {
            Some(part) => Some(part.due),
            None => (self.next < end).then_some(now),
        }
    }

    /// The records to run now, of a stream that has those of `numbers`.
    pub(crate) fn due(&mut self, now: Timestamp, numbers: &Range<u64>) -> Option<&Part> {
        if self.next_due(now, numbers.end)? > now {
            return None;
        }
        if self.parts.is_empty() {
            let first = self.next.max(numbers.start);
            self.next = numbers.end.min(first + u64::from(self.batch_size));
            self.parts.push_back(Part { records: first..self.next, failures: 0, due: now });
        }
        self.parts.front()
    }

    pub(crate) fn started(&mut self) {
        self.is_running = true;
    }

    /// The function is throttled, which doesn't count.
    pub(crate) fn throttled(&mut self, now: Timestamp) {
        if let Some(part) = self.parts.front_mut() {
            part.due = later(now, RETRY_WAIT);
        }
    }

    /// Takes in what a run did. Returns the records that are given up, if any are.
    pub(crate) fn finished(&mut self, now: Timestamp, processed: Processed) -> Option<Part> {
        self.is_running = false;
        let mut part = self.parts.pop_front()?;
        let Processed::Until(first) = processed else { return None };
        part.records.start = first.clamp(part.records.start, part.records.end);
        part.failures += 1;
        if self.retries_max.is_some_and(|max| part.failures > max) {
            return Some(part);
        }
        part.due = later(now, RETRY_WAIT);
        let Range { start, end } = part.records;
        let middle = start + (end - start) / 2;
        let (front, back) = (
            Part { records: start..middle, ..part.clone() },
            Part { records: middle..end, ..part },
        );
        if !front.records.is_empty() && self.bisects {
            self.parts.push_front(back);
            self.parts.push_front(front);
        } else {
            self.parts.push_front(Part { records: start..end, ..back });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_timestamp(secs, 0).unwrap()
    }

    fn mapping(retries: i64, bisects: bool) -> StreamMapping {
        let settings = StreamSettings {
            batch_size: Some(4),
            starting_position: Some("TRIM_HORIZON".to_owned()),
            maximum_retry_attempts: Some(retries),
            bisect_batch_on_function_error: Some(bisects),
            ..StreamSettings::default()
        };
        StreamMapping::new(at(0), "m".into(), ("arn", "s"), "f".into(), 0..6, &settings).unwrap()
    }

    /// The first record of each batch, and the one after its last.
    type Numbers = Vec<(u64, u64)>;

    /// Runs batches until there is nothing left, a second apart. Runs with record 2 fail. Returns the records of each
    /// run, and those that were given up.
    fn play(mut mapping: StreamMapping) -> (Numbers, Numbers) {
        let (mut runs, mut given_up) = (Vec::new(), Vec::new());
        for second in 0..50 {
            let Some(part) = mapping.due(at(second), &(0..6)) else { continue };
            let records = part.records.clone();
            mapping.started();
            assert_eq!(mapping.next_due(at(second), 6), None, "one batch at a time");
            let result = match records.contains(&2) {
                true => Processed::Until(records.start),
                false => Processed::All,
            };
            runs.push((records.start, records.end));
            let lost = mapping.finished(at(second), result).map(|part| part.records);
            given_up.extend(lost.map(|records| (records.start, records.end)));
        }
        (runs, given_up)
    }

    #[test]
    fn a_batch_is_tried_again_until_its_attempts_are_used_up_and_the_others_wait() {
        assert_eq!(play(mapping(1, false)), (vec![(0, 4), (0, 4), (4, 6)], vec![(0, 4)]));
        let (runs, given_up) = play(mapping(-1, false));
        assert_eq!((runs.len(), given_up.len()), (50, 0), "the shard stands still");
    }

    #[test]
    fn bisecting_finds_the_record_that_fails() {
        let runs = vec![(0, 4), (0, 2), (2, 4), (2, 3), (2, 3), (3, 4), (4, 6)];
        assert_eq!(play(mapping(3, true)), (runs, vec![(2, 3)]));
    }

    #[test]
    fn records_before_the_first_that_failed_are_done() {
        let mut mapping = mapping(1, false);
        mapping.due(at(0), &(0..6)).unwrap();
        assert!(mapping.finished(at(0), Processed::Until(3)).is_none());
        assert_eq!(mapping.due(at(1), &(0..6)).unwrap().records, 3..4);
        assert_eq!(mapping.finished(at(1), Processed::Until(3)).unwrap().records, 3..4);
    }
}
