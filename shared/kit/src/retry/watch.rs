//! Observability of calls: a tracing event for each attempt, and optional metrics.
//!
//! Neither contains the text of an error, because it may quote the payload.

use std::{io::Write, sync::Arc, time::Duration};

use comeback_core::{Timestamp, emf::MetricLine};
use serde_json::json;

use super::{Deadline, StopReason};
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
    /// Emits the event of a success.
    pub(super) fn succeeded(self) {
        let Self { operation, ordinal: attempt, deadline } = self;
        tracing::debug!(
            target: TARGET,
            operation,
            attempt,
            outcome = "succeeded",
            // The clock is read only if a subscriber listens.
            left_ms = deadline.map(|deadline| in_ms(deadline.left())),
            "an attempt succeeded"
        );
    }

    /// Emits the event of a failure, with the delay before the next attempt or the reason why there is none.
    pub(super) fn failed(self, verdict: Verdict, next: Result<Duration, StopReason>) {
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

/// Where metric lines go.
#[derive(Clone)]
pub(super) struct Counts(Arc<dyn Fn(&str) + Send + Sync>);

impl Counts {
    /// To standard output, from which Lambda makes metrics.
    pub(super) fn on_stdout() -> Self {
        // The call has ended, and a lost line is no reason to fail it.
        Self::to(|line| {
            let _ = writeln!(std::io::stdout(), "{line}");
        })
    }

    pub(super) fn to(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Writes the metrics of a call that ended after this many retries.
    pub(super) fn ended(&self, operation: &str, retries: u32, gave_up: bool, now: Timestamp) {
        let mut line = MetricLine::default();
        line.add("Calls", "Count", json!(1));
        line.add("Retries", "Count", json!(retries));
        line.add("GaveUp", "Count", json!(u32::from(gave_up)));
        (self.0)(&line.render(&[("Operation", operation)], now));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{LazyLock, Mutex, mpsc},
    };

    use serde_json::Value;
    use tracing::{Dispatch, subscriber::NoSubscriber};

    use super::*;
    use crate::{
        retry::{Jitter, Policy, Retry},
        transient::{Kind, Transient},
    };

    /// What no line may hold.
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

    /// A subscriber's writer that keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// As long as there is one dispatcher only, tracing asks that of whichever thread comes to an event first
    /// whether anybody wants it. Here that may be another test's, which has none, and nobody is asked again.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

    /// The events of a call, as a function's log has them.
    async fn events(faults: &[Verdict]) -> Vec<Value> {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .without_time()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        LazyLock::force(&SECOND);
        let listening = tracing::subscriber::set_default(subscriber);
        call(&retry(), faults).await;
        drop(listening);
        let lines = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(!lines.contains(SECRET), "{lines}");
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn event(attempt: u32, left_ms: u32) -> Value {
        json!({
            "target": TARGET, "operation": "charge", "attempt": attempt, "left_ms": left_ms,
        })
    }

    fn with(mut event: Value, more: Value) -> Value {
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    #[tokio::test(start_paused = true)]
    async fn each_attempt_has_one_event_and_none_tells_the_text_of_its_error() {
        let retrying = json!({
            "level": "INFO", "message": "an attempt failed, another follows",
            "outcome": "retrying", "error_kind": "throttled", "delay_ms": 200,
        });
        let succeeded = json!({
            "level": "DEBUG", "message": "an attempt succeeded", "outcome": "succeeded",
        });
        assert_eq!(
            events(&[THROTTLED]).await,
            [with(event(1, 30_000), retrying), with(event(2, 29_800), succeeded)]
        );
        for (verdict, error_kind) in
            [(Verdict::Never, "permanent"), (Verdict::NoOpinion, "unknown")]
        {
            let gave_up = json!({
                "level": "WARN", "message": "an attempt failed, and was the last",
                "outcome": "gave_up", "error_kind": error_kind, "reason": error_kind,
            });
            assert_eq!(events(&[verdict]).await, [with(event(1, 30_000), gave_up)]);
        }
        let outcomes: Vec<Value> = events(&[THROTTLED; 3])
            .await
            .into_iter()
            .map(|event| json!([event["outcome"], event["delay_ms"], event["reason"]]))
            .collect();
        assert_eq!(
            outcomes,
            [
                json!(["retrying", 200, null]),
                json!(["retrying", 400, null]),
                json!(["gave_up", null, "attempts"]),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_ended_is_counted_in_one_line() {
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
