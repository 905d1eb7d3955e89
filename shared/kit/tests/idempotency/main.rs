//! Operations that run once for a key, over stores that work, fail, or do not answer.
#![allow(clippy::unwrap_used, reason = "tests")]

mod charges;
mod deadline;
mod errors;
mod holding;
mod log;
#[cfg(feature = "dynamodb")]
mod moto;
mod scene;
mod semantics;
mod shaky;
mod world;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback::{Timestamp, idempotency::Idempotency};
use lambda_runtime::Context;

/// The duration of an invocation in these tests.
const LIFE: Duration = Duration::from_secs(60);

/// Charges over this store, by this clock.
fn charges<S>(store: S, clock: &Clock) -> Idempotency<S> {
    let clock = clock.clone();
    Idempotency::new("charges", store).unwrap().with_clock(move || clock.now())
}

/// The operation's own failure.
#[derive(Debug, thiserror::Error)]
#[error("declined")]
struct Declined;

/// A clock that moves only when a test moves it.
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
