//! If the store does not answer, the function still returns before Lambda kills it.

use std::time::Duration;

use comeback::{
    Timestamp,
    idempotency::{Error, Idempotency, Request},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Clock, Declined, LIFE,
    shaky::{Call, Shaky},
};

/// An operation over a store that does not answer all calls, in an invocation that starts now.
struct Scene {
    start: Instant,
    once: Idempotency<Shaky>,
    request: Request,
}

impl Scene {
    fn new<const N: usize>(calls: [Call; N]) -> Self {
        let (start, invoked) = (now(), Clock::new());
        let request = Request::new("order 7", "charge", &invoked.context("request")).unwrap();
        let clock = at(start, invoked.now());
        let once = Idempotency::new("charges", Shaky::scripted(calls)).unwrap().with_clock(clock);
        Self { start, once, request }
    }

    /// Runs an operation that takes this long, and returns the time that is left of the invocation.
    async fn run(
        &self,
        takes: Duration,
        ends: Result<&str, Declined>,
    ) -> (Result<String, Error<Declined>>, Duration) {
        let operation = async |_| {
            sleep(takes).await;
            ends.map(str::to_owned)
        };
        let run = self.once.run(&self.request, operation);
        let answer = timeout(LIFE, run).await.unwrap();
        (answer, LIFE - self.start.elapsed())
    }
}

#[allow(clippy::disallowed_methods, reason = "the time is paused")]
fn now() -> Instant {
    Instant::now()
}

/// A clock that runs with tokio's.
fn at(start: Instant, then: Timestamp) -> impl Fn() -> Timestamp {
    move || then + start.elapsed()
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_if_the_claim_gets_no_response() {
    let unclaimed = async |calls, expected: Duration| {
        let scene = Scene::new::<2>(calls);
        let (answer, left) = scene.run(secs(1), Ok("ch_1")).await;
        assert!(matches!(answer, Err(Error::Store(fault)) if fault.passes));
        assert_eq!(left.as_millis(), expected.as_millis());
    };
    // The call that frees the key gets a response, or none.
    unclaimed([Call::Silent, Call::Made], secs(1)).await;
    unclaimed([Call::Silent, Call::Silent], Duration::from_millis(500)).await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_answered_although_its_mark_gets_no_response() {
    for (takes, left) in [(5, 1000), (58, 1000), (59, 500)] {
        let scene = Scene::new([Call::Made, Call::Silent]);
        let (answer, rest) = scene.run(secs(takes), Ok("ch_1")).await;
        assert_eq!(answer.unwrap(), "ch_1");
        assert_eq!(rest.as_millis(), left, "after {takes} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_returns_its_error_although_the_release_gets_no_response() {
    let scene = Scene::new([Call::Made, Call::Silent]);
    let (answer, left) = scene.run(secs(5), Err(Declined)).await;
    assert!(matches!(answer, Err(Error::Operation(Declined))));
    assert_eq!(left.as_secs(), 1);
}

#[cfg(feature = "dynamodb")]
mod transaction {
    use std::{
        future::{pending, ready},
        sync::atomic::{AtomicUsize, Ordering},
    };

    use aws_sdk_dynamodb::{
        Client, Config,
        config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig},
    };
    use aws_smithy_runtime_api::{
        client::{
            http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
            orchestrator::{HttpRequest, HttpResponse},
        },
        http::StatusCode,
    };
    use aws_smithy_types::body::SdkBody;
    use comeback::idempotency::DynamoStore;

    use super::*;

    /// A DynamoDB that accepts the first write and does not answer the others.
    #[derive(Debug, Default)]
    struct Falling(AtomicUsize);

    impl HttpConnector for Falling {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
                return HttpConnectorFuture::new(pending());
            }
            let status = StatusCode::try_from(200).unwrap();
            HttpConnectorFuture::new(ready(Ok(HttpResponse::new(status, SdkBody::from("{}")))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_without_a_response_leaves_time_to_return() {
        let falling = SharedHttpConnector::new(Falling::default());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .allow_no_auth()
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .http_client(http_client_fn(move |_, _| falling.clone()));
        let (start, invoked) = (now(), Clock::new());
        let request = Request::new("order 7", "place", &invoked.context("request")).unwrap();
        let store = DynamoStore::new(&Client::from_conf(config.build()), "requests");
        let clock = at(start, invoked.now());
        let once = Idempotency::new("orders", store).unwrap().with_clock(clock);
        let placed = once.run_in_transaction(&request, async |_| Ok::<_, Declined>(((), vec![])));
        let error = timeout(LIFE, placed).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Store(fault) if fault.passes), "{error:?}");
        assert_eq!((LIFE - start.elapsed()).as_millis(), 500);
    }
}
