//! What is told of a call: an event for each attempt, and counts for those who want them.
//!
//! Neither tells the text of an error, which may quote the payload that it is about.

use std::{io::Write, sync::Arc, time::Duration};

use comeback_core::{Timestamp, emf::MetricLine};
use serde_json::json;

use super::{Deadline, Reason};
use crate::transient::Verdict;

/// The target of all events, for a subscriber's filter.
const TARGET: &str = "comeback::retry";

/// One attempt of a call.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    pub(super) operation: &'static str,
    /// Counted from 1.
    pub(super) ordinal: u32,
    pub(super) deadline: Option<Deadline>,
}

impl Attempt {
    /// Tells that it succeeded.
    pub(super) fn succeeded(self) {
        let Self { operation, ordinal: attempt, deadline } = self;
        tracing::debug!(
            target: TARGET,
            operation,
            attempt,
            outcome = "succeeded",
            // The time is only read where somebody listens.
            left_ms = deadline.map(|deadline| in_ms(deadline.left())),
            "an attempt succeeded"
        );
    }

    /// Tells that it failed, and what follows: a delay, or nothing.
    pub(super) fn failed(self, verdict: Verdict, next: Result<Duration, Reason>) {
        let Self { operation, ordinal: attempt, deadline } = self;
        let error_kind = match verdict {
            Verdict::Retry(transient) => transient.kind.as_str(),
            Verdict::Never => "permanent",
            Verdict::NoOpinion => "unknown",
        };
        match next {
            Ok(delay) => tracing::info!(
                target: TARGET,
                operation,
                attempt,
                outcome = "retrying",
                error_kind,
                delay_ms = in_ms(delay),
                left_ms = deadline.map(|deadline| in_ms(deadline.left())),
                "an attempt failed, another follows"
            ),
            Err(reason) => tracing::warn!(
                target: TARGET,
                operation,
                attempt,
                outcome = "gave_up",
                error_kind,
                reason = reason.as_str(),
                left_ms = deadline.map(|deadline| in_ms(deadline.left())),
                "an attempt failed, and was the last"
            ),
        }
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Where the counts of calls go.
#[derive(Clone)]
pub(super) struct Counts(Arc<dyn Fn(&str) + Send + Sync>);

impl Counts {
    /// To what makes metrics of them in Lambda.
    pub(super) fn on_stdout() -> Self {
        // The call is done by now: that a line can't be written is no reason to fail it.
        Self::to(|line| drop(writeln!(std::io::stdout(), "{line}")))
    }

    pub(super) fn to(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Counts a call that has ended after so many retries.
    pub(super) fn ended(&self, operation: &str, retries: u32, gave_up: bool, now: Timestamp) {
        let mut line = MetricLine::default();
        line.add("Calls", "Count", json!(1));
        line.add("Retries", "Count", json!(retries));
        line.add("GaveUp", "Count", json!(u32::from(gave_up)));
        (self.0)(&line.render(&[("Operation", operation)], now));
    }
}
