//! Divides the time of one invocation of the handler.

use std::{pin::pin, time::Duration};

use comeback_core::{Timestamp, time::between};
use futures_util::future::{Either, select};

use crate::ports::Clock;

/// Reserved for the answer to reach Lambda before the function is killed.
const ANSWER: Duration = Duration::from_millis(500);

/// Reserved for the calls that began last and for their follow-ups. An invocation that is cut off may have been
/// accepted. After one that is not accepted, the message has to be put back or dead-lettered.
const FOLLOW_UP: Duration = Duration::from_secs(3);

/// How long the parts of a batch may take, counted from its start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Budget {
    /// After this time no further message is acted on.
    pub(crate) acts: Duration,
    /// After this time everything that is not done is left to the queue.
    pub(crate) all: Duration,
}

impl Budget {
    /// Divides the time from `now` until Lambda kills the function. If that is short, each reserve takes only a part of
    /// it.
    pub(crate) fn of(now: Timestamp, deadline: Timestamp) -> Self {
        let rest = between(now, deadline);
        let all = rest - ANSWER.min(rest / 4);
        Self { acts: all - FOLLOW_UP.min(all / 3), all }
    }
}

/// Runs `work` until the time is up. Returns `None` if it did not finish.
pub(crate) async fn within<T>(
    clock: &impl Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(work), pin!(clock.sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::time::later;

    use super::*;

    #[test]
    fn reserves_are_kept_back_and_of_a_short_time_a_part() {
        let now = Timestamp::UNIX_EPOCH;
        let table = [
            (30_000, 26_500, 29_500),
            (10_000, 6_500, 9_500),
            (3_000, 1_667, 2_500),
            (1_000, 500, 750),
            (0, 0, 0),
        ];
        for (rest, acts, all) in table {
            let budget = Budget::of(now, later(now, Duration::from_millis(rest)));
            let rounded = |part: Duration| (part.as_micros() + 500) / 1000;
            assert_eq!((rounded(budget.acts), rounded(budget.all)), (acts, all), "{rest}");
        }
        assert_eq!(
            Budget::of(later(now, ANSWER), now).all,
            Duration::ZERO,
            "a deadline in the past"
        );
    }
}
