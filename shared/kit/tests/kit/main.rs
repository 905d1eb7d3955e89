//! Tests the kit as the author of a function uses it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod idempotency;
mod layer;
mod retry;
mod transient;

use std::{
    io::{self, PipeReader, Read},
    sync::{Arc, LazyLock},
};

use serde_json::Value;
use tracing::{
    Dispatch, Level,
    subscriber::{DefaultGuard, NoSubscriber, set_default},
};

/// While there is only one dispatcher, tracing caches whether the thread that first reaches an event has a
/// subscriber. That may be the thread of another test. With a second dispatcher, tracing asks both.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// What this thread logs.
struct Log {
    written: PipeReader,
    listening: DefaultGuard,
}

impl Log {
    fn begin() -> Self {
        let (written, writer) = io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .without_time()
            .with_max_level(Level::TRACE)
            .with_writer(Arc::new(writer))
            .finish();
        LazyLock::force(&SECOND);
        Self { written, listening: set_default(subscriber) }
    }

    /// The lines, none of which may contain one of these texts.
    fn end_without(mut self, secrets: &[&str]) -> Vec<Value> {
        drop(self.listening);
        let mut lines = String::new();
        self.written.read_to_string(&mut lines).unwrap();
        assert!(secrets.iter().all(|secret| !lines.contains(secret)), "{lines}");
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
