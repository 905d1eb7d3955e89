//! Reads every letter in a queue without removing any.

use std::time::Duration;

use comeback_core::Timestamp;
use futures_util::future::join_all;

use super::{
    hold::{CALLS_MAX, Held},
    letter::Letter,
    port::{BATCH_MAX, DeadLetterQueue},
};

use crate::account::fault::{Answer, with_backoff};

/// How long letters are hidden while the queue is read: half a minute, and longer for a large queue, which is read at
/// least this fast. If the program is killed, they stay hidden until this time ends.
const HOLD_MIN: Duration = Duration::from_secs(30);
const HOLD_MAX: Duration = Duration::from_mins(5);
const LETTERS_A_SECOND: u64 = 400;

/// How long letters are hidden while a queue with about this number of letters is read.
pub fn hold(letters: u64) -> Duration {
    (HOLD_MIN + Duration::from_secs(letters / LETTERS_A_SECOND)).min(HOLD_MAX)
}

/// Visits every letter that was sent before now, each once, and then makes all of them visible again immediately.
/// `letters` is the approximate number of letters in the queue. `visit` returns whether to continue.
pub async fn look(
    queue: &impl DeadLetterQueue,
    letters: u64,
    mut visit: impl FnMut(Letter) -> bool,
) -> Answer<()> {
    let mut held = Held::new(queue.now(), hold(letters), CALLS_MAX);
    let looked = receive_all(queue, &mut held, &mut visit).await;
    looked.and(held.release(queue).await)
}

async fn receive_all(
    queue: &impl DeadLetterQueue,
    held: &mut Held,
    visit: &mut impl FnMut(Letter) -> bool,
) -> Answer<()> {
    let hold = held.hold;
    loop {
        let calls = (0..CALLS_MAX).map(|_| with_backoff(queue, || receive_now(queue, hold)));
        let mut failed = None;
        let (mut goes_on, mut empty) = (true, 0);
        for received in join_all(calls).await {
            let (received_at, letters) = match received {
                Ok(received) => received,
                Err(fault) => {
                    failed = Some(fault);
                    continue;
                }
            };
            empty += usize::from(letters.is_empty());
            for letter in letters {
                let is_newer = held.is_newer(&letter);
                if held.keep(&letter, received_at) && goes_on && !is_newer {
                    goes_on = visit(letter);
                }
            }
        }
        if let Some(fault) = failed {
            return Err(fault);
        }
        if !goes_on || held.has_seen_all(empty) {
            return Ok(());
        }
    }
}

/// Receives letters, and returns when it began to.
async fn receive_now(
    queue: &impl DeadLetterQueue,
    hold: Duration,
) -> Answer<(Timestamp, Vec<Letter>)> {
    let received_at = queue.now();
    Ok((received_at, queue.receive(BATCH_MAX, hold).await?))
}

#[cfg(test)]
mod tests {
    use comeback_core::time::later;

    use super::*;

    use crate::{
        account::fault::Clock as _,
        operate::dead_letters::rules::stand_in::{StandIn, arriving, block_on},
    };

    /// Looks at up to `most` letters. Returns the result, and the number of letters seen.
    fn looked(queue: &StandIn, most: usize) -> (Answer<()>, usize) {
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
    fn a_look_sees_each_letter_once_and_leaves_every_letter_visible() {
        type Happens = fn(&StandIn);
        let table: [(&str, Happens, usize, usize); 7] = [
            ("nothing else happens", |_| {}, 1000, 257),
            ("it ends early", |_| {}, 5, 5),
            ("calls are throttled", |it| it.throttles.set(3), 1000, 257),
            // The first letters are received again before the last.
            ("a call takes a minute", |it| it.per_call.set(Duration::from_mins(1)), 1000, 257),
            ("one letter arrives with each call", |it| arriving(it, 1), 1000, 257),
            ("ten arrive", |it| arriving(it, 10), 1000, 257),
            ("more arrive than it reads", |it| arriving(it, 80), 1000, 257),
        ];
        for (name, happens, most, seen) in table {
            let queue = StandIn::with(257);
            happens(&queue);
            assert_eq!(looked(&queue, most), (Ok(()), seen), "{name}");
            if queue.per_call.get() > HOLD_MIN {
                // The program can't know how long a slow call has hidden letters. They come back by themselves.
                queue.now.set(later(queue.now(), HOLD_MIN));
            }
            assert_eq!(queue.visible(), queue.len(), "{name}");
        }
        let queue = StandIn::with(257);
        queue.denied_after.set(Some(3));
        assert!(looked(&queue, 1000).0.unwrap_err().is_denied());
        assert_eq!(queue.visible(), 257);
    }

    #[test]
    fn a_small_queue_is_hidden_for_half_a_minute_if_the_program_is_killed() {
        assert_eq!(hold(300), Duration::from_secs(30));
        assert_eq!((hold(40_000), hold(10_000_000)), (Duration::from_secs(130), HOLD_MAX));
    }

    #[test]
    fn arriving_letters_do_not_keep_a_look_from_its_end() {
        for per_call in [Duration::from_millis(300), Duration::from_secs(1)] {
            let queue = StandIn::with(40);
            arriving(&queue, 1);
            queue.per_call.set(per_call);
            assert_eq!(looked(&queue, 1000), (Ok(()), 40));
            assert!(queue.receives.get() < 50, "{}", queue.receives.get());
        }
    }
}
