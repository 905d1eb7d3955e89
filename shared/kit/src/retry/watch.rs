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

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read},
        sync::{LazyLock, mpsc},
    };

    use serde_json::Value;
    use tracing::{Dispatch, subscriber::NoSubscriber};

    use super::*;
    use crate::{
        retry::{Jitter, Policy, Retry},
        transient::{Kind, Transient},
    };

    /// A text that no line may contain.
    const SECRET: &str = "card 4242";

    #[derive(Debug, thiserror::Error)]
    #[error("{SECRET} was refused")]
    struct Fault(Verdict);

    const THROTTLED: Verdict = Verdict::Retry(Transient::new(Kind::Throttled));

    fn retry() -> Retry<impl Fn(&Fault) -> Verdict> {
        let policy = Policy::builder().jitter(Jitter::None).build().unwrap();
        Retry::new(policy).rule(|fault: &Fault| fault.0)
    }

    /// Makes a call that fails with these verdicts and then succeeds.
    async fn call<R: crate::transient::Rule<Fault>>(retry: &Retry<R>, faults: &[Verdict]) {
        let deadline = Deadline::in_(Duration::from_secs(30)).unwrap();
        let mut faults = faults.iter();
        let attempt = || {
            let fault = faults.next().map(|verdict| Fault(*verdict));
            async { fault.map_or(Ok(()), Err) }
        };
        let _ = retry.operation("charge").until(deadline).run(attempt).await;
    }

    /// While there is only one dispatcher, tracing caches whether the thread that first reaches an event has a
    /// subscriber. That may be the thread of another test. With a second dispatcher, tracing asks both.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

    /// The log events of a call that fails with these verdicts.
    async fn events(faults: &[Verdict]) -> Vec<Value> {
        let (mut log, writer) = io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .without_time()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(Arc::new(writer))
            .finish();
        LazyLock::force(&SECOND);
        let listening = tracing::subscriber::set_default(subscriber);
        call(&retry(), faults).await;
        drop(listening);
        let mut lines = String::new();
        log.read_to_string(&mut lines).unwrap();
        assert!(!lines.contains(SECRET), "{lines}");
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_attempt_has_one_event_without_the_text_of_its_error() {
        let event = |attempt, left_ms, level, outcome, message| {
            json!({
                "target": TARGET, "operation": "charge", "attempt": attempt, "left_ms": left_ms,
                "level": level, "outcome": outcome, "message": message,
            })
        };
        let mut retrying =
            event(1, 30_000, "INFO", "retrying", "an attempt failed, another follows");
        retrying["error_kind"] = "throttled".into();
        retrying["delay_ms"] = 200.into();
        let succeeded = event(2, 29_800, "DEBUG", "succeeded", "an attempt succeeded");
        assert_eq!(events(&[THROTTLED]).await, [retrying, succeeded]);
        for (verdict, error_kind) in
            [(Verdict::Never, "permanent"), (Verdict::NoOpinion, "unknown")]
        {
            let message = "an attempt failed, and was the last";
            let mut gave_up = event(1, 30_000, "WARN", "gave_up", message);
            gave_up["error_kind"] = error_kind.into();
            gave_up["reason"] = error_kind.into();
            assert_eq!(events(&[verdict]).await, [gave_up]);
        }
        let last = events(&[THROTTLED; 3]).await.pop().unwrap();
        assert_eq!((&last["attempt"], &last["reason"]), (&3.into(), &"attempts".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_is_counted_in_one_line() {
        let (lines, received) = mpsc::channel();
        let retry = retry().counted_to(move |line| lines.send(line.to_owned()).unwrap());
        for (faults, counts) in [
            (&[][..], [1, 0, 0]),
            (&[THROTTLED], [1, 1, 0]),
            (&[THROTTLED; 3], [1, 2, 1]),
            (&[Verdict::Never], [1, 0, 1]),
        ] {
            call(&retry, faults).await;
            let line = received.try_recv().unwrap();
            assert!(!line.contains(SECRET), "{line}");
            let line: Value = serde_json::from_str(&line).unwrap();
            let counted = ["Calls", "Retries", "GaveUp"].map(|name| &line[name]);
            assert_eq!(counted.map(Value::as_i64), counts.map(Some));
            assert_eq!(line["Operation"], "charge");
            assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Operation"]]));
            assert!(received.try_recv().is_err(), "one line");
        }
    }
}
