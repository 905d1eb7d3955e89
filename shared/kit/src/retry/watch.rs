//! Tracing events and metrics of calls.
//!
//! They don't contain the text of an error, because it may quote the payload.

use std::{sync::Arc, time::Duration};

use comeback_core::{Timestamp, emf::MetricLine};
use serde_json::json;

use super::{Deadline, StopReason};
use crate::transient::Verdict;

/// The target of all events, by which subscribers filter them.
const TARGET: &str = "comeback::retry";

/// Emits the event of an attempt that succeeded. Attempts are counted from 1.
pub(super) fn succeeded(operation: &str, attempt: u32, deadline: Option<Deadline>) {
    tracing::debug!(
        target: TARGET,
        operation,
        attempt,
        outcome = "succeeded",
        // Fields are evaluated, and the clock is read, only if there is a subscriber.
        left_ms = deadline.map(|deadline| in_ms(deadline.left())),
        "an attempt succeeded"
    );
}

/// Emits the event of an attempt that failed, with the delay before the next one or the reason why there is none.
pub(super) fn failed(
    operation: &str,
    attempt: u32,
    deadline: Option<Deadline>,
    verdict: Verdict,
    next: Result<Duration, StopReason>,
) {
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

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// Formats the metrics of a call that ended after this many retries.
pub(super) fn metrics(operation: &str, retries: u32, gave_up: bool, now: Timestamp) -> String {
    let mut line = MetricLine::default();
    line.add("Calls", "Count", json!(1));
    line.add("Retries", "Count", json!(retries));
    line.add("GaveUp", "Count", json!(u32::from(gave_up)));
    line.render(&[("Operation", operation)], now)
}
