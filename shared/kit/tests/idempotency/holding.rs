//! A key that is held after an error that leaves in doubt what was done.

use std::{io, time::Duration};

use comeback::{
    Failure,
    idempotency::{Error, Idempotency, Memory, Request, Store},
    retry::{Policy, Retry},
    transient::{HttpStatus, Verdict, may_be_done},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};

use super::{
    Clock,
    shaky::{Call, Shaky, fault},
};

const HELD: Duration = Duration::from_secs(120);

/// A charge over a store, at a time.
struct Scene<S> {
    clock: Clock,
    once: Idempotency<S>,
}

impl<S: Store> Scene<S> {
    fn new(store: S) -> Self {
        let clock = Clock::new();
        let now = clock.clone();
        let once = Idempotency::new("charges", store).unwrap().with_clock(move || now.now());
        Self { clock, once }
    }

    async fn charge(&self, ends: Result<&str, io::ErrorKind>) -> Result<String, Error<io::Error>> {
        let request =
            Request::new("order 7", "charge 100", &self.clock.context("request")).unwrap();
        let once = self.once.holding(HELD, may_be_done).unwrap();
        once.run(&request, async |_| ends.map(str::to_owned).map_err(io::Error::from)).await
    }
}

#[tokio::test]
async fn after_a_time_out_no_repetition_runs_until_the_time_is_over() {
    let scene = Scene::new(Memory::new());
    let failure = Failure::from(scene.charge(Err(io::ErrorKind::TimedOut)).await.unwrap_err());
    assert_eq!(failure.to_string(), "RetryAfter: 120s: timed out");

    scene.clock.advance(HELD - Duration::from_secs(1));
    let error = scene.charge(Ok("ch_1")).await.unwrap_err();
    assert!(matches!(error, Error::InProgress { .. }), "{error}");
    assert!(Failure::from(error).message().starts_with("1s: "));

    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.charge(Ok("ch_2")).await.unwrap(), "ch_2");
}

#[tokio::test]
async fn the_key_is_held_for_the_time_that_is_given_though_the_lease_is_longer() {
    let scene = Scene::new(Memory::new());
    let request = Request::new("order 7", "charge 100", &scene.clock.context("request")).unwrap();
    let once = scene.once.holding(Duration::from_secs(1), may_be_done).unwrap();
    let timed_out = async |_| Err::<(), _>(io::Error::from(io::ErrorKind::TimedOut));
    once.run(&request, timed_out).await.unwrap_err();
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.charge(Ok("ch_1")).await.unwrap(), "ch_1");
}

#[tokio::test]
async fn after_a_refusal_the_key_is_free() {
    let scene = Scene::new(Memory::new());
    let error = scene.charge(Err(io::ErrorKind::ConnectionRefused)).await.unwrap_err();
    assert!(matches!(error, Error::Operation(_)), "{error}");
    assert_eq!(scene.charge(Ok("ch_1")).await.unwrap(), "ch_1");
}

#[tokio::test]
async fn where_the_store_can_not_be_asked_the_key_is_held_by_its_lease() {
    let store = Shaky::scripted([Call::Made, Call::Unmade(fault(false))]);
    let scene = Scene::new(store);
    let error = scene.charge(Err(io::ErrorKind::TimedOut)).await.unwrap_err();
    assert!(matches!(error, Error::InDoubt { .. }), "{error}");
    let error = scene.charge(Ok("ch_1")).await.unwrap_err();
    assert!(matches!(error, Error::InProgress { .. }), "{error}");
    scene.clock.advance(Duration::from_secs(70));
    assert_eq!(scene.charge(Ok("ch_1")).await.unwrap(), "ch_1");
}

#[tokio::test]
async fn a_retry_in_the_operation_hides_nothing_of_what_is_in_doubt() {
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
        let request =
            Request::new("order 7", "charge 100", &scene.clock.context("request")).unwrap();
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

#[tokio::test]
async fn which_errors_are_in_doubt_may_be_said_by_a_rule_of_ones_own() {
    let scene = Scene::new(Memory::new());
    let request = Request::new("order 7", "charge 100", &scene.clock.context("request")).unwrap();
    let once = scene.once.holding(HELD, |error: &io::Error| error.kind() == io::ErrorKind::Other);
    let other = async |_| Err::<(), _>(io::Error::other("who knows"));
    let error = once.unwrap().run(&request, other).await.unwrap_err();
    assert!(matches!(&error, Error::InDoubt { error, .. } if error.to_string() == "who knows"));
    assert_ne!(comeback::transient::judge(&error), Verdict::Never);
}

#[test]
fn no_key_is_held_for_longer_than_a_lease_may_be() {
    let scene = Scene::new(Memory::new());
    assert!(scene.once.holding(Duration::from_mins(15), may_be_done::<io::Error, _>).is_ok());
    let longer = scene.once.holding(Duration::from_secs(901), may_be_done::<io::Error, _>);
    let error = longer.unwrap_err().to_string();
    assert_eq!(error, "a key may be held for at most 15m, got 901s");
}
