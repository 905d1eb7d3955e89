//! Runs a call, from its first attempt to its last, and emits its tracing events and metrics.
//!
//! These don't contain the text of an error, because it may quote the payload.

use std::{sync::Arc, time::Duration};

use comeback_core::{Timestamp, backoff::Draw, emf::MetricLine};
use serde_json::json;

use super::{Cause, Deadline, Retry, Spent, StopReason, Stopped, deadline::now};
use crate::transient::{Kind, Rule, Standard, Verdict};

pub(super) type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// A call that has not been started; see [`Retry::operation`].
#[must_use = "a call does nothing until `run`"]
pub struct Call<'a, R = Standard> {
    retry: &'a Retry<R>,
    operation: &'static str,
    deadline: Option<Deadline>,
}

impl<'a, R> Call<'a, R> {
    pub(super) fn new(retry: &'a Retry<R>, operation: &'static str) -> Self {
        Self { retry, operation, deadline: None }
    }

    /// Sets the deadline. The call stops waiting early enough to leave the deadline's minimum.
    pub fn until(self, deadline: Deadline) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Makes the first attempt, and further attempts after transient errors.
    ///
    /// You may drop the future at any time. The quota is not refunded.
    ///
    /// # Errors
    ///
    /// The error of the last attempt, and the reason why there was no further one.
    pub async fn run<T, E, Form, F, Fut>(self, mut attempt: F) -> Result<T, Stopped<E>>
    where
        R: Rule<E>,
        E: Cause<Form>,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut run = Run { call: self, failed: 0, spent: None, hint: Duration::ZERO };
        loop {
            run.turn().await;
            let delay = match attempt().await {
                Ok(answer) => {
                    run.succeeded();
                    return Ok(answer);
                }
                Err(cause) => match run.after_failure(&cause) {
                    Ok(delay) => delay,
                    Err(reason) => return Err(run.stopped(reason, cause)),
                },
            };
            tokio::time::sleep(delay).await;
        }
    }
}

struct Run<'a, R> {
    call: Call<'a, R>,
    /// The number of failed attempts.
    failed: u32,
    /// The cost of the last retry.
    spent: Option<Spent>,
    /// The server's retry hint after the last failed attempt, or zero.
    hint: Duration,
}

impl<R> Run<'_, R> {
    /// Waits until the client's rate limit allows an attempt, or until only the deadline's minimum is left.
    async fn turn(&self) {
        let Some(adaptive) = &self.call.retry.adaptive else { return };
        let now = now();
        let most = self.call.deadline.map_or(Duration::MAX, |deadline| deadline.spare_at(now));
        let turn = adaptive.turn(now.into_std(), most);
        if !turn.wait.is_zero() {
            tokio::time::sleep(turn.wait).await;
        }
        turn.use_token();
    }

    /// Returns the delay before the next attempt, or the reason why there is none.
    fn after_failure<E>(&mut self, error: &E) -> Result<Duration, StopReason>
    where
        R: Rule<E>,
    {
        let Call { retry, operation, deadline } = self.call;
        self.failed = self.failed.saturating_add(1);
        let verdict = retry.policy.rule.judge(error);
        let transient = verdict.transient();
        let hint = transient.and_then(|transient| transient.hint);
        self.hint = hint.map_or(Duration::ZERO, |hint| hint.wait(crate::now()));
        self.answered(transient.is_some_and(|transient| transient.kind == Kind::Throttled));
        let next = self.decide(verdict);
        failed(operation, self.failed, deadline, verdict, next);
        next
    }

    fn decide(&mut self, verdict: Verdict) -> Result<Duration, StopReason> {
        let Call { retry, deadline, .. } = &self.call;
        let transient = match verdict {
            Verdict::Retry(transient) => transient,
            Verdict::Never => return Err(StopReason::Permanent),
            Verdict::NoOpinion => return Err(StopReason::Unknown),
        };
        let draw = Draw::of(fastrand::u64(..));
        let drawn = retry.policy.delay_after(self.failed, draw).ok_or(StopReason::Attempts)?;
        let max = retry.policy.max();
        // The server would refuse an attempt before that time.
        if self.hint > max {
            return Err(StopReason::Hint { hint: self.hint, max });
        }
        let delay = drawn.max(self.hint);
        if let Some(deadline) = deadline {
            let (left, minimum) = (deadline.left(), deadline.minimum());
            // Even with a minimum of zero, no delay may exceed the time left.
            if left.checked_sub(delay).is_none_or(|rest| rest < minimum) {
                return Err(StopReason::Time { delay, left, minimum });
            }
        }
        self.spent = Some(retry.quota.spend(transient.kind).ok_or(StopReason::Quota)?);
        Ok(delay)
    }

    fn succeeded(mut self) {
        let Call { retry, operation, deadline } = self.call;
        succeeded(operation, self.failed.saturating_add(1), deadline);
        self.answered(false);
        retry.quota.succeeded(self.spent.take());
        self.count(self.failed, false);
    }

    fn stopped<E: Cause<Form>, Form>(self, reason: StopReason, cause: E) -> Stopped<E> {
        self.count(self.failed.saturating_sub(1), true);
        Stopped::after(self.call.operation, self.failed, reason, cause, self.hint)
    }

    /// Writes the metrics of a call that has ended.
    fn count(&self, retries: u32, gave_up: bool) {
        if let Some(sink) = &self.call.retry.counted_to {
            sink(&metrics(self.call.operation, retries, gave_up, crate::now()));
        }
    }

    /// Reports a response to the client's rate limit.
    fn answered(&self, throttled: bool) {
        if let Some(adaptive) = &self.call.retry.adaptive {
            adaptive.answered(now().into_std(), throttled);
        }
    }
}

/// The target of all events, by which subscribers filter them.
const TARGET: &str = "comeback::retry";

/// Emits the event of an attempt that succeeded. Attempts are counted from 1.
fn succeeded(operation: &str, attempt: u32, deadline: Option<Deadline>) {
    tracing::debug!(
        target: TARGET,
        operation,
        attempt,
        outcome = "succeeded",
        // Fields are evaluated, and the clock is read, only if there is a subscriber.
        left_ms = deadline.map(|deadline| in_ms(deadline.left())),
        "an attempt succeeded"
    );
}

/// Emits the event of an attempt that failed, with the delay before the next one or the reason why there is none.
fn failed(
    operation: &str,
    attempt: u32,
    deadline: Option<Deadline>,
    verdict: Verdict,
    next: Result<Duration, StopReason>,
) {
    let error_kind = match verdict {
        Verdict::Retry(transient) => transient.kind.as_str(),
        Verdict::Never => "permanent",
        Verdict::NoOpinion => "unknown",
    };
    match next {
        Ok(delay) => tracing::info!(
            target: TARGET,
            operation,
            attempt,
            outcome = "retrying",
            error_kind,
            delay_ms = in_ms(delay),
            left_ms = deadline.map(|deadline| in_ms(deadline.left())),
            "an attempt failed, another follows"
        ),
        Err(reason) => tracing::warn!(
            target: TARGET,
            operation,
            attempt,
            outcome = "gave_up",
            error_kind,
            reason = reason.as_str(),
            left_ms = deadline.map(|deadline| in_ms(deadline.left())),
            "an attempt failed, and was the last"
        ),
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats the metrics of a call that ended after this many retries.
fn metrics(operation: &str, retries: u32, gave_up: bool, now: Timestamp) -> String {
    let mut line = MetricLine::default();
    line.add("Calls", "Count", json!(1));
    line.add("Retries", "Count", json!(retries));
    line.add("GaveUp", "Count", json!(u32::from(gave_up)));
    line.render(&[("Operation", operation)], now)
}
