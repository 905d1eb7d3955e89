//! Carries out an order: redrives letters, or deletes them.
//!
//! While one set of batches is processed, the next one is received. All events of a set are invoked concurrently, and
//! then their letters are deleted. So at most [`Pace::batches`] batches are invoked but not yet deleted at any time. At
//! a slow rate, one batch is received after the other, and its events are invoked in their turn.

use std::{collections::BTreeSet, time::Duration};

use comeback_core::{
    Timestamp,
    fault::FaultKind,
    time::{between, later},
};
use futures_util::future::{join, join_all};

use super::{
    hold::{Held, release},
    letter::Letter,
    order::{Order, Redrive, StayReason, Step},
    port::{BATCH_MAX, DeadLetterQueue},
    tally::Tally,
};

use crate::{
    account::fault::{Answer, Fault, with_backoff},
    typed::Rate,
};

/// How long letters are hidden while they are processed. If the program is killed, they stay hidden until then.
pub const WORK_HOLD: Duration = Duration::from_mins(1);

/// Letters received longer ago than this are not processed, because another consumer might receive them meanwhile.
const LETTER_AGE_MAX: Duration = Duration::from_secs(20);

/// The longest wait after a batch with throttled redrives. The first wait is a second. The maximum is less than
/// [`LETTER_AGE_MAX`], so that the next batch is not too old after the wait.
const BACKOFF_MAX: Duration = Duration::from_secs(16);

/// The waits before each try to delete letters. The last try is well before other consumers can receive them.
const DELETE_WAITS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(4)];

const FAULTS_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The most letters to redrive in a second. Those that stay don't count.
    pub rate: Option<Rate>,
    /// The number of batches of ten to redrive concurrently. If the program is killed, that many may be redriven twice.
    pub batches: usize,
}

impl Pace {
    /// Whether a set of batches takes longer than a second.
    fn is_slow(self) -> bool {
        self.rate.is_some_and(|rate| rate.per_second() < (BATCH_MAX * self.batches) as f64)
    }

    /// The number of concurrent receives.
    fn receives(self) -> usize {
        if self.is_slow() { 1 } else { self.batches }
    }

    /// The number of redrives to make at the same time: those of a second, in whole ones.
    fn at_once(self) -> Option<usize> {
        self.rate.map(|rate| (rate.per_second() as usize).max(1))
    }
}

/// Carries out an order until every letter in the queue has been seen, or `goes_on` returns false. `goes_on` is called
/// before events are sent, and after every batch.
pub async fn carry_out<A: DeadLetterQueue>(
    order: &Order,
    pace: Pace,
    aws: &A,
    goes_on: impl FnMut(&Tally) -> bool,
) -> (Tally, Answer<()>) {
    let mut work = Work {
        order,
        pace,
        aws,
        held: Held::new(order.given_at, WORK_HOLD, pace.receives()),
        tally: Tally::default(),
        backoff: Duration::ZERO,
        next_at: aws.now(),
        broken: BTreeSet::new(),
    };
    let done = work.until_empty(goes_on).await;
    let released = work.held.release(aws).await;
    (work.tally, done.and(released))
}

struct Batch {
    letters: Vec<Letter>,
    received_at: Timestamp,
    /// The number of receives that found no letter.
    empty: usize,
}

struct Work<'a, A> {
    order: &'a Order,
    pace: Pace,
    aws: &'a A,
    held: Held,
    tally: Tally,
    /// The wait after the last batch, because redrives were throttled.
    backoff: Duration,
    /// When the rate allows the next redrive.
    next_at: Timestamp,
    broken: BTreeSet<String>,
}

impl<A: DeadLetterQueue> Work<'_, A> {
    async fn until_empty(&mut self, mut goes_on: impl FnMut(&Tally) -> bool) -> Answer<()> {
        let (aws, pace) = (self.aws, self.pace);
        let mut batch = receive(aws, pace).await?;
        while !batch.letters.is_empty() {
            let empty = batch.empty;
            let next = if pace.is_slow() {
                if !self.settle(batch, &mut goes_on).await {
                    self.wait_for_turn(&mut goes_on).await;
                }
                receive(aws, pace).await
            } else {
                join(receive(aws, pace), self.settle(batch, &mut goes_on)).await.0
            };
            batch = next?;
            if !goes_on(&self.tally) || self.held.has_seen_all(empty) {
                for letter in &batch.letters {
                    self.held.keep(letter, batch.received_at);
                }
                break;
            }
        }
        Ok(())
    }

    /// Processes a batch: invokes functions, then deletes the letters whose events were accepted. Returns false if
    /// letters were given back: they would be too old when the rate allows their turn, or `goes_on` has returned false.
    async fn settle(&mut self, batch: Batch, goes_on: &mut impl FnMut(&Tally) -> bool) -> bool {
        let Batch { letters, received_at, .. } = batch;
        if !is_fresh(received_at, self.aws.now()) {
            self.give_back(&letters, received_at).await;
            return true;
        }
        let (mut sends, mut deleted) = (Vec::new(), Vec::new());
        for letter in letters {
            match self.order.step(&letter, self.aws.now()) {
                Step::Redrive(redrive) if self.broken.contains(&redrive.target) => {
                    self.leave(&letter, received_at, StayReason::Failed);
                }
                Step::Redrive(redrive) => sends.push((letter, redrive)),
                Step::Delete => deleted.push(letter),
                Step::Leave(left) => self.leave(&letter, received_at, left),
            }
        }
        if !(sends.is_empty() && deleted.is_empty()) {
            self.held.saw_another();
        }
        let not_purged = self.delete(&deleted).await;
        self.tally.purged += deleted.len() as u64 - not_purged;
        self.tally.not_deleted += not_purged;
        let at_once = self.pace.at_once().unwrap_or(sends.len());
        while !sends.is_empty() {
            let now = self.aws.now();
            if !is_fresh(received_at, self.next_at.max(now)) || !goes_on(&self.tally) {
                let letters: Vec<_> = sends.into_iter().map(|(letter, _)| letter).collect();
                self.give_back(&letters, received_at).await;
                return false;
            }
            self.aws.sleep(between(now, self.next_at)).await;
            let rest = sends.split_off(at_once.min(sends.len()));
            self.redrive(sends, received_at).await;
            sends = rest;
        }
        true
    }

    /// Waits until the rate allows the next redrive, or `goes_on` returns false.
    async fn wait_for_turn(&self, goes_on: &mut impl FnMut(&Tally) -> bool) {
        const STEP: Duration = Duration::from_secs(1);
        while self.aws.now() < self.next_at && goes_on(&self.tally) {
            self.aws.sleep(between(self.aws.now(), self.next_at).min(STEP)).await;
        }
    }

    async fn redrive(&mut self, sends: Vec<(Letter, Redrive)>, received_at: Timestamp) {
        let (letters, redrives): (Vec<_>, Vec<_>) = sends.into_iter().unzip();
        if let Some(rate) = self.pace.rate {
            let turn = rate.time_of(letters.len());
            self.next_at = later(self.aws.now(), turn);
        }
        let answers = self.aws.redrive(&redrives).await;
        let (mut accepted, mut throttled) = (Vec::new(), Vec::new());
        for ((letter, redrive), answer) in letters.into_iter().zip(redrives).zip(answers) {
            match answer {
                Ok(()) => {
                    *self.tally.redriven.entry(redrive.target).or_default() += 1;
                    accepted.push(letter);
                }
                Err(fault) => match fault.kind {
                    FaultKind::Transient { .. } => throttled.push(letter),
                    FaultKind::Configuration => {
                        self.note(&fault);
                        self.broken.insert(redrive.target);
                        self.leave(&letter, received_at, StayReason::Failed);
                    }
                    FaultKind::Refused(_) => {
                        self.note(&fault);
                        self.leave(&letter, received_at, StayReason::Refused);
                    }
                },
            }
        }
        self.tally.not_deleted += self.delete(&accepted).await;
        self.slow_down(&throttled, received_at).await;
    }

    /// Records a fault. Error messages may contain a request id, so each letter's fault may be different.
    fn note(&mut self, fault: &Fault) {
        if self.tally.faults.len() < FAULTS_MAX {
            self.tally.faults.insert(fault.to_string());
        }
    }

    /// Records a letter that stays in the queue, hidden until the work ends.
    fn leave(&mut self, letter: &Letter, received_at: Timestamp, left: StayReason) {
        if self.held.keep(letter, received_at) {
            *self.tally.left.entry(left).or_default() += 1;
        }
    }

    /// Deletes letters, and returns the number that could not be deleted.
    async fn delete(&mut self, letters: &[Letter]) -> u64 {
        let mut handles: Vec<&str> = letters.iter().map(|it| it.receipt_handle.as_str()).collect();
        for wait in DELETE_WAITS {
            self.aws.sleep(wait).await;
            let calls = handles.chunks(BATCH_MAX).map(|batch| self.aws.delete(batch));
            let answers = join_all(calls).await.into_iter().flatten();
            let failed =
                handles.iter().zip(answers).filter_map(|(handle, it)| Some((*handle, it.err()?)));
            let failed: Vec<_> = failed.collect();
            handles = failed.iter().map(|(handle, _)| *handle).collect();
            if failed.iter().all(|(_, fault)| !fault.passes()) {
                failed.iter().for_each(|(_, fault)| self.note(fault));
                break;
            }
            self.tally.throttled += failed.len() as u64;
        }
        handles.len() as u64
    }

    /// Makes letters visible again, so that they are received once more.
    async fn give_back(&self, letters: &[Letter], received_at: Timestamp) {
        let until = later(received_at, WORK_HOLD);
        let held: Vec<_> = letters.iter().map(|it| (it.receipt_handle.clone(), until)).collect();
        let held: Vec<_> = held.iter().collect();
        let calls = held.chunks(BATCH_MAX).map(|batch| release(self.aws, batch));
        // If this fails, they become visible a little later.
        join_all(calls).await;
    }

    /// Makes letters with throttled redrives visible again, and waits, twice as long each time.
    async fn slow_down(&mut self, throttled: &[Letter], received_at: Timestamp) {
        if throttled.is_empty() {
            self.backoff = Duration::ZERO;
            return;
        }
        self.tally.throttled += throttled.len() as u64;
        self.give_back(throttled, received_at).await;
        self.backoff = (self.backoff * 2).clamp(Duration::from_secs(1), BACKOFF_MAX);
        self.aws.sleep(self.backoff).await;
    }
}

/// Whether letters that were received then may still be processed.
fn is_fresh(received_at: Timestamp, now: Timestamp) -> bool {
    between(received_at, now) <= LETTER_AGE_MAX
}

/// Receives the next batches. At a slow pace, these are only as many letters as can be redriven while they are fresh.
async fn receive<A: DeadLetterQueue>(aws: &A, pace: Pace) -> Answer<Batch> {
    let in_time = |rate: Rate| rate.per_second() * LETTER_AGE_MAX.as_secs_f64();
    let max = pace.rate.map_or(BATCH_MAX, |rate| in_time(rate) as usize);
    let received_at = aws.now();
    let receive = || aws.receive(max.clamp(1, BATCH_MAX), WORK_HOLD);
    let calls = (0..pace.receives()).map(|_| with_backoff(aws, receive));
    let received: Vec<_> = join_all(calls).await.into_iter().collect::<Result<_, _>>()?;
    let empty = received.iter().filter(|letters| letters.is_empty()).count();
    Ok(Batch { letters: received.into_iter().flatten().collect(), received_at, empty })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    use crate::{
        account::fault::Clock as _,
        notice::{Notice, Tone},
        operate::dead_letters::rules::{
            letter::tests::ORDERS,
            order::Action,
            selection::Selection,
            stand_in::{StandIn, arriving, block_on},
        },
    };

    const PACE: Pace = Pace { rate: None, batches: 1 };

    fn redrive() -> Action {
        Action::Redrive { to: None, set: Vec::new(), payload: None }
    }

    fn order(queue: &StandIn, action: Action) -> Order {
        let (selection, given_at) = (Selection::default(), queue.now());
        Order { selection, given_at, action, policies: Vec::new() }
    }

    fn run(queue: &StandIn, order: &Order, pace: Pace) -> (Tally, Answer<()>) {
        block_on(carry_out(order, pace, queue, |_| true))
    }

    #[test]
    fn every_letter_is_accepted_once_and_deleted_and_those_that_arrive_stay() {
        for (batches, arrive) in [(1, 0), (4, 0), (1, 1), (1, 10), (1, 80)] {
            let queue = StandIn::with(257);
            arriving(&queue, arrive);
            let (tally, ended) = run(&queue, &order(&queue, redrive()), Pace { batches, ..PACE });
            assert_eq!(ended, Ok(()), "{arrive} a call");
            assert_eq!(tally.redriven, BTreeMap::from([(ORDERS.to_owned(), 257)]));
            assert_eq!((tally.kept_back(), queue.visible()), (0, queue.len()), "{arrive} a call");
            assert!(arrive > 0 || queue.len() == 0);
            let accepted = queue.accepted.borrow();
            assert_eq!((accepted.len(), accepted.values().max()), (257, Some(&1)));
        }
    }

    #[test]
    fn letters_that_stay_and_are_received_again_do_not_end_the_work_early() {
        let queue = StandIn::with(200);
        queue.set_attempts(|number| number / 3);
        // The letters that stay are received again with every seventh receive.
        queue.in_order.set(true);
        queue.per_call.set(Duration::from_secs(10));
        let mut order = order(&queue, redrive());
        order.selection.attempts = Some(1..=u32::MAX);
        let (tally, ended) = run(&queue, &order, PACE);
        assert_eq!((ended, tally.done(), queue.visible()), (Ok(()), 198, 2));
        assert_eq!(tally.left, BTreeMap::from([(StayReason::NotSelected, 2)]));
    }

    #[test]
    fn throttled_invocations_are_made_again_later() {
        let queue = StandIn::with(30);
        queue.answers.borrow_mut().insert("busy".to_owned(), "TooManyRequestsException");
        let to = Action::Redrive { to: Some("busy".to_owned()), set: Vec::new(), payload: None };
        let mut rounds = 0;
        let (tally, _) = block_on(carry_out(&order(&queue, to), PACE, &queue, |_| {
            rounds += 1;
            if rounds == 8 {
                queue.answers.borrow_mut().clear();
            }
            true
        }));
        assert_eq!((tally.done(), tally.throttled, queue.len()), (30, 40, 0));
        assert_eq!(queue.slept.get(), Duration::from_secs(1 + 2 + 4 + 8));
    }

    #[test]
    fn a_function_that_can_not_be_invoked_is_tried_in_one_batch_at_most() {
        let queue = StandIn::with(30);
        queue.answers.borrow_mut().insert(ORDERS.to_owned(), "AccessDeniedException");
        let (tally, ended) = run(&queue, &order(&queue, redrive()), PACE);
        assert_eq!((ended, tally.done(), tally.kept_back()), (Ok(()), 0, 30));
        assert_eq!(tally.left, BTreeMap::from([(StayReason::Failed, 30)]));
        assert_eq!((tally.faults.len(), queue.visible()), (1, 30));

        let queue = StandIn::with(30);
        queue.answers.borrow_mut().insert(ORDERS.to_owned(), "RequestTooLargeException");
        let (tally, _) = run(&queue, &order(&queue, redrive()), PACE);
        assert_eq!(tally.left, BTreeMap::from([(StayReason::Refused, 30)]));
    }

    #[test]
    fn a_failed_deletion_is_retried_and_reported() {
        let again = "1 letter redriven but not deleted: another redrive would repeat them";
        for (action, faults, done, left, told) in [
            (redrive(), 3, 10, 0, None),
            (redrive(), 31, 10, 1, Some(again)),
            (Action::Purge, 31, 9, 1, Some("1 letter could not be deleted")),
        ] {
            let queue = StandIn::with(10);
            queue.delete_faults.set(faults);
            let (tally, _) = run(&queue, &order(&queue, action), PACE);
            assert_eq!((tally.done(), tally.not_deleted), (done, left), "{told:?}");
            assert_eq!((queue.len() as u64, tally.throttled >= 3), (left, true), "{told:?}");
            let bad = tally.notices().into_iter().filter(|it| it.tone == Tone::Bad);
            assert_eq!(
                bad.collect::<Vec<_>>(),
                told.map(Notice::bad).into_iter().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_rate_is_kept_and_letters_that_stay_do_not_count() {
        for (rate, letters, wanted, seconds) in [
            (100.0, 300, 300, 2..=3),
            (3.0, 30, 30, 9..=10),
            (1.0, 5, 5, 4..=5),
            (0.2, 5, 5, 20..=21),
            (2.0, 300, 5, 2..=3),
            (5.0, 300, 10, 1..=2),
            (0.1, 300, 2, 10..=11),
            (0.01, 3, 3, 200..=201),
        ] {
            let queue = StandIn::with(letters);
            queue
                .set_attempts(|number| if number % (letters as u64 / wanted) == 0 { 9 } else { 1 });
            let mut order = order(&queue, redrive());
            order.selection.attempts = Some(9..=9);
            let pace = Pace { rate: Rate::new(rate), batches: 1 };
            let (tally, ended) = run(&queue, &order, pace);
            let left = letters - wanted as usize;
            assert_eq!((ended, tally.done(), queue.visible()), (Ok(()), wanted, left), "{rate}");
            let slept = queue.slept.get();
            assert!(seconds.contains(&slept.as_secs()), "{rate}: {slept:?}");
        }
    }

    #[test]
    fn a_letter_whose_turn_is_late_is_visible_while_it_waits() {
        let queue = StandIn::with(3);
        let pace = Pace { rate: Rate::new(0.01), batches: 1 };
        let order = order(&queue, redrive());
        let (mut rounds, mut visible) = (0, 0);
        let (tally, _) = block_on(carry_out(&order, pace, &queue, |_| {
            rounds += 1;
            if rounds == 20 {
                visible = queue.visible();
            }
            rounds < 30
        }));
        assert_eq!((tally.done(), visible, queue.visible()), (1, 2, 2));
        assert!(queue.slept.get() < Duration::from_secs(30), "an interruption ends the wait");
    }

    #[test]
    fn a_letter_that_another_consumer_has_received_since_is_not_made_visible() {
        let queue = StandIn::with(20);
        queue.set_attempts(|number| number / 17);
        queue.rival_from.set(Some(later(queue.now(), WORK_HOLD)));
        let mut order = order(&queue, redrive());
        order.selection.attempts = Some(1..=u32::MAX);
        let pace = Pace { rate: Rate::new(0.05), batches: 1 };
        let (tally, ended) = run(&queue, &order, pace);
        assert_eq!((ended, tally.done()), (Ok(()), 4));
        assert!(queue.slept.get() >= WORK_HOLD, "{:?}", queue.slept.get());
    }

    #[test]
    fn arriving_letters_do_not_keep_a_redrive_from_its_end() {
        for per_call in [Duration::from_millis(300), Duration::from_secs(1)] {
            let queue = StandIn::with(40);
            arriving(&queue, 1);
            queue.per_call.set(per_call);
            let mut nothing = order(&queue, redrive());
            nothing.selection.attempts = Some(99..=99);
            let (tally, ended) = run(&queue, &nothing, PACE);
            assert_eq!((ended, tally.done()), (Ok(()), 0));
            assert!(queue.receives.get() < 50, "{}", queue.receives.get());
        }
    }

    #[test]
    fn letters_that_were_held_for_too_long_are_not_processed() {
        let queue = StandIn::with(10);
        // Every receive takes longer than `LETTER_AGE_MAX`.
        queue.per_call.set(Duration::from_secs(21));
        let mut rounds = 0;
        let (tally, _) = block_on(carry_out(&order(&queue, redrive()), PACE, &queue, |_| {
            rounds += 1;
            rounds < 3
        }));
        assert_eq!((tally.done(), queue.len(), queue.visible()), (0, 10, 10));
    }
}
