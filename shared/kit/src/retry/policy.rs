//! How often an operation is attempted, and how long to wait between its attempts.
//!
//! The delays are computed by the code of the retry loop, except that full jitter starts at zero and not at the
//! base: inside a function, many calls of one client fail at the same moment, and the service recovers if they
//! spread.

use std::time::Duration;

use comeback_core::{
    Attempt,
    backoff::{Backoff, Draw, Jitter},
};

#[cfg(feature = "aws")]
use crate::transient::Aws;
use crate::transient::Standard;

/// The shortest base. Without a delay, a fault would cause as many calls as the CPU can make.
const BASE_MIN: Duration = Duration::from_millis(1);

/// How often an operation is attempted, how long to wait between attempts, and the rule that judges its errors:
/// [`Standard`], unless the policy is for clients whose errors need another rule.
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
    /// Includes the first attempt; at least 1.
    max_attempts: u32,
    backoff: Backoff,
}

/// Presets for clients of the AWS SDK with its own retries turned off. They need the feature `aws`. Their rule is
/// [`Aws`], so an operation with any other error than an `SdkError` does not compile until it has
/// [a rule](super::Retry::rule).
#[cfg(feature = "aws")]
impl Policy<Aws> {
    /// For DynamoDB, whose throttling ends quickly: 5 attempts, 50 ms to 5 s.
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

    /// For S3: 3 attempts, 500 ms to 10 s.
    ///
    /// ```
    /// # use comeback::retry::Policy;
    /// assert_eq!(Policy::S3.base().as_millis(), 500);
    /// ```
    pub const S3: Self = Self::full(Aws, 3, Duration::from_millis(500), Duration::from_secs(10));
}

impl Policy {
    /// For services of other companies: 3 attempts, 2 s to 30 s.
    ///
    /// ```
    /// # use comeback::retry::Policy;
    /// assert_eq!(Policy::OUTSIDE_API.base().as_secs(), 2);
    /// ```
    pub const OUTSIDE_API: Self =
        Self::full(Standard, 3, Duration::from_secs(2), Duration::from_secs(30));

    /// Builds a policy that differs from the default.
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

    /// Builds a policy that differs from this one.
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

    /// The number of attempts, including the first.
    pub fn max_attempts(&self) -> u32 {
        self.plan.max_attempts
    }

    /// The ceiling of the first delay. It doubles with each attempt.
    pub fn base(&self) -> Duration {
        self.plan.backoff.base
    }

    /// The longest delay. A server's [hint](crate::transient::RetryHint) that is longer ends the call.
    pub fn max(&self) -> Duration {
        self.plan.backoff.max
    }

    /// How delays are drawn below their ceiling.
    pub fn jitter(&self) -> Jitter {
        self.plan.backoff.jitter
    }
}

impl Plan {
    /// The longest delay.
    pub(super) fn max(&self) -> Duration {
        self.backoff.max
    }

    /// The delay after this many failed attempts; `None` after the last one.
    pub(super) fn delay_after(&self, failed: u32, draw: Draw) -> Option<Duration> {
        let retry = Attempt::new(failed).filter(|_| failed < self.max_attempts)?;
        Some(self.backoff.delay_from(Duration::ZERO, retry, draw))
    }
}

/// 3 attempts, 200 ms to 30 s, full jitter.
impl Default for Policy {
    fn default() -> Self {
        Self::full(Standard, 3, Duration::from_millis(200), Duration::from_secs(30))
    }
}

/// Builds a [`Policy`].
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
#[must_use = "`build` makes the policy"]
pub struct PolicyBuilder<R = Standard> {
    unchecked: Policy<R>,
}

impl<R> PolicyBuilder<R> {
    /// The number of attempts, including the first; at least 1.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.unchecked.plan.max_attempts = max_attempts;
        self
    }

    /// The ceiling of the first delay; at least 1 ms.
    pub fn base(mut self, base: Duration) -> Self {
        self.unchecked.plan.backoff.base = base;
        self
    }

    /// The longest delay; at least the base.
    pub fn max(mut self, max: Duration) -> Self {
        self.unchecked.plan.backoff.max = max;
        self
    }

    /// How delays are drawn below their ceiling. Full jitter starts at zero, equal jitter at half the ceiling, and
    /// without jitter the delay is the ceiling.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.unchecked.plan.backoff.jitter = jitter;
        self
    }

    /// Makes the policy.
    ///
    /// # Errors
    ///
    /// If a value is wrong. The error names all of them.
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

/// All wrong values of a policy.
///
/// ```
/// use std::time::Duration;
/// use comeback::retry::{Policy, PolicyFault};
///
/// let bad = Policy::builder().base(Duration::ZERO).build().unwrap_err();
/// assert_eq!(bad.faults(), [PolicyFault::BaseTooShort { base: Duration::ZERO }]);
/// ```
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadPolicy {
    faults: Vec<PolicyFault>,
}

impl BadPolicy {
    /// The wrong values.
    pub fn faults(&self) -> &[PolicyFault] {
        &self.faults
    }
}

/// A wrong value of a policy: what it must be, and what it is.
///
/// ```
/// use comeback::retry::PolicyFault;
///
/// assert_eq!(PolicyFault::NoAttempt.to_string(), "max_attempts must be at least 1, got 0");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// There is no attempt.
    #[error("max_attempts must be at least 1, got 0")]
    NoAttempt,
    /// The base is too short.
    #[error("base must be at least {BASE_MIN:?}, got {base:?}")]
    BaseTooShort {
        /// What was given.
        base: Duration,
    },
    /// The maximum is less than the base.
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

    /// The ceilings of a policy's delays.
    fn ceilings<R>(policy: Policy<R>) -> Vec<u128> {
        let Policy { plan, .. } = policy.to_builder().jitter(Jitter::None).build().unwrap();
        let delays = (1..).map_while(|failed| plan.delay_after(failed, Draw::of(0)));
        delays.map(|delay| delay.as_millis()).collect()
    }

    #[test]
    fn ceilings_double_from_the_base_up_to_the_maximum() {
        let of = |policy: Policy| (ceilings(policy), policy.max());
        assert_eq!(of(Policy::default()), (vec![200, 400], ms(30_000)));
        assert_eq!(of(Policy::OUTSIDE_API), (vec![2000, 4000], ms(30_000)));
        #[cfg(feature = "aws")]
        for (policy, expected, max) in [
            (Policy::DYNAMODB, vec![50, 100, 200, 400], 5_000),
            (Policy::S3, vec![500, 1000], 10_000),
        ] {
            assert_eq!(
                (ceilings(policy), policy.max(), policy.jitter()),
                (expected, ms(max), Jitter::Full)
            );
        }
        let long = Policy::builder().max_attempts(10).base(ms(50)).max(ms(5_000)).build().unwrap();
        assert_eq!(ceilings(long), [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let once = Policy::builder().max_attempts(1).build().unwrap();
        assert_eq!(ceilings(once), [0; 0], "a single attempt has no delay");
    }

    #[test]
    fn each_jitter_has_its_range() {
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
    fn an_error_names_every_bad_value() {
        let bad = Policy::builder().max_attempts(0).base(Duration::from_micros(500)).max(ms(0));
        let expected = "max_attempts must be at least 1, got 0; base must be at least 1ms, got 500µs; \
                        max must be at least base (500µs), got 0ns";
        assert_eq!(bad.build().unwrap_err().to_string(), expected);
        let zero = Policy::builder().base(Duration::ZERO).build().unwrap_err();
        assert_eq!(zero.to_string(), "base must be at least 1ms, got 0ns");
    }

    proptest! {
        #[test]
        fn each_retry_has_a_delay_in_the_range_of_its_jitter(
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
