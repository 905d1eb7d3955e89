//! Tests that an operation's error has the same type and verdict with and without the wrappers of this crate.

use std::{any::type_name, collections::HashMap, error::Error as StdError, io, time::Duration};

use comeback::{
    Failure,
    idempotency::{Error, Fingerprint, Memory, Request},
    retry::{Policy, Retry, Stopped},
    transient::{HttpStatus, Kind, RetryHint, Rule, Standard, Transient, Verdict},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};

use super::{Clock, Scene, fault};

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no funds")]
struct CardDeclined;

/// Runs an operation that fails with this error.
async fn once<E>(error: E) -> Error<E> {
    let scene = Scene::new(Memory::new());
    scene.once.run(&scene.request("charge 100"), async |_| Err::<(), _>(error)).await.unwrap_err()
}

/// Retries a call that fails with this error.
async fn retried<E: StdError + 'static>(error: E) -> Stopped<E> {
    let (mut error, never) = (Some(error), |_: &E| Verdict::Never);
    let retry = Retry::new(Policy::default()).rule(never);
    let call =
        retry.operation("charge").run(|| std::future::ready(Err::<(), E>(error.take().unwrap())));
    call.await.unwrap_err()
}

#[tokio::test]
async fn the_retry_loop_sees_the_operations_own_error_type() {
    let words = "charge gave up after 1 attempt: its error is permanent: no funds";
    let table: [(Failure, &str); 5] = [
        (once(CardDeclined).await.into(), "no funds"),
        (once(Box::new(CardDeclined)).await.into(), "no funds"),
        (Box::new(once(CardDeclined).await).into(), "no funds"),
        (retried(once(CardDeclined).await).await.into(), words),
        (once(retried(CardDeclined).await).await.into(), words),
    ];
    for (failure, message) in table {
        assert_eq!(failure.error_type(), type_name::<CardDeclined>());
        assert_eq!(failure.message(), message);
    }
}

#[tokio::test]
async fn the_kits_own_errors_are_not_taken_for_the_operations() {
    let errors: [fn() -> Error<CardDeclined>; 4] = [
        || Error::LostLease { there: None },
        || Error::Late { deadline: Clock::new().now(), minimum: Duration::from_secs(5) },
        || Error::Store(fault(true)),
        || Error::UnreadableAnswer { expected: "u32", line: 1, column: 8 },
    ];
    for error in errors {
        for failure in
            [Failure::from(error()), retried(error()).await.into(), once(error()).await.into()]
        {
            assert_eq!(failure.error_type(), "comeback::idempotency::Error");
        }
    }
}

#[tokio::test]
async fn a_retry_and_the_retry_loop_judge_the_operations_error_as_without_a_wrapper() {
    async fn judged<E: StdError + Send + Sync + 'static>(error: impl Fn() -> E, verdict: Verdict) {
        assert_eq!(Standard.judge(&once(error()).await), verdict);
        assert_eq!(Standard.judge(&retried(once(error()).await).await), verdict);
        assert_eq!(Standard.judge(&once(retried(error()).await).await), verdict);
    }
    let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from(3))]);
    let hint = RetryHint::In(Duration::from_secs(3));
    let throttled = Verdict::Retry(Transient::new(Kind::Throttled).with_hint(hint));
    let busy = || HttpStatus::of(StatusCode::TOO_MANY_REQUESTS, &headers);
    judged(busy, throttled).await;
    for failure in [
        Failure::from(once(busy()).await),
        Failure::from(retried(once(busy()).await).await),
        Failure::from(once(retried(busy()).await).await),
    ] {
        assert_eq!(failure.error_type(), "RetryAfter");
        assert!(failure.message().starts_with("3s: "), "{failure}");
    }
    judged(|| io::Error::from(io::ErrorKind::InvalidInput), Verdict::Never).await;
}

#[tokio::test]
async fn the_error_type_of_a_kit_error_is_its_public_path() {
    let bad_deadline = comeback::retry::Deadline::in_(Duration::ZERO).unwrap_err();
    let status = HttpStatus::of(StatusCode::FORBIDDEN, &HeaderMap::new());
    let policy = Policy::builder().max_attempts(0).build().unwrap_err();
    for (failure, error_type) in [
        (Failure::from(bad_deadline), "comeback::retry::BadDeadline"),
        (policy.into(), "comeback::retry::BadPolicy"),
        (status.into(), "comeback::transient::HttpStatus"),
        (fault(true).into(), "comeback::idempotency::StoreFault"),
    ] {
        assert_eq!(failure.error_type(), error_type);
    }
}

#[tokio::test]
async fn a_bad_request_is_permanent() {
    let context = Clock::new().context("request");
    let no_json = HashMap::from([((1, 2), 3)]);
    let bad = || Request::new("", &no_json, &context).unwrap_err();
    let (no_key, no_intent) = (
        "the key must have at least one byte, got \"\"",
        "the intent must be JSON: key must be a string",
    );
    let both = format!("{no_key}; {no_intent}");
    for (failure, message) in [
        (Failure::from(bad()), &*both),
        (Fingerprint::of(&no_json).unwrap_err().into(), no_intent),
        (once(bad()).await.into(), &both),
    ] {
        assert_eq!(failure.error_type(), "PermanentFailure", "{failure}");
        assert!(failure.message().starts_with(message), "{failure}");
    }
    assert_eq!(Standard.judge(&once(bad()).await), Verdict::Never);
}
