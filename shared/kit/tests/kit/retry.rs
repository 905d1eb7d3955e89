//! Tests of calls that fail, with a paused clock: when each attempt was made, and why the call ended.

use std::{
    cell::RefCell,
    convert::Infallible,
    error::Error,
    future::pending,
    hint::black_box,
    sync::{Arc, mpsc},
    time::Duration,
};

use allocation_counter::measure;
use comeback::{
    Failure, RetryAfter,
    retry::{Deadline, Jitter, Policy, Quota, Retry, StopReason},
    transient::{Boxed, HttpStatus, Kind, RetryHint, Transient, Verdict},
};
use futures_util::{FutureExt, future::join_all};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep, timeout};

use crate::Log;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The error of one attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("card 4242 was refused at attempt {attempt}")]
struct Fault {
    attempt: usize,
    verdict: Verdict,
}

fn judged(fault: &Fault) -> Verdict {
    fault.verdict
}

const BUSY: Verdict = Verdict::Retry(Transient::new(Kind::Unavailable));

fn hinting(hint: RetryHint) -> Verdict {
    Verdict::Retry(Transient::new(Kind::Throttled).with_hint(hint))
}

/// An operation that fails with these verdicts and then succeeds.
struct Upstream {
    faults: Vec<Verdict>,
    start: Instant,
    called_after: RefCell<Vec<Duration>>,
}

impl Upstream {
    #[allow(clippy::disallowed_methods, reason = "the time is paused")]
    fn failing(faults: impl Into<Vec<Verdict>>) -> Self {
        let start = Instant::now();
        Self { faults: faults.into(), start, called_after: RefCell::default() }
    }

    async fn call(&self) -> Result<usize, Fault> {
        let mut called_after = self.called_after.borrow_mut();
        called_after.push(self.start.elapsed());
        let attempt = called_after.len();
        match self.faults.get(attempt - 1) {
            Some(&verdict) => Err(Fault { attempt, verdict }),
            None => Ok(attempt),
        }
    }

    fn called_after_ms(&self) -> Vec<u128> {
        self.called_after.borrow().iter().map(Duration::as_millis).collect()
    }
}

fn undrawn<R>(policy: Policy<R>) -> Policy<R> {
    policy.to_builder().jitter(Jitter::None).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn exactly_the_minimum_is_enough() {
    for (left, minimum, attempts) in [
        (secs(9), secs(5), 2),
        (ms(8999), secs(5), 1),
        (secs(4), secs(0), 2),
        (ms(3999), secs(0), 1),
    ] {
        let policy = Policy::builder().max_attempts(2).base(secs(4)).jitter(Jitter::None);
        let retry = Retry::new(policy.build().unwrap()).rule(judged);
        let upstream = Upstream::failing([BUSY; 9]);
        let deadline = Deadline::in_with_minimum(left, minimum).unwrap();
        let call = retry.operation("rates").until(deadline);
        assert_eq!(call.run(|| upstream.call()).await.unwrap_err().attempts(), attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_attempts_counts_and_the_first_is_always_made() {
    let retry = Retry::new(undrawn(Policy::default())).rule(judged);
    let deadline = Deadline::in_(secs(30)).unwrap();
    let slow = Upstream::failing([BUSY; 9]);
    let slowly = async || {
        sleep(secs(13)).await;
        slow.call().await
    };
    let stopped = retry.operation("rates").until(deadline).run(slowly).await.unwrap_err();
    let (delay, left, minimum) = (ms(400), ms(3_800), secs(5));
    assert_eq!(stopped.reason(), StopReason::Time { delay, left, minimum });
    let words = "after a delay of 400ms, less than 5s would remain of the 3.8s that are left";
    let expected =
        format!("rates gave up after 2 attempts: {words}: card 4242 was refused at attempt 2");
    assert_eq!(stopped.to_string(), expected);
    advance(secs(30)).await;
    let late = Upstream::failing([]);
    let answer = retry.operation("rates").until(deadline).run(|| late.call()).await;
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_permanent_error_is_a_permanent_failure() {
    for (verdict, error_type) in [
        (Verdict::Never, "PermanentFailure"),
        (Verdict::NoOpinion, "kit::retry::Fault"),
        (BUSY, "kit::retry::Fault"),
        (hinting(RetryHint::In(secs(90))), "RetryAfter"),
    ] {
        let retry = Retry::new(undrawn(Policy::default())).rule(judged);
        let upstream = Upstream::failing([verdict; 9]);
        let stopped = retry.operation("rates").run(|| upstream.call()).await.unwrap_err();
        assert_eq!(stopped.into_failure().error_type(), error_type, "{verdict:?}");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the rates are not there")]
struct Busy(#[source] HttpStatus);

#[tokio::test(start_paused = true)]
async fn a_hint_that_was_not_honoured_reaches_the_retry_loop() {
    let retry = Retry::new(Policy::builder().max_attempts(1).build().unwrap());
    let throttled = |hint: Option<u32>| {
        let headers = hint.map(|hint| (http::header::RETRY_AFTER, hint.into()));
        let headers = http::HeaderMap::from_iter(headers);
        Busy(HttpStatus::of(http::StatusCode::TOO_MANY_REQUESTS, &headers))
    };
    for (hint, error_type, begin) in [
        (Some(120), "RetryAfter", "120s: "),
        (Some(0), "kit::retry::Busy", ""),
        (None, "kit::retry::Busy", ""),
    ] {
        let stopped = retry.operation("rates").run(async || Err::<(), _>(throttled(hint))).await;
        let failure = Failure::from(stopped.unwrap_err());
        assert_eq!(failure.error_type(), error_type);
        let words = "rates gave up after 1 attempt: the policy allows no more: the rates are not there: \
                     the response has the status 429 Too Many Requests";
        assert_eq!(failure.message(), format!("{begin}{words}"));
    }
    let own = async || Err::<(), _>(RetryAfter::new(secs(90), throttled(Some(120))));
    let stopped = retry.operation("rates").run(own).await.unwrap_err();
    let chain = std::iter::successors(stopped.source(), |&error| error.source());
    assert!(chain.last().unwrap().is::<HttpStatus>(), "the cause carries its own hint");
    let begin = "90s: rates gave up after 1 attempt: the policy allows no more: ";
    let failure = Failure::from(stopped);
    assert!(failure.message().starts_with(begin), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_fail_together_do_not_come_back_together() {
    let retry = Retry::new(Policy::default()).rule(judged);
    let mut delays = Vec::new();
    for _ in 0..200 {
        let upstream = Upstream::failing([BUSY]);
        retry.operation("rates").run(|| upstream.call()).await.unwrap();
        delays.push(upstream.called_after_ms()[1]);
    }
    let early = delays.iter().filter(|delay| **delay < 100).count();
    assert!((1..200).contains(&early), "all of {delays:?} are below 100 ms, or none");
}

#[tokio::test(start_paused = true)]
async fn clones_share_a_quota_and_an_empty_one_ends_calls_at_their_first_attempt() {
    let quota = Arc::new(Quota::new(12));
    let retry = Retry::new(Policy::default()).rule(judged).quota(Arc::clone(&quota));
    let throttled = Verdict::retry(Kind::Throttled);
    let stopped_after = async || {
        let (shared, upstream) = (retry.clone(), Upstream::failing([throttled; 9]));
        let stopped = shared.operation("rates").run(|| upstream.call()).await.unwrap_err();
        (stopped.attempts(), stopped.reason())
    };
    assert_eq!(stopped_after().await, (3, StopReason::Attempts));
    assert_eq!(stopped_after().await, (1, StopReason::Quota));
    assert_eq!(quota.left(), 2);
    for left in [3, 4, 5] {
        retry.operation("rates").run(async || Ok::<_, Fault>(())).await.unwrap();
        assert_eq!(quota.left(), left, "a success at once returns a token");
    }
    let upstream = Upstream::failing([throttled]);
    retry.operation("rates").run(|| upstream.call()).await.unwrap();
    assert_eq!(quota.left(), 5, "a success after a retry returns its cost");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_only_its_cost() {
    let quota = Arc::new(Quota::default());
    let retry = Retry::new(undrawn(Policy::OUTSIDE_API)).rule(judged).quota(Arc::clone(&quota));
    let upstream = Upstream::failing([BUSY; 9]);
    let call = retry.operation("rates").run(|| upstream.call());
    assert!(timeout(secs(1), call).await.is_err(), "it waits for two seconds");
    sleep(secs(60)).await;
    assert_eq!(upstream.called_after_ms(), [0]);
    assert_eq!(quota.left(), 486);

    let hangs = pending::<Result<(), Fault>>;
    assert!(timeout(secs(1), retry.operation("rates").run(hangs)).await.is_err());
    assert_eq!(quota.left(), 486);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_client_waits_for_its_turn_but_not_into_the_minimum() {
    let policy = Policy::builder().base(ms(1)).max(ms(1)).jitter(Jitter::None).build().unwrap();
    let throttled = Verdict::Retry(Transient::new(Kind::Throttled));
    for (deadline, second_attempt) in [(secs(60), 2_000), (secs(6), 1_000)] {
        let retry = Retry::new(policy).rule(judged).adaptive();
        let upstream = Upstream::failing([throttled]);
        let deadline = Deadline::in_(deadline).unwrap();
        retry.operation("rates").until(deadline).run(|| upstream.call()).await.unwrap();
        assert_eq!(upstream.called_after_ms(), [0, second_attempt]);
    }

    let once = policy.to_builder().max_attempts(1).build().unwrap();
    let retry = Retry::new(once).rule(judged).adaptive();
    let upstream = Upstream::failing([throttled]);
    retry.operation("rates").run(|| upstream.call()).await.unwrap_err();
    let next = Upstream::failing([]);
    retry.operation("rates").run(|| next.call()).await.unwrap();
    assert_eq!(next.called_after_ms(), [2_000], "the first attempt of a call waits too");
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_it_waits_for_its_turn_delays_no_other() {
    let once = Policy::builder().max_attempts(1).build().unwrap();
    let retry = Retry::new(once).rule(judged).adaptive();
    let throttled = Upstream::failing([Verdict::retry(Kind::Throttled)]);
    retry.operation("rates").run(|| throttled.call()).await.unwrap_err();
    let next = Upstream::failing([]);
    // With 6 s left, a call is attempted before a token is available, and takes none.
    for left in [secs(60), secs(6)] {
        let calls = (0..3).map(|_| {
            let call = retry.operation("rates").until(Deadline::in_(left).unwrap());
            call.run(async || Ok::<_, Fault>(()))
        });
        timeout(ms(50), join_all(calls)).await.unwrap_err();
    }
    retry.operation("rates").run(|| next.call()).await.unwrap();
    assert_eq!(next.called_after_ms(), [2_000]);
}

#[tokio::test(start_paused = true)]
async fn the_source_of_a_stopped_call_is_its_cause() {
    let number = async || Ok::<_, anyhow::Error>("twelve".parse::<u32>()?);
    let retry = Retry::new(Policy::default()).rule(Boxed);
    let error: lambda_runtime::Error =
        retry.operation("number").run(number).await.unwrap_err().into();
    assert!(error.source().unwrap().is::<std::num::ParseIntError>(), "{error}");
}

#[test]
fn a_call_that_succeeds_at_once_allocates_nothing() {
    let deadline = Deadline::in_(secs(30)).unwrap();
    let plain = Retry::new(Policy::default());
    for retry in [plain.clone(), plain.clone().quota(Quota::unlimited()), plain.adaptive()] {
        let call = || {
            let call = retry.operation("answer").until(deadline);
            let answer = call.run(async || Ok::<_, Infallible>(black_box(42))).now_or_never();
            assert!(matches!(answer, Some(Ok(42))));
        };
        assert_eq!(measure(call).count_total, 0);
    }
    let counted = measure(|| drop(black_box(Box::new(42))));
    assert_eq!(counted.count_total, 1, "the counter counts");
}

/// The log events of a call that fails with these verdicts.
async fn events(faults: &[Verdict]) -> Vec<Value> {
    let log = Log::begin();
    let retry = Retry::new(undrawn(Policy::default())).rule(judged);
    let (upstream, deadline) = (Upstream::failing(faults), Deadline::in_(secs(30)).unwrap());
    drop(retry.operation("charge").until(deadline).run(|| upstream.call()).await);
    log.end_without(&["4242"])
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_one_event_without_the_text_of_its_error() {
    let throttled = Verdict::retry(Kind::Throttled);
    let event = |attempt, left_ms, level, outcome, message| {
        json!({
            "target": "comeback::retry", "operation": "charge", "attempt": attempt, "left_ms": left_ms,
            "level": level, "outcome": outcome, "message": message,
        })
    };
    let mut retrying = event(1, 30_000, "INFO", "retrying", "an attempt failed, another follows");
    retrying["error_kind"] = "throttled".into();
    retrying["delay_ms"] = 200.into();
    let succeeded = event(2, 29_800, "DEBUG", "succeeded", "an attempt succeeded");
    assert_eq!(events(&[throttled]).await, [retrying, succeeded]);
    for (verdict, error_kind) in [(Verdict::Never, "permanent"), (Verdict::NoOpinion, "unknown")] {
        let message = "an attempt failed, and was the last";
        let mut gave_up = event(1, 30_000, "WARN", "gave_up", message);
        gave_up["error_kind"] = error_kind.into();
        gave_up["reason"] = error_kind.into();
        assert_eq!(events(&[verdict]).await, [gave_up]);
    }
    let last = events(&[throttled; 3]).await.pop().unwrap();
    assert_eq!((&last["attempt"], &last["reason"]), (&3.into(), &"attempts".into()));
}

#[tokio::test(start_paused = true)]
async fn each_call_is_counted_in_one_line() {
    let (lines, received) = mpsc::channel();
    let retry = Retry::new(undrawn(Policy::default())).rule(judged);
    let retry = retry.counted_to(move |line| lines.send(line.to_owned()).unwrap());
    for (faults, counts) in [
        (&[][..], [1, 0, 0]),
        (&[BUSY], [1, 1, 0]),
        (&[BUSY; 3], [1, 2, 1]),
        (&[Verdict::Never], [1, 0, 1]),
    ] {
        let upstream = Upstream::failing(faults);
        drop(retry.operation("charge").run(|| upstream.call()).await);
        let line = received.try_recv().unwrap();
        assert!(!line.contains("4242"), "{line}");
        let line: Value = serde_json::from_str(&line).unwrap();
        let counted = ["Calls", "Retries", "GaveUp"].map(|name| &line[name]);
        assert_eq!(counted.map(Value::as_i64), counts.map(Some));
        assert_eq!(line["Operation"], "charge");
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Operation"]]));
        assert!(received.try_recv().is_err(), "one line");
    }
}

/// Any verdict.
fn verdicts() -> impl Strategy<Value = Verdict> {
    let kinds = [Kind::Throttled, Kind::TimedOut, Kind::InDoubt, Kind::Unavailable];
    let kinds = proptest::sample::select(kinds.to_vec());
    let hints = proptest::option::of((0u64..20_000).prop_map(|hint| RetryHint::In(ms(hint))));
    prop_oneof![
        12 => (kinds, hints).prop_map(|(kind, hint)| Verdict::Retry(Transient { kind, hint })),
        1 => Just(Verdict::Never),
        1 => Just(Verdict::NoOpinion),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    let jitters = proptest::sample::select(vec![Jitter::Full, Jitter::Equal, Jitter::None]);
    (1u32..8, 1u64..3_000, 0u64..10_000, jitters).prop_map(|(max_attempts, base, more, jitter)| {
        let builder = Policy::builder().max_attempts(max_attempts).jitter(jitter);
        builder.base(ms(base)).max(ms(base + more)).build().unwrap()
    })
}

/// The time until a call's deadline, and its minimum.
fn times() -> impl Strategy<Value = (Duration, Duration)> {
    let minimums = prop_oneof![Just(0), 0u64..6_000];
    (1u64..40_000, minimums).prop_map(|(spare, minimum)| (ms(spare + minimum), ms(minimum)))
}

/// The shortest and the longest delay after this many failures, of which the last had this verdict.
fn delays(policy: Policy, failed: usize, verdict: Verdict) -> (Duration, Duration) {
    let ceiling = policy.base().saturating_mul(1 << (failed - 1)).min(policy.max());
    let low = match policy.jitter() {
        Jitter::Full => Duration::ZERO,
        Jitter::Equal => ceiling / 2,
        Jitter::None => ceiling,
    };
    let hint = match verdict {
        Verdict::Retry(Transient { hint: Some(RetryHint::In(hint)), .. }) => hint,
        Verdict::Retry(_) | Verdict::Never | Verdict::NoOpinion => Duration::ZERO,
    };
    (low.max(hint), ceiling.max(hint))
}

/// The cost of a retry after a failure with this verdict; `None` if there is no retry.
fn cost(verdict: Verdict) -> Option<u32> {
    match verdict {
        Verdict::Retry(Transient { kind: Kind::Throttled, .. }) => Some(5),
        Verdict::Retry(_) => Some(14),
        Verdict::Never | Verdict::NoOpinion => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn every_call_honours_its_policy_its_deadline_and_its_quota(
        policy in policies(),
        (left, minimum) in times(),
        capacity in 0u32..60,
        faults in proptest::collection::vec(verdicts(), 0..9),
    ) {
        let quota = Arc::new(Quota::new(capacity));
        let retry = Retry::new(policy).rule(judged).quota(Arc::clone(&quota));
        let (ended, attempts, took) = paused().block_on(async {
            let upstream = Upstream::failing(faults.clone());
            let deadline = Deadline::in_with_minimum(left, minimum).unwrap();
            let ended = retry.operation("rates").until(deadline).run(|| upstream.call()).await;
            (ended, upstream.called_after.take(), upstream.start.elapsed())
        });

        prop_assert!(attempts.len() <= policy.max_attempts() as usize);
        prop_assert_eq!(took, *attempts.last().unwrap(), "a call doesn't wait after its last attempt");
        for (failed, times) in attempts.windows(2).enumerate() {
            let (shortest, longest) = delays(policy, failed + 1, faults[failed]);
            let delay = times[1] - times[0];
            // Timers tick in milliseconds.
            prop_assert!((shortest..=longest + ms(1)).contains(&delay), "{:?}", delay);
            prop_assert!(delay <= policy.max() + ms(1), "{:?}", delay);
            prop_assert!(times[1] <= left - minimum);
        }

        let retries = attempts.len() - 1;
        let spent: Vec<u32> = faults[..retries].iter().map(|fault| cost(*fault).unwrap()).collect();
        let left_of_quota = capacity - spent.iter().sum::<u32>();
        let stopped = match ended {
            Ok(attempt) => {
                prop_assert_eq!(attempt, attempts.len());
                prop_assert_eq!(attempt, faults.len() + 1);
                prop_assert_eq!(quota.left(), left_of_quota + spent.last().unwrap_or(&0));
                return Ok(());
            }
            Err(stopped) => stopped,
        };
        prop_assert_eq!(quota.left(), left_of_quota);
        prop_assert_eq!(stopped.cause().attempt, attempts.len(), "the last cause");
        prop_assert_eq!(stopped.attempts() as usize, attempts.len());
        let verdict = stopped.cause().verdict;
        match stopped.reason() {
            StopReason::Permanent => prop_assert_eq!(verdict, Verdict::Never),
            StopReason::Unknown => prop_assert_eq!(verdict, Verdict::NoOpinion),
            StopReason::Hint { hint, max } => prop_assert!(hint > max && max == policy.max()),
            StopReason::Attempts => prop_assert_eq!(stopped.attempts(), policy.max_attempts()),
            StopReason::Time { delay, left: left_then, minimum: kept } => {
                let (shortest, longest) = delays(policy, attempts.len(), verdict);
                prop_assert!((shortest..=longest).contains(&delay), "{:?}", delay);
                prop_assert_eq!((left_then, kept), (left - took, minimum));
                prop_assert!(delay > left_then - minimum);
            }
            StopReason::Quota => prop_assert!(cost(verdict) > Some(left_of_quota)),
            reason => prop_assert!(false, "{}", reason),
        }
    }
}

/// A runtime with a paused clock, which advances only while all tasks wait.
fn paused() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap()
}
