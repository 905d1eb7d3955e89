//! The letters that this program keeps hidden from other consumers of the queue.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::{
    letter::Letter,
    ports::{BATCH_MAX, DeadLetterQueue},
};
use crate::ports::{Fault, with_backoff};

/// The maximum number of concurrent calls that receive or release letters.
pub(super) const CALLS_MAX: usize = 8;

/// The letters that this program keeps hidden from other consumers: the latest receipt handle by message id.
#[derive(Default)]
pub(super) struct Held {
    handles: HashMap<String, String>,
    /// The number of letters received again since the last new one.
    repeats: usize,
}

impl Held {
    /// Records a letter that stays in the queue. Returns whether it is new. If the scan takes longer than letters are
    /// hidden, they are received again, with new receipt handles.
    pub(super) fn keep(&mut self, letter: &Letter) -> bool {
        let old = self.handles.insert(letter.id.clone(), letter.receipt_handle.clone());
        self.repeats = if old.is_some() { self.repeats + 1 } else { 0 };
        old.is_none()
    }

    /// Records that a letter was received that does not stay.
    pub(super) fn saw_another(&mut self) {
        self.repeats = 0;
    }

    /// Whether as many letters as are hidden were received again since the last new one, so that no new ones are left.
    pub(super) fn has_seen_all(&self) -> bool {
        self.repeats > 0 && self.repeats >= self.handles.len()
    }

    /// Makes all of them visible again immediately.
    pub(super) async fn release(&mut self, queue: &impl DeadLetterQueue) -> Result<(), Fault> {
        let handles: Vec<_> = self.handles.drain().map(|(_, handle)| handle).collect();
        let handles: Vec<_> = handles.iter().map(String::as_str).collect();
        for calls in handles.chunks(BATCH_MAX * CALLS_MAX) {
            let calls = calls.chunks(BATCH_MAX);
            let released = calls.map(|batch| with_backoff(queue.clock(), || queue.release(batch)));
            join_all(released).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }
}
