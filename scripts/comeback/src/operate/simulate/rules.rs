//! Simulates a policy before it is deployed: `attempts` of events that never succeed, and an `outage` of the target.
//!
//! `comeback_core::schedule` plans each step of an event's life, as in the retry handler. In a simulation, invocations
//! take no time and the handler is never late. On AWS each retry is up to a second later, because SQS counts whole
//! seconds. The costs of retries on AWS are from the figures in `infra/COST.md`, which explains how they were derived.

mod attempts;
mod outage;

use std::{borrow::Cow, fmt::Write, time::Duration};

use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    duration::format,
    envelope::Envelope,
    error_type::ErrorReport,
    policy::Policy,
    reason::Reason,
    record::{Condition, Event, Failure},
    schedule::Schedule,
    settings::{BadSettings, Settings},
    target::Target,
};
use serde::Serialize;
use serde_json::value::RawValue;

pub use crate::operate::simulate::rules::{
    attempts::{AttemptTimes, Attempts, Quantiles, quantile},
    outage::{Outage, Point},
};

/// The outage to simulate, and the duration and memory of the target's runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// The length of the outage, in which every run of the target fails.
    #[serde(rename = "outage_seconds", serialize_with = "seconds")]
    pub outage: Duration,
    /// The rate at which new events arrive, during the outage and after it.
    pub events_per_second: f64,
    pub run: Run,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub policy: String,
    pub settings: Vec<(&'static str, String)>,
    /// The attempts of an event that never succeeds.
    pub attempts: Attempts,
    pub outage: Outage,
}

pub fn simulate(candidate: &Candidate, scenario: &Scenario) -> Forecast {
    Forecast {
        policy: candidate.name.clone(),
        settings: candidate.settings(),
        attempts: attempts::simulate(&candidate.policy, scenario.seed),
        outage: outage::simulate(candidate, scenario),
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// A placeholder: the settings require a dead-letter queue, which a simulation doesn't use.
const ANY_QUEUE: (&str, &str) =
    ("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/0/any");

#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    pub policy: Policy,
    /// The maximum number of messages of a queue that wait in flight.
    pub in_flight_max: u32,
}

impl Candidate {
    /// Parses the settings of a retry handler, as the handler does it.
    pub fn read(name: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let (queue, any) = ANY_QUEUE;
        let settings = Settings::from_lookup(|name| {
            lookup(name).or_else(|| (name == queue).then(|| any.to_owned()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            // No function has an empty name, so this is the general policy.
            policy: settings.rules.policies.of("").clone(),
            in_flight_max: settings.in_flight_max.get(),
        })
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let Policy { backoff, max_age, max_attempts, .. } = &self.policy;
        let attempts = max_attempts.map_or("none".to_owned(), |max| max.to_string());
        vec![
            ("BASE_BACKOFF", format(backoff.base)),
            ("MAX_BACKOFF", format(backoff.max)),
            ("MAX_AGE", format(*max_age)),
            ("MAX_ATTEMPTS", attempts),
            ("JITTER", format!("{:?}", backoff.jitter).to_lowercase()),
            ("IN_FLIGHT_MAX", self.in_flight_max.to_string()),
        ]
    }
}

const START: Timestamp = Timestamp::UNIX_EPOCH;

/// An event that has just failed. The value is reused for one event after another to avoid allocations for millions.
struct Life<'a> {
    policy: &'a Policy,
    failure: Failure<'static>,
    event: (u64, u64),
}

impl<'a> Life<'a> {
    fn new(policy: &'a Policy) -> Self {
        #[allow(clippy::expect_used, reason = "a constant")]
        let target = FunctionArn::parse("arn:aws:lambda:us-east-1:000000000000:function:any")
            .expect("the ARN of a function");
        let failure = Failure {
            target: Target::Function(target),
            request_id: String::new(),
            failed_at: START,
            condition: Condition::Failed,
            error: ErrorReport::default(),
            event: None,
        };
        Self { policy, failure, event: (0, 0) }
    }

    /// Begins the life of a new event, whose first run fails at this time.
    fn begin(&mut self, seed: u64, event: u64, failed_at: Timestamp) {
        self.event = (seed, event);
        self.failure.event = Some(Event::Fresh(Cow::Borrowed(RawValue::NULL)));
        self.fail(0, failed_at);
    }

    fn failed_at(&self) -> Timestamp {
        self.failure.failed_at
    }

    /// Plans the next attempt, or returns the reason why the event is given up.
    fn plan(&self) -> Result<Schedule, Reason> {
        Schedule::of(&self.failure, self.policy)
    }

    /// Makes the attempt when it is due, and lets it fail.
    fn fail_again(&mut self, schedule: &Schedule) {
        if let Some(Event::Retried(envelope)) = &mut self.failure.event {
            envelope.metadata.attempt = schedule.attempt;
        } else {
            let envelope = self.failure.envelope(schedule.attempt).map(Envelope::into_owned);
            self.failure.event = envelope.map(Event::Retried);
        }
        self.fail(schedule.attempt.get(), schedule.due);
    }

    /// Records a failure. Each failed invocation has its own request id, which determines the next draw of the jitter.
    fn fail(&mut self, attempt: u32, failed_at: Timestamp) {
        let (seed, event) = self.event;
        self.failure.request_id.clear();
        // Writing to a string can't fail.
        let _ = write!(self.failure.request_id, "{seed}-{event}-{attempt}");
        self.failure.failed_at = failed_at;
    }
}

const MILLION: f64 = 1e6;

// generated: prices, by infra/contract/generate.py
/// The price of a million retries, in batches of ten and in batches of one.
const RETRIES: [f64; 2] = [1.64, 4.71];
/// A million further hops of waits that one visibility timeout can't cover, in batches of ten and in batches of one.
const HOPS: [f64; 2] = [0.41, 2.11];
/// A million dead letters, in batches of ten and in batches of one.
const DEAD_LETTERS: [f64; 2] = [1.25, 3.06];
/// A million requests of Lambda.
const REQUESTS: f64 = 0.2;
/// A second of Lambda with a GB of memory, on arm64.
const GB_SECOND: f64 = 0.000_013_333_4;
// end: prices

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    pub milliseconds: u32,
    pub memory_mb: u32,
}

/// The costs of an outage's retries, in dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dollars {
    /// Comeback's costs with full batches, as in an outage with many events.
    pub comeback_in_full_batches: f64,
    /// Comeback's costs with a single event in each batch.
    pub comeback_each_alone: f64,
    pub target_runs: f64,
}

impl Dollars {
    fn of(retries: f64, hops: f64, dead_letters: f64, run: Run) -> Self {
        let comeback = |kind: usize| {
            let waits = retries * RETRIES[kind] + hops * HOPS[kind];
            (waits + dead_letters * DEAD_LETTERS[kind]) / MILLION
        };
        let gb_seconds = f64::from(run.milliseconds) / 1000.0 * f64::from(run.memory_mb) / 1024.0;
        Self {
            comeback_in_full_batches: comeback(0),
            comeback_each_alone: comeback(1),
            target_runs: retries * (REQUESTS / MILLION + gb_seconds * GB_SECOND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_by_the_rules_of_the_handler() {
        let read = |values: &[(&str, &str)]| {
            Candidate::read("mine", |name| {
                let value = values.iter().find(|(given, _)| *given == name);
                value.map(|(_, value)| (*value).to_owned())
            })
        };
        let settings = read(&[("MAX_AGE", "7d"), ("JITTER", "none"), ("IN_FLIGHT_MAX", "5")]);
        let expected = [
            ("BASE_BACKOFF", "1s"),
            ("MAX_BACKOFF", "12h"),
            ("MAX_AGE", "7d"),
            ("MAX_ATTEMPTS", "none"),
            ("JITTER", "none"),
            ("IN_FLIGHT_MAX", "5"),
        ];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(settings.unwrap().settings(), expected);
        let bad = read(&[("MAX_AGE", "soon"), ("JITTER", "some")]).unwrap_err();
        assert_eq!(bad.names().collect::<Vec<_>>(), ["MAX_AGE", "JITTER"]);
    }

    #[test]
    fn a_million_retries_cost_what_the_cost_page_says() {
        let run = Run { milliseconds: 1000, memory_mb: 1024 };
        let dollars = Dollars::of(MILLION, 0.0, 0.0, run);
        assert_eq!([dollars.comeback_in_full_batches, dollars.comeback_each_alone], RETRIES);
        assert!((dollars.target_runs - 13.5334).abs() < 1e-9, "{dollars:?}");
    }
}
