//! Tests that a function returns before Lambda kills it, even if the store does not respond.

use std::{
    future::pending,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use comeback::idempotency::{DynamoStore, Error, Store};
use tokio::time::{Instant, sleep, timeout};

use super::{Call, Declined, LIFE, Scene, Shaky};

/// A scene whose invocation starts now, and whose clock follows tokio's.
#[allow(clippy::disallowed_methods, reason = "the time is paused")]
fn scene<S: Store>(store: S) -> (Scene<S>, Instant) {
    let (Scene { clock, once }, start) = (Scene::new(store), Instant::now());
    let invoked = clock.now();
    let once = once.with_clock(move || invoked + start.elapsed());
    (Scene { clock, once }, start)
}

#[tokio::test(start_paused = true)]
async fn a_function_has_time_to_return_although_the_store_does_not_answer() {
    use Call::{Made, Silent};

    let unclaimed = "the idempotency store failed";
    for (calls, seconds, ends, expected, left_ms) in [
        // The release of the key gets a response, or none.
        ([Silent, Made], 1, Ok("ch_1"), unclaimed, 1000),
        ([Silent, Silent], 1, Ok("ch_1"), unclaimed, 500),
        ([Made, Silent], 5, Ok("ch_1"), "ch_1", 1000),
        ([Made, Silent], 58, Ok("ch_1"), "ch_1", 1000),
        ([Made, Silent], 59, Ok("ch_1"), "ch_1", 500),
        ([Made, Silent], 5, Err(Declined), "declined", 1000),
    ] {
        let (scene, start) = scene(Shaky::scripted(calls));
        let request = scene.request("charge 100");
        let charge = scene.once.run(&request, async |_| {
            sleep(Duration::from_secs(seconds)).await;
            ends.map(str::to_owned)
        });
        let ended = timeout(LIFE, charge).await.unwrap();
        if let Err(Error::Store(fault)) = &ended {
            assert!(fault.is_transient, "{fault}");
        }
        assert_eq!(ended.unwrap_or_else(|error| error.to_string()), expected, "{seconds} s");
        assert_eq!((LIFE - start.elapsed()).as_millis(), left_ms, "{expected} after {seconds} s");
    }
}

/// A DynamoDB that accepts the first write, and never responds to the others.
#[derive(Debug, Default)]
struct Falling(AtomicBool);

impl HttpConnector for Falling {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        if self.0.swap(true, Ordering::SeqCst) {
            return HttpConnectorFuture::new(pending());
        }
        let status = 200.try_into().unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from("{}"))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_a_response_leaves_time_to_return() {
    let falling = SharedHttpConnector::new(Falling::default());
    let config = moto::config("http://127.0.0.1:1")
        .to_builder()
        .timeout_config(TimeoutConfig::disabled())
        .http_client(http_client_fn(move |_, _| falling.clone()));
    let (scene, start) = scene(DynamoStore::new(&Client::new(&config.build()), "requests"));
    let request = scene.request("place");
    let place = async |_| Ok::<_, Declined>(((), vec![]));
    let placed = scene.once.run_in_transaction(&request, place);
    let error = timeout(LIFE, placed).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Store(fault) if fault.is_transient), "{error:?}");
    assert_eq!((LIFE - start.elapsed()).as_millis(), 500);
}
