//! Tests of operations that run once per key, with stores that work, fail, or do not respond.

mod deadline;
mod errors;
mod holding;
mod log;
mod moto;
mod semantics;
mod world;

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback::{
    Timestamp,
    idempotency::{
        Error, Idempotency, Memory, Record, ReplaceError, Request, State, Store, StoreFault, Token,
    },
};
use lambda_runtime::Context;

/// The duration of an invocation in these tests.
const LIFE: Duration = Duration::from_secs(60);

/// The idempotency of charges, with this store and this clock.
fn charges<S>(store: S, clock: &Clock) -> Idempotency<S> {
    let clock = clock.clone();
    Idempotency::new("charges", store).unwrap().with_clock(move || clock.now())
}

/// The operation's own error.
#[derive(Debug, thiserror::Error)]
#[error("declined")]
struct Declined;

/// A clock that only advances when a test advances it.
#[derive(Clone)]
struct Clock(Arc<Mutex<Timestamp>>);

impl Clock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new("2026-02-01T12:00:00Z".parse().unwrap())))
    }

    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }

    /// The context of an invocation that starts now.
    fn context(&self, request_id: &str) -> Context {
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        context.deadline = u64::try_from((self.now() + LIFE).timestamp_millis()).unwrap();
        context
    }
}

/// A store with a clock, and requests to charge the same card.
struct Scene<S> {
    clock: Clock,
    once: Idempotency<S>,
}

impl<S: Store> Scene<S> {
    fn new(store: S) -> Self {
        let clock = Clock::new();
        Self { once: charges(store, &clock), clock }
    }

    fn request(&self, intent: &str) -> Request {
        Request::new("card 4711", intent, &self.clock.context("request")).unwrap()
    }

    /// Charges the card and returns `answer`, or returns the answer of an earlier charge.
    async fn charge(&self, answer: &str) -> Result<String, Error<Declined>> {
        let request = self.request("charge 100");
        self.once.run(&request, async |_| Ok(answer.to_owned())).await
    }

    /// Repeats the charge, which must not run again.
    async fn repeat(&self) -> Result<String, Error<Declined>> {
        let request = self.request("charge 100");
        self.once.run(&request, async |_| unreachable!("it was run before")).await
    }
}

/// The outcome of a call.
enum Call {
    /// The call succeeds or fails like a call to the memory store.
    Made,
    /// The call never arrives.
    Unmade(StoreFault),
    /// The call is made, but its response is lost.
    Unanswered(StoreFault),
    /// The call never returns.
    Silent,
    /// The call is made, and takes this long.
    Slow(Clock, Duration),
    /// The call fails, because another owner has just written a record.
    Overtaken,
}

/// The fault of a call that gets no response.
fn fault(is_transient: bool) -> StoreFault {
    StoreFault { is_transient, code: None, message: "no answer".to_owned() }
}

/// A store with scripted outcomes for its first calls. It counts its calls.
#[derive(Clone, Default)]
struct Shaky {
    memory: Memory,
    answer_max: Option<usize>,
    script: Arc<Mutex<VecDeque<Call>>>,
    /// The record of each write; `None` for a removal.
    written: Arc<Mutex<Vec<Option<Record>>>>,
}

impl Shaky {
    fn scripted(calls: impl IntoIterator<Item = Call>) -> Self {
        let script = Mutex::new(calls.into_iter().collect());
        Self { script: Arc::new(script), ..Self::default() }
    }

    fn of_answers_up_to(answer_max: usize) -> Self {
        Self { answer_max: Some(answer_max), ..Self::default() }
    }

    fn calls(&self) -> usize {
        self.written.lock().unwrap().len()
    }
}

impl Store for Shaky {
    async fn replace(
        &self,
        key: &str,
        seen: Option<&Record>,
        next: Option<&Record>,
    ) -> Result<(), ReplaceError> {
        self.written.lock().unwrap().push(next.cloned());
        let call = self.script.lock().unwrap().pop_front().unwrap_or(Call::Made);
        match call {
            Call::Made => self.memory.replace(key, seen, next).await,
            Call::Unmade(fault) => Err(ReplaceError::Fault(fault)),
            Call::Unanswered(fault) => {
                self.memory.replace(key, seen, next).await?;
                Err(ReplaceError::Fault(fault))
            }
            Call::Silent => pending().await,
            Call::Slow(clock, takes) => {
                clock.advance(takes);
                self.memory.replace(key, seen, next).await
            }
            Call::Overtaken => {
                let mut other = seen.or(next).unwrap().clone();
                other.claim.token = Token { generation: 1, owner: "another".to_owned() };
                other.claim.state = State::Held { until: other.claim.expires_at };
                Err(ReplaceError::Changed(Some(Box::new(other))))
            }
        }
    }

    fn answer_max(&self) -> usize {
        self.answer_max.unwrap_or_else(|| self.memory.answer_max())
    }
}
