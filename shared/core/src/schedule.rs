//! The time of a failed event's next attempt, or the reason why there is none.

use std::time::Duration;

use crate::{
    Attempt, Timestamp,
    backoff::{Backoff, Draw, Jitter},
    failure::{Condition, Failure},
    reason::Reason,
    settings::policy::{Policy, STAY_MAX},
    time::later,
};

/// How long an event of a paused target waits. A paused target fails every event at once, so an ordinary backoff
/// would only use up attempts.
const PAUSE: Duration = Duration::from_mins(15);

/// The longest time after [`kept_since`](Failure::kept_since) until a message is given up. `MAX_AGE` may be a year, but
/// SQS silently deletes a message after 14 days.
const STAY_END: Duration = Duration::from_hours(13 * 24 + 12);

/// The next attempt of a failed event. It is the same on every receive of the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Schedule {
    pub attempt: Attempt,
    pub due: Timestamp,
    /// The latest time for which an attempt is planned.
    pub last_chance: Timestamp,
    /// After this time, the event is never invoked.
    pub expiry: Timestamp,
}

impl Schedule {
    /// The next attempt by the policy of the failure's target.
    pub fn of(failure: &Failure, policy: &Policy) -> Result<Self, Reason> {
        // Earlier errors of the event don't count, so the due time is the same on every receive.
        let policy = policy.after(&failure.error);
        if failure.condition == Condition::RecursionStopped {
            return Err(Reason::RecursionStopped);
        }
        // The error ended the last round of attempts, but the operator asks for another one.
        let is_redriven = matches!(failure.condition, Condition::Redriven { .. });
        if !is_redriven && policy.non_retryable.covers(&failure.error) {
            return Err(Reason::NotRetryable);
        }
        if failure.is_of_eventbridge() && failure.error.is_of_stopped_delivery() {
            return Err(Reason::NotRetryable);
        }
        let attempt = next_attempt(failure);
        if policy.max_attempts.is_some_and(|max| attempt > max) {
            return Err(Reason::MaxAttemptsExceeded);
        }
        let first_failure = failure.first_failure();
        let last_chance = later(first_failure, policy.last_chance());
        let last_chance = last_chance.min(later(failure.kept_since(), STAY_MAX));
        if later(failure.failed_at, policy.shortest()) > last_chance {
            return Err(Reason::MaxAgeExceeded);
        }
        let due = later(failure.failed_at, delay(failure, attempt, policy)).min(last_chance);
        let expiry = later(first_failure, policy.max_age).min(stay_end(failure.kept_since()));
        Ok(Self { attempt, due, last_chance, expiry })
    }
}

/// After this time, a message is given up even if its failure can't be claimed, because SQS will soon delete it.
pub(crate) fn stay_end(kept_since: Timestamp) -> Timestamp {
    later(kept_since, STAY_END)
}

/// If the target did not run, the same attempt is made again.
fn next_attempt(failure: &Failure) -> Attempt {
    match (failure.retried(), &failure.condition) {
        (None, _) | (Some(_), Condition::Redriven { .. }) => Attempt::FIRST,
        (Some(retried), Condition::Paused) => retried.attempt,
        (Some(retried), Condition::Failed | Condition::RecursionStopped | Condition::OfBatch) => {
            retried.attempt.next()
        }
    }
}

fn delay(failure: &Failure, attempt: Attempt, policy: &Policy) -> Duration {
    let draw = Draw::seeded(&failure.request_id, attempt.get());
    match &failure.condition {
        Condition::Paused => {
            let pause = PAUSE.min(policy.longest());
            Backoff { base: pause, max: pause, jitter: Jitter::Equal }.delay(attempt, draw)
        }
        // A target may ask for longer than our backoff, never for less: honouring "now" under load
        // is how a retry storm starts.
        Condition::Failed | Condition::RecursionStopped | Condition::OfBatch => {
            let asked = failure.error.retry_after().unwrap_or_default();
            policy.delay(attempt, draw).max(asked)
        }
        Condition::Redriven { .. } => policy.delay(attempt, draw),
    }
}
