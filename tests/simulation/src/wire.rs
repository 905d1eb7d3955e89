//! The ports of a handler, whose other end is the world.
//!
//! A call is put on the desk of the handler's environment and waits for its answer. The world takes
//! it from there, decides its fate, and answers in its own time, or never. There is no thread and no
//! runtime: whoever is answered is polled, once, by the world.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use comeback_core::{
    Timestamp, claim::Claim, dead_letter::DeadLetter, fault::InvokeFault, time::later,
};
use comeback_flow::ports::{
    CallFault, Clock, Functions, Invocation, Ledger, NotReplaced, Queues, VisibilityChange,
};

/// What SQS says to each entry of a call.
pub(crate) type Entries = Vec<Result<(), CallFault>>;

/// What Lambda says to an invocation.
pub(crate) type Invoked = Result<(), InvokeFault>;

/// What the ledger says to a write.
pub(crate) type Replaced = Result<(), NotReplaced>;

/// Something that a handler asked for, and where its answer goes.
pub(crate) enum Asked {
    Sleep(Duration, Rc<Slot<()>>),
    Hide(Hide, Rc<Slot<Entries>>),
    Letters(Vec<DeadLetter<'static>>, Rc<Slot<Entries>>),
    Invoke(Invoke, Rc<Slot<Invoked>>),
    Replace(Replace, Rc<Slot<Replaced>>),
}

/// A write to the ledger: one claim in the place of another.
pub(crate) struct Replace {
    pub(crate) key: String,
    pub(crate) seen: Option<Claim>,
    pub(crate) next: Option<Claim>,
}

/// A call that keeps messages from view: handles and seconds.
pub(crate) struct Hide {
    pub(crate) queue_url: String,
    pub(crate) changes: Vec<(String, u32)>,
}

/// An invocation.
pub(crate) struct Invoke {
    pub(crate) function: String,
    pub(crate) payload: String,
    pub(crate) trace: Option<String>,
}

/// Where one answer is put, and who waits for it.
pub(crate) struct Slot<T> {
    answer: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    awaited: Cell<bool>,
}

impl<T> Slot<T> {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            answer: RefCell::new(None),
            waker: RefCell::new(None),
            awaited: Cell::new(true),
        })
    }

    /// Whether anybody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.get()
    }

    pub(crate) fn answer(&self, answer: T) {
        *self.answer.borrow_mut() = Some(answer);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// The wait for an answer.
struct Awaiting<T>(Rc<Slot<T>>);

impl<T> Future for Awaiting<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.0.answer.borrow_mut().take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                *self.0.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Awaiting<T> {
    fn drop(&mut self) {
        self.0.awaited.set(false);
    }
}

/// One environment of a handler: the present, how far its clock is off, and its open calls.
pub(crate) struct Desk {
    pub(crate) now: Rc<Cell<Timestamp>>,
    pub(crate) ahead: Duration,
    pub(crate) behind: Duration,
    pub(crate) asked: RefCell<Vec<Asked>>,
}

impl Desk {
    /// The time as this environment's clock has it.
    pub(crate) fn clock(&self) -> Timestamp {
        later(self.now.get(), self.ahead) - self.behind
    }
}

/// The ports of one environment.
#[derive(Clone)]
pub(crate) struct Port(pub(crate) Rc<Desk>);

impl Port {
    async fn ask<T>(&self, ask: impl FnOnce(Rc<Slot<T>>) -> Asked) -> T {
        let slot = Slot::new();
        self.0.asked.borrow_mut().push(ask(Rc::clone(&slot)));
        Awaiting(slot).await
    }
}

impl Queues for Port {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Entries {
        let changes =
            changes.iter().map(|change| (change.receipt_handle.to_owned(), change.timeout));
        let hide = Hide { queue_url: queue_url.to_owned(), changes: changes.collect() };
        self.ask(|slot| Asked::Hide(hide, slot)).await
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Entries {
        let letters = letters.iter().map(|&letter| letter.clone().into_owned()).collect();
        self.ask(|slot| Asked::Letters(letters, slot)).await
    }
}

impl Functions for Port {
    async fn invoke(&self, invocation: Invocation<'_>) -> Invoked {
        let invoke = Invoke {
            function: invocation.function.to_owned(),
            payload: invocation.payload,
            trace: invocation.trace_header.map(str::to_owned),
        };
        self.ask(|slot| Asked::Invoke(invoke, slot)).await
    }
}

impl Ledger for Port {
    async fn replace(&self, key: &str, seen: Option<&Claim>, next: Option<&Claim>) -> Replaced {
        let replace = Replace { key: key.to_owned(), seen: seen.cloned(), next: next.cloned() };
        self.ask(|slot| Asked::Replace(replace, slot)).await
    }
}

impl Clock for Port {
    fn now(&self) -> Timestamp {
        self.0.clock()
    }

    async fn sleep(&self, duration: Duration) {
        self.ask(|slot| Asked::Sleep(duration, slot)).await;
    }
}
