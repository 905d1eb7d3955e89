//! The end of an invocation, and the minimum time that must be left when a call stops waiting.
//!
//! Lambda kills a function at its deadline, and reports only that it timed out. So a call must stop waiting while
//! there is time for a last attempt, and to return an error with the cause. This time is the minimum.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    time::{at_millis, between},
};
use lambda_runtime::Context;
use tokio::time::Instant;

/// The longest time until a deadline. No invocation lasts this long, and every clock can represent it.
const LEFT_MAX: Duration = Duration::from_hours(365 * 24);

/// The end of an invocation, and the minimum time that must be left when a call stops waiting.
///
/// Create it at the start of the handler, to detect a timeout that is too short, and pass it to every call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deadline {
    // Tests can pause tokio's clock, and changes to the system clock do not affect it.
    end: Instant,
    minimum: Duration,
}

impl Deadline {
    /// The default minimum, 5 s: enough for another attempt and for the response.
    pub const MINIMUM: Duration = Duration::from_secs(5);

    /// The deadline of this invocation, with the default minimum of 5 s.
    ///
    /// # Errors
    ///
    /// If no more than the minimum is left, usually because the function's timeout is too short. See
    /// [`Deadline::of_with_minimum`].
    pub fn of(context: &Context) -> Result<Self, BadDeadline> {
        Self::of_with_minimum(context, Self::MINIMUM)
    }

    /// Like [`Deadline::of`], with your own minimum, for functions with a short timeout. Lambda's default is 3 s.
    pub fn of_with_minimum(context: &Context, minimum: Duration) -> Result<Self, BadDeadline> {
        Self::after(left_of(context, crate::now()), minimum, now())
    }

    /// A deadline after this duration, with the default minimum of 5 s.
    ///
    /// # Errors
    ///
    /// If the time is no longer than the minimum.
    pub fn in_(left: Duration) -> Result<Self, BadDeadline> {
        Self::in_with_minimum(left, Self::MINIMUM)
    }

    /// Like [`Deadline::in_`], with your own minimum.
    pub fn in_with_minimum(left: Duration, minimum: Duration) -> Result<Self, BadDeadline> {
        Self::after(left, minimum, now())
    }

    /// Returns this deadline with another minimum.
    ///
    /// # Errors
    ///
    /// If no more than this minimum is left.
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

    /// The time until the deadline, or zero after it.
    pub fn left(&self) -> Duration {
        self.left_at(now())
    }

    /// The minimum time that must be left when a call stops waiting.
    pub fn minimum(&self) -> Duration {
        self.minimum
    }

    /// The longest wait from `now` that leaves the minimum.
    pub(super) fn spare_at(&self, now: Instant) -> Duration {
        self.left_at(now).saturating_sub(self.minimum)
    }

    fn left_at(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now)
    }
}

/// An invalid deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDeadline {
    /// The minimum is not less than the time until the deadline.
    #[error("minimum must be less than the {:?} that are left, got {minimum:?}", to_millis(*left))]
    MinimumTooLong {
        /// The minimum.
        minimum: Duration,
        /// The time until the deadline.
        left: Duration,
    },
}

/// Truncates a duration to the millisecond, for a message.
pub(super) fn to_millis(duration: Duration) -> Duration {
    duration - Duration::from_nanos(u64::from(duration.subsec_nanos()) % 1_000_000)
}

/// The current time by tokio's clock.
#[allow(clippy::disallowed_methods, reason = "the callers of this crate do not pass the time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The time until Lambda ends this invocation.
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
    fn the_time_left_is_read_from_the_context() {
        let now = later(Timestamp::UNIX_EPOCH, secs(1000));
        for (deadline_ms, left_ms) in [(1_030_000, 30_000), (1_000_001, 1), (1_000_000, 0), (0, 0)]
        {
            let left = Duration::from_millis(left_ms);
            assert_eq!(left_of(&context(deadline_ms), now), left, "{deadline_ms}");
        }
        let bad = Deadline::of(&context(0)).unwrap_err();
        assert_eq!(bad.to_string(), "minimum must be less than the 0ns that are left, got 5s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_minimum_must_be_less_than_the_time_left() {
        assert!(Deadline::in_(secs(5)).is_err());
        let deadline = Deadline::in_(Duration::from_nanos(5_000_000_001)).unwrap();
        for (minimum, good) in [(0, true), (5, true), (6, false)] {
            assert_eq!(deadline.with_minimum(secs(minimum)).is_ok(), good, "{minimum}");
        }
        tokio::time::advance(secs(3)).await;
        let bad = deadline.with_minimum(secs(3)).unwrap_err();
        assert_eq!(bad.to_string(), "minimum must be less than the 2s that are left, got 3s");
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_deadline_is_a_year() {
        let endless = Deadline::in_(Duration::MAX).unwrap();
        assert_eq!(endless.left(), LEFT_MAX);
        assert!(Deadline::of(&context(u64::MAX)).unwrap().left() == LEFT_MAX);
    }
}
