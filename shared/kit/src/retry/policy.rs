//! The number of attempts of an operation, and the delays between them.

use std::time::Duration;

use comeback_core::{
    Attempt,
    backoff::{Backoff, Draw, Jitter},
};

#[cfg(feature = "aws")]
use crate::transient::Aws;
use crate::transient::Standard;

/// The shortest base. Without a delay, a client would retry as fast as its CPU allows.
const BASE_MIN: Duration = Duration::from_millis(1);

/// The number of attempts, the delays between them, and the rule that judges errors. The rule is [`Standard`],
/// unless the policy is for clients whose errors need another one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Policy<R = Standard> {
    /// Includes the first attempt; at least 1.
    max_attempts: u32,
    backoff: Backoff,
    pub(super) rule: R,
}

/// Presets for AWS SDK clients whose own retries are turned off. They require the feature `aws`. Their rule is
/// [`Aws`], so an operation with another error type than `SdkError` only compiles with [a
/// rule](super::Retry::rule) of its own.
#[cfg(feature = "aws")]
impl Policy<Aws> {
    /// For DynamoDB, whose throttling ends quickly: 5 attempts, 50 ms to 5 s.
    pub const DYNAMODB: Self =
        Self::full(Aws, 5, Duration::from_millis(50), Duration::from_secs(5));

    /// For S3: 3 attempts, 500 ms to 10 s.
    pub const S3: Self = Self::full(Aws, 3, Duration::from_millis(500), Duration::from_secs(10));
}

impl Policy {
    /// For third-party APIs: 3 attempts, 2 s to 30 s.
    pub const OUTSIDE_API: Self =
        Self::full(Standard, 3, Duration::from_secs(2), Duration::from_secs(30));

    /// Returns a builder that starts with the default policy.
    pub fn builder() -> PolicyBuilder {
        Self::default().to_builder()
    }
}

impl<R> Policy<R> {
    const fn full(rule: R, max_attempts: u32, base: Duration, max: Duration) -> Self {
        let backoff = Backoff { base, max, jitter: Jitter::Full };
        Self { max_attempts, backoff, rule }
    }

    pub(super) fn with_rule<S>(self, rule: S) -> Policy<S> {
        let Self { max_attempts, backoff, rule: _ } = self;
        Policy { max_attempts, backoff, rule }
    }

    /// Returns a builder that starts with this policy.
    pub fn to_builder(self) -> PolicyBuilder<R> {
        PolicyBuilder { unchecked: self }
    }

    /// The number of attempts, including the first.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The ceiling of the first delay. It doubles with each attempt.
    pub fn base(&self) -> Duration {
        self.backoff.base
    }

    /// The longest delay. A longer [hint](crate::transient::RetryHint) of the server ends the call.
    pub fn max(&self) -> Duration {
        self.backoff.max
    }

    /// How delays are drawn below their ceiling.
    pub fn jitter(&self) -> Jitter {
        self.backoff.jitter
    }

    /// The delay after this many failed attempts, or `None` if there is no further attempt.
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
        self.unchecked.max_attempts = max_attempts;
        self
    }

    /// The ceiling of the first delay; at least 1 ms.
    pub fn base(mut self, base: Duration) -> Self {
        self.unchecked.backoff.base = base;
        self
    }

    /// The longest delay; at least the base.
    pub fn max(mut self, max: Duration) -> Self {
        self.unchecked.backoff.max = max;
        self
    }

    /// How delays are drawn below their ceiling. Full jitter starts at zero, equal jitter at half the ceiling, and
    /// without jitter the delay is the ceiling.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.unchecked.backoff.jitter = jitter;
        self
    }

    /// Checks the values, and returns the policy.
    ///
    /// # Errors
    ///
    /// If a value is invalid. The error lists all invalid values.
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

/// All invalid values of a policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadPolicy {
    faults: Vec<PolicyFault>,
}

impl BadPolicy {
    /// The invalid values.
    pub fn faults(&self) -> &[PolicyFault] {
        &self.faults
    }
}

/// An invalid value of a policy. The message contains the value and its limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// The number of attempts is zero.
    #[error("max_attempts must be at least 1, got 0")]
    NoAttempt,
    /// The base is too short.
    #[error("base must be at least {BASE_MIN:?}, got {base:?}")]
    BaseTooShort {
        /// The given base.
        base: Duration,
    },
    /// The maximum is less than the base.
    #[error("max must be at least base ({base:?}), got {max:?}")]
    MaxBelowBase {
        /// The given base.
        base: Duration,
        /// The given maximum.
        max: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_every_bad_value() {
        let bad =
            Policy::builder().max_attempts(0).base(Duration::from_micros(500)).max(Duration::ZERO);
        let expected = "max_attempts must be at least 1, got 0; base must be at least 1ms, got 500µs; \
                        max must be at least base (500µs), got 0ns";
        assert_eq!(bad.build().unwrap_err().to_string(), expected);
        let zero = Policy::builder().base(Duration::ZERO).build().unwrap_err();
        assert_eq!(zero.to_string(), "base must be at least 1ms, got 0ns");
    }
}
