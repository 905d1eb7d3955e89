//! Reads every letter in a queue without removing any.

use std::time::Duration;

use futures_util::future::join_all;

use super::{
    held::{CALLS_MAX, Held},
    letter::Letter,
    ports::{BATCH_MAX, DeadLetterQueue},
};
use crate::operate::rules::ports::{Clock, Fault, with_backoff};

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
