//! The letters that this program has received and hides from others.

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;

use super::{
    letter::Letter,
    ports::{BATCH_MAX, DeadLetterQueue},
};
use crate::ports::{Clock, Fault};

/// How many calls are made at the same time to look at letters and to release them.
pub(super) const CALLS_MAX: usize = 8;

/// The waits after calls that failed and may succeed later.
const BACKOFF: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

/// The letters that this program hides from others, by their ids.
#[derive(Default)]
pub(super) struct Held {
    handles: HashMap<String, String>,
    /// How many were received again since the last one that was new.
    again: usize,
}

impl Held {
    /// Notes a letter that stays in the queue. Returns whether it is new: if looking takes longer than letters are
    /// hidden, they are received again, and each receive has a handle of its own.
    pub(super) fn keep(&mut self, letter: &Letter) -> bool {
        let old = self.handles.insert(letter.id.clone(), letter.receipt_handle.clone());
        self.again = if old.is_some() { self.again + 1 } else { 0 };
        old.is_none()
    }

    /// Notes that a letter came which does not stay.
    pub(super) fn saw_another(&mut self) {
        self.again = 0;
    }

    /// Whether everything that comes has been seen before.
    pub(super) fn has_seen_all(&self) -> bool {
        self.again > 0 && self.again >= self.handles.len()
    }

    /// Makes all of them visible again at once.
    pub(super) async fn release(
        &mut self,
        queue: &impl DeadLetterQueue,
        clock: &impl Clock,
    ) -> Result<(), Fault> {
        let handles: Vec<_> = self.handles.drain().map(|(_, handle)| handle).collect();
        let handles: Vec<_> = handles.iter().map(String::as_str).collect();
        for calls in handles.chunks(BATCH_MAX * CALLS_MAX) {
            let calls = calls.chunks(BATCH_MAX);
            let released = calls.map(|batch| again(clock, || queue.release(batch)));
            join_all(released).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }
}

/// Makes a call again while it fails with something that may pass.
pub(super) async fn again<T, F>(clock: &impl Clock, call: impl Fn() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    for wait in BACKOFF {
        match call().await {
            Err(fault) if fault.passes() => clock.sleep(wait).await,
            answer => return answer,
        }
    }
    call().await
}
