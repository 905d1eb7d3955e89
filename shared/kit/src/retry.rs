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
//! // Make it once, next to the client whose calls it retries:
//! let rates = Retry::new(Policy::OUTSIDE_API);
//! ```
//!
//! # The life of a call
//!
//! The first attempt is always made. If an attempt fails, the [rule](crate::transient) says whether its error is
//! transient. If it is, the next delay is drawn, or the server's retry hint is taken if that is longer. Then the
//! call waits and tries again. It ends at once if
//!
//! - the policy allows no further attempt,
//! - the hint is longer than the maximum of the [`Policy`],
//! - less than the minimum of its [`Deadline`] would be left after the delay, or
//! - the client's [`Quota`] is used up.
//!
//! The error, [`Stopped`], has the last cause and the full hint.
//!
//! An attempt is never cut off, so give your client a timeout: a request that hangs then becomes an error while
//! there is time for another attempt. You may drop a call while it waits. Its retries stay charged to the quota.
//!
//! # What to retry here, and what to leave to the retry loop
//!
//! You pay for a function while it waits. Retry here what passes within seconds, such as a connection that was
//! reset or a throttled burst, with few attempts. If a service is down for minutes, return the error: the event
//! comes back later, and waiting costs nothing until then. The retry loop also honours a server's hint that was
//! too long for the call.
//!
//! After a timeout nobody knows whether the operation was done. Retry only what may be done twice.
//!
//! # The AWS SDK has its own retries
//!
//! It makes three attempts of every request. Three attempts here around three there are nine, and neither side
//! knows the other's delays. Either leave the calls to the SDK, or turn its retries off
//! (`RetryConfig::disabled()`) and use `Policy::DYNAMODB` or `Policy::S3` (feature `aws`), whose rule is `Aws`. If
//! your error type holds an SDK's error among others, give each to its rule:
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
mod watch;

use std::{
    io::{self, Write},
    sync::Arc,
};

/// Inside a function, full jitter starts at zero, so that calls that fail together spread.
///
/// ```
/// # fn main() -> Result<(), comeback::retry::BadPolicy> {
/// use comeback::retry::{Jitter, Policy};
///
/// let undrawn = Policy::builder().jitter(Jitter::None).build()?;
/// assert_eq!(undrawn.jitter(), Jitter::None);
/// # Ok(())
/// # }
/// ```
pub use comeback_core::backoff::Jitter;

pub(crate) use self::stopped::Words;
use self::watch::Sink;
pub use self::{
    adaptive::Adaptive,
    deadline::{BadDeadline, Deadline},
    policy::{BadPolicy, Policy, PolicyBuilder, PolicyFault},
    quota::{Quota, Spent},
    run::Call,
    stopped::{StopReason, Stopped},
};
pub use crate::cause::{Cause, Itself, Referring};
use crate::transient::Standard;

/// Retries the calls of a client. Clones share their quota and their rate.
///
/// A server's [hint](crate::transient::RetryHint) is honoured up to the maximum of the policy. A longer one ends
/// the call at once, and its error carries the hint.
///
/// ```
/// # async fn example() -> Result<(), comeback::retry::Stopped<std::io::Error>> {
/// use comeback::retry::{Policy, Retry};
///
/// let retry = Retry::new(Policy::default());
/// let answer = retry.operation("answer").run(|| async { Ok::<_, std::io::Error>(42) }).await?;
/// assert_eq!(answer, 42);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Retry<R = Standard> {
    policy: Policy<R>,
    quota: Arc<Quota>,
    adaptive: Option<Arc<Adaptive>>,
    counted_to: Option<Sink>,
}

impl<R> Retry<R> {
    /// Retries with this policy and a quota of its own.
    ///
    /// ```
    /// use comeback::retry::{Policy, Retry};
    ///
    /// let retry: Retry = Retry::new(Policy::OUTSIDE_API);
    /// ```
    pub fn new(policy: Policy<R>) -> Self {
        Self { policy, quota: Arc::default(), adaptive: None, counted_to: None }
    }

    /// Replaces the policy's rule: by a type of your own, [`Boxed`](crate::transient::Boxed), or a closure.
    ///
    /// ```
    /// use comeback::retry::{Policy, Retry};
    /// use comeback::transient::{Kind, Transient, Verdict};
    ///
    /// let retry = Retry::new(Policy::default()).rule(|fault: &std::fmt::Error| {
    ///     Verdict::Retry(Transient::new(Kind::Throttled))
    /// });
    /// # let _ = retry;
    /// ```
    #[must_use]
    pub fn rule<S>(self, rule: S) -> Retry<S> {
        let Self { policy, quota, adaptive, counted_to } = self;
        Retry { policy: policy.with_rule(rule), quota, adaptive, counted_to }
    }

    /// Replaces the quota: by one of another size, or one that several clients of a service share.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use comeback::retry::{Policy, Quota, Retry};
    ///
    /// let shared = Arc::new(Quota::new(100));
    /// let reads = Retry::new(Policy::OUTSIDE_API).quota(Arc::clone(&shared));
    /// let writes = Retry::new(Policy::default()).quota(shared);
    /// let alone = Retry::new(Policy::default()).quota(Quota::unlimited());
    /// ```
    #[must_use]
    pub fn quota(mut self, quota: impl Into<Arc<Quota>>) -> Self {
        self.quota = quota.into();
        self
    }

    /// Limits the rate of calls once the service throttles; see [`Adaptive`]. Every attempt, including the first,
    /// waits for its turn. It waits only until the minimum of its deadline, and is then made at once.
    ///
    /// ```
    /// # use comeback::retry::{Policy, Retry};
    /// let retry = Retry::new(Policy::default()).adaptive();
    /// ```
    #[must_use]
    pub fn adaptive(mut self) -> Self {
        self.adaptive = Some(Arc::default());
        self
    }

    /// Writes CloudWatch metrics: when a call ends, a line in embedded metric format on standard output, with
    /// `Calls`, `Retries` and `GaveUp` by `Operation` in the namespace `Comeback`. `GaveUp` counts the calls that
    /// ended with an error. Off by default, because AWS bills the log lines and the metrics.
    ///
    /// ```
    /// # use comeback::retry::{Policy, Retry};
    /// let retry = Retry::new(Policy::default()).counted();
    /// ```
    #[must_use]
    pub fn counted(self) -> Self {
        // The call has ended, and a lost line is no reason to fail it.
        self.counted_to(|line| drop(writeln!(io::stdout(), "{line}")))
    }

    /// The same, with another destination for the lines.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use comeback::retry::{Policy, Retry};
    ///
    /// let (lines, received) = mpsc::channel();
    /// let retry = Retry::new(Policy::default()).counted_to(move |line| {
    ///     let _ = lines.send(line.to_owned());
    /// });
    /// # let _ = (retry, received);
    /// ```
    #[must_use]
    pub fn counted_to(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.counted_to = Some(Arc::new(sink));
        self
    }

    /// Starts a call. Errors, events and metrics contain the operation's name, so use few names, and no values of
    /// the call.
    ///
    /// ```
    /// # use comeback::retry::{Policy, Retry};
    /// let retry = Retry::new(Policy::default());
    /// let call = retry.operation("rates");
    /// ```
    pub fn operation(&self, name: &'static str) -> Call<'_, R> {
        Call::new(self, name)
    }
}
