//! Divides the time of one invocation of the handler.

use std::{pin::pin, time::Duration};

use comeback_core::{
    Timestamp,
    time::{between, later},
};
use futures_util::future::{Either, select};

use crate::ports::Clock;

/// Reserved for the answer to reach Lambda before the function is killed.
const ANSWER: Duration = Duration::from_millis(500);

/// Reserved for the calls that began last and for their follow-ups. An invocation that is cut off may have been
/// accepted. After one that is not accepted, the message has to be put back or dead-lettered.
const FOLLOW_UP: Duration = Duration::from_secs(3);

/// When the parts of a batch end. These are times and not durations, because the calls before a part may be slow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Budget {
    /// From this time on no failure record is read, so that there is time to act on what was read.
    pub(crate) reads: Timestamp,
    /// From this time on no note is waited for. Other messages wait until then.
    pub(crate) recall: Timestamp,
    /// From this time on no further message is acted on.
    pub(crate) acts: Timestamp,
    /// From this time on everything that is not done is left to the queue.
    pub(crate) all: Timestamp,
}

impl Budget {
    /// Divides the time from `now` until Lambda kills the function. If that is short, each reserve takes only a part of
    /// it.
    pub(crate) fn of(now: Timestamp, deadline: Timestamp) -> Self {
        let rest = between(now, deadline);
        let all = rest - ANSWER.min(rest / 4);
        let acts = all - FOLLOW_UP.min(all / 3);
        Self {
            reads: later(now, acts / 4),
            recall: later(now, acts / 2),
            acts: later(now, acts),
            all: later(now, all),
        }
    }
}

/// Runs `work` until this time. Returns `None` if it did not finish.
pub(crate) async fn within<T>(
    clock: &impl Clock,
    until: Timestamp,
    work: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(work), pin!(clock.sleep(between(clock.now(), until)))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_there_is_little_time_each_reserve_takes_only_a_part_of_it() {
        let now = Timestamp::UNIX_EPOCH;
        let table = [
            (30_000, 6_625, 26_500, 29_500),
            (10_000, 1_625, 6_500, 9_500),
            (3_000, 417, 1_667, 2_500),
            (1_000, 125, 500, 750),
            (0, 0, 0, 0),
        ];
        for (rest, reads, acts, all) in table {
            let budget = Budget::of(now, later(now, Duration::from_millis(rest)));
            let rounded = |end| (between(now, end).as_micros() + 500) / 1000;
            let ends = [budget.reads, budget.acts, budget.all].map(rounded);
            assert_eq!(ends, [reads, acts, all], "{rest}");
        }
        let past = later(now, ANSWER);
        assert_eq!(Budget::of(past, now).all, past, "a deadline in the past");
    }
}
