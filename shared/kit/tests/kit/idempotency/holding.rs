//! Tests of keys that are held after an error, because the operation may have been done.

use std::{io, time::Duration};

use comeback::{
    Failure,
    idempotency::{Error, Memory, Store},
    retry::{Policy, Retry},
    transient::{HttpStatus, may_be_done},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};

use super::{Call, Scene, Shaky, fault};

const HELD: Duration = Duration::from_secs(120);

/// Makes a charge that returns `ends`. Holds the key for this time if the charge may have been done.
async fn charge(
    scene: &Scene<impl Store>,
    held: Duration,
    ends: Result<&str, io::ErrorKind>,
) -> Result<String, Error<io::Error>> {
    let once = scene.once.holding(held, may_be_done).unwrap();
    let operation = async |_| ends.map(str::to_owned).map_err(io::Error::from);
    once.run(&scene.request("charge 100"), operation).await
}

#[tokio::test]
async fn after_a_timeout_the_key_is_held_for_the_given_time() {
    // The lease would last for 70 s.
    for seconds in [1, 120] {
        let (scene, held) = (Scene::new(Memory::new()), Duration::from_secs(seconds));
        let error = charge(&scene, held, Err(io::ErrorKind::TimedOut)).await.unwrap_err();
        let failure = Failure::from(error).to_string();
        assert_eq!(failure, format!("RetryAfter: {seconds}s: timed out"));

        scene.clock.advance(held - Duration::from_secs(1));
        let error = charge(&scene, held, Ok("ch_1")).await.unwrap_err();
        assert!(matches!(error, Error::InProgress { .. }), "{error}");
        assert!(Failure::from(error).message().starts_with("1s: "));

        scene.clock.advance(Duration::from_secs(1));
        assert_eq!(charge(&scene, held, Ok("ch_2")).await.unwrap(), "ch_2");
    }
}

#[tokio::test]
async fn if_the_store_fails_the_key_is_held_until_its_lease_ends() {
    let store = Shaky::scripted([Call::Made, Call::Unmade(fault(false))]);
    let scene = Scene::new(store);
    let error = charge(&scene, HELD, Err(io::ErrorKind::TimedOut)).await.unwrap_err();
    assert!(matches!(error, Error::InDoubt { .. }), "{error}");
    let error = charge(&scene, HELD, Ok("ch_1")).await.unwrap_err();
    assert!(matches!(error, Error::InProgress { .. }), "{error}");
    scene.clock.advance(Duration::from_secs(70));
    assert_eq!(charge(&scene, HELD, Ok("ch_1")).await.unwrap(), "ch_1");
}

#[tokio::test]
async fn a_retry_in_the_operation_does_not_hide_that_it_may_be_done() {
    #[derive(Debug, thiserror::Error)]
    #[error("not paid")]
    struct NotPaid(#[from] HttpStatus);

    let hint = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from(3600))]);
    for (status, headers, is_held) in [
        (500, HeaderMap::new(), true),
        (500, hint.clone(), true),
        (409, hint.clone(), true),
        (429, hint, false),
        (402, HeaderMap::new(), false),
    ] {
        let scene = Scene::new(Memory::new());
        let request = scene.request("charge 100");
        let once = scene.once.holding(HELD, may_be_done).unwrap();
        let retry = Retry::new(Policy::builder().max_attempts(1).build().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let call = retry.operation("charge");
        let fails = async || Err::<(), _>(NotPaid(HttpStatus::of(status, &headers)));
        let error = once.run(&request, |_| call.run(fails)).await.unwrap_err();
        assert_eq!(matches!(error, Error::InDoubt { .. }), is_held, "{status}: {error}");
        let failure = error.into_failure();
        assert!(failure.message().contains("not paid: the response has the status"), "{failure}");
    }
}
