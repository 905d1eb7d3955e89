//! An in-memory queue, functions and clock for the tests of this module. The program's own tests run on the local cloud
//! and on moto.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use comeback_core::{Timestamp, time::later};

use crate::operate::{
    dead_letters::rules::{
        letter::{Letter, tests::given_up},
        look::{DeadLetterQueue, Redrive, Targets},
    },
    rules::ports::{Clock, Fault},
};

#[derive(Default)]
pub(super) struct StandIn {
    letters: RefCell<Vec<(Letter, Timestamp)>>,
    now: Cell<Timestamp>,
    receives: Cell<u32>,
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
}

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

    pub(super) fn change(&self, change: impl FnMut(&mut Letter)) {
        self.letters.borrow_mut().iter_mut().map(|(letter, _)| letter).for_each(change);
    }

    pub(super) fn len(&self) -> usize {
        self.letters.borrow().len()
    }

    pub(super) fn visible(&self) -> usize {
        self.letters.borrow().iter().filter(|(_, at)| *at <= self.now.get()).count()
    }

    fn throttles(&self) -> Result<(), Fault> {
        let left = self.throttles.get();
        self.throttles.set(left.saturating_sub(1));
        if left > 0 { Err(fault("ThrottlingException")) } else { Ok(()) }
    }
}

fn fault(code: &str) -> Fault {
    Fault::of("sqs:Anything", "queue", code, "as told")
}

impl DeadLetterQueue for StandIn {
    type Clock = Self;

    fn clock(&self) -> &Self {
        self
    }

    async fn receive(&self, max: usize, hold: Duration) -> Result<Vec<Letter>, Fault> {
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

    async fn release(&self, receipt_handles: &[&str]) -> Result<(), Fault> {
        self.throttles()?;
        let mut letters = self.letters.borrow_mut();
        let mine = letters
            .iter_mut()
            .filter(|(it, _)| receipt_handles.contains(&it.receipt_handle.as_str()));
        mine.for_each(|(_, at)| *at = self.now.get());
        Ok(())
    }

    async fn delete(&self, receipt_handles: &[&str]) -> Vec<Result<(), Fault>> {
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
}

impl Targets for StandIn {
    async fn redrive(&self, redrives: &[Redrive]) -> Vec<Result<(), Fault>> {
        let redrive = |Redrive { target, payload, .. }: &Redrive| {
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
    }
}
