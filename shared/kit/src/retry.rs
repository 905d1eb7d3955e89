//! Retries inside a function, for faults that pass within seconds.
//!
//! ```
//! # async fn fetch_rates() -> Result<f64, std::io::Error> { Ok(1.08) }
//! use comeback::retry::{Deadline, Policy, Retry};
//! use lambda_runtime::{Error, LambdaEvent};
//!
//! async fn handler(event: LambdaEvent<String>, rates: &Retry) -> Result<f64, Error> {
//!     let deadline = Deadline::of(&event.context)?;
//!     Ok(rates.operation("rates").until(deadline).run(fetch_rates).await?)
//! }
//!
//! // Create it once, together with the client whose calls it retries:
//! let rates = Retry::new(Policy::OUTSIDE_API);
//! ```
//!
//! # The life of a call
//!
//! The first attempt is always made. After a failed attempt, the [rule](crate::transient) decides whether the
//! error is transient. If it is, the call waits and tries again. The delay is drawn at random, or is the server's
//! retry hint if that is longer. The call ends at once if the error is not transient, or if
//!
//! - the policy allows no further attempt,
//! - the hint is longer than the maximum of the [`Policy`],
//! - less than the [`Deadline`]'s minimum would be left after the delay, or
//! - the client's [`Quota`] is used up.
//!
//! The call then returns [`Stopped`], which contains the error of the last attempt and the full hint.
//!
//! An attempt has no timeout of its own, so set one on your client. A request that hangs then fails while there is
//! time for another attempt. You may drop a call while it waits, but the quota is not refunded.
//!
//! You pay for a function while it waits. So retry faults that pass within seconds here, with few attempts, and leave
//! longer ones to the retry loop. After a timeout, the operation may or may not have been done: retry only operations
//! that may be done twice.
//!
//! # The AWS SDK has its own retries
//!
//! The SDK makes three attempts of every request, which multiply with yours. Either rely on them, or turn them off
//! (`RetryConfig::disabled()`) and use `Policy::DYNAMODB` or `Policy::S3` (feature `aws`), whose rule is `Aws`. If
//! your error type wraps an SDK's error and others, pass each to its rule:
//!
//! ```
//! # #[cfg(feature = "aws")] {
//! use aws_sdk_dynamodb::{error::SdkError, operation::get_item::GetItemError};
//! use comeback::{retry::{Policy, Retry}, transient::{Aws, HttpStatus, Rule, Standard}};
//!
//! enum NotPriced {
//!     Table(SdkError<GetItemError>),
//!     Rates(HttpStatus),
//! }
//!
//! let retry = Retry::new(Policy::DYNAMODB).rule(|error: &NotPriced| match error {
//!     NotPriced::Table(error) => Aws.judge(error),
//!     NotPriced::Rates(error) => Standard.judge(error),
//! });
//! # }
//! ```

mod adaptive;
mod deadline;
mod policy;
mod quota;
mod run;
mod stopped;

use std::{
    io::{self, Write},
    sync::Arc,
};

/// How delays are randomized. Here, full jitter starts at zero, so that calls that fail together spread out.
pub use comeback_core::backoff::Jitter;

use self::run::Sink;
pub(crate) use self::stopped::Words;
pub use self::{
    adaptive::Adaptive,
    deadline::{BadDeadline, Deadline},
    policy::{BadPolicy, Policy, PolicyBuilder, PolicyFault},
    quota::{Quota, Spent},
    run::Call,
    stopped::{Cause, Itself, Referring, StopReason, Stopped},
};
use crate::transient::Standard;

/// Retries the calls of a client. Clones share one quota and one rate limit.
///
/// A server's [hint](crate::transient::RetryHint) is honoured up to the policy's maximum. A longer hint ends the
/// call at once, and is part of the error.
#[derive(Clone)]
pub struct Retry<R = Standard> {
    policy: Policy<R>,
    quota: Arc<Quota>,
    adaptive: Option<Arc<Adaptive>>,
    counted_to: Option<Sink>,
}

impl<R> Retry<R> {
    /// Creates a `Retry` with this policy and a quota of its own.
    pub fn new(policy: Policy<R>) -> Self {
        Self { policy, quota: Arc::default(), adaptive: None, counted_to: None }
    }

    /// Replaces the policy's rule with a type of your own, [`Boxed`](crate::transient::Boxed), or a closure.
    #[must_use]
    pub fn rule<S>(self, rule: S) -> Retry<S> {
        let Self { policy, quota, adaptive, counted_to } = self;
        Retry { policy: policy.with_rule(rule), quota, adaptive, counted_to }
    }

    /// Replaces the quota, with one of another size or one that several clients of a service share.
    #[must_use]
    pub fn quota(mut self, quota: impl Into<Arc<Quota>>) -> Self {
        self.quota = quota.into();
        self
    }

    /// Limits the rate of attempts once the service throttles; see [`Adaptive`]. Every attempt, including the
    /// first, waits for a token, but only until the deadline's minimum; then it is made without one.
    #[must_use]
    pub fn adaptive(mut self) -> Self {
        self.adaptive = Some(Arc::default());
        self
    }

    /// Writes CloudWatch metrics. When a call ends, it writes a line in embedded metric format to standard output,
    /// with `Calls`, `Retries` and `GaveUp` by `Operation` in the namespace `Comeback`. `GaveUp` counts the calls
    /// that ended with an error. Off by default, because AWS charges for log lines and metrics.
    #[must_use]
    pub fn counted(self) -> Self {
        // The call has already ended, so a failed write must not affect its result.
        self.counted_to(|line| drop(writeln!(io::stdout(), "{line}")))
    }

    /// Like [`counted`](Self::counted), but passes each line to `sink` instead of writing it to standard output.
    #[must_use]
    pub fn counted_to(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.counted_to = Some(Arc::new(sink));
        self
    }

    /// Starts a call. Errors, tracing events and metrics contain the operation's name, so use a small set of fixed
    /// names.
    pub fn operation(&self, name: &'static str) -> Call<'_, R> {
        Call::new(self, name)
    }
}
