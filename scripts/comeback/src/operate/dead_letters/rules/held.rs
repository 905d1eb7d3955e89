//! The letters that this program keeps hidden from other consumers of the queue.

use std::collections::HashMap;

use comeback_core::Timestamp;
use futures_util::future::join_all;

use super::{
    letter::Letter,
    ports::{BATCH_MAX, DeadLetterQueue},
};
use crate::operate::rules::ports::{Fault, with_backoff};

/// The maximum number of concurrent calls that receive or release letters.
pub(super) const CALLS_MAX: usize = 8;

/// After this many receives in a row without a letter that is new to the program, the queue is read.
const IN_VAIN_MAX: u32 = 5;

/// The letters that this program keeps hidden from other consumers: the latest receipt handle by message id.
///
/// Letters may arrive for as long as the program reads, faster than it reads. So the end is decided at the beginning:
/// only letters that were sent before it count. There is a limited number of them, and each counts once.
pub(super) struct Held {
    began_at: Timestamp,
    handles: HashMap<String, String>,
    /// The number of those that were sent before the program began.
    counted: usize,
    /// The number of letters since the last that counts, and of receives.
    others: usize,
    in_vain: u32,
    has_progressed: bool,
}

impl Held {
    /// Nothing is held by a program that begins now.
    pub(super) fn since(began_at: Timestamp) -> Self {
        Self {
            began_at,
            handles: HashMap::new(),
            counted: 0,
            others: 0,
            in_vain: 0,
            has_progressed: false,
        }
    }

    /// Whether a letter was sent after the program began.
    pub(super) fn is_newer(&self, letter: &Letter) -> bool {
        letter.sent_at.is_some_and(|sent_at| sent_at > self.began_at)
    }

    /// Records a letter that stays in the queue. Returns whether it is new. If the scan takes longer than letters are
    /// hidden, they are received again, with new receipt handles.
    pub(super) fn keep(&mut self, letter: &Letter) -> bool {
        let old = self.handles.insert(letter.id.clone(), letter.receipt_handle.clone());
        if old.is_none() && !self.is_newer(letter) {
            self.counted += 1;
            self.saw_another();
        } else {
            self.others += 1;
        }
        old.is_none()
    }

    /// Records that a letter was received that does not stay.
    pub(super) fn saw_another(&mut self) {
        self.others = 0;
        self.has_progressed = true;
    }

    /// Records the end of a receive. Returns whether every letter was seen that was sent before the program began: some
    /// receives in a row had only letters that are newer, or that were received again, and as many as are hidden.
    pub(super) fn has_seen_all(&mut self) -> bool {
        self.in_vain = if std::mem::take(&mut self.has_progressed) { 0 } else { self.in_vain + 1 };
        self.in_vain >= IN_VAIN_MAX && self.others >= self.counted
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
