//! Looks at every letter of a queue.

use std::time::Duration;

use futures_util::future::join_all;

use super::{
    held::{CALLS_MAX, Held},
    letter::Letter,
    ports::{BATCH_MAX, DeadLetterQueue},
};
use crate::ports::{Fault, again};

/// How long letters are hidden while they are looked at. At a few thousand letters a second, this is long enough for
/// as many as SQS has in flight at most. If the program is killed, they are hidden for the rest of it.
const HOLD: Duration = Duration::from_mins(5);

/// Looks at every letter once and makes all of them visible again at once. `visit` returns whether to go on.
///
/// # Errors
///
/// If letters can't be received or made visible again. Those that were received become visible again within minutes.
pub async fn look(
    queue: &impl DeadLetterQueue,
    mut visit: impl FnMut(Letter) -> bool,
) -> Result<(), Fault> {
    let mut held = Held::default();
    let looked = receive_all(queue, &mut held, &mut visit).await;
    looked.and(held.release(queue).await)
}

async fn receive_all(
    queue: &impl DeadLetterQueue,
    held: &mut Held,
    visit: &mut impl FnMut(Letter) -> bool,
) -> Result<(), Fault> {
    loop {
        let calls = (0..CALLS_MAX).map(|_| again(queue.clock(), || queue.receive(BATCH_MAX, HOLD)));
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
            if held.keep(&letter) && goes_on {
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
    use crate::dead_letters::stand_in::{StandIn, block_on};

    /// Looks at so many letters at most. Returns how that ended, and how many were seen.
    fn looked(queue: &StandIn, most: usize) -> (Result<(), Fault>, usize) {
        let mut seen = Vec::new();
        let looked = block_on(look(queue, |letter| {
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
    fn a_look_that_is_ended_early_or_fails_leaves_every_letter_visible() {
        let queue = StandIn::with(257);
        assert_eq!((looked(&queue, 5), queue.visible()), ((Ok(()), 5), 257));
        queue.denied_after.set(Some(3));
        assert!(looked(&queue, 1000).0.unwrap_err().is_denied());
        assert_eq!(queue.visible(), 257);
    }

    #[test]
    fn a_look_takes_its_time_while_calls_are_throttled() {
        let queue = StandIn::with(25);
        queue.throttles.set(3);
        assert_eq!((looked(&queue, 1000), queue.visible()), ((Ok(()), 25), 25));
        assert!(queue.slept.get() >= Duration::from_secs(1));
    }

    #[test]
    fn letters_that_come_again_during_a_long_look_are_seen_once() {
        let queue = StandIn::with(257);
        // Each call takes a minute, so the first letters come again before the last.
        queue.per_call.set(Duration::from_mins(1));
        assert_eq!((looked(&queue, 1000), queue.visible()), ((Ok(()), 257), 257));
    }
}
