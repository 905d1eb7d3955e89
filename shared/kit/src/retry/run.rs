//! One call, from its first attempt to its last. The loop is backon's; what follows a failure is decided
//! here.

use std::{sync::Arc, time::Duration};

use backon::Retryable;
use comeback_core::backoff::Draw;

use super::{
    Adaptive, Cause, Deadline, Reason, Retry, Spent, Stopped, deadline::now, policy::Plan,
    watch::Attempt,
};
use crate::{
    clock,
    transient::{Kind, Rule, Standard, Verdict},
};

/// A call that is about to be made; see [`Retry::operation`].
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use comeback::retry::{Deadline, Policy, Retry};
///
/// let retry = Retry::new(Policy::default());
/// let deadline = Deadline::in_(Duration::from_secs(30))?;
/// let answer = retry
///     .operation("answer")
///     .until(deadline)
///     .run(|| async { "42".parse::<u32>() })
///     .await?;
/// assert_eq!(answer, 42);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a call is made by `run`"]
pub struct Call<'a, R = Standard> {
    retry: &'a Retry<R>,
    operation: &'static str,
    deadline: Option<Deadline>,
}

impl<'a, R> Call<'a, R> {
    pub(super) fn new(retry: &'a Retry<R>, operation: &'static str) -> Self {
        Self { retry, operation, deadline: None }
    }

    /// Waits for nothing that would leave less than the minimum of this deadline.
    pub fn until(self, deadline: Deadline) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Makes the call: one attempt, and others after transient errors.
    ///
    /// Dropped before it ends, it leaves nothing behind; what its retries have cost of the quota stays
    /// spent.
    ///
    /// # Errors
    ///
    /// The last attempt's error, and why there was no other.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io::{Error, ErrorKind};
    /// use comeback::retry::{Policy, Retry};
    ///
    /// let mut answers = [Err(Error::from(ErrorKind::ConnectionReset)), Ok("1.08")].into_iter();
    /// let retry = Retry::new(Policy::default());
    /// let rate = retry
    ///     .operation("rates")
    ///     .run(|| {
    ///         let answer = answers.next().unwrap();
    ///         async { answer }
    ///     })
    ///     .await?;
    /// assert_eq!(rate, "1.08");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn run<T, E, Form, F, Fut>(self, attempt: F) -> Result<T, Stopped<E>>
    where
        R: Rule<E>,
        E: Cause<Form>,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let pace = Pace { adaptive: self.retry.adaptive.clone(), deadline: self.deadline };
        pace.turn().await;
        let delays = Delays { plan: self.retry.plan, failed: 0 };
        let mut run = Run::of(self);
        let ended = attempt
            .retry(delays)
            .sleep(move |delay| pace.clone().rest(delay))
            // All in one closure, as backon's others could not share what this one changes.
            .adjust(|error, drawn| run.after_failure(error, drawn))
            .await;
        match ended {
            Ok(answer) => {
                run.succeeded();
                Ok(answer)
            }
            Err(cause) => Err(run.stopped(cause)),
        }
    }
}

/// The drawn delay after each failure, as long as another attempt is allowed.
struct Delays {
    plan: Plan,
    failed: u32,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        self.plan.delay_after(self.failed, Draw::of(fastrand::u64(..)))
    }
}

/// What is waited for before an attempt.
#[derive(Clone)]
struct Pace {
    adaptive: Option<Arc<Adaptive>>,
    deadline: Option<Deadline>,
}

impl Pace {
    /// Waits so long, and then for the next attempt's turn.
    async fn rest(self, delay: Duration) {
        tokio::time::sleep(delay).await;
        self.turn().await;
    }

    /// Waits until the client's rate lets an attempt through, but not into the deadline's minimum.
    async fn turn(&self) {
        let Some(adaptive) = &self.adaptive else { return };
        let now = now();
        let most = self.deadline.map_or(Duration::MAX, |deadline| deadline.spare_at(now));
        let turn = adaptive.turn(now.into_std(), most);
        if !turn.wait().is_zero() {
            tokio::time::sleep(turn.wait()).await;
        }
        turn.come();
    }
}

/// A call that is being made.
struct Run<'a, R> {
    call: Call<'a, R>,
    /// How many attempts have failed.
    failed: u32,
    /// What the last retry has cost.
    spent: Option<Spent>,
    /// Why there is no other attempt, once one has failed and there is none.
    reason: Reason,
    /// How long the server wants to be left alone after the last failure.
    hint: Duration,
}

impl<'a, R> Run<'a, R> {
    fn of(call: Call<'a, R>) -> Self {
        let (reason, hint) = (Reason::Unknown, Duration::ZERO);
        Self { call, failed: 0, spent: None, reason, hint }
    }

    /// How long is waited before another attempt; nothing where there is none.
    fn after_failure<E>(&mut self, error: &E, drawn: Option<Duration>) -> Option<Duration>
    where
        R: Rule<E>,
    {
        let attempt = self.attempt();
        self.failed = self.failed.saturating_add(1);
        let verdict = self.call.retry.rule.judge(error);
        self.hint = hint(verdict);
        self.answered(is_throttle(verdict));
        let next = self.decide(verdict, drawn);
        attempt.failed(verdict, next);
        next.map_err(|reason| self.reason = reason).ok()
    }

    /// The delay before another attempt, or why there is none.
    fn decide(&mut self, verdict: Verdict, drawn: Option<Duration>) -> Result<Duration, Reason> {
        let Call { retry, deadline, .. } = &self.call;
        let transient = match verdict {
            Verdict::Retry(transient) => transient,
            Verdict::Never => return Err(Reason::Permanent),
            Verdict::NoOpinion => return Err(Reason::Unknown),
        };
        let drawn = drawn.ok_or(Reason::Attempts)?;
        let max = retry.plan.max();
        // A server that is asked before the time that it named refuses again.
        if self.hint > max {
            return Err(Reason::Hint { hint: self.hint, max });
        }
        let delay = drawn.max(self.hint);
        if let Some(deadline) = deadline {
            deadline.bears(delay)?;
        }
        self.spent = Some(retry.quota.spend(transient.kind).ok_or(Reason::Quota)?);
        Ok(delay)
    }

    fn succeeded(self) {
        self.attempt().succeeded();
        self.answered(false);
        let Self { call: Call { retry, operation, .. }, failed, spent, .. } = self;
        retry.quota.succeeded(spent);
        if let Some(counts) = &retry.counts {
            counts.ended(operation, failed, false, clock::now());
        }
    }

    fn stopped<E: Cause<Form>, Form>(self, cause: E) -> Stopped<E> {
        let Self { call: Call { retry, operation, .. }, failed, reason, hint, .. } = self;
        if let Some(counts) = &retry.counts {
            counts.ended(operation, failed.saturating_sub(1), true, clock::now());
        }
        Stopped::after(operation, failed, reason, cause, hint)
    }

    /// The attempt that has just ended.
    fn attempt(&self) -> Attempt {
        let Call { operation, deadline, .. } = self.call;
        Attempt { operation, ordinal: self.failed.saturating_add(1), deadline }
    }

    /// Tells the client's rate of an answer.
    fn answered(&self, throttled: bool) {
        if let Some(adaptive) = &self.call.retry.adaptive {
            adaptive.answered(now().into_std(), throttled);
        }
    }
}

fn is_throttle(verdict: Verdict) -> bool {
    verdict.transient().is_some_and(|transient| transient.kind == Kind::Throttled)
}

/// How long the server wants to be left alone.
fn hint(verdict: Verdict) -> Duration {
    let hint = verdict.transient().and_then(|transient| transient.hint);
    hint.map_or(Duration::ZERO, |hint| hint.wait(clock::now()))
}
