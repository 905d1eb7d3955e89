//! Keeps letters hidden from other consumers, and decides when every letter was seen.

use std::{collections::HashMap, time::Duration};

use comeback_core::{Timestamp, time::later};
use futures_util::future::join_all;

use super::{
    letter::Letter,
    port::{BATCH_MAX, DeadLetterQueue},
};

use crate::account::fault::{Answer, with_backoff};

/// The maximum number of concurrent calls that receive or release letters.
pub(super) const CALLS_MAX: usize = 8;

/// When this many rounds in a row have found no letter that is new to the program, the queue has been read.
const IN_VAIN_MAX: u32 = 5;

/// A letter is not made visible again if it becomes visible by itself sooner than this. SQS accepts a receipt handle
/// even if another consumer has received the letter since, and would take it from that consumer.
const RELEASE_MARGIN: Duration = Duration::from_secs(2);

/// The letters that this program keeps hidden from other consumers.
///
/// Letters may arrive faster than the program reads them. So it counts only letters that were sent before it began.
/// There is a limited number of them, and each counts once.
pub(super) struct Held {
    began_at: Timestamp,
    /// How long a received letter is hidden.
    pub(super) hold: Duration,
    /// The number of receives in a round.
    calls: usize,
    /// The latest receipt handle of each letter, by message id, and until when it is hidden.
    handles: HashMap<String, (String, Timestamp)>,
    counted: usize,
    /// Since the last letter that counts: how many letters were received again, how many receives found none, and the
    /// number of rounds.
    again: usize,
    empty: usize,
    in_vain: u32,
    has_progressed: bool,
}

impl Held {
    pub(super) fn new(began_at: Timestamp, hold: Duration, calls: usize) -> Self {
        Self {
            began_at,
            hold,
            calls,
            handles: HashMap::new(),
            counted: 0,
            again: 0,
            empty: 0,
            in_vain: 0,
            has_progressed: false,
        }
    }

    pub(super) fn is_newer(&self, letter: &Letter) -> bool {
        letter.sent_at.is_some_and(|sent_at| sent_at > self.began_at)
    }

    /// Records a letter that stays in the queue. Returns whether it is new. If the scan takes longer than letters are
    /// hidden, they are received again, with new receipt handles.
    pub(super) fn keep(&mut self, letter: &Letter, received_at: Timestamp) -> bool {
        let held = (letter.receipt_handle.clone(), later(received_at, self.hold));
        let is_new = self.handles.insert(letter.id.clone(), held).is_none();
        if !is_new {
            self.again += 1;
        } else if !self.is_newer(letter) {
            self.counted += 1;
            self.saw_another();
        }
        is_new
    }

    /// Records the receipt of a letter that counts.
    pub(super) fn saw_another(&mut self) {
        self.again = 0;
        self.has_progressed = true;
    }

    /// Records the end of a round in which `empty` receives found no letter. Returns whether the program has seen every
    /// letter that was sent before it began. This is so if, since the last of them, as many receives as a round has
    /// found nothing, or [`IN_VAIN_MAX`] rounds found only newer letters. A letter that was not hidden for long enough
    /// is received again, possibly before one that the program has not seen. So once one of them was received again,
    /// the program waits until all of them were.
    pub(super) fn has_seen_all(&mut self, empty: usize) -> bool {
        if std::mem::take(&mut self.has_progressed) {
            (self.empty, self.in_vain) = (0, 0);
        } else {
            (self.empty, self.in_vain) = (self.empty + empty, self.in_vain + 1);
        }
        let is_no_circle = self.again == 0 || self.again >= self.counted;
        self.empty >= self.calls || self.in_vain >= IN_VAIN_MAX && is_no_circle
    }

    pub(super) async fn release(&self, queue: &impl DeadLetterQueue) -> Answer<()> {
        let handles: Vec<_> = self.handles.values().collect();
        for calls in handles.chunks(BATCH_MAX * CALLS_MAX) {
            let calls = calls.chunks(BATCH_MAX);
            let released = calls.map(|batch| with_backoff(queue, || release(queue, batch)));
            join_all(released).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }
}

/// Makes letters visible again, except for those that are about to be.
pub(super) async fn release(
    queue: &impl DeadLetterQueue,
    held: &[&(String, Timestamp)],
) -> Answer<()> {
    let soon = later(queue.now(), RELEASE_MARGIN);
    let held = held.iter().filter(|(_, until)| *until > soon);
    let handles: Vec<_> = held.map(|(handle, _)| handle.as_str()).collect();
    if handles.is_empty() { Ok(()) } else { queue.release(&handles).await }
}
