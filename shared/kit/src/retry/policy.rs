//! How often an operation is tried, and how long is waited between its attempts.
//!
//! The delays are those of the retry loop outside, drawn by the same code, but for one thing: full jitter draws
//! from zero and not from the base. Inside a function many calls of one client fail at the same moment, and what
//! helps the service that they call is that they spread.

use std::{fmt, time::Duration};

use comeback_core::{
    Attempt,
    backoff::{Backoff, Draw, Jitter},
};

#[cfg(feature = "aws")]
use crate::transient::Aws;
use crate::transient::Standard;

/// The shortest base: delays are drawn to the millisecond, and without one a fault would be met with as many calls
/// as fit into a moment.
const BASE_MIN: Duration = Duration::from_millis(1);

/// How often an operation is tried, how long is waited in between, and by which rule its errors are judged:
/// [`Standard`], but where a policy is for clients whose errors need a rule of their own.
///
/// ```
/// use std::time::Duration;
/// use comeback::retry::{Jitter, Policy};
///
/// let policy = Policy::default();
/// assert_eq!(policy.max_attempts(), 3);
/// assert_eq!(policy.base(), Duration::from_millis(200));
/// assert_eq!(policy.max(), Duration::from_secs(30));
/// assert_eq!(policy.jitter(), Jitter::Full);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Policy<R = Standard> {
    pub(super) plan: Plan,
    pub(super) rule: R,
}

/// The numbers of a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Plan {
    /// At least 1: the first attempt is one of them.
    max_attempts: u32,
    backoff: Backoff,
}

/// For the clients of the AWS SDK, with their own retries switched off. With the feature `aws`. They judge by
/// [`Aws`], so that an operation that fails with anything but an `SdkError` doesn't compile under them until it is
/// given [a rule](super::Retry::rule).
#[cfg(feature = "aws")]
impl Policy<Aws> {
    /// For DynamoDB, whose throttling is soon over: 5 attempts, from 50 ms up to 5 s.
    ///
    /// ```
    /// # async fn example() {
    /// use aws_sdk_dynamodb::{error::SdkError, operation::get_item::GetItemError};
    /// use comeback::retry::{Policy, StopReason, Retry};
    ///
    /// let retry = Retry::new(Policy::DYNAMODB);
    /// let silent = async || Err::<(), SdkError<GetItemError>>(SdkError::timeout_error("silence"));
    /// let stopped = retry.operation("orders").run(silent).await.unwrap_err();
    /// assert_eq!((stopped.attempts(), stopped.reason()), (5, StopReason::Attempts));
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example());
    /// ```
    pub const DYNAMODB: Self =
        Self::full(Aws, 5, Duration::from_millis(50), Duration::from_secs(5));

    /// For S3: 3 attempts, from 500 ms up to 10 s.
    ///
    /// ```
    /// # use comeback::retry::Policy;
    /// assert_eq!(Policy::S3.base().as_millis(), 500);
    /// ```
    pub const S3: Self = Self::full(Aws, 3, Duration::from_millis(500), Duration::from_secs(10));
}

impl Policy {
    /// For services of others, which need room to breathe: 3 attempts, from 2 s up to 30 s.
    ///
    /// ```
    /// # use comeback::retry::Policy;
    /// assert_eq!(Policy::OUTSIDE_API.base().as_secs(), 2);
    /// ```
    pub const OUTSIDE_API: Self =
        Self::full(Standard, 3, Duration::from_secs(2), Duration::from_secs(30));

    /// Begins a policy; what is not set is as in the default.
    ///
    /// ```
    /// # fn main() -> Result<(), comeback::retry::BadPolicy> {
    /// use comeback::retry::{Jitter, Policy};
    ///
    /// let policy = Policy::builder().max_attempts(4).jitter(Jitter::Equal).build()?;
    /// assert_eq!(policy.max_attempts(), 4);
    /// assert_eq!(policy.base(), Policy::default().base());
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> PolicyBuilder {
        Self::default().to_builder()
    }
}

impl<R> Policy<R> {
    const fn full(rule: R, max_attempts: u32, base: Duration, max: Duration) -> Self {
        let backoff = Backoff { base, max, jitter: Jitter::Full };
        Self { plan: Plan { max_attempts, backoff }, rule }
    }

    /// Begins a policy; what is not set is as in this one.
    ///
    /// ```
    /// # fn main() -> Result<(), comeback::retry::BadPolicy> {
    /// use comeback::retry::Policy;
    ///
    /// let patient = Policy::OUTSIDE_API.to_builder().max_attempts(8).build()?;
    /// assert_eq!(patient.base(), Policy::OUTSIDE_API.base());
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_builder(self) -> PolicyBuilder<R> {
        PolicyBuilder { unchecked: self }
    }

    /// How often the operation is tried, the first attempt included.
    pub fn max_attempts(&self) -> u32 {
        self.plan.max_attempts
    }

    /// The ceiling of the first delay; each later one has twice that of the one before it.
    pub fn base(&self) -> Duration {
        self.plan.backoff.base
    }

    /// What no delay exceeds. A server's [hint](crate::transient::RetryHint) that is longer ends the call.
    pub fn max(&self) -> Duration {
        self.plan.backoff.max
    }

    /// How a delay is drawn below its ceiling.
    pub fn jitter(&self) -> Jitter {
        self.plan.backoff.jitter
    }
}

impl Plan {
    /// What no delay exceeds.
    pub(super) fn max(&self) -> Duration {
        self.backoff.max
    }

    /// How long is waited after so many attempts have failed; nothing where no other is to follow.
    pub(super) fn delay_after(&self, failed: u32, draw: Draw) -> Option<Duration> {
        let retry = Attempt::new(failed).filter(|_| failed < self.max_attempts)?;
        Some(self.backoff.delay_from(Duration::ZERO, retry, draw))
    }
}

/// 3 attempts, from 200 ms up to 30 s, with full jitter.
impl Default for Policy {
    fn default() -> Self {
        Self::full(Standard, 3, Duration::from_millis(200), Duration::from_secs(30))
    }
}

/// A policy that is being made.
///
/// ```
/// # fn main() -> Result<(), comeback::retry::BadPolicy> {
/// use std::time::Duration;
/// use comeback::retry::{Jitter, Policy};
///
/// let policy = Policy::builder()
///     .max_attempts(5)
///     .base(Duration::from_millis(100))
///     .max(Duration::from_secs(2))
///     .jitter(Jitter::Equal)
///     .build()?;
/// assert_eq!(policy.max(), Duration::from_secs(2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a policy is made by `build`"]
pub struct PolicyBuilder<R = Standard> {
    unchecked: Policy<R>,
}

impl<R> PolicyBuilder<R> {
    /// How often the operation is tried, the first attempt included; at least once.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.unchecked.plan.max_attempts = max_attempts;
        self
    }

    /// The ceiling of the first delay; at least a millisecond.
    pub fn base(mut self, base: Duration) -> Self {
        self.unchecked.plan.backoff.base = base;
        self
    }

    /// What no delay exceeds; at least the base.
    pub fn max(mut self, max: Duration) -> Self {
        self.unchecked.plan.backoff.max = max;
        self
    }

    /// How a delay is drawn below its ceiling: full jitter from zero on, equal jitter from half of it on, none not
    /// at all.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.unchecked.plan.backoff.jitter = jitter;
        self
    }

    /// Makes the policy.
    ///
    /// # Errors
    ///
    /// Names every value that is wrong.
    ///
    /// ```
    /// use std::time::Duration;
    /// use comeback::retry::Policy;
    ///
    /// let bad = Policy::builder().max_attempts(0).base(Duration::from_mins(1)).build();
    /// assert_eq!(
    ///     bad.unwrap_err().to_string(),
    ///     "max_attempts must be at least 1, got 0; max must be at least base (60s), got 30s"
    /// );
    /// ```
    pub fn build(self) -> Result<Policy<R>, BadPolicy> {
        let policy = self.unchecked;
        let (base, max) = (policy.base(), policy.max());
        let faults = [
            (policy.max_attempts() == 0).then_some(PolicyFault::NoAttempt),
            (base < BASE_MIN).then_some(PolicyFault::BaseTooShort { base }),
            (max < base).then_some(PolicyFault::MaxBelowBase { base, max }),
        ];
        let faults: Vec<_> = faults.into_iter().flatten().collect();
        if faults.is_empty() { Ok(policy) } else { Err(BadPolicy { faults }) }
    }
}

/// Everything that is wrong with a policy.
///
/// ```
/// use std::time::Duration;
/// use comeback::retry::{Policy, PolicyFault};
///
/// let bad = Policy::builder().base(Duration::ZERO).build().unwrap_err();
/// assert_eq!(bad.faults(), [PolicyFault::BaseTooShort { base: Duration::ZERO }]);
/// ```
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct BadPolicy {
    faults: Vec<PolicyFault>,
}

impl BadPolicy {
    /// The values that are wrong.
    pub fn faults(&self) -> &[PolicyFault] {
        &self.faults
    }
}

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

/// One value of a policy that is wrong: what it must be and what it is.
///
/// ```
/// use comeback::retry::PolicyFault;
///
/// assert_eq!(PolicyFault::NoAttempt.to_string(), "max_attempts must be at least 1, got 0");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// Not even the first attempt is allowed.
    #[error("max_attempts must be at least 1, got 0")]
    NoAttempt,
    /// The delays would be none.
    #[error("base must be at least {BASE_MIN:?}, got {base:?}")]
    BaseTooShort {
        /// What was given.
        base: Duration,
    },
    /// The first delay would be over the maximum already.
    #[error("max must be at least base ({base:?}), got {max:?}")]
    MaxBelowBase {
        /// The base that was given.
        base: Duration,
        /// The maximum that was given.
        max: Duration,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The ceilings of a policy's delays, as they are where nothing is drawn.
    fn ceilings<R>(policy: Policy<R>) -> Vec<u128> {
        let Policy { plan, .. } = policy.to_builder().jitter(Jitter::None).build().unwrap();
        let delays = (1..).map_while(|failed| plan.delay_after(failed, Draw::of(0)));
        delays.map(|delay| delay.as_millis()).collect()
    }

    #[test]
    fn the_presets_are_those_that_were_asked_for() {
        is(Policy::default(), Policy::full(Standard, 3, ms(200), ms(30_000)));
        is(Policy::OUTSIDE_API, Policy::full(Standard, 3, ms(2_000), ms(30_000)));
        #[cfg(feature = "aws")]
        {
            is(Policy::DYNAMODB, Policy::full(Aws, 5, ms(50), ms(5_000)));
            is(Policy::S3, Policy::full(Aws, 3, ms(500), ms(10_000)));
        }
    }

    fn is<R: Copy + fmt::Debug + PartialEq>(policy: Policy<R>, expected: Policy<R>) {
        assert_eq!(policy, expected);
        assert_eq!(policy.to_builder().build(), Ok(policy), "its own rules hold for it");
    }

    #[test]
    fn ceilings_double_from_the_base_up_to_the_maximum() {
        assert_eq!(ceilings(Policy::default()), [200, 400]);
        assert_eq!(ceilings(Policy::OUTSIDE_API), [2000, 4000]);
        #[cfg(feature = "aws")]
        {
            assert_eq!(ceilings(Policy::DYNAMODB), [50, 100, 200, 400]);
            assert_eq!(ceilings(Policy::S3), [500, 1000]);
        }
        let long = Policy::builder().max_attempts(10).base(ms(50)).max(ms(5_000)).build().unwrap();
        assert_eq!(ceilings(long), [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let once = Policy::builder().max_attempts(1).build().unwrap();
        assert_eq!(ceilings(once), [0; 0], "one attempt is not followed by another");
    }

    #[test]
    fn each_jitter_draws_from_where_it_should() {
        for (jitter, least, most) in
            [(Jitter::Full, 0, 400), (Jitter::Equal, 200, 400), (Jitter::None, 400, 400)]
        {
            let policy = Policy::builder().jitter(jitter).build().unwrap();
            for (draw, expected) in [(0, least), (u64::MAX, most)] {
                assert_eq!(
                    policy.plan.delay_after(2, Draw::of(draw)),
                    Some(ms(expected)),
                    "{jitter:?}"
                );
            }
        }
    }

    #[test]
    fn every_bad_value_is_named_with_what_it_must_be() {
        let message = |builder: PolicyBuilder| builder.build().unwrap_err().to_string();
        let (builder, secs) = (Policy::builder(), Duration::from_secs);
        for (bad, expected) in [
            (builder.max_attempts(0), "max_attempts must be at least 1, got 0"),
            (builder.base(Duration::ZERO), "base must be at least 1ms, got 0ns"),
            (builder.base(secs(10)).max(secs(2)), "max must be at least base (10s), got 2s"),
            (
                builder.max_attempts(0).base(Duration::from_micros(500)).max(Duration::ZERO),
                "max_attempts must be at least 1, got 0; base must be at least 1ms, got 500µs; \
                 max must be at least base (500µs), got 0ns",
            ),
        ] {
            assert_eq!(message(bad), expected);
        }
    }

    proptest! {
        #[test]
        fn a_delay_lies_between_its_low_and_its_ceiling_and_there_is_one_for_each_retry(
            max_attempts in 1u32..40, base in 1u64..10_000, more in 0u64..100_000,
            failed in 1u32..50, draw: u64,
        ) {
            for jitter in [Jitter::Full, Jitter::Equal, Jitter::None] {
                let (base, max) = (ms(base), ms(base + more));
                let plan = Plan { max_attempts, backoff: Backoff { base, max, jitter } };
                let ceiling = base.saturating_mul(1 << (failed - 1).min(30)).min(max);
                let low = match jitter {
                    Jitter::Full => Duration::ZERO,
                    Jitter::Equal => ceiling / 2,
                    Jitter::None => ceiling,
                };
                match plan.delay_after(failed, Draw::of(draw)) {
                    Some(delay) => {
                        prop_assert!(failed < max_attempts);
                        prop_assert!(low <= delay && delay <= ceiling, "{delay:?}");
                    }
                    None => prop_assert!(failed >= max_attempts),
                }
            }
        }
    }
}
