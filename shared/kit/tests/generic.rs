//! Tests that a handler that is generic over its store and its retry rule compiles. rustc once rejected such a
//! handler ("queries overflow the depth limit"), but only in non-incremental builds.
#![allow(clippy::unwrap_used, reason = "a test's expectation")]

use std::time::Duration;

use comeback::{
    Failure, Unwrap,
    idempotency::{DynamoStore, Error, Idempotency, Memory, Request, Store},
    retry::{Deadline, Policy, Retry},
    testing,
    transient::{HttpStatus, Rule, Verdict, may_be_done},
};
use http::{HeaderMap, StatusCode};
use lambda_runtime::{LambdaEvent, run, service_fn, tower::Layer};
use tower::ServiceExt;

struct Shop<S, R> {
    once: Idempotency<S>,
    retry: Retry<R>,
}

/// Reserves an amount, and then charges it.
async fn handle<S: Store, R: Rule<HttpStatus>>(
    event: LambdaEvent<u32>,
    shop: &Shop<S, R>,
) -> Result<u32, Failure> {
    let LambdaEvent { payload: cents, context } = event;
    let deadline = Deadline::of(&context)?;
    let request = Request::new("reserve", &cents, &context)?;
    let call = shop.retry.operation("reserve").until(deadline);
    let reserve = shop.once.run(&request, |_lease| call.run(|| pay(cents)));
    reserve.await.map_err(Error::into_failure)?;
    let request = Request::new("charge", &cents, &context)?;
    let call = shop.retry.operation("charge").until(deadline);
    let held = shop.once.holding(Duration::from_secs(60), may_be_done)?;
    let charge = held.run(&request, |_lease| call.run(|| pay(cents)));
    charge.await.map_err(Error::into_failure)
}

async fn pay(cents: u32) -> Result<u32, HttpStatus> {
    match cents {
        0 => Err(HttpStatus::of(StatusCode::PAYMENT_REQUIRED, &HeaderMap::new())),
        _ => Ok(cents),
    }
}

/// The program in production. It is compiled, but not run.
#[allow(dead_code, reason = "there is no Lambda here")]
async fn production(aws: &aws_sdk_dynamodb::Client) -> Result<(), lambda_runtime::Error> {
    let once = Idempotency::new("charge", DynamoStore::new(aws, "charges"))?;
    let shop = Shop { once, retry: Retry::new(Policy::default()) };
    run(Unwrap::new().layer(service_fn(|event| handle(event, &shop)))).await
}

#[test]
fn the_readme_names_the_feature_that_its_first_example_needs() {
    let manifest = include_str!("../Cargo.toml").split_once("name = \"smallest\"\n").unwrap().1;
    let features = manifest.trim_end().strip_prefix("required-features = ").unwrap();
    let readme = include_str!("../README.md").split_once("[dependencies]\ncomeback = ").unwrap().1;
    let expected = format!("{{ version = \"0.1\", features = {features} }}\n");
    assert!(readme.starts_with(&expected), "{readme}");
}

#[tokio::test]
async fn a_handler_may_be_generic_over_its_store_and_its_rule() {
    let once = Idempotency::new("charge", Memory::new()).unwrap();
    let rule = |_: &HttpStatus| Verdict::Never;
    let shop = Shop { once, retry: Retry::new(Policy::default()).rule(rule) };
    for (cents, expected) in [("7", Ok(7)), ("0", Err("PermanentFailure".to_owned()))] {
        let function = Unwrap::new().layer(service_fn(|event| handle(event, &shop)));
        let context = testing::context(Duration::from_secs(30));
        let event = LambdaEvent::new(serde_json::from_str(cents).unwrap(), context);
        let handled = function.oneshot(event).await;
        assert_eq!(handled.map_err(|failure| failure.error_type().to_owned()), expected);
    }
}
