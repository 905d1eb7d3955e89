//! The queue in front of asynchronous invocations.
//!
//! An event waits here until it is due: at once when it is accepted, a minute after its first failed run, two minutes
//! after its second. Without free concurrency, an event is throttled: it waits for a second, then for twice as long
//! each time, up to five minutes. This does not count as a run. An event leaves the queue for good when it succeeds,
//! when its retries are used up, when it is too old, or when its function may not run at all.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::later};

use crate::model::payload::Payload;

/// The wait after the first failed run; after the second it is twice as long.
const RETRY_WAIT: Duration = Duration::from_secs(60);

const THROTTLE_WAIT_MIN: Duration = Duration::from_secs(1);

const THROTTLE_WAIT_MAX: Duration = Duration::from_secs(5 * 60);

#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) function: Arc<str>,
    pub(crate) request_id: Arc<str>,
    pub(crate) payload: Payload,
    /// The trace header of the request, or a new one if the request had none. The header of each run is derived from
    /// this one, so that Lambda's own retries don't count as a loop.
    pub(crate) trace_header: Arc<str>,
    pub(crate) tenant_id: Option<Arc<str>>,
    pub(crate) accepted_at: Timestamp,
    pub(crate) runs: u32,
    /// The number of times it was throttled since its last run.
    pub(crate) throttles: u32,
}

impl QueuedEvent {
    pub(crate) fn retry_at(&self, now: Timestamp) -> Timestamp {
        later(now, RETRY_WAIT.saturating_mul(self.runs))
    }

    pub(crate) fn throttled_until(&self, now: Timestamp) -> Timestamp {
        let factor = 2_u32.saturating_pow(self.throttles.saturating_sub(1));
        later(now, THROTTLE_WAIT_MIN.saturating_mul(factor).min(THROTTLE_WAIT_MAX))
    }
}

/// The waiting events, in the order in which they are due.
#[derive(Default)]
pub(crate) struct AsynchronousQueue {
    waiting: BTreeMap<(Timestamp, u64), QueuedEvent>,
    sequence: u64,
}

impl AsynchronousQueue {
    pub(crate) fn push(&mut self, due: Timestamp, event: QueuedEvent) {
        self.sequence += 1;
        self.waiting.insert((due, self.sequence), event);
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<QueuedEvent> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn event(payload: &[u8], runs: u32, throttles: u32) -> QueuedEvent {
        QueuedEvent {
            function: "my-function".into(),
            request_id: "e4b46cbf".into(),
            payload: Payload::parse(payload).unwrap(),
            trace_header: "Root=1-0-0".into(),
            tenant_id: None,
            accepted_at: Timestamp::UNIX_EPOCH,
            runs,
            throttles,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn throttled_events_wait_from_one_second_doubling_to_five_minutes() {
        for (throttles, wait) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (200, 300)] {
            assert_eq!(event(b"1", 0, throttles).throttled_until(at(0)), at(wait), "{throttles}");
        }
    }

    #[test]
    fn events_leave_in_the_order_they_are_due_and_first_come_first_served() {
        let mut queue = AsynchronousQueue::default();
        for (due, runs) in [(5, 1), (3, 2), (5, 3)] {
            queue.push(at(due), event(b"1", runs, 0));
        }
        assert_eq!(queue.next_due(), Some(at(3)));
        assert!(queue.pop_due(at(2)).is_none());
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop_due(at(9))).map(|e| e.runs).collect();
        assert_eq!(order, [2, 1, 3]);
        assert_eq!(queue.next_due(), None);
    }
}
