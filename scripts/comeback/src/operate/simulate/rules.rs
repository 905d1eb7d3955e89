//! Simulates a policy before it is deployed: `attempts` of events that never succeed, and an `outage` of the target.
//!
//! `comeback_core::schedule` plans each step of an event's life, as in the retry handler. In a simulation, invocations
//! take no time and the handler is never late. On AWS each retry is up to a second later, because SQS counts whole
//! seconds. The costs of retries on AWS are from the figures in `infra/COST.md`, which explains how they were derived.

mod outage;

use std::{borrow::Cow, fmt::Write, time::Duration};

use comeback_core::{
    Attempt, Timestamp,
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
    time::between,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

pub use crate::operate::simulate::rules::outage::{Outage, Point};

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
        attempts: attempts(&candidate.policy, scenario.seed),
        outage: outage::simulate(candidate, scenario),
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
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

/// The number of events to simulate. It keeps the error of a quantile within a few percent.
const EVENTS: usize = 5_000;

/// The maximum number of steps to simulate, for policies with thousands of attempts.
const STEPS_MAX: usize = 2_000_000;

/// The maximum number of attempts that are listed with their times.
const ROWS_MAX: usize = 200;

/// The maximum number of attempts of one event to simulate.
const COUNTED_MAX: usize = 1_000_000;

/// The number of example lives for a chart, and the maximum number of attempts in each.
const EXAMPLES: usize = 16;
const EXAMPLE_TIMES: u32 = 300;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempts {
    pub events: usize,
    /// The times of each attempt, up to the 200th.
    pub times: Vec<AttemptTimes>,
    pub made: Quantiles,
    /// The time from the first to the last failure of an event, after which it is given up.
    pub given_up_after_seconds: Quantiles,
    #[serde(serialize_with = "name")]
    pub reason: Option<Reason>,
    /// Example lives: the seconds from the first failure to each attempt. Of attempts close together, only one is kept.
    #[serde(skip)]
    pub examples: Vec<Vec<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AttemptTimes {
    pub attempt: Attempt,
    /// The longest possible wait before the attempt.
    pub ceiling_seconds: f64,
    /// The share of events that reach this attempt.
    pub share: f64,
    pub after_seconds: Quantiles,
}

fn attempts(policy: &Policy, seed: u64) -> Attempts {
    let mut life = Life::new(policy);
    let mut by_attempt: Vec<Vec<f64>> = Vec::new();
    let (mut made, mut ends, mut examples) = (Vec::new(), Vec::new(), Vec::new());
    let (mut steps, mut reason) = (0, None);
    let apart = (policy.max_age / EXAMPLE_TIMES).as_secs_f64();
    while made.len() < EVENTS && steps < STEPS_MAX {
        life.begin(seed, made.len() as u64, START);
        let mut attempts = 0;
        let mut example: Vec<f64> = Vec::new();
        while attempts < COUNTED_MAX {
            let schedule = match life.plan() {
                Ok(schedule) => schedule,
                Err(why) => {
                    reason = Some(why);
                    break;
                }
            };
            let after = between(START, schedule.due).as_secs_f64();
            if attempts < ROWS_MAX {
                if by_attempt.len() == attempts {
                    by_attempt.push(Vec::new());
                }
                by_attempt[attempts].push(after);
            }
            if example.last().is_none_or(|last| after - last >= apart) {
                example.push(after);
            }
            attempts += 1;
            life.fail_again(&schedule);
        }
        steps += attempts + 1;
        made.push(attempts as f64);
        ends.push(between(START, life.failure.failed_at).as_secs_f64());
        if examples.len() < EXAMPLES {
            examples.push(example);
        }
    }
    let events = made.len();
    let row = |(attempt, mut times): (Attempt, Vec<f64>)| AttemptTimes {
        attempt,
        ceiling_seconds: policy.backoff.ceiling(attempt).as_secs_f64(),
        share: times.len() as f64 / events as f64,
        after_seconds: Quantiles::of(&mut times),
    };
    let ordinals = std::iter::successors(Some(Attempt::FIRST), |attempt| Some(attempt.next()));
    Attempts {
        events,
        times: ordinals.zip(by_attempt).map(row).collect(),
        made: Quantiles::of(&mut made),
        given_up_after_seconds: Quantiles::of(&mut ends),
        reason,
        examples,
    }
}

fn name<S: Serializer>(reason: &Option<Reason>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(Reason::as_str).serialize(serializer)
}

/// Five quantiles of a sample, in the unit of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub min: f64,
    pub p5: f64,
    pub median: f64,
    pub p95: f64,
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of a sample, which are zero if it is empty.
    fn of(sample: &mut [f64]) -> Self {
        sample.sort_unstable_by(f64::total_cmp);
        let at = |share| quantile(sample, share).unwrap_or_default();
        Self { min: at(0.0), p5: at(0.05), median: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

/// The value of a sorted sample at the nearest rank, without interpolation.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use comeback_core::backoff::{Backoff, Jitter};

    use super::*;

    #[test]
    fn a_million_retries_cost_what_the_cost_page_says() {
        let run = Run { milliseconds: 1000, memory_mb: 1024 };
        let dollars = Dollars::of(MILLION, 0.0, 0.0, run);
        assert_eq!([dollars.comeback_in_full_batches, dollars.comeback_each_alone], RETRIES);
        assert!((dollars.target_runs - 13.5334).abs() < 1e-9, "{dollars:?}");
    }

    fn policy() -> Policy {
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(60));
        let max_age = Duration::from_secs(1000);
        Policy {
            backoff: Backoff { base, max, jitter: Jitter::None },
            max_age,
            ..Policy::default()
        }
    }

    #[test]
    fn without_jitter_each_attempt_is_made_at_the_sum_of_the_ceilings() {
        let attempts = attempts(&policy(), 1);
        let medians = attempts.times.iter().map(|row| row.after_seconds.median);
        let sums = [1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0];
        assert_eq!(medians.take(8).collect::<Vec<_>>(), sums);
        // The last attempt is brought forward to the last chance, a hundredth of the age before its end.
        assert_eq!(attempts.times.last().unwrap().after_seconds.max, 990.0);
        assert_eq!(attempts.made.min, attempts.made.max);
        assert_eq!(attempts.reason, Some(Reason::MaxAgeExceeded));
    }

    #[test]
    fn max_attempts_ends_a_life_too() {
        let policy = Policy { max_attempts: Attempt::new(3), ..policy() };
        let attempts = attempts(&policy, 1);
        assert_eq!((attempts.times.len(), attempts.made.max), (3, 3.0));
        assert_eq!(attempts.given_up_after_seconds.max, 7.0);
        assert_eq!(attempts.reason, Some(Reason::MaxAttemptsExceeded));
    }

    #[test]
    fn a_policy_with_many_attempts_is_simulated_with_fewer_events() {
        let second = Duration::from_secs(1);
        let backoff = Backoff { base: second, max: second, jitter: Jitter::None };
        let max_age = Duration::from_hours(24);
        let attempts = attempts(&Policy { backoff, max_age, ..Policy::default() }, 1);
        assert_eq!(attempts.made.max, 86_340.0);
        assert_eq!(attempts.times.len(), ROWS_MAX);
        assert!(attempts.events < 30, "{}", attempts.events);
        assert_eq!(attempts.examples[0].len(), 300, "one in 288 s");
    }

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let mut sample: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let expected = Quantiles { min: 0.0, p5: 5.0, median: 50.0, p95: 95.0, max: 100.0 };
        assert_eq!(Quantiles::of(&mut sample), expected);
        assert_eq!(Quantiles::of(&mut [7.0]).median, 7.0);
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
    }
}
