//! How much time is left, and how much of it is not to be waited away.
//!
//! Lambda kills a function at its deadline, in the middle of whatever it does, and its caller learns no more than
//! that it timed out. So a loop that waits must stop while there is time to say why, and what is left when it
//! stops, the minimum, must do for that and for one last attempt.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    time::{at_millis, between},
};
use lambda_runtime::Context;
use tokio::time::Instant;

use super::StopReason;
use crate::clock;

/// What counts as without end: no invocation lasts as long, and every clock can count so far.
const LEFT_MAX: Duration = Duration::from_hours(365 * 24);

/// The end of an invocation, and how much time before it no wait may touch.
///
/// Make it at the start of the handler, where a minimum that can't be kept is found at once, and give it to every
/// call: it is as small as a number.
///
/// ```
/// # async fn fetch_rates() -> Result<f64, std::io::Error> { Ok(1.08) }
/// use comeback::retry::{Deadline, Policy, Retry};
/// use lambda_runtime::{Error, LambdaEvent};
///
/// async fn handler(event: LambdaEvent<String>, retry: &Retry) -> Result<f64, Error> {
///     let deadline = Deadline::of(&event.context)?;
///     Ok(retry.operation("rates").until(deadline).run(fetch_rates).await?)
/// }
///
/// # async fn example() -> Result<(), Error> {
/// # let context = comeback::testing::context(std::time::Duration::from_secs(30));
/// let deadline = Deadline::of(&context)?;
/// assert!(deadline.left() > deadline.minimum());
/// assert_eq!(deadline.minimum(), Deadline::MINIMUM);
/// # let rates = Retry::new(Policy::OUTSIDE_API);
/// # assert_eq!(handler(LambdaEvent::new("EUR".to_owned(), context), &rates).await?, 1.08);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deadline {
    // Tokio's, which a test can pause, and which no change of the system's clock moves.
    end: Instant,
    minimum: Duration,
}

impl Deadline {
    /// The minimum where none is given: enough for one more attempt, and for an answer.
    pub const MINIMUM: Duration = Duration::from_secs(5);

    /// The deadline of this invocation, with the default minimum of 5 s.
    ///
    /// # Errors
    ///
    /// If no more than the minimum is left: the time-out of the function is too short for it. See
    /// [`Deadline::of_with_minimum`].
    ///
    /// ```
    /// use comeback::retry::Deadline;
    /// use lambda_runtime::Context;
    ///
    /// let over = Context::default();
    /// assert!(Deadline::of(&over).is_err());
    /// ```
    pub fn of(context: &Context) -> Result<Self, BadDeadline> {
        Self::of_with_minimum(context, Self::MINIMUM)
    }

    /// The same with a minimum of your own, for functions whose time-out is short; Lambda's own default is 3 s.
    ///
    /// # Errors
    ///
    /// If no more than the minimum is left.
    ///
    /// ```
    /// use std::time::Duration;
    /// use comeback::{retry::Deadline, testing};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let context = testing::context(Duration::from_secs(3));
    /// assert!(Deadline::of(&context).is_err(), "it has 3 s in all");
    /// let deadline = Deadline::of_with_minimum(&context, Duration::from_millis(500))?;
    /// assert!(deadline.left() <= Duration::from_secs(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_with_minimum(context: &Context, minimum: Duration) -> Result<Self, BadDeadline> {
        Self::after(left_of(context, clock::now()), minimum, now())
    }

    /// A deadline so long from now, with the default minimum of 5 s.
    ///
    /// # Errors
    ///
    /// If that is no more than the minimum.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use comeback::retry::Deadline;
    ///
    /// assert!(Deadline::in_(Duration::from_secs(30)).is_ok());
    /// let bad = Deadline::in_(Duration::from_millis(2900)).unwrap_err();
    /// assert_eq!(bad.to_string(), "minimum must be less than the 2.9s that are left, got 5s");
    /// ```
    pub fn in_(left: Duration) -> Result<Self, BadDeadline> {
        Self::in_with_minimum(left, Self::MINIMUM)
    }

    /// The same with a minimum of your own.
    ///
    /// # Errors
    ///
    /// If that is no more than the minimum.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use comeback::retry::Deadline;
    ///
    /// let (left, minimum) = (Duration::from_secs(3), Duration::from_millis(500));
    /// assert!(Deadline::in_with_minimum(left, minimum).is_ok());
    /// ```
    pub fn in_with_minimum(left: Duration, minimum: Duration) -> Result<Self, BadDeadline> {
        Self::after(left, minimum, now())
    }

    /// The same deadline with another minimum: how much time shall be left when nothing is waited for any more.
    ///
    /// # Errors
    ///
    /// If no more than that is left.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), comeback::retry::BadDeadline> {
    /// use comeback::retry::Deadline;
    ///
    /// let deadline = Deadline::in_(Duration::from_secs(30))?;
    /// assert_eq!(deadline.with_minimum(Duration::from_secs(20))?.minimum().as_secs(), 20);
    /// assert!(deadline.with_minimum(Duration::from_secs(40)).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_minimum(self, minimum: Duration) -> Result<Self, BadDeadline> {
        let now = now();
        Self::after(self.left_at(now), minimum, now)
    }

    fn after(left: Duration, minimum: Duration, now: Instant) -> Result<Self, BadDeadline> {
        if left <= minimum {
            return Err(BadDeadline::MinimumTooLong { minimum, left });
        }
        Ok(Self { end: now + left.min(LEFT_MAX), minimum })
    }

    /// How much time is left until the deadline; none when it is over.
    pub fn left(&self) -> Duration {
        self.left_at(now())
    }

    /// How much time shall be left when nothing is waited for any more.
    pub fn minimum(&self) -> Duration {
        self.minimum
    }

    /// How long may be waited from now on.
    pub(super) fn spare_at(&self, now: Instant) -> Duration {
        self.left_at(now).saturating_sub(self.minimum)
    }

    /// Whether enough is left after this delay.
    pub(super) fn bears(&self, delay: Duration) -> Result<(), StopReason> {
        let Self { minimum, .. } = *self;
        let left = self.left();
        // A minimum of nothing is still not to be slept past.
        if left.checked_sub(delay).is_none_or(|rest| rest < minimum) {
            return Err(StopReason::Time { delay, left, minimum });
        }
        Ok(())
    }

    fn left_at(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now)
    }
}

/// A deadline that is of no use.
///
/// ```
/// # use std::time::Duration;
/// use comeback::retry::{BadDeadline, Deadline};
///
/// let bad = Deadline::in_(Duration::from_secs(3)).unwrap_err();
/// assert!(matches!(bad, BadDeadline::MinimumTooLong { .. }));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDeadline {
    /// The minimum is longer than all that is left.
    #[error("minimum must be less than the {:?} that are left, got {minimum:?}", to_the_ms(*left))]
    MinimumTooLong {
        /// The minimum that was asked for.
        minimum: Duration,
        /// What is left.
        left: Duration,
    },
}

/// A duration as it is shown to a person.
pub(super) fn to_the_ms(duration: Duration) -> Duration {
    duration - Duration::from_nanos(u64::from(duration.subsec_nanos()) % 1_000_000)
}

/// The present, as tokio tells it.
#[allow(
    clippy::disallowed_methods,
    reason = "the edge of the crate: a function's author is not asked for the time"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// How much time this invocation has left.
fn left_of(context: &Context, now: Timestamp) -> Duration {
    between(now, at_millis(context.deadline))
}

#[cfg(test)]
mod tests {
    use comeback_core::time::later;

    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn context(deadline: u64) -> Context {
        let mut context = Context::default();
        context.deadline = deadline;
        context
    }

    #[test]
    fn what_is_left_is_read_from_the_context() {
        let now = later(Timestamp::UNIX_EPOCH, secs(1000));
        for (deadline_ms, left) in [
            (1_030_000, secs(30)),
            (1_000_001, Duration::from_millis(1)),
            (1_000_000, Duration::ZERO),
            (0, Duration::ZERO),
        ] {
            assert_eq!(left_of(&context(deadline_ms), now), left, "{deadline_ms}");
        }
        assert!(left_of(&context(u64::MAX), now) > LEFT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_becomes_less_until_there_is_none() {
        let deadline = Deadline::in_(secs(30)).unwrap();
        let spare = || deadline.spare_at(now());
        assert_eq!((deadline.left(), spare()), (secs(30), secs(25)));
        tokio::time::advance(secs(26)).await;
        assert_eq!((deadline.left(), spare()), (secs(4), secs(0)));
        tokio::time::advance(secs(26)).await;
        assert_eq!((deadline.left(), spare()), (secs(0), secs(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_minimum_is_less_than_what_is_left() {
        assert!(Deadline::in_(secs(5)).is_err());
        let deadline = Deadline::in_(Duration::from_nanos(5_000_000_001)).unwrap();
        for (minimum, good) in [(0, true), (5, true), (6, false)] {
            assert_eq!(deadline.with_minimum(secs(minimum)).is_ok(), good, "{minimum}");
        }
        tokio::time::advance(secs(3)).await;
        let bad = deadline.with_minimum(secs(3)).unwrap_err();
        assert_eq!(bad.to_string(), "minimum must be less than the 2s that are left, got 3s");
    }

    #[test]
    fn an_invocation_that_is_over_has_no_deadline() {
        let bad = Deadline::of(&context(0)).unwrap_err();
        assert_eq!(bad.to_string(), "minimum must be less than the 0ns that are left, got 5s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_without_end_is_one_of_a_year() {
        let endless = Deadline::in_(Duration::MAX).unwrap();
        assert_eq!(endless.left(), LEFT_MAX);
        assert!(Deadline::of(&context(u64::MAX)).unwrap().left() == LEFT_MAX);
    }
}
