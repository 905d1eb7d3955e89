//! Tests of operations that run once per key, with stores that work, fail, or do not respond.
#![allow(clippy::unwrap_used, reason = "tests")]

mod charges;
mod deadline;
mod errors;
mod holding;
mod log;
#[cfg(feature = "dynamodb")]
mod moto;
mod semantics;
mod shaky;
mod world;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback::{
    Timestamp,
    idempotency::{Error, Idempotency, Request, Store},
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
