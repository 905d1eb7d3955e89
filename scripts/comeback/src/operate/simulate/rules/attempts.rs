//! The attempts of an event that never succeeds.

use comeback_core::{Attempt, reason::Reason, time::between};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::candidate::{Candidate, Life, START};
use crate::quantiles::Quantiles;

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

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Attempts {
    pub events: usize,
    /// The times of each attempt, up to the 200th.
    pub times: Vec<AttemptTimes>,
    pub made: Quantiles,
    /// The time from the first to the last failure of an event, after which it is given up.
    pub given_up_after_seconds: Quantiles,
    #[serde(serialize_with = "name")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<Reason>,
    /// Example lives: the seconds from the first failure to each attempt. Of attempts close together, only one is kept.
    #[serde(skip)]
    pub examples: Vec<Vec<f64>>,
}

#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttemptTimes {
    #[schemars(with = "u32")]
    pub attempt: Attempt,
    /// The longest possible wait before the attempt.
    pub ceiling_seconds: f64,
    /// The share of events that reach this attempt.
    pub share: f64,
    pub after_seconds: Quantiles,
}

pub(super) fn attempts(candidate: &Candidate, seed: u64) -> Attempts {
    let policy = &candidate.policy;
    let mut life = Life::new(candidate);
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
        ceiling_seconds: policy.ceiling(attempt).as_secs_f64(),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use comeback_core::{
        backoff::{Backoff, Jitter},
        error_type::ErrorReport,
        settings::policy::Policy,
    };

    use super::*;

    fn attempts(policy: Policy) -> Attempts {
        let (name, error) = (String::new(), ErrorReport::default());
        let candidate = Candidate { name, policy, decides: None, error, in_flight_max: 1 };
        super::attempts(&candidate, 1)
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
        let attempts = attempts(policy());
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
        let attempts = attempts(policy);
        assert_eq!((attempts.times.len(), attempts.made.max), (3, 3.0));
        assert_eq!(attempts.given_up_after_seconds.max, 7.0);
        assert_eq!(attempts.reason, Some(Reason::MaxAttemptsExceeded));
    }

    #[test]
    fn a_policy_with_many_attempts_is_simulated_with_fewer_events() {
        let second = Duration::from_secs(1);
        let backoff = Backoff { base: second, max: second, jitter: Jitter::None };
        let max_age = Duration::from_hours(24);
        let attempts = attempts(Policy { backoff, max_age, ..Policy::default() });
        assert_eq!(attempts.made.max, 86_340.0);
        assert_eq!(attempts.times.len(), ROWS_MAX);
        assert!(attempts.events < 30, "{}", attempts.events);
        assert_eq!(attempts.examples[0].len(), 300, "one in 288 s");
    }
}
