//! A stand-in for the queue, for tests.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use comeback_core::{Timestamp, attribute::Attribute, time::later};

use super::{
    letter::{Letter, tests::given_up},
    order::Redrive,
    port::DeadLetterQueue,
    work::WORK_HOLD,
};

use crate::account::fault::{Answer, Clock, Fault};

/// An in-memory queue, functions and clock. The program's own tests run on the local cloud and on moto.
#[derive(Default)]
pub(super) struct StandIn {
    pub(super) letters: RefCell<Vec<(Letter, Timestamp)>>,
    pub(super) now: Cell<Timestamp>,
    pub(super) receives: Cell<u32>,
    pub(super) slept: Cell<Duration>,
    pub(super) per_call: Cell<Duration>,
    pub(super) arriving: Cell<u32>,
    pub(super) throttles: Cell<u32>,
    /// The number of receives that still succeed before all others are denied.
    pub(super) denied_after: Cell<Option<u32>>,
    pub(super) accepted: RefCell<BTreeMap<String, u32>>,
    /// The error code that redrives to a target return.
    pub(super) answers: RefCell<BTreeMap<String, &'static str>>,
    pub(super) delete_faults: Cell<u32>,
    /// Whether letters are received in the order of their numbers, not in the order in which they became visible.
    pub(super) in_order: Cell<bool>,
    /// From when on another consumer receives what is visible while the program sleeps.
    pub(super) rival_from: Cell<Option<Timestamp>>,
}

/// The receipt handle of a letter that the other consumer has received.
pub(super) const RIVAL: &str = "rival";

/// Runs a future that only waits for this stand-in, which always responds immediately.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    // `join_all` yields occasionally.
    for _ in 0..100_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
    panic!("a stand-in that waits")
}

impl StandIn {
    /// A queue of `count` letters, whose payloads are their numbers.
    pub(super) fn with(count: usize) -> Self {
        let now = given_up("", &[]).sent_at.unwrap();
        let letter = |number: usize| {
            let id = format!("message-{number}");
            (Letter { id, ..given_up(&number.to_string(), &[]) }, now)
        };
        let letters = RefCell::new((0..count).map(letter).collect());
        Self { letters, now: Cell::new(now), ..Self::default() }
    }

    /// Sets the attempts of each letter by its number, counted from 1.
    pub(super) fn set_attempts(&self, attempts: impl Fn(u64) -> u64) {
        for (number, (letter, _)) in (1..).zip(self.letters.borrow_mut().iter_mut()) {
            letter.attributes.retain(|it| it.name != "Attempts");
            letter.attributes.push(Attribute::text("Attempts", attempts(number).to_string()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.letters.borrow().len()
    }

    pub(super) fn visible(&self) -> usize {
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

/// Has this many letters arrive with each receive.
pub(super) fn arriving(queue: &StandIn, letters: u32) {
    queue.arriving.set(letters);
    queue.per_call.set(Duration::from_millis(100));
}
