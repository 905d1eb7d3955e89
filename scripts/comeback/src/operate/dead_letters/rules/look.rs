//! Reads every letter in a queue without removing any.

use std::{collections::HashMap, time::Duration};

use comeback_core::{Timestamp, attribute::Attribute};
use futures_util::future::join_all;

use crate::operate::{
    dead_letters::rules::letter::Letter,
    rules::ports::{Clock, Fault, with_backoff},
};

/// How long letters are hidden while the queue is read: half a minute, and longer for a large queue, which is read at
/// least this fast. If the program is killed, they stay hidden until this time ends.
const HOLD_MIN: Duration = Duration::from_secs(30);
const HOLD_MAX: Duration = Duration::from_mins(5);
const LETTERS_A_SECOND: u64 = 400;

/// How long letters are hidden while a queue with about this number of letters is read.
pub fn hold(letters: u64) -> Duration {
    (HOLD_MIN + Duration::from_secs(letters / LETTERS_A_SECOND)).min(HOLD_MAX)
}

/// Visits every letter once that was sent before now, then makes all of them visible again immediately. `letters` is
/// the approximate number of letters in the queue. `visit` returns whether to continue.
pub async fn look(
    queue: &impl DeadLetterQueue,
    letters: u64,
    mut visit: impl FnMut(Letter) -> bool,
) -> Result<(), Fault> {
    let mut held = Held::since(queue.clock().now());
    let looked = receive_all(queue, hold(letters), &mut held, &mut visit).await;
    looked.and(held.release(queue).await)
}

async fn receive_all(
    queue: &impl DeadLetterQueue,
    hold: Duration,
    held: &mut Held,
    visit: &mut impl FnMut(Letter) -> bool,
) -> Result<(), Fault> {
    loop {
        let calls =
            (0..CALLS_MAX).map(|_| with_backoff(queue.clock(), || queue.receive(BATCH_MAX, hold)));
        let mut failed = None;
        let mut letters = Vec::new();
        for received in join_all(calls).await {
            match received {
                Ok(batch) => letters.extend(batch),
                Err(fault) => failed = Some(fault),
            }
        }
        let is_over = letters.is_empty();
        let mut goes_on = true;
        for letter in letters {
            let is_newer = held.is_newer(&letter);
            if held.keep(&letter) && goes_on && !is_newer {
                goes_on = visit(letter);
            }
        }
        if let Some(fault) = failed {
            return Err(fault);
        }
        if is_over || !goes_on || held.has_seen_all() {
            return Ok(());
        }
    }
}

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

/// The maximum number of messages that SQS receives, changes or deletes in one call.
pub const BATCH_MAX: usize = 10;

pub trait DeadLetterQueue {
    /// The clock that measures how long letters are hidden.
    type Clock: Clock;

    fn clock(&self) -> &Self::Clock;

    /// Receives up to `max` letters, at most [`BATCH_MAX`], and hides them from other consumers for `hold`. If there
    /// seem to be none, waits briefly.
    fn receive(
        &self,
        max: usize,
        hold: Duration,
    ) -> impl Future<Output = Result<Vec<Letter>, Fault>>;

    /// Makes at most [`BATCH_MAX`] letters visible again immediately.
    fn release(&self, receipt_handles: &[&str]) -> impl Future<Output = Result<(), Fault>>;

    /// Deletes at most [`BATCH_MAX`] letters, and returns a result for each of them, in order.
    fn delete(&self, receipt_handles: &[&str]) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

pub trait Targets {
    /// Invokes the functions and sends to the queues, all concurrently. Returns a result for each, in order.
    fn redrive(&self, redrives: &[Redrive]) -> impl Future<Output = Vec<Result<(), Fault>>>;
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redrive {
    /// The name or the ARN of the function, with an optional qualifier, or of the queue.
    pub target: String,
    pub payload: String,
    /// The attributes of a queue's message; `None` for a function.
    pub attributes: Option<Vec<Attribute<'static>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::dead_letters::rules::stand_in::{StandIn, block_on};

    /// Looks at up to `most` letters. Returns the result, and the number of letters seen.
    fn looked(queue: &StandIn, most: usize) -> (Result<(), Fault>, usize) {
        let mut seen = Vec::new();
        let looked = block_on(look(queue, 257, |letter| {
            seen.push(letter.id);
            seen.len() < most
        }));
        let visits = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(visits, seen.len(), "each letter once");
        (looked, visits)
    }

    #[test]
    fn every_letter_is_seen_once_and_visible_again() {
        let queue = StandIn::with(257);
        assert_eq!(looked(&queue, 1000), (Ok(()), 257));
        assert_eq!((queue.visible(), queue.len()), (257, 257));
    }

    #[test]
    fn a_look_that_ends_early_or_fails_leaves_every_letter_visible() {
        let queue = StandIn::with(257);
        assert_eq!((looked(&queue, 5), queue.visible()), ((Ok(()), 5), 257));
        queue.denied_after.set(Some(3));
        assert!(looked(&queue, 1000).0.unwrap_err().is_denied());
        assert_eq!(queue.visible(), 257);
    }

    #[test]
    fn a_look_retries_throttled_calls() {
        let queue = StandIn::with(25);
        queue.throttles.set(3);
        assert_eq!((looked(&queue, 1000), queue.visible()), ((Ok(()), 25), 25));
        assert!(queue.slept.get() >= Duration::from_secs(1));
    }

    #[test]
    fn letters_that_are_received_again_are_seen_once() {
        let queue = StandIn::with(257);
        // Each call takes a minute, so the first letters are received again before the last.
        queue.per_call.set(Duration::from_mins(1));
        assert_eq!((looked(&queue, 1000), queue.visible()), ((Ok(()), 257), 257));
    }

    #[test]
    fn a_look_ends_while_letters_arrive_and_visits_only_what_was_sent_before_it() {
        for arriving in [1, 10, 80] {
            let queue = StandIn::with(257);
            queue.arriving.set(arriving);
            queue.per_call.set(Duration::from_millis(100));
            assert_eq!(looked(&queue, 1000), (Ok(()), 257));
            assert_eq!(queue.visible(), queue.len(), "{arriving} a call");
        }
    }

    #[test]
    fn a_small_queue_is_hidden_for_half_a_minute_if_the_program_is_killed() {
        assert_eq!(hold(300), Duration::from_secs(30));
        assert_eq!((hold(40_000), hold(10_000_000)), (Duration::from_secs(130), HOLD_MAX));
    }
}
