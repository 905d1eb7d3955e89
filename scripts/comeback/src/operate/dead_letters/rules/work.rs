//! Reads every letter in a queue without removing any, and carries out an order: redrives letters, or deletes them.
//!
//! While one set of batches is processed, the next one is received. All events of a set are invoked concurrently, and
//! then their letters are deleted. So at most [`Pace::batches`] batches are invoked but not yet deleted at any time. At
//! a slow rate, one batch is received after the other, and its events are invoked in their turn.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    fault::FaultKind,
    time::{between, later},
};
use futures_util::future::{join, join_all};
use serde::Serialize;

use super::{
    Letter,
    order::{Order, Redrive, StayReason, Step, notices},
};
use crate::operate::rules::{Answer, Clock, Fault, Notice, Tone, letters, with_backoff};

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

/// The maximum number of concurrent calls that receive or release letters.
const CALLS_MAX: usize = 8;

/// After this many rounds of receives in a row without a letter that is new to the program, the queue is read.
const IN_VAIN_MAX: u32 = 5;

/// A letter is not made visible again if it becomes visible by itself sooner than this. SQS accepts a receipt handle
/// even if another consumer has received the letter since, and would take it from that consumer.
const RELEASE_MARGIN: Duration = Duration::from_secs(2);

/// The letters that this program keeps hidden from other consumers.
///
/// Letters may arrive for as long as the program reads, faster than it reads. So the end is decided at the beginning:
/// only letters that were sent before it count. There is a limited number of them, and each counts once.
struct Held {
    began_at: Timestamp,
    /// How long a received letter is hidden.
    hold: Duration,
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
    fn new(began_at: Timestamp, hold: Duration, calls: usize) -> Self {
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

    fn is_newer(&self, letter: &Letter) -> bool {
        letter.sent_at.is_some_and(|sent_at| sent_at > self.began_at)
    }

    /// Records a letter that stays in the queue. Returns whether it is new. If the scan takes longer than letters are
    /// hidden, they are received again, with new receipt handles.
    fn keep(&mut self, letter: &Letter, received_at: Timestamp) -> bool {
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

    /// Records that a letter was received that counts.
    fn saw_another(&mut self) {
        self.again = 0;
        self.has_progressed = true;
    }

    /// Records the end of a round, in which this many receives found no letter. Returns whether every letter was seen
    /// that was sent before the program began. Since the last one, as many receives as are in a round must have found
    /// nothing, or some rounds only newer letters. If letters came again, which were hidden for too short, all of them
    /// must have: they may come before one that was not seen yet.
    fn has_seen_all(&mut self, empty: usize) -> bool {
        if std::mem::take(&mut self.has_progressed) {
            (self.empty, self.in_vain) = (0, 0);
        } else {
            (self.empty, self.in_vain) = (self.empty + empty, self.in_vain + 1);
        }
        let is_no_circle = self.again == 0 || self.again >= self.counted;
        self.empty >= self.calls || self.in_vain >= IN_VAIN_MAX && is_no_circle
    }

    async fn release(&self, queue: &impl DeadLetterQueue) -> Answer<()> {
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
async fn release(queue: &impl DeadLetterQueue, held: &[&(String, Timestamp)]) -> Answer<()> {
    let soon = later(queue.now(), RELEASE_MARGIN);
    let held = held.iter().filter(|(_, until)| *until > soon);
    let handles: Vec<_> = held.map(|(handle, _)| handle.as_str()).collect();
    if handles.is_empty() { Ok(()) } else { queue.release(&handles).await }
}

/// The maximum number of messages that SQS receives, changes or deletes in one call.
pub const BATCH_MAX: usize = 10;

pub trait DeadLetterQueue: Clock {
    /// Receives up to `max` letters, at most [`BATCH_MAX`], and hides them from other consumers for `hold`. If there
    /// seem to be none, waits briefly.
    fn receive(&self, max: usize, hold: Duration) -> impl Future<Output = Answer<Vec<Letter>>>;

    /// Makes at most [`BATCH_MAX`] letters visible again immediately.
    fn release(&self, receipt_handles: &[&str]) -> impl Future<Output = Answer<()>>;

    /// Deletes at most [`BATCH_MAX`] letters, and returns a result for each of them, in order.
    fn delete(&self, receipt_handles: &[&str]) -> impl Future<Output = Vec<Answer<()>>>;

    /// Invokes the functions and sends to the queues, all concurrently. Returns a result for each, in order.
    fn redrive(&self, redrives: &[Redrive]) -> impl Future<Output = Vec<Answer<()>>>;
}

/// How long letters are hidden while they are processed. If the program is killed, they stay hidden until then.
pub const WORK_HOLD: Duration = Duration::from_mins(1);

/// Letters received longer ago than this are not processed, because another consumer might receive them meanwhile.
const LETTER_AGE_MAX: Duration = Duration::from_secs(20);

/// The longest wait after a batch with throttled redrives. The first wait is a second. The maximum is less than
/// [`LETTER_AGE_MAX`], so that the next batch is not too old after the wait.
const BACKOFF_MAX: Duration = Duration::from_secs(16);

const FAULTS_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The most letters to redrive in a second. Those that stay don't count.
    pub letters_per_second: Option<f64>,
    /// The number of batches of ten to redrive concurrently. If the program is killed, that many may be redriven twice.
    pub batches: usize,
}

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Tally {
    pub redriven: BTreeMap<String, u64>,
    pub purged: u64,
    /// The number of letters that could not be deleted, redriven or to be purged. They stay in the queue.
    pub not_deleted: u64,
    pub left: BTreeMap<StayReason, u64>,
    /// The number of calls that were throttled or failed with another transient fault.
    pub throttled: u64,
    pub faults: BTreeSet<String>,
}

impl Tally {
    pub fn done(&self) -> u64 {
        self.redriven.values().sum::<u64>() + self.purged
    }

    /// The number of selected letters that are still in the queue.
    pub fn kept_back(&self) -> u64 {
        let left = self.left.iter().filter(|(left, _)| left.is_selected());
        left.map(|(_, letters)| letters).sum::<u64>() + self.not_deleted
    }

    pub fn notices(&self) -> Vec<Notice> {
        let words = ["redriven to", "deleted"];
        let (redriven, purged, left) = (&self.redriven, self.purged, &self.left);
        let mut notices =
            notices(redriven, purged, left, Tone::Good, words, Notice::nothing_done());
        if self.not_deleted > 0 {
            let letters = letters(self.not_deleted);
            notices.push(Notice::bad(if self.redriven.is_empty() {
                format!("{letters} could not be deleted")
            } else {
                format!("{letters} redriven but not deleted: another redrive would repeat them")
            }));
        }
        notices.extend(self.faults.iter().map(Notice::bad));
        notices
    }
}

/// Carries out an order until every letter in the queue has been seen, or `goes_on` returns false. `goes_on` is called
/// after every batch.
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
                if !self.settle(batch).await {
                    self.wait_for_turn(&mut goes_on).await;
                }
                receive(aws, pace).await
            } else {
                join(receive(aws, pace), self.settle(batch)).await.0
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
    /// letters were given back, because they would be too old when the rate allows their turn.
    async fn settle(&mut self, batch: Batch) -> bool {
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
            if !is_fresh(received_at, self.next_at.max(now)) {
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
        if let Some(rate) = self.pace.letters_per_second {
            let turn = Duration::from_secs_f64(letters.len() as f64 / rate);
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

/// The waits before each try to delete letters. The last try is well before other consumers can receive them.
const DELETE_WAITS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(4)];

/// Whether letters that were received then may still be processed.
fn is_fresh(received_at: Timestamp, now: Timestamp) -> bool {
    between(received_at, now) <= LETTER_AGE_MAX
}

impl Pace {
    /// Whether a set of batches takes longer than a second.
    fn is_slow(self) -> bool {
        self.letters_per_second.is_some_and(|rate| rate < (BATCH_MAX * self.batches) as f64)
    }

    /// The number of concurrent receives.
    fn receives(self) -> usize {
        if self.is_slow() { 1 } else { self.batches }
    }

    /// The number of redrives to make at the same time: those of a second, in whole ones.
    fn at_once(self) -> Option<usize> {
        self.letters_per_second.map(|rate| (rate as usize).max(1))
    }
}

/// Receives the next batches. At a slow pace, these are only as many letters as can be redriven while they are fresh.
async fn receive<A: DeadLetterQueue>(aws: &A, pace: Pace) -> Answer<Batch> {
    let in_time = |rate: f64| rate * LETTER_AGE_MAX.as_secs_f64();
    let max = pace.letters_per_second.map_or(BATCH_MAX, |rate| in_time(rate) as usize);
    let received_at = aws.now();
    let receive = || aws.receive(max.clamp(1, BATCH_MAX), WORK_HOLD);
    let calls = (0..pace.receives()).map(|_| with_backoff(aws, receive));
    let received: Vec<_> = join_all(calls).await.into_iter().collect::<Result<_, _>>()?;
    let empty = received.iter().filter(|letters| letters.is_empty()).count();
    Ok(Batch { letters: received.into_iter().flatten().collect(), received_at, empty })
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use comeback_core::attribute::Attribute;

    use super::*;
    use crate::operate::dead_letters::rules::{
        order::{Action, Selection},
        tests::{ORDERS, given_up},
    };

    /// An in-memory queue, functions and clock. The program's own tests run on the local cloud and on moto.
    #[derive(Default)]
    struct StandIn {
        letters: RefCell<Vec<(Letter, Timestamp)>>,
        now: Cell<Timestamp>,
        receives: Cell<u32>,
        slept: Cell<Duration>,
        per_call: Cell<Duration>,
        arriving: Cell<u32>,
        throttles: Cell<u32>,
        /// The number of receives that still succeed before all others are denied.
        denied_after: Cell<Option<u32>>,
        accepted: RefCell<BTreeMap<String, u32>>,
        /// The error code that redrives to a target return.
        answers: RefCell<BTreeMap<String, &'static str>>,
        delete_faults: Cell<u32>,
        /// Whether letters are received in the order of their numbers, not in the order in which they became visible.
        in_order: Cell<bool>,
        /// From when on another consumer receives what is visible while the program sleeps.
        rival_from: Cell<Option<Timestamp>>,
    }

    /// The receipt handle of a letter that the other consumer has received.
    const RIVAL: &str = "rival";

    /// Runs a future that only waits for this stand-in, which always responds immediately.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        // `join_all` yields occasionally.
        for _ in 0..100_000 {
            if let Poll::Ready(value) =
                future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return value;
            }
        }
        panic!("a stand-in that waits")
    }

    impl StandIn {
        /// A queue of `count` letters, whose payloads are their numbers.
        fn with(count: usize) -> Self {
            let now = given_up("", &[]).sent_at.unwrap();
            let letter = |number: usize| {
                let id = format!("message-{number}");
                (Letter { id, ..given_up(&number.to_string(), &[]) }, now)
            };
            let letters = RefCell::new((0..count).map(letter).collect());
            Self { letters, now: Cell::new(now), ..Self::default() }
        }

        /// Sets the attempts of each letter by its number, counted from 1.
        fn set_attempts(&self, attempts: impl Fn(u64) -> u64) {
            for (number, (letter, _)) in (1..).zip(self.letters.borrow_mut().iter_mut()) {
                letter.attributes.retain(|it| it.name != "Attempts");
                letter.attributes.push(Attribute::text("Attempts", attempts(number).to_string()));
            }
        }

        fn len(&self) -> usize {
            self.letters.borrow().len()
        }

        fn visible(&self) -> usize {
            self.letters.borrow().iter().filter(|(_, at)| *at <= self.now.get()).count()
        }

        fn throttles(&self) -> Answer<()> {
            let left = self.throttles.get();
            self.throttles.set(left.saturating_sub(1));
            if left > 0 { Err(fault("ThrottlingException")) } else { Ok(()) }
        }
    }

    fn fault(code: &str) -> Fault {
        Fault::of("sqs:Anything", "queue", code, "as told")
    }

    impl DeadLetterQueue for StandIn {
        async fn receive(&self, max: usize, hold: Duration) -> Answer<Vec<Letter>> {
            self.throttles()?;
            self.receives.set(self.receives.get() + 1);
            match self.denied_after.get() {
                Some(0) => return Err(fault("AccessDenied")),
                left => self.denied_after.set(left.map(|left| left - 1)),
            }
            self.now.set(later(self.now.get(), self.per_call.get()));
            let now = self.now.get();
            let mut letters = self.letters.borrow_mut();
            for nth in 0..self.arriving.get() {
                let id = format!("newer-{}-{nth}", self.receives.get());
                letters.push((Letter { id, sent_at: Some(now), ..given_up("1", &[]) }, now));
            }
            if !self.in_order.get() {
                letters.sort_by_key(|(_, at)| *at);
            }
            let visible = letters.iter_mut().filter(|(_, at)| *at <= now).take(max);
            let receive = |(letter, at): &mut (Letter, Timestamp)| {
                *at = later(now, hold);
                letter.receipt_handle = format!("{} {}", letter.id, self.receives.get());
                letter.clone()
            };
            Ok(visible.map(receive).collect())
        }

        /// Like SQS, it takes a handle whose letter another consumer has received since.
        async fn release(&self, receipt_handles: &[&str]) -> Answer<()> {
            self.throttles()?;
            let ids = receipt_handles.iter().map(|it| it.split(' ').next().unwrap());
            let ids: BTreeSet<_> = ids.collect();
            let mut letters = self.letters.borrow_mut();
            for (letter, at) in letters.iter_mut().filter(|(it, _)| ids.contains(&*it.id)) {
                assert_ne!(letter.receipt_handle, RIVAL, "it is taken from another consumer");
                *at = self.now.get();
            }
            Ok(())
        }

        async fn delete(&self, receipt_handles: &[&str]) -> Vec<Answer<()>> {
            let delete = |handle: &&str| {
                if self.delete_faults.get() > 0 {
                    self.delete_faults.set(self.delete_faults.get() - 1);
                    return Err(fault("ThrottlingException"));
                }
                self.letters.borrow_mut().retain(|(letter, _)| letter.receipt_handle != **handle);
                Ok(())
            };
            receipt_handles.iter().map(delete).collect()
        }

        async fn redrive(&self, redrives: &[Redrive]) -> Vec<Answer<()>> {
            let redrive = |Redrive { target, payload, .. }: &Redrive| {
                let id = format!("message-{payload}");
                let is_visible =
                    |(letter, at): &(Letter, Timestamp)| letter.id == id && *at <= self.now.get();
                assert!(
                    !self.letters.borrow().iter().any(is_visible),
                    "another redrive may invoke it, too"
                );
                self.throttles()?;
                if let Some(code) = self.answers.borrow().get(target) {
                    return Err(fault(code));
                }
                *self.accepted.borrow_mut().entry(payload.clone()).or_default() += 1;
                Ok(())
            };
            redrives.iter().map(redrive).collect()
        }
    }

    impl Clock for StandIn {
        fn now(&self) -> Timestamp {
            self.now.get()
        }

        async fn sleep(&self, duration: Duration) {
            self.slept.set(self.slept.get() + duration);
            self.now.set(later(self.now.get(), duration));
            if self.rival_from.get().is_some_and(|from| from <= self.now.get()) {
                for (letter, at) in self.letters.borrow_mut().iter_mut() {
                    if *at <= self.now.get() {
                        *at = later(self.now.get(), WORK_HOLD);
                        letter.receipt_handle = RIVAL.to_owned();
                    }
                }
            }
        }
    }

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

    /// Has this many letters arrive with each receive.
    fn arriving(queue: &StandIn, letters: u32) {
        queue.arriving.set(letters);
        queue.per_call.set(Duration::from_millis(100));
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

    const PACE: Pace = Pace { letters_per_second: None, batches: 1 };

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
            if rounds == 4 {
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
            let pace = Pace { letters_per_second: Some(rate), batches: 1 };
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
        let pace = Pace { letters_per_second: Some(0.01), batches: 1 };
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
        let pace = Pace { letters_per_second: Some(0.05), batches: 1 };
        let (tally, ended) = run(&queue, &order, pace);
        assert_eq!((ended, tally.done()), (Ok(()), 4));
        assert!(queue.slept.get() >= WORK_HOLD, "{:?}", queue.slept.get());
    }

    #[test]
    fn what_arrives_does_not_keep_a_look_or_a_redrive_from_its_end() {
        for per_call in [Duration::from_millis(300), Duration::from_secs(1)] {
            let queue = StandIn::with(40);
            arriving(&queue, 1);
            queue.per_call.set(per_call);
            assert_eq!(looked(&queue, 1000), (Ok(()), 40));
            assert!(queue.receives.get() < 50, "{}", queue.receives.get());
            let mut nothing = order(&queue, redrive());
            nothing.selection.attempts = Some(99..=99);
            let before = queue.receives.get();
            let (tally, ended) = run(&queue, &nothing, PACE);
            assert_eq!((ended, tally.done()), (Ok(()), 0));
            assert!(queue.receives.get() - before < 50, "{}", queue.receives.get() - before);
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
