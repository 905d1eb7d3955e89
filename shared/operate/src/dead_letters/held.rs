//! The letters that this program has received and hides from others.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::{
    letter::Letter,
    ports::{BATCH_MAX, DeadLetterQueue},
};
use crate::ports::{Fault, again};

/// How many calls are made at the same time to look at letters and to release them.
pub(super) const CALLS_MAX: usize = 8;

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
    pub(super) async fn release(&mut self, queue: &impl DeadLetterQueue) -> Result<(), Fault> {
        let handles: Vec<_> = self.handles.drain().map(|(_, handle)| handle).collect();
        let handles: Vec<_> = handles.iter().map(String::as_str).collect();
        for calls in handles.chunks(BATCH_MAX * CALLS_MAX) {
            let calls = calls.chunks(BATCH_MAX);
            let released = calls.map(|batch| again(queue.clock(), || queue.release(batch)));
            join_all(released).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }
}
