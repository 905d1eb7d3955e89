//! A handler whose ports hold its calls until the world takes them.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::{Rc, Weak},
    task::{Poll, Waker},
    time::Duration,
};

use comeback_core::{Timestamp, fault::InvokeFault, settings::Settings, time::later};
use comeback_flow::{
    batch::Handler, in_flight::Gauges, memory::CircuitMemory, outages::Outages, ports::Clock,
};

use crate::{
    reply::{Answer, Found, Refusal, Reply},
    request::Request,
};

/// Holds the reply to one call and wakes the task that waits for it. It is dropped when that task stops waiting.
#[derive(Default)]
pub struct Slot {
    reply: Cell<Option<Reply>>,
    waker: Cell<Option<Waker>>,
}

impl Slot {
    pub fn answer(&self, reply: Reply) {
        self.reply.set(Some(reply));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One environment of a handler: its number, the time, how far its clock is off, and its new requests.
pub struct Environment {
    pub number: usize,
    pub now: Rc<Cell<Timestamp>>,
    pub ahead: Duration,
    pub behind: Duration,
    pub requests: RefCell<Vec<(Request, Weak<Slot>)>>,
}

#[derive(Clone)]
pub struct Port(pub Rc<Environment>);

/// Production's handler, as it runs in one environment.
pub type AwsHandler = Handler<Port, Port, Port, Port, Port>;

impl Environment {
    pub fn handler(self, settings: Settings, has_ledger: bool) -> AwsHandler {
        let environment = Rc::new(self);
        let port = || Port(Rc::clone(&environment));
        let records = (!settings.record_buckets.is_empty()).then(port);
        Handler {
            settings,
            queues: port(),
            functions: port(),
            ledger: has_ledger.then(port),
            records,
            clock: port(),
            gauges: Gauges::default(),
            memory: CircuitMemory::default(),
            outages: Outages::default(),
        }
    }
}

impl Port {
    pub(crate) async fn ask(&self, request: Request) -> Reply {
        let slot = Rc::new(Slot::default());
        self.0.requests.borrow_mut().push((request, Rc::downgrade(&slot)));
        poll_fn(|context| match slot.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                slot.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    pub(crate) async fn ask_to_send(&self, request: Request) -> Vec<Result<(), InvokeFault>> {
        let answers = self.ask(request).await.entries.into_iter();
        answers.map(|answer| answer.map_err(InvokeFault::from)).collect()
    }

    pub(crate) async fn ask_once(&self, request: Request) -> Answer {
        self.ask(request).await.entries.into_iter().collect()
    }

    pub(crate) async fn read(&self, request: Request) -> Result<Found, Refusal> {
        let Reply { entries, found } = self.ask(request).await;
        entries.into_iter().collect::<Answer>().map(|()| found)
    }
}

impl Clock for Port {
    fn now(&self) -> Timestamp {
        later(self.0.now.get(), self.0.ahead) - self.0.behind
    }

    async fn sleep(&self, duration: Duration) {
        self.ask(Request::Sleep(duration)).await;
    }
}
