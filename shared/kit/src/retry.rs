//! Retry inside a function: short faults are ridden out at once.
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
//! // Once, beside the client whose calls it retries:
//! let rates = Retry::new(Policy::OUTSIDE_API);
//! ```
//!
//! # The life of a call
//!
//! The first attempt is always made. When one fails, the [rule](crate::transient) says whether its error is
//! transient. If so, a delay is drawn, or the server's hint is taken where that is longer. The call ends at once
//! where no attempt is left, where the hint is longer than the maximum of the [`Policy`], where the delay would
//! leave less than the minimum of its [`Deadline`], or where the client's [`Quota`] is used up; the error,
//! [`Stopped`], carries the last cause, and the hint in full. Else it waits, and tries again.
//!
//! An attempt is never cut off. Give your client a time-out, so that one that hangs becomes an error while there
//! is time for another. A call that is dropped while it waits leaves nothing behind; what its retries have cost of
//! the quota stays spent.
//!
//! # What to retry here, and what to leave to the retry loop
//!
//! A function that waits is paid for while it waits. What passes within seconds, a connection that was reset, a
//! throttled burst, is retried here. What takes minutes, a service that is down, is not: let the error out, and
//! the event comes back later, at no cost until then. So keep the attempts few. A server's hint that could not be
//! kept here goes out with the error, and the retry loop keeps it.
//!
//! What is retried may have been done already: after a time-out nobody knows. Retry what may be repeated.
//!
//! # The AWS SDK retries by itself
//!
//! It makes three attempts of every request. Three attempts here around three there are nine, and neither knows of
//! the other's waits. Leave the calls of an SDK's client to it, as it is or with more attempts, or switch its own
//! retries off (`RetryConfig::disabled()`) and retry here, with a deadline and events: `Policy::DYNAMODB` and
//! `Policy::S3`, with the feature `aws`, are for clients like that, and judge by the rule `Aws`. An error of yours
//! that holds an SDK's among others needs a rule that hands each to who knows it:
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

use std::sync::Arc;

/// Inside a function full jitter draws from zero, so that calls that fail together spread.
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
pub use self::{
    adaptive::Adaptive,
    deadline::{BadDeadline, Deadline},
    policy::{BadPolicy, Policy, PolicyBuilder, PolicyFault},
    quota::{Quota, Spent},
    run::Call,
    stopped::{StopReason, Stopped},
};
use self::{policy::Plan, watch::Counts};
pub use crate::cause::{Cause, Itself, Referring};
use crate::transient::Standard;

/// How the calls of a client are retried. Its clones share their quota and their rate.
///
/// A server's [hint](crate::transient::RetryHint) is honoured up to the maximum of the policy. One that is longer
/// ends the call at once, and goes out with its error.
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
    plan: Plan,
    rule: R,
    quota: Arc<Quota>,
    adaptive: Option<Arc<Adaptive>>,
    counts: Option<Counts>,
}

impl<R> Retry<R> {
    /// Retries by this policy what its rule says is transient, within a quota of its own.
    ///
    /// ```
    /// use comeback::retry::{Policy, Retry};
    ///
    /// let retry: Retry = Retry::new(Policy::OUTSIDE_API);
    /// ```
    pub fn new(policy: Policy<R>) -> Self {
        let Policy { plan, rule } = policy;
        Self { plan, rule, quota: Arc::default(), adaptive: None, counts: None }
    }

    /// Retries what another rule than the policy's says is transient: a type's own,
    /// [`Boxed`](crate::transient::Boxed), or a closure.
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
        let Self { plan, rule: _, quota, adaptive, counts } = self;
        Retry { plan, rule, quota, adaptive, counts }
    }

    /// Retries within this quota: one of another size, or one that several clients of a service share.
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

    /// Holds the calls to the rate that the service bears, once it throttles: see [`Adaptive`]. Each attempt waits
    /// for its turn, the first one too, but not into the minimum of its deadline: there it is made at once.
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

    /// Counts calls in CloudWatch: a line on standard output when a call ends, in embedded metric format, with
    /// `Calls`, `Retries` and `GaveUp` by `Operation` in the namespace `Comeback`. Off by default: each line is
    /// billed as a log, and each operation's metrics as metrics. `GaveUp` is every call that ended with an error.
    ///
    /// ```
    /// # use comeback::retry::{Policy, Retry};
    /// let retry = Retry::new(Policy::default()).counted();
    /// ```
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.counts = Some(Counts::on_stdout());
        self
    }

    /// The same, where the lines go elsewhere.
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
        self.counts = Some(Counts::to(sink));
        self
    }

    /// Begins a call. The name is that of the operation in errors, events and metrics: one of a few, and none that
    /// is made of what the call is about.
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
